//! Whether threads do anything, as the kernel sees it: one that sleeps, and has not run since the last look, has nothing
//! to do and got nothing to do. A clock cannot say that, because a busy machine lets a thread that has work wait.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Beginnings of the names of threads that work for a process of ours without being seen otherwise: hooks, and reading
/// files.
const HELPER_THREADS: [&str; 2] = ["hook", "tokio-"];

/// Where the kernel says for how long a process has run, and each of its threads in the same way.
const COUNTED: &str = "/proc/self/schedstat";

/// Looks at the simulated world and at the one thread that our process runs on.
pub(crate) struct IdleWatch {
    world: PathBuf,
    own: PathBuf,
    own_ran: Vec<String>,
    world_ran: Vec<String>,
}

/// The thread that asks.
pub(crate) fn this_thread() -> std::io::Result<PathBuf> {
    fs::canonicalize("/proc/thread-self")
}

impl IdleWatch {
    /// One that has not looked yet. On a kernel that does not count, everybody would be taken to rest all the time.
    pub(crate) fn new(world: u32, own: PathBuf) -> Result<Self> {
        fs::read_to_string(COUNTED)
            .with_context(|| format!("cannot see who runs: `{COUNTED}` cannot be read"))?;
        let world = Path::new("/proc").join(world.to_string()).join("task");
        Ok(Self {
            world,
            own,
            own_ran: Vec::new(),
            world_ran: Vec::new(),
        })
    }

    /// Whether our thread sleeps and has slept since the last look, and whether the whole world has: that is not looked
    /// at while ours is at work, for it happens often.
    pub(crate) fn idle(&mut self) -> [bool; 2] {
        if !slept(std::slice::from_ref(&self.own), &mut self.own_ran) {
            return [false, false];
        }
        // What is no longer there does nothing.
        let world = fs::read_dir(&self.world).into_iter().flatten().flatten();
        let world: Vec<_> = world.map(|thread| thread.path()).collect();
        [true, slept(&world, &mut self.world_ran)]
    }

    /// Whether hooks and those who read files sleep; those of others beside us are among them. One that was made a
    /// moment ago still has the name of our thread.
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

/// Whether these threads sleep, and have run no longer than is known.
fn slept(threads: &[PathBuf], ran: &mut Vec<String>) -> bool {
    let read = |thread: &PathBuf| fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let now: Vec<_> = threads.iter().map(read).collect();
    let same = now == *ran;
    *ran = now;
    same && threads.iter().all(|thread| sleeps(thread))
}

/// Whether a thread sleeps: the letter that says so follows its name, which may hold anything.
fn sleeps(thread: &Path) -> bool {
    let line = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    line.rsplit_once(") ")
        .is_none_or(|(_, behind)| behind.starts_with('S'))
}
