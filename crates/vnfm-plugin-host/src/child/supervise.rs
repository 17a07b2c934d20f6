//! Waits for the process of a hook from outside, and ends all that it started.
//!
//! ```text
//! the engine's child     waits here, untouched by the hook; tells the engine how the hook ended
//!   └─ first process     of a namespace of processes, where there is one; takes in what loses its parent
//!        └─ the hook     and all that it starts
//! ```
//!
//! It ends the hook when the engine says so (SIGTERM) or is gone (nobody reads its standard error). When it ends,
//! nothing of the hook runs any more and its folder is gone: whoever waits for it knows that the user is free.
#![expect(unsafe_code, reason = "system calls that have no safe wrapper")]

use super::sandbox::{LIBRARY, SOCKET, done};
use super::user;
use libc::{c_int, pid_t};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// How the first process of a namespace tells how the hook ended.
pub(super) struct First(io::PipeWriter);

/// Makes the process for the hook, and returns in it. This one waits, and ends with it.
///
/// # Errors
///
/// Where no process can be made.
pub(super) fn begin(uid: Option<u32>, folder: &Path) -> io::Result<First> {
    let (told, tell) = io::pipe()?;
    let signs = Signs::new()?;
    // SAFETY: a plain system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)) }?;
    // SAFETY: there is one thread only, so the new process may do everything.
    let child = unsafe { libc::fork() };
    done(child)?;
    if child == 0 {
        Signs::unblock()?;
        // A group of its own: one signal reaches it and all that it starts, and none of it reaches us.
        // SAFETY: a plain system call on numbers.
        unsafe { done(libc::setpgid(0, 0)) }?;
        return Ok(First(tell));
    }
    drop(tell);
    let supervisor = Supervisor {
        child,
        told: File::from(OwnedFd::from(told)),
        signs,
    };
    supervisor.wait(uid, folder.to_owned())
}

/// Ends this process when its parent has ended.
pub(super) fn end_with_the_supervisor() -> io::Result<()> {
    // SAFETY: a plain system call on numbers.
    unsafe { done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)) }
}

/// Makes the process that runs the hook, and returns in it. This one is the first of its namespace: it takes in what
/// loses its parent there, and all ends with it.
///
/// # Errors
///
/// Where no process can be made.
pub(super) fn first_of_the_namespace(tell: &First) -> io::Result<()> {
    // SAFETY: there is one thread only, so the new process may do everything.
    let hook = unsafe { libc::fork() };
    done(hook)?;
    if hook == 0 {
        return end_with_the_supervisor();
    }
    close_ways();
    loop {
        let mut status: c_int = 0;
        // SAFETY: the status lives until the call returns.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == hook {
            // Who reads it may be gone.
            let _ = (&tell.0).write_all(&status.to_ne_bytes());
        }
        if ended == hook
            || ended < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR)
        {
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Leaves socket and library to the hook.
fn close_ways() {
    // SAFETY: this process never uses them again, and ends without dropping who owns them.
    unsafe {
        libc::close(SOCKET);
        libc::close(LIBRARY);
    }
}

/// The signals that the engine's child waits for.
struct Signs(OwnedFd);

impl Signs {
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

    /// Waits for one, and says whether the hook is to be ended.
    fn wait(&self) -> bool {
        let file = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        // Nobody reads our standard error: the engine is gone, or done with the hook.
        let mut files = [
            file(self.0.as_raw_fd(), libc::POLLIN),
            file(libc::STDERR_FILENO, 0),
        ];
        // SAFETY: the files live until the call returns.
        unsafe { libc::poll(files.as_mut_ptr(), 2, -1) };
        let mut end = files[1].revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        let mut sign = std::mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        let whole = isize::try_from(size).unwrap_or_default();
        // SAFETY: there is room for one of them, and it is read where the kernel wrote all of it.
        while unsafe { libc::read(self.0.as_raw_fd(), sign.as_mut_ptr().cast(), size) } == whole {
            // SAFETY: as above.
            let number = unsafe { sign.assume_init() }.ssi_signo;
            end |= i32::try_from(number) == Ok(libc::SIGTERM);
        }
        end
    }
}

struct Supervisor {
    child: pid_t,
    told: File,
    signs: Signs,
}

impl Supervisor {
    fn wait(mut self, uid: Option<u32>, folder: PathBuf) -> ! {
        close_ways();
        if let Some(uid) = uid {
            // Where it is that user already, or may not become it, there is nothing to do.
            let _ = user::become_user(uid);
        }
        while !self.has_ended(libc::WNOHANG) {
            if self.signs.wait() {
                self.kill();
                self.has_ended(0);
            }
        }
        let status = self.ends_with_the_rest();
        let status = self.of_the_hook().unwrap_or(status);
        // The engine removes what is left of it.
        let _ = std::fs::remove_dir_all(folder);
        end_as(status)
    }

    /// Whether the child has ended; it keeps its number until it is waited for.
    fn has_ended(&self, how: c_int) -> bool {
        let mut seen = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let how = how | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: there is room for what is seen, and all zeroes mean that nothing was.
        unsafe {
            let child = self.child.unsigned_abs();
            let answer = libc::waitid(libc::P_PID, child, seen.as_mut_ptr(), how);
            answer < 0 || seen.assume_init().si_pid() != 0
        }
    }

    fn kill(&self) {
        // SAFETY: plain system calls on numbers; the child was not waited for, so its number is its own.
        unsafe {
            libc::kill(-self.child, libc::SIGKILL);
            libc::kill(self.child, libc::SIGKILL);
        }
    }

    /// How the child ended. In a namespace of processes all has ended with its first; else what is left of the group
    /// lost its parent, is ours now, and ends.
    fn ends_with_the_rest(&self) -> c_int {
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

    /// How the hook ended, as the first process of its namespace tells.
    fn of_the_hook(&mut self) -> Option<c_int> {
        let mut status = [0; size_of::<c_int>()];
        self.told.read_exact(&mut status).ok()?;
        Some(c_int::from_ne_bytes(status))
    }
}

/// Ends this process as the hook ended.
fn end_as(status: c_int) -> ! {
    // SAFETY: plain system calls on numbers; this process ends here.
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
