//! What the process of a hook gives up before anything of the plugin is loaded.
//!
//! | what | how |
//! |---|---|
//! | open files | all are closed but the socket and the library; standard input is empty, output goes to the log |
//! | environment, folder | the engine starts it with `TMPDIR` alone, a folder of its own, in `/` |
//! | memory, processor, processes, files | resource limits; no core file; first to go where memory is short |
//! | user | one under which nothing else runs, where root starts it (user.rs); no further groups, no capabilities |
//! | other processes | not there in a namespace of its own; else out of reach by its user or by Landlock |
//! | files | a root of its own (root.rs) and Landlock (landlock.rs), at least one of them; visible.rs says what is left |
//! | network | kept, but for scripts: they get a namespace without any, else no sockets |
//! | system calls | those that reach into other processes or the kernel are refused (calls.rs) |
//! | its end | a process of ours outside waits for it, and ends all that it started (supervise.rs) |
//!
//! Root makes the namespaces by itself; who is not root makes them in a namespace of users. Where the kernel allows
//! neither, Landlock and the filter of system calls must be enough, or no hook is run.
#![expect(unsafe_code, reason = "system calls that have no safe wrapper")]

use super::visible::{self, DEVICES, Right, Visible};
use super::{calls, landlock, root, supervise, user};
use crate::config::ProcessLimits;
use crate::isolation::{Files, Isolation, Network, Processes};
use crate::process::Load;
use rustix::process::{Resource, Rlimit, getpgrp, getpid, setrlimit, umask};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// What the engine gave us.
pub(super) struct Arrived {
    pub(super) socket: UnixStream,
    pub(super) library: OwnedFd,
}

pub(super) const SOCKET: RawFd = 10;
pub(super) const LIBRARY: RawFd = 11;

/// Takes socket and library from standard input and output, and closes everything else.
///
/// # Errors
///
/// Where no engine started this process, or a file cannot be moved.
pub(super) fn arrive() -> Result<Arrived, String> {
    let input = std::fs::metadata("/proc/self/fd/0").map(|meta| meta.mode() & libc::S_IFMT);
    if getpgrp() != getpid() || !matches!(input, Ok(libc::S_IFSOCK)) {
        return Err("this program runs hooks of plugins: vnfm starts it, nobody else".into());
    }
    let moved = || -> io::Result<()> {
        // SAFETY: plain system calls on numbers; no other thread is there, and nobody owns what is closed here.
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
    moved().map_err(|error| format!("cannot put the files in order: {error}"))?;
    // SAFETY: both were just made, and nobody else knows them.
    let (socket, library) = unsafe {
        (
            UnixStream::from_raw_fd(SOCKET),
            OwnedFd::from_raw_fd(LIBRARY),
        )
    };
    Ok(Arrived { socket, library })
}

/// Why a process runs no hook.
pub(super) enum Refusal {
    /// Something that always works did not.
    Failed(String),
    /// This machine does not let us keep hooks apart.
    NotApart(String),
}

/// Gives everything up that a hook does not need, and says what keeps it apart. It returns in a new process: the one
/// that called waits for it.
///
/// # Errors
///
/// What cannot be given up; no hook is run then.
pub(super) fn shut(load: &Load) -> Result<Isolation, Refusal> {
    rustix::process::chdir("/")
        .map_err(io::Error::from)
        .map_err(cannot("go to `/`"))?;
    // A kernel without it chooses who has to go as it always did.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let shared = load.user.as_ref().is_none_or(|choice| choice.shared);
    limit(
        &load.limits,
        load.user.as_ref().map(|choice| choice.users.first),
        shared,
    )
    .map_err(cannot("limit what it uses"))?;
    let uid = load
        .user
        .as_ref()
        .map(user::take)
        .transpose()
        .map_err(cannot("take a user"))?;
    std::os::unix::fs::chown(&load.folder, uid, uid).map_err(cannot("own its folder"))?;
    let spaces = Spaces::make(uid, load.network)?;
    let first = supervise::begin(uid, &load.folder).map_err(cannot("begin a process"))?;
    let isolation = apart(load, uid, !shared, spaces)?;
    if spaces.any() {
        supervise::first_of_the_namespace(&first).map_err(cannot("begin a process"))?;
    }
    Ok(isolation)
}

/// Shuts the process in that was made for the hook.
fn apart(load: &Load, uid: Option<u32>, alone: bool, spaces: Spaces) -> Result<Isolation, Refusal> {
    let readable = visible::readable(&load.readable);
    // Its user goes through the folders of its root.
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
    supervise::end_with_the_supervisor().map_err(cannot("end with its parent"))?;
    drop_capabilities().map_err(cannot("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(io::Error::from)
        .map_err(cannot("renounce new privileges"))?;
    let landlock = landlock::version();
    if let Some(version) = landlock {
        let visible = places(readable, load, no_root.is_none(), alone);
        landlock::restrict(version, &visible).map_err(cannot("restrict it by Landlock"))?;
    }
    let files = match (&no_root, landlock) {
        (None, Some(version)) => Files::RootAndLandlock(version),
        (None, None) => Files::Root,
        (Some(_), Some(version)) => Files::Landlock(version),
        (Some(why), None) => {
            return Err(Refusal::NotApart(format!(
                "its files cannot be kept apart: this kernel has no Landlock, and a root of its own cannot be made: {why}"
            )));
        }
    };
    let processes = match landlock {
        _ if spaces.any() => Processes::Namespace,
        _ if uid.is_some_and(|_| alone) => Processes::User,
        Some(version) if landlock::scopes_signals(version) => Processes::Landlock,
        _ => {
            return Err(Refusal::NotApart(format!(
                "the server's process cannot be kept out of its reach: {}, and this kernel's Landlock does not keep signals \
             in (Linux 6.12 and newer do)",
                spaces.why()
            )));
        }
    };
    calls::filter(!load.network && !spaces.any()).map_err(cannot("filter system calls"))?;
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

/// What Landlock leaves open.
fn places(readable: Vec<PathBuf>, load: &Load, own_root: bool, alone: bool) -> Vec<Visible> {
    let of = |right: Right| move |path: PathBuf| Visible { path, right };
    let devices = DEVICES.iter().map(|name| PathBuf::from("/dev").join(name));
    let facts = if own_root { &["/proc"][..] } else { FACTS };
    let mut own = vec![load.folder.clone()];
    if own_root || alone {
        own.push("/dev/shm".into());
    }
    let read = readable
        .into_iter()
        .chain(facts.iter().map(PathBuf::from))
        .map(of(Right::Read));
    read.chain(devices.map(of(Right::Use)))
        .chain(own.into_iter().map(of(Right::Own)))
        .collect()
}

/// What anybody may know of the machine, where `/proc` is that of all.
const FACTS: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
];

fn cannot(what: &str) -> impl Fn(io::Error) -> Refusal {
    let what = what.to_owned();
    move |error| Refusal::Failed(format!("cannot {what}: {error}"))
}

/// The namespaces of processes, IPC and network that the process made for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spaces {
    /// As root.
    Root,
    /// In a namespace of users.
    OfUsers,
    /// None: the kernel, or what started the server, allows none.
    None(i32),
}

impl Spaces {
    fn make(uid: Option<u32>, network: bool) -> Result<Self, Refusal> {
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
        map(uid, gid).map_err(cannot("keep its user in a namespace of users"))?;
        Ok(Self::OfUsers)
    }

    fn any(self) -> bool {
        !matches!(self, Self::None(_))
    }

    /// Why there are none.
    fn why(self) -> String {
        let Self::None(errno) = self else {
            return "namespaces are there".into();
        };
        let error = io::Error::from_raw_os_error(errno);
        format!("neither this user nor a namespace of users may make namespaces ({error})")
    }
}

/// In a namespace of users, this process stays who it was.
fn map(uid: u32, gid: u32) -> io::Result<()> {
    // Who became another user may not write its own files here without this.
    // SAFETY: a plain system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_DUMPABLE, 1)) }?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: a plain system call on a number; there is one thread only.
    unsafe { done(libc::unshare(what)) }
}

/// Keeps none, and gets none by starting a program.
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
    // Under a user of its own it counts alone, else with all that its user has running.
    let others = if shared { tasks_of(uid) } else { 0 };
    for (resource, soft, hard) in [
        (Resource::Core, 0, 0),
        (
            Resource::As,
            limits.memory_mib * MIB,
            limits.memory_mib * MIB,
        ),
        // At the first the process is told, at the second it is killed.
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
        let within = |wanted: u64| Some(had.maximum.map_or(wanted, |most| wanted.min(most)));
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

/// How many tasks a user has, as the kernel counts them for the limit; without a number the user of this process.
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
    // A folder of threads has two links more than threads.
    own.filter_map(|process| process.path().join("task").metadata().ok())
        .map(|threads| threads.nlink().saturating_sub(2))
        .sum()
}

/// The answer of a system call.
pub(super) fn done(status: libc::c_int) -> io::Result<()> {
    if status < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
