//! Faults by script: which call, on what, which time, and what goes wrong.
//!
//! Every neighbour asks [`Faults::take`] before it serves a call. A rule counts the calls that match
//! it and strikes from its `nth` on, `times` times. The first rule that strikes wins; all of them count.
//! The script is JSON, so that a checker in another process arms the same faults:
//! `{"call":"heat.stack_create","subject":"vnf-","nth":2,"fault":{"status":503}}`.
//!
//! Some calls are the world's own: `heat.resource_create`, `host.boot`, and `heat.stack_begin`, with which Heat's engine
//! takes up an update that was accepted: `delayMs` later, or, with `hang`, when the script is forgotten.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::hostile::Hostility;

/// What goes wrong with one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// Answered with this HTTP status, without any effect.
    Status {
        /// The status.
        status: u16,
    },
    /// Served, but later.
    Delay {
        /// How much later.
        delay_ms: u64,
    },
    /// The connection is cut without an answer.
    Drop {
        /// Whether the call had its effect by then.
        drop: When,
    },
    /// The connection is cut after so many bytes of the answer's body.
    CutAfter {
        /// How many bytes.
        cut_after: usize,
    },
    /// The call has its effect and is answered with this HTTP status all the same.
    ErrorAfterEffect {
        /// The status.
        error_after_effect: u16,
    },
    /// A command on a host ends with this exit code, without any effect.
    Exit {
        /// The exit code.
        exit: i32,
        /// What it says on standard error.
        #[serde(default)]
        stderr: String,
    },
    /// A command on a host writes so many bytes of garbage, some last words, and ends with this exit code.
    Flood {
        /// How many bytes.
        flood: usize,
        /// The exit code.
        exit: i32,
    },
    /// The call has its effect, and the answer lies.
    Hostile {
        /// How it lies.
        hostile: Hostility,
    },
    /// Never answered.
    Hang {
        /// Must be `true`.
        hang: bool,
    },
    /// The call has its effect and is never answered.
    HangAfterEffect {
        /// Must be `true`.
        hang_after_effect: bool,
    },
}

/// On which side of the effect something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Nothing was done yet.
    Before,
    /// Everything was done.
    After,
}

/// One line of the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The call's name; a `*` at the end stands for any rest.
    pub call: String,
    /// A part of the call's subject; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The first matching call that is struck, from 1.
    #[serde(default = "once")]
    pub nth: u32,
    /// How many matching calls in a row are struck.
    #[serde(default = "once")]
    pub times: u32,
    /// What goes wrong.
    pub fault: Fault,
}

fn once() -> u32 {
    1
}

impl Rule {
    /// The first call of this name goes wrong like this.
    pub fn new(call: impl Into<String>, fault: Fault) -> Self {
        Self {
            call: call.into(),
            subject: None,
            nth: 1,
            times: 1,
            fault,
        }
    }

    /// Only calls whose subject contains this.
    #[must_use]
    pub fn on(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Only from the nth matching call on, this many times.
    #[must_use]
    pub fn nth(mut self, nth: u32, times: u32) -> Self {
        (self.nth, self.times) = (nth, times);
        self
    }

    fn matches(&self, call: &str, subject: &str) -> bool {
        let named = match self.call.strip_suffix('*') {
            Some(start) => call.starts_with(start),
            None => call == self.call,
        };
        named
            && self
                .subject
                .as_ref()
                .is_none_or(|part| subject.contains(part.as_str()))
    }

    fn strikes(&self, count: u32) -> bool {
        count >= self.nth && count - self.nth < self.times
    }
}

/// The faults of one world.
#[derive(Default)]
pub struct Faults {
    armed: Mutex<Vec<(Rule, u32)>>,
    forgotten: watch::Sender<u64>,
}

impl Faults {
    /// A world where nothing goes wrong.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a line to the script.
    pub fn arm(&self, rule: Rule) {
        self.armed().push((rule, 0));
    }

    /// Forgets the script.
    pub fn disarm(&self) {
        self.armed().clear();
        self.forgotten.send_modify(|times| *times += 1);
    }

    /// Completes when the script is forgotten.
    pub(crate) fn forgotten(&self) -> impl Future<Output = ()> + use<> {
        let mut forgotten = self.forgotten.subscribe();
        async move {
            // No sender any more: the world has ended, and its script with it.
            let _ = forgotten.changed().await;
        }
    }

    /// The script, with how many calls each line has seen.
    pub fn script(&self) -> Vec<(Rule, u32)> {
        self.armed().clone()
    }

    /// Counts a call and says what goes wrong with it.
    pub fn take(&self, call: &str, subject: &str) -> Option<Fault> {
        let mut struck = None;
        for (rule, seen) in self.armed().iter_mut() {
            if rule.matches(call, subject) {
                *seen += 1;
                if struck.is_none() && rule.strikes(*seen) {
                    struck = Some(rule.fault.clone());
                }
            }
        }
        struck
    }

    fn armed(&self) -> MutexGuard<'_, Vec<(Rule, u32)>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_is_struck_and_only_as_often_as_said() {
        let faults = Faults::new();
        faults.arm(
            Rule::new("heat.*", Fault::Status { status: 503 })
                .on("vnf-1")
                .nth(2, 2),
        );
        let seen: Vec<_> = (0..4)
            .map(|_| faults.take("heat.stack_show", "vnf-1/id").is_some())
            .collect();
        assert_eq!(seen, [false, true, true, false]);
        assert_eq!(faults.take("heat.stack_show", "vnf-2"), None);
        assert_eq!(faults.take("nova.server_show", "vnf-1"), None);
        assert_eq!(faults.script()[0].1, 4);
        faults.disarm();
        assert!(faults.script().is_empty());
    }

    #[test]
    fn the_script_reads_as_documented() {
        let faults = [
            (r#"{"status":503}"#, Fault::Status { status: 503 }),
            (r#"{"delayMs":20}"#, Fault::Delay { delay_ms: 20 }),
            (r#"{"drop":"after"}"#, Fault::Drop { drop: When::After }),
            (r#"{"cutAfter":9}"#, Fault::CutAfter { cut_after: 9 }),
            (
                r#"{"errorAfterEffect":500}"#,
                Fault::ErrorAfterEffect {
                    error_after_effect: 500,
                },
            ),
            (
                r#"{"exit":1,"stderr":"no"}"#,
                Fault::Exit {
                    exit: 1,
                    stderr: "no".into(),
                },
            ),
            (
                r#"{"flood":9,"exit":1}"#,
                Fault::Flood { flood: 9, exit: 1 },
            ),
            (
                r#"{"hostile":"endless"}"#,
                Fault::Hostile {
                    hostile: Hostility::Endless,
                },
            ),
            (
                r#"{"hostile":{"redirect":"http://x/"}}"#,
                Fault::Hostile {
                    hostile: Hostility::Redirect("http://x/".into()),
                },
            ),
            (r#"{"hang":true}"#, Fault::Hang { hang: true }),
            (
                r#"{"hangAfterEffect":true}"#,
                Fault::HangAfterEffect {
                    hang_after_effect: true,
                },
            ),
        ];
        for (text, fault) in faults {
            assert_eq!(
                serde_json::from_str::<Fault>(text).unwrap(),
                fault,
                "{text}"
            );
        }
        let rule: Rule = serde_json::from_str(r#"{"call":"ssh.run","fault":{"exit":1}}"#).unwrap();
        assert_eq!((rule.nth, rule.times, rule.subject), (1, 1, None));
        assert!(serde_json::from_str::<Rule>(r#"{"call":"x","fault":{"nonsense":1}}"#).is_err());
    }
}
