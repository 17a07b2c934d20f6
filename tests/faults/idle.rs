//! Detects idle threads by the kernel's accounting: a thread that sleeps and has not run since the last poll has no work.
//! A clock cannot tell, because on a busy machine a thread with work may have to wait.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Name prefixes of helper threads of our process, which are not tracked otherwise: hooks and file access.
const HELPER_THREADS: [&str; 2] = ["hook", "tokio-"];

/// Run time of a process; each thread has such a file too.
const COUNTED: &str = "/proc/self/schedstat";

/// Observes the simulated world and the thread that our process runs on.
pub(crate) struct IdleWatch {
    world: PathBuf,
    own: PathBuf,
    own_ran: Vec<String>,
    world_ran: Vec<String>,
}

pub(crate) fn this_thread() -> std::io::Result<PathBuf> {
    fs::canonicalize("/proc/thread-self")
}

impl IdleWatch {
    /// Fails if the kernel keeps no schedstat, because then everything would seem idle.
    pub(crate) fn new(world: u32, own: PathBuf) -> Result<Self> {
        fs::read_to_string(COUNTED)
            .with_context(|| format!("cannot read `{COUNTED}` to detect idle threads"))?;
        let world = Path::new("/proc").join(world.to_string()).join("task");
        Ok(Self {
            world,
            own,
            own_ran: Vec::new(),
            world_ran: Vec::new(),
        })
    }

    /// Whether our thread is idle, and whether all threads of the world are. The world, which is costly to poll, counts as
    /// busy while our thread is.
    pub(crate) fn idle(&mut self) -> [bool; 2] {
        if !slept(std::slice::from_ref(&self.own), &mut self.own_ran) {
            return [false, false];
        }
        // A missing process is idle.
        let world = fs::read_dir(&self.world).into_iter().flatten().flatten();
        let world: Vec<_> = world.map(|thread| thread.path()).collect();
        [true, slept(&world, &mut self.world_ran)]
    }

    /// Whether all helper threads sleep, including those of other sites. A new thread still has the name of ours.
    pub(crate) fn helpers_sleep(&self) -> bool {
        let name = |thread: &Path| fs::read_to_string(thread.join("comm")).unwrap_or_default();
        let own = name(&self.own);
        let threads = fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .flatten();
        threads.map(|thread| thread.path()).all(|thread| {
            let name = name(&thread);
            let is_hand = name == own || HELPER_THREADS.iter().any(|hand| name.starts_with(hand));
            !is_hand || sleeps(&thread)
        })
    }
}

/// Whether these threads sleep and have not run since the last poll.
fn slept(threads: &[PathBuf], ran: &mut Vec<String>) -> bool {
    let read = |thread: &PathBuf| fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let now: Vec<_> = threads.iter().map(read).collect();
    let same = now == *ran;
    *ran = now;
    same && threads.iter().all(|thread| sleeps(thread))
}

/// Whether a thread sleeps. The state follows the name, which may contain anything.
fn sleeps(thread: &Path) -> bool {
    let line = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    line.rsplit_once(") ")
        .is_none_or(|(_, behind)| behind.starts_with('S'))
}
