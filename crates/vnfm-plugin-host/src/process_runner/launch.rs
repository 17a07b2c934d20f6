//! Starts the process of a hook, and ends it with one signal to its supervisor, whatever the hook is doing.
#![expect(unsafe_code, reason = "registers a descriptor with the runtime")]

use super::end::{Ended, Tail, kill_all};
use super::load::Load;
use super::phase::Phase;
use super::wire::{self, Frame};
use crate::child_process::user::UserChoice;
use crate::child_process::visible;
use crate::config::{Confinement, ProcessConfig, Users};
use crate::errors::{NOT_APART, RUNNER, codes};
use crate::folder::Checked;
use crate::isolation::Isolation;
use crate::library::{self, PluginInfo};
use crate::services;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fs::{File, Permissions};
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;
use vnfm_core::ports::PortError;

/// How long a library may take to describe itself.
const DECLARE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a process may take to exit after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// What all processes of one plugin host share.
#[derive(Debug)]
pub(crate) struct Starter {
    config: ProcessConfig,
    users: Option<Users>,
    next: Arc<AtomicU32>,
    confinement: Confinement,
    /// A hidden path that hooks could read, and the readable path that exposes it.
    exposed: Option<(PathBuf, PathBuf)>,
}

impl Starter {
    pub(crate) fn new(config: ProcessConfig, confinement: Confinement) -> Self {
        let users = users(config.users);
        // Several servers on one machine start at different IDs.
        let begin = std::process::id().wrapping_mul(2_654_435_761);
        let exposed = visible::exposed(&config.hidden, &config.readable);
        Self {
            config,
            users,
            next: Arc::new(AtomicU32::new(begin)),
            confinement,
            exposed,
        }
    }

    /// The same starter, with other restrictions.
    pub(crate) fn confined(&self, confinement: Confinement) -> Arc<Self> {
        let (config, users, next) = (self.config.clone(), self.users, self.next.clone());
        Arc::new(Self {
            config,
            users,
            next,
            confinement,
            exposed: self.exposed.clone(),
        })
    }

    /// The part of the first message that is the same for every process.
    fn load(&self) -> Load {
        Load {
            library_path: String::new(),
            symbol: String::new(),
            symbol_size: 0,
            glibc: None,
            user: None,
            network: self.confinement.network,
            folder: PathBuf::new(),
            readable: self.config.readable.clone(),
            limits: self.config.limits,
            probe: false,
        }
    }

    /// The user IDs of the next process, which tries them from another start each time.
    fn user(&self) -> Option<UserChoice> {
        let users = self.users?;
        let begin = self.next.fetch_add(1, Ordering::Relaxed);
        Some(UserChoice {
            users,
            begin,
            shared: users.count == 1,
        })
    }
}

/// The user IDs for processes: `wanted` if the user namespace maps them, else `nobody`; `None` if we are not root.
fn users(wanted: Users) -> Option<Users> {
    if wanted.count == 0 || !rustix::process::geteuid().is_root() {
        return None;
    }
    let known = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let nobody = Users {
        first: 65534,
        count: 1,
    };
    let found = [wanted, nobody]
        .into_iter()
        .find(|users| mapped(*users, &known));
    if found != Some(wanted) {
        tracing::warn!(
            ?wanted,
            ?found,
            "the configured user IDs are not mapped here: hook processes share one user"
        );
    }
    found
}

/// Whether one line of a `uid_map` contains all of them.
fn mapped(users: Users, uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        let [first, _, count] = numbers[..] else {
            return false;
        };
        let end = u64::from(users.first) + u64::from(users.count);
        first <= u64::from(users.first) && end <= first + count
    })
}

/// Starts processes for one library.
pub(crate) struct Launcher {
    starter: Arc<Starter>,
    library: OwnedFd,
    load: Load,
    action: String,
}

impl Launcher {
    /// # Errors
    ///
    /// `Refused` if the library exports no plugin.
    pub(crate) fn new(starter: &Arc<Starter>, checked: &Checked) -> Result<Self, PortError> {
        let (facts, action) = (library::facts(checked)?, library::load_action(checked));
        let load = Load {
            library_path: checked.path.display().to_string(),
            symbol: facts.symbol,
            symbol_size: facts.symbol_size,
            glibc: facts.glibc,
            ..starter.load()
        };
        let library = library::sealed_copy(checked, &action)?;
        Ok(Self {
            starter: starter.clone(),
            library,
            load,
            action,
        })
    }

    /// Starts a process that reports its isolation and runs no hook.
    ///
    /// # Errors
    ///
    /// `Refused` if hooks cannot be isolated, or no process can be started.
    pub(crate) fn probe(starter: &Arc<Starter>) -> Result<Isolation, PortError> {
        let action = "check the isolation of hooks".to_owned();
        let nothing = File::open("/dev/null")
            .map_err(|error| PortError::new(&RUNNER, action.clone(), error.to_string()))?;
        let load = Load {
            probe: true,
            ..starter.load()
        };
        let probe = Self {
            starter: starter.clone(),
            library: nothing.into(),
            load,
            action,
        };
        probe.first_message().map(|(isolation, _)| isolation)
    }

    pub(crate) fn limits(&self) -> &crate::ProcessLimits {
        &self.load.limits
    }

    /// Newest glibc version that the library needs.
    pub(crate) fn glibc(&self) -> Option<String> {
        self.load.glibc.clone()
    }

    /// Starts a process, and sends it the first message and `then`.
    ///
    /// # Errors
    ///
    /// `Refused` if it cannot be started.
    pub(crate) fn start(&self, then: &[u8]) -> Result<Running, PortError> {
        let config = &self.starter.config;
        if let Some((secret, seen)) = &self.starter.exposed {
            let detail = format!(
                "hooks could read `{}` through `{}`; move it elsewhere",
                secret.display(),
                seen.display()
            );
            return Err(PortError::new(&NOT_APART, self.action.clone(), detail));
        }
        self.spawn(then).map_err(|error| {
            let detail = format!("cannot start `{}`: {error}", config.program.display());
            PortError::new(&RUNNER, self.action.clone(), detail)
        })
    }

    fn spawn(&self, then: &[u8]) -> io::Result<Running> {
        let config = &self.starter.config;
        let (socket, theirs) = UnixStream::pair()?;
        let (stderr, stderr_writer) = io::pipe()?;
        let folder = PrivateFolder::new(&self.starter.confinement.folder)?;
        let mut command = Command::new(&config.program);
        command
            .args(&config.arguments)
            .env_clear()
            .current_dir("/")
            .process_group(0);
        let child = command
            .env("TMPDIR", folder.path())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(self.library.try_clone()?))
            .stderr(stderr_writer)
            .spawn()?;
        let path = folder.path().to_owned();
        let process = Process::new(child, folder)?;
        let load = Load {
            user: self.starter.user(),
            folder: path,
            ..self.load.clone()
        };
        let load = Frame::new(wire::LOAD, 0, "", &serde_json::to_vec(&load)?);
        let mut running = Running {
            process,
            socket,
            stderr,
            phase: Phase::Loading,
        };
        // If the process has already ended, its standard error says why.
        let _ = io::Write::write_all(&mut running.socket, &[&load.bytes(), then].concat());
        Ok(running)
    }

    /// Starts a process and waits for the library's description of itself.
    ///
    /// # Errors
    ///
    /// Why the library cannot be loaded, also if it crashes or hangs in its initialisers.
    pub(crate) fn declare(&self) -> Result<(PluginInfo, Running), PortError> {
        self.first_message()
    }

    /// Starts a process and reads its [`wire::DECLARED`].
    fn first_message<T: DeserializeOwned>(&self) -> Result<(T, Running), PortError> {
        let mut running = self.start(&[])?;
        let refused =
            |detail: &str| PortError::new(&RUNNER, self.action.clone(), detail.to_owned());
        let limit = Some(DECLARE_TIMEOUT);
        running
            .socket
            .set_read_timeout(limit)
            .map_err(|error| refused(&error.to_string()))?;
        loop {
            match wire::read(&mut running.socket) {
                Ok(frame) if frame.kind == wire::DECLARED => {
                    let response = serde_json::from_slice(&frame.body).map_err(|_| {
                        refused("the runner's message is malformed: it belongs to another version")
                    })?;
                    running.phase = Phase::Creating;
                    return Ok((response, running));
                }
                Ok(frame) if frame.kind == wire::REFUSED => return Err(refusal(&frame)),
                Ok(frame) if frame.kind == wire::LOG => {
                    services::log(&self.load.library_path, frame.id, &frame.text());
                }
                Ok(_) => {}
                Err(error) => return Err(self.no_declaration(running, &error)),
            }
        }
    }

    /// The error of a process that sent no [`wire::DECLARED`].
    fn no_declaration(&self, mut running: Running, error: &io::Error) -> PortError {
        let processes = super::end::count_processes(running.process.number);
        let status = running.process.end_now();
        let mut stderr = Vec::new();
        let _ = running.stderr.take(1 << 20).read_to_end(&mut stderr);
        let mut tail = Tail::default();
        tail.push(&stderr);
        let limits = *self.limits();
        let ended = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ended::TimedOut {
                limit: DECLARE_TIMEOUT,
                processes,
            },
            io::ErrorKind::InvalidData => Ended::Garbled(error.to_string()),
            _ => Ended::Exited(status),
        };
        ended.into_error(self.action.clone(), Phase::Loading, &tail, &limits)
    }
}

/// The error in a [`wire::REFUSED`].
pub(crate) fn refusal(frame: &Frame) -> PortError {
    let response: Value = serde_json::from_slice(&frame.body).unwrap_or_else(|error| {
        json!({"doing": "read the refusal of the plugin process", "what": error.to_string()})
    });
    let text = |key: &str| response[key].as_str().unwrap_or_default().to_owned();
    let known = codes().into_iter().find(|code| code.name == frame.name);
    PortError::new(known.unwrap_or(&RUNNER), text("doing"), text("what"))
}

/// A process that was started, with its socket and standard error.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) socket: UnixStream,
    pub(crate) stderr: PipeReader,
    /// How far it has got, according to the messages read so far.
    pub(crate) phase: Phase,
}

/// The supervisor of a hook's process. Dropping this ends both.
pub(crate) struct Process {
    child: Option<Child>,
    pub(crate) number: Pid,
    ended: OwnedFd,
    /// Deleted after the process has ended.
    folder: Option<PrivateFolder>,
}

/// The private folder of one process (mode 0700).
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn new(within: &Path) -> io::Result<Self> {
        let cannot = |error: io::Error| {
            let detail = format!(
                "cannot create its folder in `{}`: {error}",
                within.display()
            );
            io::Error::new(error.kind(), detail)
        };
        let own = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .prefix("vnfm-hook-")
            .permissions(own)
            .tempdir_in(within);
        Ok(Self(folder.map_err(cannot)?.keep()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// Attempts to delete the folder: files that a dying process still writes make a deletion fail.
const MAX_REMOVALS: usize = 100;

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let deleted = (0..MAX_REMOVALS).any(|_| {
            let removed = std::fs::remove_dir_all(&self.0);
            removed.is_ok() || removed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        });
        if !deleted {
            tracing::warn!(folder = %self.0.display(), "cannot delete the folder of a finished hook");
        }
    }
}

impl Process {
    fn new(mut child: Child, folder: PrivateFolder) -> io::Result<Self> {
        let known = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let opened = known
            .ok_or_else(|| io::ErrorKind::NotFound.into())
            .and_then(|number| {
                let ended = pidfd_open(number, PidfdFlags::NONBLOCK)?;
                Ok((number, ended))
            });
        match opened {
            Ok((number, ended)) => Ok(Self {
                child: Some(child),
                number,
                ended,
                folder: Some(folder),
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// A descriptor that becomes readable once the process, and everything the hook started, has ended.
    ///
    /// # Errors
    ///
    /// If the runtime has no I/O driver.
    pub(crate) fn watched(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let ended = self.ended.try_clone()?;
        // SAFETY: an `OwnedFd` refers to the same open file as long as it lives.
        Ok(unsafe { AsyncFd::register(ended) }?)
    }

    /// Ends it with everything the hook started, and returns how the hook ended; `None` if that is
    /// unknown or was returned before.
    pub(crate) async fn end(&mut self) -> Option<ExitStatus> {
        self.terminate();
        let ended = self.watched().ok()?;
        // One that hangs in the kernel is left to the thread that `drop` starts.
        let has_exited = timeout(EXIT_GRACE, ended.readable())
            .await
            .is_ok_and(|ready| ready.is_ok());
        if !has_exited {
            return None;
        }
        reap(self.child.take()?, self.number)
    }

    /// Sends SIGTERM to the supervisor.
    fn terminate(&self) {
        // Fails if it has ended.
        let _ = pidfd_send_signal(&self.ended, Signal::TERM);
    }

    /// Like [`Process::end`], without a runtime.
    fn end_now(&mut self) -> Option<ExitStatus> {
        self.terminate();
        wait_or_kill(self.child.take()?, &self.ended, self.number)
    }
}

/// Waits for a process to exit after SIGTERM; after [`EXIT_GRACE`] it is killed with everything the hook started.
fn wait_or_kill(child: Child, ended: &OwnedFd, number: Pid) -> Option<ExitStatus> {
    let limit = Timespec {
        tv_sec: EXIT_GRACE.as_secs().try_into().unwrap_or(1),
        tv_nsec: 0,
    };
    let polled = poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&limit));
    if !polled.is_ok_and(|ready| ready > 0) {
        kill_all(number);
    }
    reap(child, number)
}

/// Waits for a process, and kills the rest of its group: a program other than our runner may leave some.
fn reap(mut child: Child, number: Pid) -> Option<ExitStatus> {
    // Until it is waited for, no other group can have its id.
    let _ = kill_process_group(number, Signal::KILL);
    child.wait().ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        self.terminate();
        let (folder, number) = (self.folder.take(), self.number);
        let Ok(ended) = self.ended.try_clone() else {
            return;
        };
        // It ends soon, but `drop` must not block.
        let waiting = std::thread::Builder::new().name("hook ends".into());
        let _ = waiting.spawn(move || {
            let ended = wait_or_kill(child, &ended, number);
            drop(folder);
            ended
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Users, mapped};

    #[test]
    fn user_ids_must_be_mapped_in_the_user_namespace() {
        let wanted = Users {
            first: 2_000_000_000,
            count: 1000,
        };
        assert!(mapped(wanted, "         0          0 4294967295\n"));
        let container = "0 100000 65536\n";
        assert!(!mapped(wanted, container));
        assert!(mapped(
            Users {
                first: 65534,
                count: 1
            },
            container
        ));
        assert!(!mapped(
            Users {
                first: 65535,
                count: 2
            },
            container
        ));
    }
}
