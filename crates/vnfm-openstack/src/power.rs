//! Starts and stops servers. Nothing else changes: they keep their ports, addresses and volumes.
//!
//! | a server that should | is | then |
//! |---|---|---|
//! | run | ACTIVE | done |
//! | run | SHUTOFF, PAUSED, SUSPENDED | it is started, unpaused, resumed |
//! | not run | SHUTOFF, or gone | done |
//! | not run | ACTIVE, PAUSED, SUSPENDED | it is stopped |
//! | run | gone | an error: a heal replaces it |
//! | either | ERROR | the same |
//! | either | any other, or Nova is working on it | it is waited for |
//!
//! Nova's stop is graceful and then forceful by itself: the guest is asked to shut down (ACPI), and powered off after the
//! `os_shutdown_timeout` of its image, by default 60 s. There is no harder one. So both stop types send it; a graceful one
//! waits for at least its own timeout before it is sent again.

use crate::errors::SERVER_LOST;
use crate::inventory::MAX_CONCURRENT_REQUESTS;
use crate::keystone_login::Cloud;
use crate::nova::{self, Server};
use crate::retries::Waiter;
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Mutex;
use vnfm_core::Deployment;
use vnfm_core::ports::{Inventory, PortError, Stop, VimCall, Waited};
use vnfm_types::VnfOperationalState::{self, Started, Stopped};
use vnfm_types::VnfcResourceInfo;

/// How long an action may take before it is requested again; longer than Nova gives a guest to shut down.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_secs(90);

/// What a server needs to reach its state.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    /// An action of Nova.
    Action(&'static str),
    /// Time, for this reason.
    Patience(String),
    /// A heal, for this reason.
    Heal(String),
}

/// By the table at the top.
fn need(server: Option<&Server>, wanted: VnfOperationalState) -> Need {
    let Some(server) = server.filter(|server| !server.is_deleted()) else {
        return match wanted {
            Started => Need::Heal("it no longer exists".to_owned()),
            Stopped => Need::Nothing,
        };
    };
    match (server.task.as_deref(), server.status.as_str(), wanted) {
        (_, "ERROR", _) => Need::Heal("it is in ERROR".to_owned()),
        (None, "ACTIVE", Started) | (None, "SHUTOFF", Stopped) => Need::Nothing,
        (None, "SHUTOFF", Started) => Need::Action("os-start"),
        (None, "PAUSED", Started) => Need::Action("unpause"),
        (None, "SUSPENDED", Started) => Need::Action("resume"),
        (None, "ACTIVE" | "PAUSED" | "SUSPENDED", Stopped) => Need::Action("os-stop"),
        (task, status, _) => {
            let task = task.map_or_else(String::new, |task| format!(", {task}"));
            Need::Patience(format!("server `{}` is {status}{task}", server.name))
        }
    }
}

/// A server, and the state that it should have.
#[derive(Clone)]
struct Wanted {
    server: String,
    state: VnfOperationalState,
}

/// Brings servers to the state of their VNFC.
pub(crate) struct PowerSwitch<'a> {
    pub(crate) cx: &'a VimCall<'a>,
    pub(crate) cloud: &'a Cloud<'a>,
    pub(crate) deployment: &'a Deployment,
    pub(crate) stop: Stop,
}

impl PowerSwitch<'_> {
    /// Brings all servers of the inventory to their state; returns once they are in it.
    pub(crate) async fn set_all(&self, inventory: &Inventory) -> Result<(), PortError> {
        self.set(inventory.vnfc_resource_info.iter()).await
    }

    /// Stops the servers that should not run, after a change that may have started or created them.
    pub(crate) async fn set_stopped(&self, inventory: &Inventory) -> Result<(), PortError> {
        let all = inventory.vnfc_resource_info.iter();
        let stopped = all.filter(|vnfc| self.deployment.state_of(&vnfc.id) == Stopped);
        self.set(stopped).await
    }

    async fn set(&self, vnfcs: impl Iterator<Item = &VnfcResourceInfo>) -> Result<(), PortError> {
        let wanted = |vnfc: &VnfcResourceInfo| Wanted {
            server: vnfc.compute_resource.resource_id.clone(),
            state: self.deployment.state_of(&vnfc.id),
        };
        let all: Vec<Wanted> = vnfcs.map(wanted).collect();
        if all.is_empty() {
            return Ok(());
        }
        let action = "start or stop the servers";
        let mut waiter = Waiter::new(self.cx, action);
        let requested = Mutex::default();
        loop {
            match waiter.attempt(self.step(&all, &requested)).await? {
                Waited::Done(()) => return Ok(()),
                Waited::NotYet(reason) => waiter.pause(&reason).await?,
            }
        }
    }

    /// Looks at every server, and requests what they need.
    async fn step(
        &self,
        all: &[Wanted],
        requested: &Mutex<BTreeMap<String, Timestamp>>,
    ) -> Result<Waited<()>, PortError> {
        let reasons: Vec<Option<String>> = stream::iter(all.to_vec())
            .map(|wanted| self.step_of(wanted, requested))
            .buffered(MAX_CONCURRENT_REQUESTS)
            .try_collect()
            .await?;
        let waiting: Vec<String> = reasons.into_iter().flatten().collect();
        let (total, done) = (all.len(), all.len() - waiting.len());
        let percent = u8::try_from(done * 100 / total.max(1)).unwrap_or(100);
        let text = format!("{done} of {total} servers are in their state");
        self.cx.watcher.progress(percent, &text);
        Ok(match waiting.first() {
            None => Waited::Done(()),
            Some(first) if waiting.len() == 1 => Waited::NotYet(first.clone()),
            Some(first) => Waited::NotYet(format!("{first}; and {} more", waiting.len() - 1)),
        })
    }

    /// Brings one server a step further; the reason to wait for it.
    async fn step_of(
        &self,
        wanted: Wanted,
        requested: &Mutex<BTreeMap<String, Timestamp>>,
    ) -> Result<Option<String>, PortError> {
        let (id, wanted) = (&wanted.server, wanted.state);
        let server = nova::server(self.cloud, id).await?;
        match need(server.as_ref(), wanted) {
            Need::Nothing => Ok(None),
            Need::Patience(reason) => Ok(Some(reason)),
            Need::Heal(reason) => {
                let name = server.map_or_else(|| id.clone(), |server| server.name);
                Err(lost(&name, wanted, &reason))
            }
            Need::Action(action) => {
                if self.is_due(id, requested) {
                    nova::act(self.cloud, id, action).await?;
                }
                let name = server.map_or_else(String::new, |server| server.name);
                Ok(Some(format!("server `{name}` to be {wanted}")))
            }
        }
    }

    /// Whether an action is to be requested now: the first time, and again when it has had its time.
    fn is_due(&self, id: &str, requested: &Mutex<BTreeMap<String, Timestamp>>) -> bool {
        let now = self.cx.clock.now();
        let pause = match self.stop {
            Stop::Graceful(Some(timeout)) => {
                SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX)
            }
            Stop::Graceful(None) | Stop::Forceful => SignedDuration::ZERO,
        };
        let pause = pause.max(REPEAT_AFTER);
        let mut all = requested
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_due = all.get(id).is_none_or(|at| now.duration_since(*at) > pause);
        if is_due {
            all.insert(id.to_owned(), now);
        }
        is_due
    }
}

fn lost(server: &str, wanted: VnfOperationalState, reason: &str) -> PortError {
    let verb = match wanted {
        Started => "start",
        Stopped => "stop",
    };
    PortError::new(&SERVER_LOST, format!("{verb} server `{server}`"), reason).on(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_action() {
        let server = |status: &str, task: Option<&str>| {
            let mut server = Server::for_test("1", "web");
            server.status = status.into();
            server.task = task.map(str::to_owned);
            server
        };
        for (status, task, start, stop) in [
            ("ACTIVE", None, Need::Nothing, Need::Action("os-stop")),
            ("SHUTOFF", None, Need::Action("os-start"), Need::Nothing),
            (
                "PAUSED",
                None,
                Need::Action("unpause"),
                Need::Action("os-stop"),
            ),
            (
                "SUSPENDED",
                None,
                Need::Action("resume"),
                Need::Action("os-stop"),
            ),
        ] {
            let server = server(status, task);
            assert_eq!(need(Some(&server), Started), start, "{status}");
            assert_eq!(need(Some(&server), Stopped), stop, "{status}");
        }
        let busy = server("ACTIVE", Some("powering-off"));
        let reason = "server `web` is ACTIVE, powering-off".to_owned();
        assert_eq!(need(Some(&busy), Stopped), Need::Patience(reason));
        assert_eq!(need(None, Stopped), Need::Nothing);
        assert_eq!(need(Some(&server("DELETED", None)), Stopped), Need::Nothing);
        for wanted in [Started, Stopped] {
            let broken = need(Some(&server("ERROR", None)), wanted);
            assert_eq!(broken, Need::Heal("it is in ERROR".into()));
        }
        assert!(matches!(need(None, Started), Need::Heal(_)));
    }
}
