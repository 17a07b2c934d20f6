//! Landlock: restricts the files that a hook process may open, and keeps it from signalling processes outside.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::visible::{Access, Visible};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// `struct landlock_ruleset_attr`; members that a kernel does not know must be zero.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

/// The kernel's `struct landlock_path_beneath_attr`, which has no binding.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
/// The rights that a rule for a file may contain; the others apply to folders.
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
const DEVICES: u64 = (1 << 6) | (1 << 11);
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 1 << 1;
const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;

/// The Landlock ABI version of this kernel; `None` without Landlock.
pub(super) fn version() -> Option<u32> {
    // SAFETY: with this flag, the call only returns a number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0,
            VERSION,
        )
    };
    u32::try_from(answer).ok().filter(|version| *version > 0)
}

/// Whether this version can keep signals inside.
pub(super) fn scopes_signals(version: u32) -> bool {
    version >= 6
}

/// All file rights that `version` knows.
fn rights(version: u32) -> u64 {
    let known = match version {
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << known) - 1
}

/// Restricts this process, and everything it starts, to the `visible` files. Paths that do not exist are skipped.
///
/// # Errors
///
/// If the kernel rejects a rule.
pub(super) fn restrict(version: u32, visible: &[Visible]) -> io::Result<()> {
    let all = rights(version);
    let scoped = if scopes_signals(version) {
        ABSTRACT_SOCKETS | SIGNALS
    } else {
        0
    };
    let attributes = Ruleset {
        files: all,
        network: 0,
        scoped,
    };
    // SAFETY: the attributes live until the call returns.
    let rules = unsafe {
        let size = size_of::<Ruleset>();
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attributes,
            size,
            0,
        )
    };
    let rules = i32::try_from(rules).ok().filter(|fd| *fd >= 0);
    let rules = rules.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let rules = unsafe { OwnedFd::from_raw_fd(rules) };
    for Visible { path, access } in visible {
        let mut open = std::fs::OpenOptions::new();
        let Ok(file) = open.read(true).custom_flags(libc::O_PATH).open(path) else {
            continue;
        };
        allow(&rules, &file, *access, all)?;
    }
    // SAFETY: a system call on numbers.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn allow(rules: &OwnedFd, file: &File, access: Access, all: u64) -> io::Result<()> {
    let rights = match access {
        Access::Read => READ_FILE | READ_DIR | EXECUTE,
        Access::Device => READ_FILE | WRITE_FILE,
        Access::Full => all & !DEVICES,
    };
    let folder = file.metadata()?.is_dir();
    let allowed = all & if folder { rights } else { rights & FILE_RIGHTS };
    let beneath = Beneath {
        allowed,
        parent: file.as_raw_fd(),
    };
    // SAFETY: the attributes live until the call returns.
    let added = unsafe {
        let (rules, beneath) = (rules.as_raw_fd(), &raw const beneath);
        libc::syscall(libc::SYS_landlock_add_rule, rules, PATH_BENEATH, beneath, 0)
    };
    if added == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
