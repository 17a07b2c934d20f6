//! What the files of a hook process share: the descriptors that it keeps, and the status of system calls.

use std::io;
use std::os::fd::RawFd;

/// The socket to the engine.
pub(super) const SOCKET: RawFd = 10;
/// Descriptor of the plugin's library in the child.
pub(super) const LIBRARY: RawFd = 11;

/// Converts the return value of a system call.
pub(super) fn done(status: libc::c_int) -> io::Result<()> {
    if status < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
