//! What the process of a hook gives up before anything of the plugin is loaded.
//!
//! | what | how |
//! |---|---|
//! | open files | all are closed but the socket and the library; standard input is empty, output goes to the log |
//! | environment, folder | the engine starts it with none, in `/`; for scripts `TMPDIR` is a folder of its own |
//! | user | one of its own, where root starts it; no further groups |
//! | network | kept, but for scripts: they get a namespace without any |
//! | memory, processor, processes, files | resource limits; no core file; first to go where memory is short |
//! | privileges | none can be gained (`no_new_privs`) |
//! | process group | `setsid` and `setpgid` do nothing, for it and all that it starts: one signal reaches them all |
#![expect(unsafe_code, reason = "system calls that have no safe wrapper")]

use crate::config::ProcessLimits;
use crate::process::Load;
use rustix::process::{Resource, Rlimit, getpgrp, getpid, setrlimit, umask};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

/// What the engine gave us.
pub(super) struct Arrived {
    pub(super) socket: UnixStream,
    pub(super) library: OwnedFd,
}

const SOCKET: RawFd = 10;
const LIBRARY: RawFd = 11;

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
            done(libc::close_range(LIBRARY.unsigned_abs() + 1, libc::c_uint::MAX, 0))?;
        }
        let nothing = std::fs::File::open("/dev/null")?;
        // SAFETY: as above.
        unsafe { done(libc::dup2(nothing.as_raw_fd(), 0)) }
    };
    moved().map_err(|error| format!("cannot put the files in order: {error}"))?;
    // SAFETY: both were just made, and nobody else knows them.
    let (socket, library) =
        unsafe { (UnixStream::from_raw_fd(SOCKET), OwnedFd::from_raw_fd(LIBRARY)) };
    Ok(Arrived { socket, library })
}

/// Gives everything up that a hook does not need.
///
/// # Errors
///
/// What cannot be given up; no hook is run then.
pub(super) fn shut(load: &Load) -> Result<(), String> {
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("cannot {what}: {error}")
    };
    umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::chdir("/").map_err(io::Error::from).map_err(cannot("go to `/`"))?;
    // A kernel without it chooses who has to go as it always did.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    limit(&load.limits, load.uid).map_err(cannot("limit what it uses"))?;
    // Root leaves it by itself; who may not, as a user of their own.
    let apart = !load.network && unshare(libc::CLONE_NEWNET).is_ok();
    if let Some(uid) = load.uid {
        become_user(uid).map_err(cannot(&format!("become user {uid}")))?;
    }
    if !load.network && !apart {
        leave_network().map_err(cannot(
            "leave the network (neither root with CAP_SYS_ADMIN nor a kernel that lets users make namespaces; \
             `plugins.scripts.network: true` leaves scripts the server's network)",
        ))?;
    }
    rustix::thread::set_no_new_privs(true)
        .map_err(io::Error::from)
        .map_err(cannot("renounce new privileges"))?;
    stay_in_the_group().map_err(cannot("filter system calls"))
}

fn limit(limits: &ProcessLimits, uid: Option<u32>) -> io::Result<()> {
    const MIB: u64 = 1 << 20;
    // Under a user of its own it counts alone, else with all that its user has running.
    let others = if uid.is_some() { 0 } else { tasks_of_this_user() };
    for (resource, soft, hard) in [
        (Resource::Core, 0, 0),
        (Resource::As, limits.memory_mib * MIB, limits.memory_mib * MIB),
        // At the first the process is told, at the second it is killed.
        (Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 5),
        (Resource::Nproc, others + limits.processes, others + limits.processes),
        (Resource::Nofile, limits.open_files, limits.open_files),
        (Resource::Fsize, limits.file_mib * MIB, limits.file_mib * MIB),
    ] {
        let had = rustix::process::getrlimit(resource);
        let within = |wanted: u64| Some(had.maximum.map_or(wanted, |most| wanted.min(most)));
        setrlimit(resource, Rlimit { current: within(soft), maximum: within(hard) })?;
    }
    Ok(())
}

/// How many tasks the user of this process has, as the kernel counts them for the limit.
fn tasks_of_this_user() -> u64 {
    let me = rustix::process::geteuid().as_raw();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|process| {
        let number = process.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        number && process.metadata().is_ok_and(|meta| meta.uid() == me)
    });
    // A folder of threads has two links more than threads.
    own.filter_map(|process| process.path().join("task").metadata().ok())
        .map(|threads| threads.nlink().saturating_sub(2))
        .sum()
}

fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: plain system calls on numbers; there is one thread only.
    unsafe {
        done(libc::setgroups(0, std::ptr::null()))?;
        done(libc::setresgid(uid, uid, uid))?;
        done(libc::setresuid(uid, uid, uid))
    }
}

/// Goes where there is no network, in a namespace of users in which we are who we were.
fn leave_network() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
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

/// Makes `setsid` and `setpgid` answer that they are done, and do nothing; system calls of another architecture
/// do not exist. Programs that want to be alone, as daemons do, go on as if they were.
fn stay_in_the_group() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else { return Ok(()) };
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: 0,
        jf: 0,
        k,
    };
    let load = |offset: usize| {
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, u32::try_from(offset).unwrap_or(0))
    };
    let jump = |how: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        jt,
        jf,
        ..statement(libc::BPF_JMP | how | libc::BPF_K, k)
    };
    let answer = |errno: u32| statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno);
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let mut filter = [
        load(std::mem::offset_of!(libc::seccomp_data, arch)),
        jump(libc::BPF_JEQ, architecture, 0, 5),
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        jump(libc::BPF_JGE, OTHER_CALLS, 3, 0),
        jump(libc::BPF_JEQ, number(libc::SYS_setsid), 3, 0),
        jump(libc::BPF_JEQ, number(libc::SYS_setpgid), 2, 0),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW),
        answer(libc::ENOSYS.unsigned_abs()),
        answer(0),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its statements live until the call returns; the kernel checks them.
    unsafe { done(libc::prctl(PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)) }
}

const PR_SET_SECCOMP: libc::c_int = 22;
/// System calls from this number on are those of another convention (x32).
const OTHER_CALLS: u32 = 0x4000_0000;
/// How the kernel numbers the architecture that this is built for (`AUDIT_ARCH_…`).
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

fn done(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
