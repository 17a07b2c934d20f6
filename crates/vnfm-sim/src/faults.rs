//! Fault injection by rules: which call, on which subject, at which occurrence, and how it fails.
//!
//! Every service calls [`Faults::take`] before it serves a request. A rule counts the calls that match
//! it and applies from its `nth` on, `times` times. The first rule that applies wins; all of them count.
//! Rules are JSON, so that a checker in another process can add the same faults:
//! `{"call":"heat.stack_create","subject":"vnf-","nth":2,"fault":{"status":503}}`.
//!
//! Some calls are internal: `heat.resource_create`, `host.boot`, and `heat.stack_begin`, by which Heat's engine starts
//! an accepted update: `delayMs` later or, with `hang`, once the rules are cleared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::hostile::Hostility;

/// How a call fails, and whether it has its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The response has this HTTP status; the call has no effect.
    Status {
        /// HTTP status of the response.
        status: u16,
    },
    /// The call is served after a delay.
    Delay {
        /// Delay before the response, in milliseconds.
        delay_ms: u64,
    },
    /// The connection is cut without a response.
    Drop {
        /// Whether the call has had its effect by then.
        drop: When,
    },
    /// The connection is cut in the middle of the response body.
    CutAfter {
        /// Length of what is sent, in bytes.
        cut_after: usize,
    },
    /// The call has its effect, but the response has this HTTP status.
    ErrorAfterEffect {
        /// HTTP status of the response.
        error_after_effect: u16,
    },
    /// A command on a host fails without any effect.
    Exit {
        /// Exit code of the command.
        exit: i32,
        /// Text that is written to standard error.
        #[serde(default)]
        stderr: String,
    },
    /// A command on a host writes garbage and a last line of text, then exits.
    Flood {
        /// Length of the garbage, in bytes.
        flood: usize,
        /// Exit code of the command.
        exit: i32,
    },
    /// The call has its effect, but the response is hostile.
    Hostile {
        /// The kind of hostile response.
        hostile: Hostility,
    },
    /// The call has no effect and no response.
    Hang {
        /// Set to `true`; it only names the variant.
        hang: bool,
    },
    /// The call has its effect, but no response.
    HangAfterEffect {
        /// Set to `true`; it only names the variant.
        hang_after_effect: bool,
    },
}

/// Before or after the call has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Before the call has any effect.
    Before,
    /// After the call has its entire effect.
    After,
}

/// A fault and the calls that it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The call's name; a trailing `*` matches any suffix.
    pub call: String,
    /// A substring of the call's subject; absent: any subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The first matching call that fails, counted from 1.
    #[serde(default = "once")]
    pub nth: u32,
    /// How many consecutive matching calls fail.
    #[serde(default = "once")]
    pub times: u32,
    /// How the matching calls fail.
    pub fault: Fault,
}

fn once() -> u32 {
    1
}

impl Rule {
    /// The first call of this name fails, once.
    pub fn new(call: impl Into<String>, fault: Fault) -> Self {
        Self {
            call: call.into(),
            subject: None,
            nth: 1,
            times: 1,
            fault,
        }
    }

    /// Restricts the rule to calls whose subject contains `subject`.
    #[must_use]
    pub fn on(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Applies from the nth matching call on, `times` times.
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

    fn applies(&self, count: u32) -> bool {
        count >= self.nth && count - self.nth < self.times
    }
}

/// The fault rules of one world.
#[derive(Default)]
pub struct Faults {
    armed: Mutex<Vec<(Rule, u32)>>,
    forgotten: watch::Sender<u64>,
}

impl Faults {
    /// A list without rules: no call fails.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a rule, which later calls are matched against.
    pub fn add(&self, rule: Rule) {
        self.armed().push((rule, 0));
    }

    /// Deletes all rules; calls succeed again.
    pub fn clear(&self) {
        self.armed().clear();
        self.forgotten.send_modify(|times| *times += 1);
    }

    /// Completes when the rules are cleared.
    pub(crate) fn cleared(&self) -> impl Future<Output = ()> + use<> {
        let mut forgotten = self.forgotten.subscribe();
        async move {
            // An error means that the world, and its rules, have been dropped.
            let _ = forgotten.changed().await;
        }
    }

    /// The rules, each with the number of calls that it has matched.
    pub fn rules(&self) -> Vec<(Rule, u32)> {
        self.armed().clone()
    }

    /// Counts a call and returns the fault to inject, if any.
    pub fn take(&self, call: &str, subject: &str) -> Option<Fault> {
        let mut struck = None;
        for (rule, seen) in self.armed().iter_mut() {
            if rule.matches(call, subject) {
                *seen += 1;
                if struck.is_none() && rule.applies(*seen) {
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
    fn a_rule_applies_from_the_nth_call_on_a_limited_number_of_times() {
        let faults = Faults::new();
        faults.add(
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
        assert_eq!(faults.rules()[0].1, 4);
        faults.clear();
        assert!(faults.rules().is_empty());
    }

    #[test]
    fn rules_parse_as_documented() {
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
