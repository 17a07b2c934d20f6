//! Chooses the user ID of a hook: one under which no other process runs.
//!
//! The kernel counts the processes of each user for the process limit, and this count answers the question: with the new
//! user ID and a limit of two, `fork` succeeds only if this process is the user's only one. So an ID is used only if
//! nothing runs under it: no remains of an earlier hook, and no hook of another server on this machine.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::system::done;
use crate::config::Users;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io;

/// The user IDs that a process may choose from, and the index at which it starts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct UserChoice {
    pub(crate) users: Users,
    pub(crate) begin: u32,
    /// True if all hooks share one ID, which is then not checked.
    pub(crate) shared: bool,
}

/// Maximum number of IDs to try.
const MAX_TRIES: u32 = 1000;

/// Chooses an ID. From now on this process counts as that user's, but keeps root's rights until [`become_user`].
///
/// # Errors
///
/// If processes run under every ID that was tried.
pub(super) fn choose_user(choice: &UserChoice) -> io::Result<u32> {
    let Users { first, count } = choice.users;
    if choice.shared {
        return Ok(first);
    }
    for nth in 0..count.min(MAX_TRIES) {
        let uid = first + choice.begin.wrapping_add(nth) % count;
        if is_alone_as(uid)? {
            return Ok(uid);
        }
    }
    let detail =
        format!("each of the users from {first} on still has running processes ({count} users)");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, detail))
}

/// Whether no other process runs under `uid`. If so, this process stays that user's, with root's rights.
fn is_alone_as(uid: u32) -> io::Result<bool> {
    let limit = getrlimit(Resource::Nproc);
    // SAFETY: system calls on numbers; there is only one thread.
    unsafe { done(libc::setresuid(uid, uid, 0)) }?;
    setrlimit(
        Resource::Nproc,
        Rlimit {
            current: Some(2),
            ..limit
        },
    )?;
    let forked = try_fork();
    setrlimit(Resource::Nproc, limit)?;
    // SAFETY: as above; the saved ID is root's.
    unsafe { done(libc::setresuid(uid, 0, 0)) }?;
    match forked {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Forks a process that exits immediately.
fn try_fork() -> io::Result<()> {
    // SAFETY: there is only one thread, and the new process only exits.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        done(child)?;
        done(libc::waitpid(child, std::ptr::null_mut(), 0))
    }
}

/// Becomes the user irrevocably, without supplementary groups.
pub(super) fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: system calls on numbers; there is only one thread.
    unsafe {
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setresgid(uid, uid, uid))?;
        done(libc::setresuid(uid, uid, uid))
    }
}
