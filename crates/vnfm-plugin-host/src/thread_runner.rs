//! Polls each hook on its own thread, so that a `poll` that never returns blocks nothing else.
//!
//! The caller waits for the result until the deadline. Then, or when the caller itself is dropped, the thread is
//! asked to stop: it drops the hook's future, which is how a hook is cancelled. A thread that does not stop is
//! abandoned, and counted until it does. After a hook, a thread waits a while for the next one: starting a thread
//! costs more than everything else that a short hook does here.

use crate::errors::{DEADLINE, RUNTIME, STUCK};
use futures::FutureExt;
use futures::future::{Either, select};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use vnfm_core::ports::PortError;

/// How long a thread may take to stop before it counts as stuck.
const GRACE: Duration = Duration::from_secs(1);
/// How long an idle thread waits for a hook before it exits.
const IDLE: Duration = Duration::from_secs(10);

const RUNNING: u8 = 0;
const STOPPING: u8 = 1;
const ENDED: u8 = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The idle threads, and the number of abandoned ones.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    left_behind: AtomicUsize,
    waiting: Mutex<Vec<(ThreadId, Sender<Job>)>>,
}

impl Threads {
    pub(crate) fn left_behind(&self) -> usize {
        self.left_behind.load(Ordering::Acquire)
    }

    /// Runs `job` on an idle thread, or on a new one.
    fn run_job(self: &Arc<Self>, mut job: Job) -> io::Result<()> {
        loop {
            let Some((_, waiting)) = self.waiting().pop() else {
                break;
            };
            match waiting.send(job) {
                Ok(()) => return Ok(()),
                Err(SendError(back)) => job = back,
            }
        }
        let threads = Arc::downgrade(self);
        let (jobs, next) = channel();
        let body = move || serve(&threads, job, (&jobs, &next));
        std::thread::Builder::new()
            .name("hook".into())
            .spawn(body)
            .map(drop)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(ThreadId, Sender<Job>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the thread `id` from the idle threads; false if it was not there.
    fn remove_waiting(&self, id: ThreadId) -> bool {
        let mut waiting = self.waiting();
        let before = waiting.len();
        waiting.retain(|(one, _)| *one != id);
        waiting.len() < before
    }
}

/// Runs jobs until none arrives within [`IDLE`] or the owner of the threads is dropped.
fn serve(threads: &Weak<Threads>, mut job: Job, (jobs, next): (&Sender<Job>, &Receiver<Job>)) {
    let me = std::thread::current().id();
    loop {
        job();
        let Some(known) = threads.upgrade() else {
            return;
        };
        known.waiting().push((me, jobs.clone()));
        drop(known);
        let next_job = next.recv_timeout(IDLE).or_else(|_| {
            let expired = threads
                .upgrade()
                .is_none_or(|known| known.remove_waiting(me));
            // Already taken from the list: a job is about to arrive.
            if expired {
                Err(())
            } else {
                next.recv().map_err(drop)
            }
        });
        let Ok(next_job) = next_job else { return };
        job = next_job;
    }
}

/// The state of one thread, shared with its caller.
struct ThreadState {
    threads: Arc<Threads>,
    state: AtomicU8,
}

impl ThreadState {
    fn mark_stopping(&self) {
        let changed =
            self.state
                .compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire);
        if changed.is_ok() {
            self.threads.left_behind.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn mark_ended(&self) {
        if self.state.swap(ENDED, Ordering::AcqRel) == STOPPING {
            self.threads.left_behind.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Stops the thread when the caller gives up, for whatever reason.
struct StopGuard {
    state_of_thread: Arc<ThreadState>,
    stop: Option<oneshot::Sender<()>>,
}

impl StopGuard {
    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            self.state_of_thread.mark_stopping();
            // Fails if the thread has ended.
            let _ = stop.send(());
        }
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs `work` on its own thread, for at most `limit`.
///
/// # Errors
///
/// `Unavailable` after `limit`; `Broken` without a runtime or if no thread can be started.
pub(crate) async fn run<T, Work, Running>(
    threads: &Arc<Threads>,
    action: &str,
    limit: Duration,
    work: Work,
) -> Result<T, PortError>
where
    T: Send + 'static,
    Work: FnOnce(Handle) -> Running + Send + 'static,
    Running: Future<Output = T>,
{
    let broken = |detail: String| PortError::new(&RUNTIME, action, detail);
    let runtime = Handle::try_current().map_err(|error| broken(error.to_string()))?;
    let state_of_thread = Arc::new(ThreadState {
        threads: threads.clone(),
        state: AtomicU8::new(RUNNING),
    });
    let (stop, stopped) = oneshot::channel();
    let (done, mut answer) = oneshot::channel();
    let thread_state = state_of_thread.clone();
    let body = move || {
        let _end = EndGuard(thread_state);
        let outcome = runtime.block_on(async {
            let running = pin!(work(runtime.clone()));
            match select(stopped, running).await {
                Either::Left(_) => None,
                Either::Right((outcome, _)) => Some(outcome),
            }
        });
        // Fails if the caller has given up.
        let _ = done.send(outcome);
    };
    let taken = threads.run_job(Box::new(body));
    taken.map_err(|error| broken(format!("cannot start a thread: {error}")))?;
    let mut caller = StopGuard {
        state_of_thread,
        stop: Some(stop),
    };
    if let Ok(outcome) = timeout(limit, &mut answer).await {
        caller.stop = None;
        let no_result = || broken("its thread ended without a result".into());
        return outcome.ok().flatten().ok_or_else(no_result);
    }
    caller.stop();
    let seconds = limit.as_secs_f64();
    let detail = format!("it did not end within {seconds:.1} s");
    match timeout(GRACE, answer.map(drop)).await {
        Ok(()) => Err(PortError::new(&DEADLINE, action, detail)),
        Err(_) => Err(PortError::new(&STUCK, action, detail)),
    }
}

/// Records the end of a job even if it panics.
struct EndGuard(Arc<ThreadState>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.mark_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::{Threads, run};
    use std::sync::Arc;
    use std::thread::ThreadId;
    use std::time::Duration;

    const LONG: Duration = Duration::from_mins(5);

    async fn thread_of_a_hook(threads: &Arc<Threads>) -> ThreadId {
        run(threads, "test", LONG, |_| async {
            std::thread::current().id()
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn a_thread_is_reused_for_the_next_hook() {
        let threads = Arc::new(Threads::default());
        let first = thread_of_a_hook(&threads).await;
        while threads.waiting().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(thread_of_a_hook(&threads).await, first);
    }

    #[tokio::test]
    async fn concurrent_hooks_have_separate_threads() {
        let threads = Arc::new(Threads::default());
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let both = [0, 1].map(|_| {
            let barrier = barrier.clone();
            run(&threads, "test", LONG, |_| async move {
                barrier.wait();
                std::thread::current().id()
            })
        });
        let ids = futures::future::join_all(both).await;
        assert_ne!(ids[0].as_ref().unwrap(), ids[1].as_ref().unwrap());
    }

    #[tokio::test]
    async fn a_panicking_hook_ends_its_thread_and_the_next_hook_works() {
        let threads = Arc::new(Threads::default());
        let panicked = run(&threads, "test", LONG, |_| async { panic!("in the hook") }).await;
        let panicked: Result<(), _> = panicked;
        assert!(
            panicked
                .unwrap_err()
                .to_string()
                .contains("without a result")
        );
        assert!(threads.waiting().is_empty());
        thread_of_a_hook(&threads).await;
    }
}
