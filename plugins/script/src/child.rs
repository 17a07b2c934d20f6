//! The process of a script: its output is kept, its words are told, and it is ended when the operation is cancelled or
//! nobody waits for it any more.
//!
//! Deadline and limits are those of the hook's own process, whose group a script cannot leave: what is left of it ends
//! with the hook.

use crate::words::{Last, Words};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::{DriverError, HookContext};

/// So much of its standard output is kept; effects are smaller.
const LONGEST_OUTPUT: usize = 4 << 20;
/// How often a script's operation is asked whether it is cancelled.
const PACE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// So many times it is asked after SIGTERM before SIGKILL comes.
const GRACE: u32 = 10;
/// How long the last words of a script that has ended may take: what it left running may hold them open.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A script that runs.
pub(crate) struct Child {
    cx: HookContext,
    process: Process,
    signs: UnboundedReceiver<Sign>,
    output: Heard<Vec<u8>>,
    words: Heard<Last>,
}

/// What is read on a thread of its own, and how far it is.
struct Heard<T> {
    so_far: Arc<Mutex<T>>,
    ended: Receiver<()>,
}

impl<T: Default + Send + 'static> Heard<T> {
    fn begin(read: impl FnOnce(&Mutex<T>) + Send + 'static) -> io::Result<Self> {
        let so_far = Arc::new(Mutex::default());
        let (sender, ended) = channel();
        let place = so_far.clone();
        std::thread::Builder::new()
            .name("script".into())
            .spawn(move || {
                read(&place);
                // Who waits may be gone.
                let _ = sender.send(());
            })?;
        Ok(Self { so_far, ended })
    }

    /// All of it, or what there is when its time is over: what a script left running may hold its output open.
    fn take(&self) -> T {
        let _ = self.ended.recv_timeout(LAST_WORDS);
        std::mem::take(&mut *self.so_far.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a script ended.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) last_words: String,
    /// It was told to end, since its operation is cancelled.
    pub(crate) cancelled: bool,
}

enum Sign {
    /// It still runs.
    Runs,
    Ended(io::Result<ExitStatus>),
}

/// Its first process.
struct Process {
    group: Pid,
    open: OwnedFd,
}

impl Process {
    fn signal(&self, signal: Signal) {
        // Once it was waited for, its number may be another's. In a hook's own process it has no group of its own.
        if pidfd_send_signal(&self.open, signal).is_ok() {
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Child {
    /// Starts it.
    pub(crate) fn spawn(command: &mut Command, cx: &HookContext) -> io::Result<Self> {
        let command = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let opened = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .map(|group| {
                Ok::<_, io::Error>(Process {
                    group,
                    open: pidfd_open(group, PidfdFlags::empty())?,
                })
            });
        let process = match opened.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into())) {
            Ok(process) => process,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
        };
        let missing = || io::Error::other("it has no output");
        let said = child.stdout.take().ok_or_else(missing)?;
        let output = Heard::begin(move |kept| keep(said, kept))?;
        let (said, words) = (
            child.stderr.take().ok_or_else(missing)?,
            Words::new(cx.clone()),
        );
        let words = Heard::begin(move |last| words.hear(said, last))?;
        let (sender, signs) = unbounded();
        let (watched, group) = (process.open.try_clone()?, process.group);
        let watching = std::thread::Builder::new().name("script".into());
        watching.spawn(move || watch(child, (&watched, group), &sender))?;
        Ok(Self {
            cx: cx.clone(),
            process,
            signs,
            output,
            words,
        })
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// `script-killed` where that cannot be told.
    pub(crate) async fn ended(mut self) -> Result<End, DriverError> {
        let mut asked_since = None;
        let status = loop {
            match self.signs.next().await {
                Some(Sign::Ended(Ok(status))) => break status,
                Some(Sign::Runs) => look(&self.cx, &self.process, &mut asked_since).await,
                Some(Sign::Ended(Err(error))) => return Err(lost(&error.to_string())),
                None => return Err(lost("the thread that waits for it is gone")),
            }
        };
        let (output, last_words) = (self.output.take(), self.words.take().text());
        Ok(End {
            status,
            output,
            last_words,
            cancelled: asked_since.is_some(),
        })
    }
}

/// Tells it to end where the operation is cancelled, and ends it when it takes too long.
async fn look(cx: &HookContext, process: &Process, asked_since: &mut Option<u32>) {
    match asked_since {
        None if cx.cancelled().await => {
            cx.info("the operation is cancelled: the script is told to end (SIGTERM)");
            process.signal(Signal::TERM);
            *asked_since = Some(0);
        }
        None => {}
        Some(times) => {
            *times += 1;
            if *times == GRACE {
                cx.warn("the script does not end: it is killed");
                process.signal(Signal::KILL);
            }
        }
    }
}

fn lost(why: &str) -> DriverError {
    DriverError::new(
        "script-killed",
        format!("the end of the script cannot be told: {why}"),
    )
}

impl Drop for Child {
    fn drop(&mut self) {
        // The thread that waits for it takes its end.
        self.process.signal(Signal::KILL);
    }
}

/// Waits for the end of `child`, and says each second that it still runs. What it left in its group ends with it.
fn watch(
    mut child: std::process::Child,
    (open, group): (&OwnedFd, Pid),
    tell: &UnboundedSender<Sign>,
) {
    loop {
        match poll(&mut [PollFd::new(open, PollFlags::IN)], Some(&PACE)) {
            // Where nobody listens, the hook was dropped, and the child with it.
            Ok(0) => drop(tell.unbounded_send(Sign::Runs)),
            Err(rustix::io::Errno::INTR) => {}
            _ => break,
        }
    }
    // Before it is waited for: until then no other group has its number.
    let _ = kill_process_group(group, Signal::KILL);
    drop(tell.unbounded_send(Sign::Ended(child.wait())));
}

/// Keeps what is read, as far as effects may be long.
fn keep(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = LONGEST_OUTPUT - kept.len().min(LONGEST_OUTPUT);
        kept.extend_from_slice(&bytes[..count.min(room)]);
    }
}
