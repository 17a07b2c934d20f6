//! Polls a hook on a thread of its own, so that one which never returns from `poll` holds up nobody else.
//!
//! The caller waits for the answer until the deadline. Then, or when the caller itself is dropped, the thread is
//! told to stop: it drops the hook's future, which is how a hook is cancelled. A thread that does not stop is
//! left behind and counted until it does. One whose hook has ended waits a while for the next: making a thread costs
//! more than all else that a short hook does here.

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

/// How long a thread that was told to stop may take before it counts as stuck.
const GRACE: Duration = Duration::from_secs(1);
/// How long a thread without a hook waits for one.
const IDLE: Duration = Duration::from_secs(10);

const RUNNING: u8 = 0;
const TOLD: u8 = 1;
const ENDED: u8 = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The threads that wait for a hook, and how many did not stop when they were told to.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    left_behind: AtomicUsize,
    waiting: Mutex<Vec<(ThreadId, Sender<Job>)>>,
}

impl Threads {
    pub(crate) fn left_behind(&self) -> usize {
        self.left_behind.load(Ordering::Acquire)
    }

    /// Has `job` done by a thread that waits, else by a new one.
    fn have(self: &Arc<Self>, mut job: Job) -> io::Result<()> {
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

    /// Whether the thread `id` waited; it does no more.
    fn forgets(&self, id: ThreadId) -> bool {
        let mut waiting = self.waiting();
        let before = waiting.len();
        waiting.retain(|(one, _)| *one != id);
        waiting.len() < before
    }
}

/// Does one job after the other, until none comes for a while or nobody is there to bring one.
fn serve(threads: &Weak<Threads>, mut job: Job, (jobs, next): (&Sender<Job>, &Receiver<Job>)) {
    let me = std::thread::current().id();
    loop {
        job();
        let Some(known) = threads.upgrade() else {
            return;
        };
        known.waiting().push((me, jobs.clone()));
        drop(known);
        let came = next.recv_timeout(IDLE).or_else(|_| {
            let nobody = threads.upgrade().is_none_or(|known| known.forgets(me));
            // Somebody took its name off the list, and is about to bring a job.
            if nobody {
                Err(())
            } else {
                next.recv().map_err(drop)
            }
        });
        let Ok(came) = came else { return };
        job = came;
    }
}

/// One thread's state, known to it and to its caller.
struct Life {
    threads: Arc<Threads>,
    state: AtomicU8,
}

impl Life {
    fn told(&self) {
        let told = self
            .state
            .compare_exchange(RUNNING, TOLD, Ordering::AcqRel, Ordering::Acquire);
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
    let life = Arc::new(Life {
        threads: threads.clone(),
        state: AtomicU8::new(RUNNING),
    });
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
    let taken = threads.have(Box::new(body));
    taken.map_err(|error| broken(format!("no thread for it: {error}")))?;
    let mut caller = Caller {
        life,
        stop: Some(stop),
    };
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
    async fn a_thread_whose_hook_has_ended_serves_the_next() {
        let threads = Arc::new(Threads::default());
        let first = thread_of_a_hook(&threads).await;
        while threads.waiting().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(thread_of_a_hook(&threads).await, first);
    }

    #[tokio::test]
    async fn hooks_side_by_side_have_threads_of_their_own() {
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
    async fn a_hook_that_panics_takes_its_thread_with_it_and_the_next_one_works() {
        let threads = Arc::new(Threads::default());
        let panicked = run(&threads, "test", LONG, |_| async { panic!("in the hook") }).await;
        let panicked: Result<(), _> = panicked;
        assert!(
            panicked
                .unwrap_err()
                .to_string()
                .contains("without an answer")
        );
        assert!(threads.waiting().is_empty());
        thread_of_a_hook(&threads).await;
    }
}
