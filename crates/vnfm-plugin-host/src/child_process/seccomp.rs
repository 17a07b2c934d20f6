//! The system-call filter (seccomp) of a hook process and everything it starts.
//!
//! | calls | result |
//! |---|---|
//! | `setsid`, `setpgid` | succeed without effect: daemons go on, but stay in the hook's process group |
//! | reading or changing other processes, mounts, namespaces, keys, the kernel | EPERM |
//! | `clone3`, `io_uring_*`, another architecture's calls | ENOSYS: their arguments cannot be filtered; programs fall back |
//! | sockets other than Unix sockets, if the network is denied and no network namespace is available | EACCES |
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::system::done;
use libc::{c_long, sock_filter};
use std::io;

/// Forbidden system calls, which fail with EPERM.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
];

/// System calls that fail with ENOSYS, as if the kernel lacked them.
const UNSUPPORTED: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// System calls that succeed without effect.
const IGNORED: &[c_long] = &[libc::SYS_setsid, libc::SYS_setpgid];

/// Filters the calls of this process and everything it starts; with `local`, only Unix sockets are allowed.
///
/// # Errors
///
/// If the kernel has no seccomp filters, or on architectures other than x86-64 and 64-bit Arm.
pub(super) fn filter(local: bool) -> io::Result<()> {
    let unknown = || io::Error::other("system-call filters are not supported on this architecture");
    let mut filter = program(ARCHITECTURE.ok_or_else(unknown)?, local);
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its statements live until the call returns; the kernel checks them.
    unsafe {
        done(libc::prctl(
            PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        ))
    }
}

fn program(architecture: u32, local: bool) -> Vec<sock_filter> {
    let number = load(std::mem::offset_of!(libc::seccomp_data, nr));
    let mut all = vec![
        load(std::mem::offset_of!(libc::seccomp_data, arch)),
        jump(libc::BPF_JEQ, architecture, 1, 0),
        answer(libc::ENOSYS),
        number,
        jump(libc::BPF_JGE, X32_CALLS, 0, 1),
        answer(libc::ENOSYS),
    ];
    for (calls, errno) in [
        (IGNORED, 0),
        (UNSUPPORTED, libc::ENOSYS),
        (FORBIDDEN, libc::EPERM),
    ] {
        for call in calls {
            all.extend([jump(libc::BPF_JEQ, unsigned(*call), 0, 1), answer(errno)]);
        }
    }
    // By argument: no new namespaces, no input faked into a terminal, and perhaps only Unix sockets.
    let spaces = u32::try_from(NAMESPACES).unwrap_or(u32::MAX);
    all.extend([
        jump(libc::BPF_JEQ, unsigned(libc::SYS_clone), 0, 4),
        argument(0),
    ]);
    all.extend([
        jump(libc::BPF_JSET, spaces, 0, 1),
        answer(libc::EPERM),
        allow(),
        number,
    ]);
    all.extend([
        jump(libc::BPF_JEQ, unsigned(libc::SYS_ioctl), 0, 4),
        argument(1),
    ]);
    all.extend([
        jump(libc::BPF_JEQ, TIOCSTI, 0, 1),
        answer(libc::EPERM),
        allow(),
        number,
    ]);
    if local {
        let local = u32::try_from(libc::AF_UNIX).unwrap_or(u32::MAX);
        all.extend([
            jump(libc::BPF_JEQ, unsigned(libc::SYS_socket), 0, 4),
            argument(0),
        ]);
        all.extend([
            jump(libc::BPF_JEQ, local, 1, 0),
            answer(libc::EACCES),
            allow(),
        ]);
    }
    all.push(allow());
    all
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: 0,
        jf: 0,
        k,
    }
}

fn load(offset: usize) -> sock_filter {
    statement(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        u32::try_from(offset).unwrap_or(0),
    )
}

/// The lower half of an argument; both architectures are little-endian.
fn argument(nth: usize) -> sock_filter {
    load(std::mem::offset_of!(libc::seccomp_data, args) + nth * size_of::<u64>())
}

fn jump(how: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        jt,
        jf,
        ..statement(libc::BPF_JMP | how | libc::BPF_K, k)
    }
}

fn answer(errno: i32) -> sock_filter {
    statement(
        libc::BPF_RET,
        libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
    )
}

fn allow() -> sock_filter {
    statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW)
}

fn unsigned(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
const TIOCSTI: u32 = 0x5412;
const PR_SET_SECCOMP: libc::c_int = 22;
/// System calls from this number on belong to another ABI (x32).
const X32_CALLS: u32 = 0x4000_0000;
/// The kernel's identifier of the target architecture (`AUDIT_ARCH_…`); `None` if unsupported.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};
