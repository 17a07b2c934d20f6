//! Ctrl-C and `kill`: noted, handed to the children that run for us, and waited on.
//!
//! The first interrupt ends the work in hand; the work then cleans up, for which it says [`forgive`].
//! An interrupt during the clean-up ends that as well.

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

/// Starts to listen; called once, before anything is started.
///
/// # Errors
/// When the system does not let us.
pub(crate) fn listen() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for Ctrl-C")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let mut state = state();
            state.interrupted = true;
            for child in &state.children {
                let _ = kill_process(*child, Signal::TERM); // gone already: as well
            }
            drop(state);
            CHANGED.notify_all();
        }
    });
    Ok(())
}

/// Whether somebody wants us to stop.
pub(crate) fn happened() -> bool {
    state().interrupted
}

/// Forgets the interrupt: from here on we clean up.
pub(crate) fn forgive() {
    state().interrupted = false;
}

/// An error where somebody wants us to stop.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!happened(), "interrupted");
    Ok(())
}

/// Waits so long for an interrupt; an error if it came.
pub(crate) fn pause(longest: Duration) -> anyhow::Result<()> {
    let waited = CHANGED.wait_timeout_while(state(), longest, |state| !state.interrupted);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    check()
}

/// A child that an interrupt ends, for as long as this lives.
pub(crate) struct Bound(Pid);

/// Binds a child's life to ours.
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
