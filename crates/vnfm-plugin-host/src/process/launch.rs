//! Starts the process of a hook, and ends it: by one signal to the process that waits for it, whatever it is doing.
#![expect(unsafe_code, reason = "has a descriptor watched by the runtime")]

use super::end::{Ended, Tail, kill_all};
use super::wire::{self, Frame};
use super::{Load, Phase};
use crate::child::user::Choice;
use crate::child::visible;
use crate::config::{ProcessConfig, Seclusion, Users};
use crate::errors::{NOT_APART, RUNNER, codes};
use crate::folder::Checked;
use crate::isolation::Isolation;
use crate::library::{self, Said};
use crate::services;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
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

/// How long a library may take to say what it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// How long a process that was killed may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// What all processes of one host have in common.
#[derive(Debug)]
pub(crate) struct Starter {
    config: ProcessConfig,
    users: Option<Users>,
    next: Arc<AtomicU32>,
    seclusion: Seclusion,
    /// What no hook may see and would, and by which path.
    exposed: Option<(PathBuf, PathBuf)>,
}

impl Starter {
    pub(crate) fn new(config: ProcessConfig, seclusion: Seclusion) -> Self {
        let users = users(config.users);
        // Several servers on one host begin at different places.
        let begin = std::process::id().wrapping_mul(2_654_435_761);
        let exposed = visible::exposed(&config.hidden, &config.readable);
        Self {
            config,
            users,
            next: Arc::new(AtomicU32::new(begin)),
            seclusion,
            exposed,
        }
    }

    /// The same for processes that are kept from more.
    pub(crate) fn secluded(&self, seclusion: Seclusion) -> Arc<Self> {
        let (config, users, next) = (self.config.clone(), self.users, self.next.clone());
        Arc::new(Self {
            config,
            users,
            next,
            seclusion,
            exposed: self.exposed.clone(),
        })
    }

    /// What every process is told.
    fn load(&self) -> Load {
        Load {
            shown: String::new(),
            symbol: String::new(),
            symbol_size: 0,
            glibc: None,
            user: None,
            network: self.seclusion.network,
            folder: PathBuf::new(),
            readable: self.config.readable.clone(),
            limits: self.config.limits,
            probe: false,
        }
    }

    /// The users of the next process: it begins to look at each number in turn.
    fn user(&self) -> Option<Choice> {
        let users = self.users?;
        let begin = self.next.fetch_add(1, Ordering::Relaxed);
        Some(Choice {
            users,
            begin,
            shared: users.count == 1,
        })
    }
}

/// Who processes may run as: `wanted` where we are root and the kernel knows these numbers here, else `nobody`.
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
            "no such users here: hooks in processes share one"
        );
    }
    found
}

/// Whether one line of a `uid_map` holds all of them.
fn mapped(users: Users, uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        let [first, _, count] = numbers[..] else {
            return false;
        };
        let last = u64::from(users.first) + u64::from(users.count);
        first <= u64::from(users.first) && last <= first + count
    })
}

/// Starts processes with one library.
pub(crate) struct Launcher {
    starter: Arc<Starter>,
    library: OwnedFd,
    load: Load,
    doing: String,
}

impl Launcher {
    /// Takes a library that was checked.
    ///
    /// # Errors
    ///
    /// `Refused` where it exports no plugin.
    pub(crate) fn new(starter: &Arc<Starter>, checked: &Checked) -> Result<Self, PortError> {
        let (facts, doing) = (library::facts(checked)?, library::loading(checked));
        let load = Load {
            shown: checked.path.display().to_string(),
            symbol: facts.symbol,
            symbol_size: facts.symbol_size,
            glibc: facts.glibc,
            ..starter.load()
        };
        let library = library::sealed_copy(checked, &doing)?;
        Ok(Self {
            starter: starter.clone(),
            library,
            load,
            doing,
        })
    }

    /// How hooks are kept apart here, as a process says that runs none.
    ///
    /// # Errors
    ///
    /// `Refused` where they cannot be kept apart, or no process can be started.
    pub(crate) fn probe(starter: &Arc<Starter>) -> Result<Isolation, PortError> {
        let doing = "find out how hooks are kept apart".to_owned();
        let nothing = File::open("/dev/null")
            .map_err(|error| PortError::new(&RUNNER, doing.clone(), error.to_string()))?;
        let load = Load {
            probe: true,
            ..starter.load()
        };
        let probe = Self {
            starter: starter.clone(),
            library: nothing.into(),
            load,
            doing,
        };
        probe.hear().map(|(isolation, _)| isolation)
    }

    pub(crate) fn limits(&self) -> &crate::ProcessLimits {
        &self.load.limits
    }

    /// Newest version of glibc that the library needs.
    pub(crate) fn glibc(&self) -> Option<String> {
        self.load.glibc.clone()
    }

    /// Starts a process, and tells it what comes first.
    ///
    /// # Errors
    ///
    /// `Refused` where it cannot be started.
    pub(crate) fn start(&self, then: &[u8]) -> Result<Running, PortError> {
        let config = &self.starter.config;
        if let Some((secret, seen)) = &self.starter.exposed {
            let what = format!(
                "`{}` lies where hooks may read: `{}`; move it elsewhere",
                secret.display(),
                seen.display()
            );
            return Err(PortError::new(&NOT_APART, self.doing.clone(), what));
        }
        self.spawn(then).map_err(|error| {
            let what = format!("cannot start `{}`: {error}", config.program.display());
            PortError::new(&RUNNER, self.doing.clone(), what)
        })
    }

    fn spawn(&self, then: &[u8]) -> io::Result<Running> {
        let config = &self.starter.config;
        let (socket, theirs) = UnixStream::pair()?;
        let (words, said) = io::pipe()?;
        let folder = OwnFolder::new(&self.starter.seclusion.folder)?;
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
            .stderr(said)
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
            words,
            phase: Phase::Loading,
        };
        // A process that has ended already says why on its standard error.
        let _ = io::Write::write_all(&mut running.socket, &[&load.bytes(), then].concat());
        Ok(running)
    }

    /// Starts a process and waits until the library said what it is.
    ///
    /// # Errors
    ///
    /// As for any library that cannot be loaded, and where it crashes or hangs in its initialisers.
    pub(crate) fn introduce(&self) -> Result<(Said, Running), PortError> {
        self.hear()
    }

    /// The first thing that a process says.
    fn hear<T: DeserializeOwned>(&self) -> Result<(T, Running), PortError> {
        let mut running = self.start(&[])?;
        let refused = |what: &str| PortError::new(&RUNNER, self.doing.clone(), what.to_owned());
        let limit = Some(INTRODUCTION);
        running
            .socket
            .set_read_timeout(limit)
            .map_err(|error| refused(&error.to_string()))?;
        loop {
            match wire::read(&mut running.socket) {
                Ok(frame) if frame.kind == wire::DECLARED => {
                    let said = serde_json::from_slice(&frame.body)
                        .map_err(|_| refused("the runner speaks another language"))?;
                    running.phase = Phase::Creating;
                    return Ok((said, running));
                }
                Ok(frame) if frame.kind == wire::REFUSED => return Err(refusal(&frame)),
                Ok(frame) if frame.kind == wire::LOG => {
                    services::log(&self.load.shown, frame.id, &frame.text());
                }
                Ok(_) => {}
                Err(error) => return Err(self.silent(running, &error)),
            }
        }
    }

    /// Why nothing came from a process that was started.
    fn silent(&self, mut running: Running, error: &io::Error) -> PortError {
        let processes = super::end::census(running.process.number);
        let status = running.process.end_now();
        let mut words = Vec::new();
        let _ = running.words.take(1 << 20).read_to_end(&mut words);
        let mut tail = Tail::default();
        tail.push(&words);
        let limits = *self.limits();
        let ended = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ended::Late {
                limit: INTRODUCTION,
                processes,
            },
            io::ErrorKind::InvalidData => Ended::Garbled(error.to_string()),
            _ => Ended::Gone(status),
        };
        ended.into_error(self.doing.clone(), Phase::Loading, &tail, &limits)
    }
}

/// What a process says that will run no hook.
pub(crate) fn refusal(frame: &Frame) -> PortError {
    let said: serde_json::Value = serde_json::from_slice(&frame.body).unwrap_or_default();
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let known = codes().into_iter().find(|code| code.name == frame.name);
    PortError::new(known.unwrap_or(&RUNNER), text("doing"), text("what"))
}

/// A process that was started, and the ways to it.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) socket: UnixStream,
    pub(crate) words: PipeReader,
    /// How far it has come, as far as it was listened to.
    pub(crate) phase: Phase,
}

/// A process of our own, which waits for that of the hook. Both end when this is dropped.
pub(crate) struct Process {
    child: Option<Child>,
    pub(crate) number: Pid,
    ended: OwnedFd,
    /// Goes after the process.
    folder: Option<OwnFolder>,
}

/// The folder of one process, which its user alone may read.
struct OwnFolder(PathBuf);

impl OwnFolder {
    fn new(within: &Path) -> io::Result<Self> {
        let cannot = |error: io::Error| {
            let what = format!("no folder of its own in `{}`: {error}", within.display());
            io::Error::new(error.kind(), what)
        };
        let own = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new()
            .prefix("vnfm-hook-")
            .permissions(own)
            .tempdir_in(within);
        Ok(Self(made.map_err(cannot)?.keep()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// What a process that is being killed still writes makes a removal fail; it is begun anew so many times.
const REMOVALS: usize = 100;

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let gone = (0..REMOVALS).any(|_| {
            let removed = std::fs::remove_dir_all(&self.0);
            removed.is_ok() || removed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        });
        if !gone {
            tracing::warn!(folder = %self.0.display(), "the folder of a hook that has ended stays");
        }
    }
}

impl Process {
    fn new(mut child: Child, folder: OwnFolder) -> io::Result<Self> {
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

    /// Readable once it has ended, and all that the hook started.
    ///
    /// # Errors
    ///
    /// Where the runtime watches no files.
    pub(crate) fn watched(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let ended = self.ended.try_clone()?;
        // SAFETY: an `OwnedFd` is the same open file for as long as it lives.
        Ok(unsafe { AsyncFd::register(ended) }?)
    }

    /// Ends it with all that the hook started, and says how the hook ended; `None` where that is not known, or was
    /// told before.
    pub(crate) async fn end(&mut self) -> Option<ExitStatus> {
        self.tell();
        let ended = self.watched().ok()?;
        // One that hangs in the kernel is left to the thread that waits for it.
        let gone = timeout(LAST_BREATH, ended.readable())
            .await
            .is_ok_and(|ready| ready.is_ok());
        if !gone {
            return None;
        }
        reap(self.child.take()?, self.number)
    }

    /// Tells it to end.
    fn tell(&self) {
        // One that has ended needs no telling.
        let _ = pidfd_send_signal(&self.ended, Signal::TERM);
    }

    /// The same where there is no runtime.
    fn end_now(&mut self) -> Option<ExitStatus> {
        self.tell();
        last(self.child.take()?, &self.ended, self.number)
    }
}

/// Waits for a process that was told to end; one that does not is killed with all that the hook started.
fn last(child: Child, ended: &OwnedFd, number: Pid) -> Option<ExitStatus> {
    let limit = Timespec {
        tv_sec: LAST_BREATH.as_secs().try_into().unwrap_or(1),
        tv_nsec: 0,
    };
    let gone = poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&limit));
    if !gone.is_ok_and(|ready| ready > 0) {
        kill_all(number);
    }
    reap(child, number)
}

/// Takes the end of a process. What is left of its group ends with it: another program than ours leaves it there.
fn reap(mut child: Child, number: Pid) -> Option<ExitStatus> {
    // As long as it is not waited for, no other group has its number.
    let _ = kill_process_group(number, Signal::KILL);
    child.wait().ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        self.tell();
        let (folder, number) = (self.folder.take(), self.number);
        let Ok(ended) = self.ended.try_clone() else {
            return;
        };
        // It ends soon, but nobody should wait for it here.
        let waiting = std::thread::Builder::new().name("hook ends".into());
        let _ = waiting.spawn(move || {
            let ended = last(child, &ended, number);
            drop(folder);
            ended
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Users, mapped};

    #[test]
    fn users_are_taken_where_the_kernel_knows_them() {
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
