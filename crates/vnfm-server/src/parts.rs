//! The parts of the server that run beside requests, supervised: one that panics, or ends although it is to run as long
//! as the server does, ends the process, which says which part and why. Whoever watches the process starts it again.
//!
//! ```text
//! lasting(name, work) ─┬─ ends, panics ─► `failed` completes ─► the server stops in order, exit code 1
//! ending(name, work)  ─┴─ panics ───────► and `/healthz` is 503 from then on
//! ```

use futures::future::FutureExt as _;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What became of the parts of one server.
#[derive(Clone)]
pub struct Parts(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Running,
    /// The server stops: parts end.
    Stopping,
    /// One part failed, and why.
    Failed(String),
}

impl Default for Parts {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::Running)))
    }
}

impl Parts {
    /// Runs a part that is to run as long as the server does. Once it ended all the same, this never completes: what
    /// runs beside it goes on until the server stops.
    pub async fn lasting(&self, name: &str, work: impl Future<Output = ()>) {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(()) => self.fail(name, "ended by itself"),
            Err(panic) => self.fail(name, &format!("panicked: {}", text(&*panic))),
        }
        std::future::pending::<()>().await;
    }

    /// Runs a part that ends some time; its panic is a failure of the server.
    pub async fn ending<T>(&self, name: &str, work: impl Future<Output = T>) -> Option<T> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(value) => Some(value),
            Err(panic) => {
                self.fail(name, &format!("panicked: {}", text(&*panic)));
                None
            }
        }
    }

    /// The same as a task of its own.
    pub fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let parts = self.clone();
        tokio::spawn(async move {
            parts.ending(name, work).await;
        })
    }

    /// Notes that a part failed; the first one counts, and none once the server stops.
    pub fn fail(&self, name: &str, why: &str) {
        let failed = format!("the part `{name}` of the server {why}");
        self.0.send_if_modified(|state| {
            let is_first = *state == State::Running;
            if is_first {
                tracing::error!("{failed}; the server stops");
                *state = State::Failed(failed);
            }
            is_first
        });
    }

    /// From now on parts may end.
    pub fn stop(&self) {
        self.0.send_if_modified(|state| {
            let is_running = *state == State::Running;
            if is_running {
                *state = State::Stopping;
            }
            is_running
        });
    }

    /// Which part failed, and why; `None` as long as none did.
    pub fn failure(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::Failed(why) => Some(why.clone()),
            State::Running | State::Stopping => None,
        }
    }

    /// Completes once a part failed, and says which and why.
    pub async fn failed(&self) -> String {
        let mut seen = self.0.subscribe();
        loop {
            if let Some(why) = self.failure() {
                return why;
            }
            if seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// What a panic says.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use super::Parts;
    use futures::future::FutureExt as _;

    #[tokio::test]
    async fn a_part_that_panics_is_named_with_its_reason_and_what_runs_beside_it_goes_on() {
        let parts = Parts::default();
        assert_eq!(parts.failed().now_or_never(), None);
        let never = parts.lasting("notifier", async { panic!("no room for {}", 7) });
        assert_eq!(never.now_or_never(), None, "it ends nothing beside it");
        let why = "the part `notifier` of the server panicked: no room for 7";
        assert_eq!(parts.failed().await, why);
        parts.lasting("pruning", async {}).now_or_never();
        assert_eq!(parts.failed().await, why, "the first one is the reason");
    }

    #[tokio::test]
    async fn a_part_that_ends_by_itself_fails_unless_the_server_stops_or_it_is_to_end() {
        let parts = Parts::default();
        assert_eq!(parts.ending("fetch", async { 7 }).await, Some(7));
        assert_eq!(parts.failure(), None);
        parts.lasting("driving", async {}).now_or_never();
        assert_eq!(
            parts.failed().await,
            "the part `driving` of the server ended by itself"
        );
        let stopping = Parts::default();
        stopping.stop();
        stopping.lasting("driving", async {}).now_or_never();
        assert_eq!(stopping.failure(), None);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_a_failure() {
        let parts = Parts::default();
        parts
            .spawn("fetch", async { panic!("boom") })
            .await
            .unwrap();
        assert_eq!(
            parts.failed().await,
            "the part `fetch` of the server panicked: boom"
        );
    }
}
