//! The engine's `check` action, injected faults, delays and superseding requests.

use std::time::Duration;

use super::Cloud;
use super::engine::{Run, superseded};
use super::progress::{Failure, no_valid_host, set_resource};
use crate::faults::Fault;
use crate::time::pause;

impl Cloud {
    /// `check`: compares Heat's records with the existing servers.
    pub(super) fn verify(&self, id: &str) -> Result<(), Failure> {
        let mut state = self.state();
        let Some(stack) = state.stacks.get(id).cloned() else {
            return Ok(());
        };
        drop(state);
        let mut first = Ok(());
        for (name, resource) in &stack.resources {
            let found = if resource.nested {
                self.verify(&resource.physical)
                    .map_err(|failure| failure.within(name))
            } else if resource.kind == "OS::Nova::Server"
                && !self.state().servers.contains_key(&resource.physical)
            {
                let message = format!(
                    "Instance {} could not be found. (HTTP 404)",
                    resource.physical
                );
                Err(Failure {
                    kind: "NotFound".into(),
                    path: name.clone(),
                    message,
                })
            } else {
                Ok(())
            };
            state = self.state();
            match &found {
                Ok(()) => set_resource(&mut state, (id, name), "CHECK_COMPLETE", "state changed"),
                Err(failure) => {
                    set_resource(&mut state, (id, name), "CHECK_FAILED", &failure.reason());
                }
            }
            drop(state);
            if first.is_ok() {
                first = found;
            }
        }
        first
    }

    pub(super) async fn inject(
        &self,
        run: &Run,
        name: &str,
        fault: Option<&Fault>,
    ) -> Result<(), Failure> {
        match fault {
            None | Some(Fault::ErrorAfterEffect { .. } | Fault::Hang { hang: false }) => Ok(()),
            Some(Fault::Delay { delay_ms }) => {
                self.wait(run, name, Some(Duration::from_millis(*delay_ms)))
                    .await
            }
            Some(Fault::Hang { hang: true } | Fault::HangAfterEffect { .. }) => {
                self.wait(run, name, None).await
            }
            Some(
                Fault::Status { .. }
                | Fault::Drop { .. }
                | Fault::CutAfter { .. }
                | Fault::Exit { .. }
                | Fault::Flood { .. }
                | Fault::Hostile { .. },
            ) => Err(Failure::new(name, no_valid_host())),
        }
    }

    /// Waits for `time` (indefinitely if none), but stops once a newer request supersedes the run.
    pub(super) async fn wait(
        &self,
        run: &Run,
        name: &str,
        time: Option<Duration>,
    ) -> Result<(), Failure> {
        let mut changes = self.superseded.subscribe();
        let old = async {
            while !self.is_superseded(run) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        let passed = async {
            match time {
                Some(time) => pause(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = passed => Ok(()),
            () = old => Err(superseded(name)),
        }
    }
}
