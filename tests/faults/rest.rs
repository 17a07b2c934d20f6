//! Whether the simulated world does anything, as the kernel sees it: no answer is on its way as long as each of its
//! threads sleeps. A clock cannot say that, because a busy machine lets a thread that has work wait.

use std::path::Path;

/// Whether every thread of a process sleeps; what is no longer there does nothing.
pub(crate) fn sleeps(process: u32) -> bool {
    let threads = Path::new("/proc").join(process.to_string()).join("task");
    let Ok(threads) = std::fs::read_dir(threads) else { return true };
    threads.flatten().all(|thread| {
        let line = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        state(&line).is_none_or(|state| state == 'S')
    })
}

/// The letter for what a thread does: it follows the name, which may hold anything.
fn state(line: &str) -> Option<char> {
    let (_, behind) = line.rsplit_once(") ")?;
    behind.chars().next()
}
