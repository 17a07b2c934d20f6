//! Confines a hook process before any code of the plugin is loaded.
//!
//! | resource | restriction |
//! |---|---|
//! | open files | all closed except the socket and the library; standard input is empty, output goes to the log |
//! | environment, folder | the engine starts it in `/` with only `TMPDIR`, its own folder |
//! | memory, CPU, processes, files | resource limits; no core file; first victim if memory runs out |
//! | user | one without other processes, if started by root (user.rs); no supplementary groups, no capabilities |
//! | other processes | invisible in a PID namespace, otherwise protected by the user ID or by Landlock |
//! | files | its own root (root.rs) and Landlock (landlock.rs), at least one of them; visible.rs lists what is visible |
//! | network | unrestricted, except for scripts: an empty network namespace, otherwise only Unix sockets |
//! | system calls | those that affect other processes or the kernel are refused (seccomp.rs) |
//! | its end | a supervisor waits for it and kills everything it started (supervise.rs) |
//!
//! Root creates the namespaces directly, another user in a user namespace. If the kernel allows neither, Landlock and
//! the system-call filter must suffice; otherwise no hook runs.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::system::{LIBRARY, SOCKET, done};
use super::visible::{self, Access, DEVICES, Visible};
use super::{landlock, root, seccomp, supervise, user};
use crate::config::ProcessLimits;
use crate::isolation::{Files, Isolation, Network, Processes};
use crate::process_runner::load::Load;
use rustix::process::{Resource, Rlimit, getpgrp, getpid, setrlimit, umask};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The open files from the engine.
pub(super) struct Arrived {
    pub(super) socket: UnixStream,
    pub(super) library: OwnedFd,
}

/// Takes socket and library from standard input and output, and closes everything else.
///
/// # Errors
///
/// If no engine started this process, or a file cannot be moved.
pub(super) fn arrive() -> Result<Arrived, String> {
    let input = std::fs::metadata("/proc/self/fd/0").map(|meta| meta.mode() & libc::S_IFMT);
    if getpgrp() != getpid() || !matches!(input, Ok(libc::S_IFSOCK)) {
        return Err(
            "this program runs plugin hooks; vnfm starts it, it cannot be run by hand".into(),
        );
    }
    let moved = || -> io::Result<()> {
        // SAFETY: system calls on numbers; there is no other thread, and nothing owns what is closed here.
        unsafe {
            done(libc::dup3(0, SOCKET, libc::O_CLOEXEC))?;
            done(libc::dup3(1, LIBRARY, libc::O_CLOEXEC))?;
            done(libc::dup2(2, 1))?;
            done(libc::close_range(3, SOCKET.unsigned_abs() - 1, 0))?;
            done(libc::close_range(
                LIBRARY.unsigned_abs() + 1,
                libc::c_uint::MAX,
                0,
            ))?;
        }
        let nothing = std::fs::File::open("/dev/null")?;
        // SAFETY: as above.
        unsafe { done(libc::dup2(nothing.as_raw_fd(), 0)) }
    };
    moved().map_err(|error| format!("cannot rearrange the open files: {error}"))?;
    // SAFETY: both were just created, and nothing else owns them.
    let (socket, library) = unsafe {
        (
            UnixStream::from_raw_fd(SOCKET),
            OwnedFd::from_raw_fd(LIBRARY),
        )
    };
    Ok(Arrived { socket, library })
}

/// Why the process cannot run a hook.
pub(super) enum Failure {
    /// An operation failed that should always work.
    Failed(String),
    /// This machine cannot isolate hooks.
    NotIsolated(String),
}

/// Confines this process, and returns how. It returns in a new process, which the calling one supervises.
///
/// # Errors
///
/// Which restriction failed; no hook may run then.
pub(super) fn confine(load: &Load) -> Result<Isolation, Failure> {
    rustix::process::chdir("/")
        .map_err(io::Error::from)
        .map_err(cannot("go to `/`"))?;
    // Without it, the kernel chooses its victims as usual.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let shared = load.user.as_ref().is_none_or(|choice| choice.shared);
    limit(
        &load.limits,
        load.user.as_ref().map(|choice| choice.users.first),
        shared,
    )
    .map_err(cannot("set resource limits"))?;
    let uid = load
        .user
        .as_ref()
        .map(user::choose_user)
        .transpose()
        .map_err(cannot("choose a user ID"))?;
    std::os::unix::fs::chown(&load.folder, uid, uid).map_err(cannot("own its folder"))?;
    let spaces = Spaces::make(uid, load.network)?;
    let first = supervise::fork_supervised(uid, &load.folder).map_err(cannot("fork a process"))?;
    let isolation = apart(load, uid, !shared, spaces)?;
    if spaces.any() {
        supervise::fork_in_namespace(&first).map_err(cannot("fork a process"))?;
    }
    Ok(isolation)
}

/// Confines the process that was forked for the hook.
fn apart(load: &Load, uid: Option<u32>, alone: bool, spaces: Spaces) -> Result<Isolation, Failure> {
    let readable = visible::readable(&load.readable);
    // Its user must be able to traverse the folders of its root.
    umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    let no_root = if spaces.any() {
        root::enter(&readable, &load.folder)
            .err()
            .map(|error| error.to_string())
    } else {
        Some(spaces.why())
    };
    umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    if let (Some(uid), Spaces::Root) = (uid, spaces) {
        user::become_user(uid).map_err(cannot(&format!("become user {uid}")))?;
    }
    supervise::die_with_parent().map_err(cannot("end with its parent"))?;
    drop_capabilities().map_err(cannot("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(io::Error::from)
        .map_err(cannot("set no_new_privs"))?;
    let landlock = landlock::version();
    if let Some(version) = landlock {
        let visible = allowed_paths(readable, load, no_root.is_none(), alone);
        landlock::restrict(version, &visible).map_err(cannot("restrict it by Landlock"))?;
    }
    let files = match (&no_root, landlock) {
        (None, Some(version)) => Files::RootAndLandlock(version),
        (None, None) => Files::Root,
        (Some(_), Some(version)) => Files::Landlock(version),
        (Some(reason), None) => {
            return Err(Failure::NotIsolated(format!(
                "files cannot be isolated: this kernel has no Landlock, and no separate root can be created: {reason}"
            )));
        }
    };
    let processes = match landlock {
        _ if spaces.any() => Processes::Namespace,
        _ if uid.is_some_and(|_| alone) => Processes::User,
        Some(version) if landlock::scopes_signals(version) => Processes::Landlock,
        _ => {
            return Err(Failure::NotIsolated(format!(
                "the server's process cannot be isolated: {}, and this kernel's Landlock cannot restrict signals \
             (Linux 6.12 and newer can)",
                spaces.why()
            )));
        }
    };
    seccomp::filter(!load.network && !spaces.any()).map_err(cannot("filter system calls"))?;
    let network = match (load.network, spaces.any()) {
        (true, _) => Network::Servers,
        (false, true) => Network::Namespace,
        (false, false) => Network::NoSockets,
    };
    Ok(Isolation {
        files,
        processes,
        network,
    })
}

/// The paths that Landlock allows.
fn allowed_paths(readable: Vec<PathBuf>, load: &Load, own_root: bool, alone: bool) -> Vec<Visible> {
    let with_access = |access: Access| move |path: PathBuf| Visible { path, access };
    let devices = DEVICES.iter().map(|name| PathBuf::from("/dev").join(name));
    let facts = if own_root { &["/proc"][..] } else { FACTS };
    let mut own = vec![load.folder.clone()];
    if own_root || alone {
        own.push("/dev/shm".into());
    }
    let read = readable
        .into_iter()
        .chain(facts.iter().map(PathBuf::from))
        .map(with_access(Access::Read));
    read.chain(devices.map(with_access(Access::Device)))
        .chain(own.into_iter().map(with_access(Access::Full)))
        .collect()
}

/// Harmless files of `/proc`, for a hook that sees the machine's `/proc`.
const FACTS: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
];

fn cannot(action: &str) -> impl Fn(io::Error) -> Failure {
    let action = action.to_owned();
    move |error| Failure::Failed(format!("cannot {action}: {error}"))
}

/// The PID, IPC and network namespaces that the process created for its child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spaces {
    /// Root created them directly, without a user namespace.
    Root,
    /// Created in a user namespace.
    OfUsers,
    /// None: the kernel or the server's own sandbox does not allow any.
    None(i32),
}

impl Spaces {
    fn make(uid: Option<u32>, network: bool) -> Result<Self, Failure> {
        let spaces = libc::CLONE_NEWPID | libc::CLONE_NEWIPC;
        let spaces = if network {
            spaces
        } else {
            spaces | libc::CLONE_NEWNET
        };
        if uid.is_some() && unshare(spaces).is_ok() {
            return Ok(Self::Root);
        }
        if let Some(uid) = uid {
            user::become_user(uid).map_err(cannot(&format!("become user {uid}")))?;
        }
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        if let Err(error) = unshare(spaces | libc::CLONE_NEWUSER) {
            return Ok(Self::None(error.raw_os_error().unwrap_or_default()));
        }
        map(uid, gid).map_err(cannot("map its user in the user namespace"))?;
        Ok(Self::OfUsers)
    }

    fn any(self) -> bool {
        !matches!(self, Self::None(_))
    }

    /// The reason, if there are none.
    fn why(self) -> String {
        let Self::None(errno) = self else {
            return "namespaces are available".into();
        };
        let error = io::Error::from_raw_os_error(errno);
        format!(
            "namespaces cannot be created, neither by this user nor in a user namespace ({error})"
        )
    }
}

/// Maps this process's user and group to themselves in its user namespace.
fn map(uid: u32, gid: u32) -> io::Result<()> {
    // Without this, a process that changed its user may not write its own `/proc` files.
    // SAFETY: a system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_DUMPABLE, 1)) }?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: a system call on numbers; there is only one thread.
    unsafe { done(libc::unshare(namespaces)) }
}

/// Drops all capabilities, also those gained by executing a program.
fn drop_capabilities() -> io::Result<()> {
    let none = rustix::thread::CapabilitySet::empty();
    let none = rustix::thread::CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    let had = rustix::thread::capabilities(None)?;
    if had.effective.is_empty() && had.permitted.is_empty() {
        return Ok(());
    }
    Ok(rustix::thread::set_capabilities(None, none)?)
}

fn limit(limits: &ProcessLimits, uid: Option<u32>, shared: bool) -> io::Result<()> {
    const MIB: u64 = 1 << 20;
    // With its own user, only its processes count; otherwise all that the user has running.
    let others = if shared { tasks_of(uid) } else { 0 };
    for (resource, soft, hard) in [
        (Resource::Core, 0, 0),
        (
            Resource::As,
            limits.memory_mib * MIB,
            limits.memory_mib * MIB,
        ),
        // At the soft limit the process gets SIGXCPU, at the hard limit SIGKILL.
        (Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 5),
        (
            Resource::Nproc,
            others + limits.processes,
            others + limits.processes,
        ),
        (Resource::Nofile, limits.open_files, limits.open_files),
        (
            Resource::Fsize,
            limits.file_mib * MIB,
            limits.file_mib * MIB,
        ),
    ] {
        let had = rustix::process::getrlimit(resource);
        let within =
            |requested: u64| Some(had.maximum.map_or(requested, |most| requested.min(most)));
        setrlimit(
            resource,
            Rlimit {
                current: within(soft),
                maximum: within(hard),
            },
        )?;
    }
    Ok(())
}

/// Number of tasks of a user as the kernel counts them for the limit; `None`: of this process's user.
fn tasks_of(uid: Option<u32>) -> u64 {
    let me = uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|process| {
        let number = process
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|b| b.is_ascii_digit());
        number && process.metadata().is_ok_and(|meta| meta.uid() == me)
    });
    // The link count of `task` is the number of threads plus two.
    own.filter_map(|process| process.path().join("task").metadata().ok())
        .map(|threads| threads.nlink().saturating_sub(2))
        .sum()
}
