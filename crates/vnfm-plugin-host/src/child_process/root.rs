//! A separate root for a hook process: the system's programs and libraries, read-only, its own folder, a few devices,
//! and a `/proc` with its own processes. No other file of the machine is visible.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::system::done;
use super::visible::DEVICES;
use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Where the new root is assembled: a folder that every system has and no hook needs.
const NEW_ROOT: &str = "/sys";

/// Builds the new root and enters it.
///
/// # Errors
///
/// The step that failed. The process may then still be in the old root, with some private mounts.
pub(super) fn enter(readable: &[PathBuf], folder: &Path) -> io::Result<()> {
    // SAFETY: a system call on numbers; there is only one thread.
    with_action("create a mount namespace", unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))
    })?;
    with_action(
        "make its mounts private",
        mount(None, "/", None, libc::MS_SLAVE | libc::MS_REC, ""),
    )?;
    let plain = libc::MS_NOSUID | libc::MS_NODEV;
    let empty = "mode=0755,size=1m";
    with_action(
        "mount an empty root",
        mount(Some("tmpfs"), NEW_ROOT, Some("tmpfs"), plain, empty),
    )?;
    for path in readable {
        with_action(&format!("mount `{}`", path.display()), bind_read_only(path))?;
    }
    with_action("create devices", devices())?;
    let inside = in_new_root(folder);
    with_action(
        "mount its folder",
        std::fs::create_dir_all(&inside).and_then(|()| bind(folder, &inside)),
    )?;
    let proc = Path::new(NEW_ROOT).join("proc");
    std::fs::create_dir(&proc)?;
    let plain = plain | libc::MS_NOEXEC;
    with_action(
        "mount `/proc`",
        mount(Some("proc"), proc, Some("proc"), plain, ""),
    )?;
    with_action(
        "make the root read-only",
        set_read_only(Path::new(NEW_ROOT), 0),
    )?;
    with_action("enter the new root", pivot())
}

fn with_action<T>(action: &str, outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| io::Error::new(error.kind(), format!("cannot {action}: {error}")))
}

/// The path in the new root.
fn in_new_root(path: &Path) -> PathBuf {
    Path::new(NEW_ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts `path` read-only in the new root, if it exists.
fn bind_read_only(path: &Path) -> io::Result<()> {
    let Ok(own) = path.symlink_metadata() else {
        return Ok(());
    };
    let to = in_new_root(path);
    to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let target = std::fs::read_link(path).ok();
    if let Some(target) =
        target.filter(|_| own.is_symlink() && path.parent() == Some(Path::new("/")))
    {
        return symlink(target, to);
    }
    let Ok(real) = path.metadata() else {
        return Ok(());
    };
    if real.is_dir() {
        std::fs::create_dir_all(&to)?;
    } else {
        std::fs::File::create(&to)?;
    }
    bind(path, &to)?;
    set_read_only(&to, libc::AT_RECURSIVE)
}

fn devices() -> io::Result<()> {
    let dev = Path::new(NEW_ROOT).join("dev");
    std::fs::create_dir(&dev)?;
    for name in DEVICES {
        let to = dev.join(name);
        std::fs::File::create(&to)?;
        bind(&Path::new("/dev").join(name), &to)?;
    }
    symlink("/proc/self/fd", dev.join("fd"))?;
    for (nth, name) in ["stdin", "stdout", "stderr"].iter().enumerate() {
        symlink(format!("/proc/self/fd/{nth}"), dev.join(name))?;
    }
    let shared = dev.join("shm");
    std::fs::create_dir(&shared)?;
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777))?;
    let plain = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(
        Some("tmpfs"),
        shared,
        Some("tmpfs"),
        plain,
        "mode=1777,size=64m",
    )
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    mount_at(Some(&from), to, None, libc::MS_BIND | libc::MS_REC, "")
}

/// Switches to the new root and unmounts the old one.
fn pivot() -> io::Result<()> {
    rustix::process::chdir(NEW_ROOT)?;
    // SAFETY: system calls on static strings.
    unsafe {
        let here = c".".as_ptr();
        match libc::syscall(libc::SYS_pivot_root, here, here) {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        done(libc::umount2(here, libc::MNT_DETACH))?;
    }
    Ok(rustix::process::chdir("/")?)
}

fn mount(
    source: Option<&str>,
    to: impl AsRef<Path>,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: &str,
) -> io::Result<()> {
    let source = source.map(CString::new).transpose()?;
    mount_at(source.as_ref(), to.as_ref(), kind, flags, data)
}

fn mount_at(
    source: Option<&CString>,
    to: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: &str,
) -> io::Result<()> {
    let to = CString::new(to.as_os_str().as_bytes())?;
    let (kind, data) = (kind.map(CString::new).transpose()?, CString::new(data)?);
    let text = |text: Option<&CString>| text.map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: all strings live until the call returns.
    unsafe {
        let (source, kind) = (text(source), text(kind.as_ref()));
        done(libc::mount(
            source,
            to.as_ptr(),
            kind,
            flags,
            data.as_ptr().cast(),
        ))
    }
}

/// The kernel's `struct mount_attr`, for `mount_setattr`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    namespace: u64,
}

const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const NO_DEVICES: u64 = 4;

fn set_read_only(path: &Path, how: libc::c_int) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let set = READ_ONLY | NO_SUID | NO_DEVICES;
    let attributes = Attributes {
        set,
        clear: 0,
        propagation: 0,
        namespace: 0,
    };
    // SAFETY: path and attributes live until the call returns.
    let changed = unsafe {
        let (path, size) = (path.as_ptr(), size_of::<Attributes>());
        let call = libc::SYS_mount_setattr;
        libc::syscall(call, libc::AT_FDCWD, path, how, &raw const attributes, size)
    };
    if changed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
