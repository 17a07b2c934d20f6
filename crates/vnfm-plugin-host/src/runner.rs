//! Polls a hook on a thread of its own, so that one which never returns from `poll` holds up nobody else.
//!
//! The caller waits for the answer until the deadline. Then, or when the caller itself is dropped, the thread is
//! told to stop: it drops the hook's future, which is how a hook is cancelled. A thread that does not stop is
//! left behind and counted until it does.

use crate::errors::{DEADLINE, RUNTIME, STUCK};
use futures::FutureExt;
use futures::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use vnfm_core::ports::PortError;

/// How long a thread that was told to stop may take before it counts as stuck.
const GRACE: Duration = Duration::from_secs(1);

const RUNNING: u8 = 0;
const TOLD: u8 = 1;
const ENDED: u8 = 2;

/// Counts the threads that did not stop when they were told to.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    left_behind: AtomicUsize,
}

impl Threads {
    pub(crate) fn left_behind(&self) -> usize {
        self.left_behind.load(Ordering::Acquire)
    }
}

/// One thread's state, known to it and to its caller.
struct Life {
    threads: Arc<Threads>,
    state: AtomicU8,
}

impl Life {
    fn told(&self) {
        let told = self.state.compare_exchange(RUNNING, TOLD, Ordering::AcqRel, Ordering::Acquire);
        if told.is_ok() {
            self.threads.left_behind.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn ended(&self) {
        if self.state.swap(ENDED, Ordering::AcqRel) == TOLD {
            self.threads.left_behind.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Tells the thread to stop when the caller gives up, for whatever reason.
struct Caller {
    life: Arc<Life>,
    stop: Option<oneshot::Sender<()>>,
}

impl Caller {
    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            self.life.told();
            // It has ended where nobody listens.
            let _ = stop.send(());
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs `work` on a thread of its own, for at most `limit`.
///
/// # Errors
///
/// `Unavailable` after `limit`; `Broken` where there is no runtime or no thread.
pub(crate) async fn run<T, Work, Running>(
    threads: &Arc<Threads>,
    doing: &str,
    limit: Duration,
    work: Work,
) -> Result<T, PortError>
where
    T: Send + 'static,
    Work: FnOnce(Handle) -> Running + Send + 'static,
    Running: Future<Output = T>,
{
    let broken = |what: String| PortError::new(&RUNTIME, doing, what);
    let runtime = Handle::try_current().map_err(|error| broken(error.to_string()))?;
    let life = Arc::new(Life { threads: threads.clone(), state: AtomicU8::new(RUNNING) });
    let (stop, stopped) = oneshot::channel();
    let (done, mut answer) = oneshot::channel();
    let thread_life = life.clone();
    let body = move || {
        let _end = EndOf(thread_life);
        let outcome = runtime.block_on(async {
            let running = pin!(work(runtime.clone()));
            match select(stopped, running).await {
                Either::Left(_) => None,
                Either::Right((outcome, _)) => Some(outcome),
            }
        });
        // Nobody waits for the outcome of what was told to stop.
        let _ = done.send(outcome);
    };
    let spawned = std::thread::Builder::new().name("hook".into()).spawn(body);
    spawned.map_err(|error| broken(format!("no thread for it: {error}")))?;
    let mut caller = Caller { life, stop: Some(stop) };
    if let Ok(outcome) = timeout(limit, &mut answer).await {
        caller.stop = None;
        let gone = || broken("its thread ended without an answer".into());
        return outcome.ok().flatten().ok_or_else(gone);
    }
    caller.stop();
    let seconds = limit.as_secs_f64();
    let what = format!("it did not end within {seconds:.1} s");
    match timeout(GRACE, answer.map(drop)).await {
        Ok(()) => Err(PortError::new(&DEADLINE, doing, what)),
        Err(_) => Err(PortError::new(&STUCK, doing, what)),
    }
}

/// Notes the end of a thread even where it ends by a panic.
struct EndOf(Arc<Life>);

impl Drop for EndOf {
    fn drop(&mut self) {
        self.0.ended();
    }
}
