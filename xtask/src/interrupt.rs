//! Ctrl-C and SIGTERM: recorded, and passed on to our children.
//!
//! The first one stops the current work, which then calls [`clear`] and cleans up. A second one stops the clean-up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

struct State {
    interrupted: bool,
    children: Vec<Pid>,
}

static STATE: Mutex<State> = Mutex::new(State {
    interrupted: false,
    children: Vec::new(),
});
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the signal handler; call once, before starting any child.
///
/// # Errors
/// If the handler cannot be installed.
pub(crate) fn listen() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for Ctrl-C")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let mut state = state();
            state.interrupted = true;
            for child in &state.children {
                let _ = kill_process(*child, Signal::TERM); // it may have exited already
            }
            drop(state);
            CHANGED.notify_all();
        }
    });
    Ok(())
}

/// True once the user has pressed Ctrl-C.
pub(crate) fn happened() -> bool {
    state().interrupted
}

/// Resets the interrupt before a clean-up.
pub(crate) fn clear() {
    state().interrupted = false;
}

/// Fails once the user has pressed Ctrl-C.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!happened(), "interrupted");
    Ok(())
}

/// Sleeps; fails as soon as there is an interrupt.
pub(crate) fn pause(duration: Duration) -> anyhow::Result<()> {
    let waited = CHANGED.wait_timeout_while(state(), duration, |state| !state.interrupted);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    check()
}

/// While this exists, an interrupt terminates the child.
pub(crate) struct Bound(Pid);

/// Terminates `child` on an interrupt, until the guard is dropped.
pub(crate) fn bind(child: &std::process::Child) -> Bound {
    let pid = Pid::from_child(child);
    state().children.push(pid);
    Bound(pid)
}

impl Drop for Bound {
    fn drop(&mut self) {
        state().children.retain(|pid| *pid != self.0);
    }
}
