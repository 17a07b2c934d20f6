//! Supervises the process of a hook from outside, and kills everything it started.
//!
//! ```text
//! supervisor             the engine's child; out of the hook's reach; exits as the hook exited
//!   └─ init process      of the PID namespace, if there is one; adopts orphaned processes
//!        └─ the hook     and everything it starts
//! ```
//!
//! It kills the hook on SIGTERM from the engine, or if the engine is gone (the read end of its standard error is
//! closed). When it exits, no process of the hook runs and its folder is deleted, so the user ID is free again.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use super::system::{LIBRARY, SOCKET, done};
use super::user;
use libc::{c_int, pid_t};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The pipe through which a namespace's init process reports how the hook ended.
pub(super) struct StatusWriter(io::PipeWriter);

/// Forks the process for the hook and returns in it. This process supervises it and exits with it.
///
/// # Errors
///
/// If no process can be created.
pub(super) fn fork_supervised(uid: Option<u32>, folder: &Path) -> io::Result<StatusWriter> {
    let (status_reader, status_writer) = io::pipe()?;
    let signals = Signals::new()?;
    // SAFETY: a system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)) }?;
    // SAFETY: there is only one thread, so the new process may do anything.
    let child = unsafe { libc::fork() };
    done(child)?;
    if child == 0 {
        Signals::unblock()?;
        // Its own process group: one signal reaches it and everything it starts, but not the supervisor.
        // SAFETY: a system call on numbers.
        unsafe { done(libc::setpgid(0, 0)) }?;
        return Ok(StatusWriter(status_writer));
    }
    drop(status_writer);
    let supervisor = Supervisor {
        child,
        status_reader: File::from(OwnedFd::from(status_reader)),
        signals,
    };
    supervisor.wait(uid, folder.to_owned())
}

/// Makes the kernel kill this process when its parent ends.
pub(super) fn die_with_parent() -> io::Result<()> {
    // SAFETY: a system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)) }
}

/// Forks the process that runs the hook and returns in it. This process is the init process of the PID namespace: it
/// adopts orphans, and everything in the namespace ends with it.
///
/// # Errors
///
/// If no process can be created.
pub(super) fn fork_in_namespace(status_writer: &StatusWriter) -> io::Result<()> {
    // SAFETY: there is only one thread, so the new process may do anything.
    let hook = unsafe { libc::fork() };
    done(hook)?;
    if hook == 0 {
        return die_with_parent();
    }
    close_engine_files();
    loop {
        let mut status: c_int = 0;
        // SAFETY: the status lives until the call returns.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == hook {
            // Fails if the supervisor has ended.
            let _ = (&status_writer.0).write_all(&status.to_ne_bytes());
        }
        if ended == hook
            || ended < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR)
        {
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Closes this process's copies of the socket and the library.
fn close_engine_files() {
    // SAFETY: this process never uses them again, and exits without dropping their owners.
    unsafe {
        libc::close(SOCKET);
        libc::close(LIBRARY);
    }
}

/// The signals that the supervisor waits for.
struct Signals(OwnedFd);

impl Signals {
    fn set() -> libc::sigset_t {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the first call writes the set, the others change it.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            set.assume_init()
        }
    }

    fn new() -> io::Result<Self> {
        let set = Self::set();
        // SAFETY: the set lives until the calls return; the descriptor is new.
        unsafe {
            done(libc::sigprocmask(
                libc::SIG_BLOCK,
                &raw const set,
                std::ptr::null_mut(),
            ))?;
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            done(fd)?;
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    fn unblock() -> io::Result<()> {
        let set = Self::set();
        // SAFETY: the set lives until the call returns.
        unsafe {
            done(libc::sigprocmask(
                libc::SIG_UNBLOCK,
                &raw const set,
                std::ptr::null_mut(),
            ))
        }
    }

    /// Waits for a signal, and returns whether to kill the hook.
    fn wait(&self) -> bool {
        let file = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        // If nothing reads our standard error, the engine is gone or done with the hook.
        let mut files = [
            file(self.0.as_raw_fd(), libc::POLLIN),
            file(libc::STDERR_FILENO, 0),
        ];
        // SAFETY: the files live until the call returns.
        unsafe { libc::poll(files.as_mut_ptr(), 2, -1) };
        let mut end = files[1].revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        let mut signal_info = std::mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        let complete = isize::try_from(size).unwrap_or_default();
        // SAFETY: the buffer has room for one, and it is used only if the kernel filled it.
        while unsafe { libc::read(self.0.as_raw_fd(), signal_info.as_mut_ptr().cast(), size) }
            == complete
        {
            // SAFETY: as above.
            let number = unsafe { signal_info.assume_init() }.ssi_signo;
            end |= i32::try_from(number) == Ok(libc::SIGTERM);
        }
        end
    }
}

struct Supervisor {
    child: pid_t,
    status_reader: File,
    signals: Signals,
}

impl Supervisor {
    fn wait(mut self, uid: Option<u32>, folder: PathBuf) -> ! {
        close_engine_files();
        if let Some(uid) = uid {
            // Fails if it already is that user or may not become it; both are fine.
            let _ = user::become_user(uid);
        }
        while !self.has_ended(libc::WNOHANG) {
            if self.signals.wait() {
                self.kill();
                self.has_ended(0);
            }
        }
        let status = self.kill_and_reap();
        let status = self.hook_status().unwrap_or(status);
        // The engine deletes what is left.
        let _ = std::fs::remove_dir_all(folder);
        exit_as(status)
    }

    /// Whether the child has ended; its pid is not reused before `waitpid`.
    fn has_ended(&self, how: c_int) -> bool {
        let mut seen = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let how = how | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: the buffer has the right size, and all zeroes mean that no child has ended.
        unsafe {
            let child = self.child.unsigned_abs();
            let answer = libc::waitid(libc::P_PID, child, seen.as_mut_ptr(), how);
            answer < 0 || seen.assume_init().si_pid() != 0
        }
    }

    fn kill(&self) {
        // SAFETY: system calls on numbers; before `waitpid`, the child's pid cannot be another process's.
        unsafe {
            libc::kill(-self.child, libc::SIGKILL);
            libc::kill(self.child, libc::SIGKILL);
        }
    }

    /// Kills and reaps everything, and returns the child's status. In a PID namespace, everything ended with its init
    /// process; otherwise we have adopted the rest of the group, and reap it here.
    fn kill_and_reap(&self) -> c_int {
        self.kill();
        let (mut own, mut status) = (0, 0);
        loop {
            // SAFETY: the status lives until the call returns.
            let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
            if ended == self.child {
                own = status;
            }
            if ended < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
                return own;
            }
        }
    }

    /// The hook's status, as reported by the init process of its namespace.
    fn hook_status(&mut self) -> Option<c_int> {
        let mut status = [0; size_of::<c_int>()];
        self.status_reader.read_exact(&mut status).ok()?;
        Some(c_int::from_ne_bytes(status))
    }
}

/// Exits with the hook's exit code or signal.
fn exit_as(status: c_int) -> ! {
    // SAFETY: system calls on numbers; this process ends here.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::sigprocmask(libc::SIG_UNBLOCK, all.as_ptr(), std::ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}
