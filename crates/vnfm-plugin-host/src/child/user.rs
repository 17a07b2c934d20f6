//! The user of a hook: a number under which nothing else runs.
//!
//! The kernel counts the processes of each user for the limit on processes. That count is asked: as the new user, with a
//! limit of two, one more process can be made only where this one is alone. So a number is taken only when nothing runs
//! under it: neither what an earlier hook left, nor a hook of another server on this machine.
#![expect(unsafe_code, reason = "system calls that have no safe wrapper")]

use super::sandbox::done;
use crate::config::Users;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io;

/// Which numbers a process may run as, and with which of them it begins to look.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) users: Users,
    pub(crate) begin: u32,
    /// There is one number for all hooks, so nobody is alone.
    pub(crate) shared: bool,
}

/// So many numbers are tried.
const TRIES: u32 = 1000;

/// Takes a number: from now on this process counts as that user's, and can still become it.
///
/// # Errors
///
/// Where something runs under every number that was tried.
pub(super) fn take(choice: &Choice) -> io::Result<u32> {
    let Users { first, count } = choice.users;
    if choice.shared {
        return Ok(first);
    }
    for nth in 0..count.min(TRIES) {
        let uid = first + choice.begin.wrapping_add(nth) % count;
        if is_alone_as(uid)? {
            return Ok(uid);
        }
    }
    let what = format!("each of the users from {first} on still has processes ({count} users)");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// Whether this process would be alone under `uid`. If so it stays that user's, with the rights of root.
fn is_alone_as(uid: u32) -> io::Result<bool> {
    let limit = getrlimit(Resource::Nproc);
    // SAFETY: plain system calls on numbers; there is one thread only.
    unsafe { done(libc::setresuid(uid, uid, 0)) }?;
    setrlimit(
        Resource::Nproc,
        Rlimit {
            current: Some(2),
            ..limit
        },
    )?;
    let another = one_more();
    setrlimit(Resource::Nproc, limit)?;
    // SAFETY: as above; the saved number is root's.
    unsafe { done(libc::setresuid(uid, 0, 0)) }?;
    match another {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a process that ends at once.
fn one_more() -> io::Result<()> {
    // SAFETY: there is one thread only, and the new process does nothing but end.
    unsafe {
        let made = libc::fork();
        if made == 0 {
            libc::_exit(0);
        }
        done(made)?;
        done(libc::waitpid(made, std::ptr::null_mut(), 0))
    }
}

/// Becomes the user for good, with no further groups.
pub(super) fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: plain system calls on numbers; there is one thread only.
    unsafe {
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setresgid(uid, uid, uid))?;
        done(libc::setresuid(uid, uid, uid))
    }
}
