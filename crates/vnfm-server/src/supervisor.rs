//! Supervises the background tasks of the server: if one panics, or ends although it should run as long as the server,
//! the process ends and reports which part failed and why. The service manager then restarts it.
//!
//! ```text
//! run_forever(name, work) ─┬─ ends, panics ─► `failed` completes ─► the server stops in order, exit code 1
//! run(name, work) ─────────┴─ panics ───────► and `/healthz` is 503 from then on
//! ```

use futures::future::FutureExt as _;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The state of the background tasks of one server.
#[derive(Clone)]
pub struct Supervisor(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Running,
    /// The server is stopping; tasks may end.
    Stopping,
    /// A task failed, with its name and the reason.
    Failed(String),
}

impl Default for Supervisor {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::Running)))
    }
}

impl Supervisor {
    /// Runs a task that should run as long as the server. If it ends, this reports the failure and never completes, so
    /// that concurrent tasks continue until the server stops.
    pub async fn run_forever(&self, name: &str, work: impl Future<Output = ()>) {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(()) => self.fail(name, "ended by itself"),
            Err(panic) => self.fail(name, &format!("panicked: {}", panic_message(&*panic))),
        }
        std::future::pending::<()>().await;
    }

    /// Runs a task that may end; a panic is a failure of the server.
    pub async fn run<T>(&self, name: &str, work: impl Future<Output = T>) -> Option<T> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(value) => Some(value),
            Err(panic) => {
                self.fail(name, &format!("panicked: {}", panic_message(&*panic)));
                None
            }
        }
    }

    /// As [`Self::run`], in a separate task.
    pub fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let supervisor = self.clone();
        tokio::spawn(async move {
            supervisor.run(name, work).await;
        })
    }

    /// Records a failure; only the first one counts, and none while the server stops.
    pub fn fail(&self, name: &str, reason: &str) {
        let failure = format!("the part `{name}` of the server {reason}");
        self.0.send_if_modified(|state| {
            let is_first = *state == State::Running;
            if is_first {
                tracing::error!("{failure}; the server stops");
                *state = State::Failed(failure);
            }
            is_first
        });
    }

    /// From now on tasks may end.
    pub fn stop(&self) {
        self.0.send_if_modified(|state| {
            let is_running = *state == State::Running;
            if is_running {
                *state = State::Stopping;
            }
            is_running
        });
    }

    /// The first failure, if there is one.
    pub fn failure(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::Failed(reason) => Some(reason.clone()),
            State::Running | State::Stopping => None,
        }
    }

    /// Completes with the first failure.
    pub async fn failed(&self) -> String {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(reason) = self.failure() {
                return reason;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::Supervisor;
    use futures::future::FutureExt as _;

    #[tokio::test]
    async fn a_panic_is_reported_with_its_reason_and_other_tasks_continue() {
        let supervisor = Supervisor::default();
        assert_eq!(supervisor.failed().now_or_never(), None);
        let never = supervisor.run_forever("notifier", async { panic!("no room for {}", 7) });
        assert_eq!(never.now_or_never(), None, "other tasks continue");
        let reason = "the part `notifier` of the server panicked: no room for 7";
        assert_eq!(supervisor.failed().await, reason);
        supervisor.run_forever("pruning", async {}).now_or_never();
        assert_eq!(
            supervisor.failed().await,
            reason,
            "only the first failure counts"
        );
    }

    #[tokio::test]
    async fn a_task_that_ends_is_a_failure_unless_the_server_stops_or_it_may_end() {
        let supervisor = Supervisor::default();
        assert_eq!(supervisor.run("fetch", async { 7 }).await, Some(7));
        assert_eq!(supervisor.failure(), None);
        supervisor.run_forever("driving", async {}).now_or_never();
        assert_eq!(
            supervisor.failed().await,
            "the part `driving` of the server ended by itself"
        );
        let stopping = Supervisor::default();
        stopping.stop();
        stopping.run_forever("driving", async {}).now_or_never();
        assert_eq!(stopping.failure(), None);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_a_failure() {
        let supervisor = Supervisor::default();
        supervisor
            .spawn("fetch", async { panic!("boom") })
            .await
            .unwrap();
        assert_eq!(
            supervisor.failed().await,
            "the part `fetch` of the server panicked: boom"
        );
    }
}
