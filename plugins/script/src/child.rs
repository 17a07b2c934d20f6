//! The process of a script: collects its output, logs its standard error, and kills it if the operation is cancelled
//! or the hook is dropped.
//!
//! Deadline and limits are those of the hook's process. A script cannot leave its process group, so whatever it leaves
//! running ends with the hook.

use crate::log_lines::{LastLines, LineLogger};
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

/// Maximum size of the collected standard output; effects are smaller.
const MAX_OUTPUT_LEN: usize = 4 << 20;
/// Interval between checks whether the operation is cancelled.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Number of intervals between SIGTERM and SIGKILL.
const GRACE_INTERVALS: u32 = 10;
/// How long to read the output of a script that has ended: processes it left running may hold the pipe open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// A script that is running, and its output so far.
pub(crate) struct Child {
    cx: HookContext,
    process: Process,
    events: UnboundedReceiver<Event>,
    output: OutputReader<Vec<u8>>,
    log_lines: OutputReader<LastLines>,
}

/// Output that is read on its own thread.
struct OutputReader<T> {
    so_far: Arc<Mutex<T>>,
    ended: Receiver<()>,
}

impl<T: Default + Send + 'static> OutputReader<T> {
    fn begin(read: impl FnOnce(&Mutex<T>) + Send + 'static) -> io::Result<Self> {
        let so_far = Arc::new(Mutex::default());
        let (sender, ended) = channel();
        let target = so_far.clone();
        std::thread::Builder::new()
            .name("script".into())
            .spawn(move || {
                read(&target);
                // Fails if the receiver was dropped.
                let _ = sender.send(());
            })?;
        Ok(Self { so_far, ended })
    }

    /// The complete output, or what has been read within [`OUTPUT_TIMEOUT`].
    fn take(&self) -> T {
        let _ = self.ended.recv_timeout(OUTPUT_TIMEOUT);
        std::mem::take(&mut *self.so_far.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a script ended, and what it wrote.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) last_lines: String,
    /// True if it got SIGTERM because the operation is cancelled.
    pub(crate) cancelled: bool,
}

enum Event {
    /// Sent at each interval while it runs.
    Running,
    Ended(io::Result<ExitStatus>),
}

/// The script's first process and its group.
struct Process {
    group: Pid,
    pidfd: OwnedFd,
}

impl Process {
    fn signal(&self, signal: Signal) {
        // After `wait`, the pid may be reused. In a hook process, the script has no group of its own.
        if pidfd_send_signal(&self.pidfd, signal).is_ok() {
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Child {
    /// Starts the script in a process of its own.
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
                    pidfd: pidfd_open(group, PidfdFlags::empty())?,
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
        let pipe = child.stdout.take().ok_or_else(missing)?;
        let output = OutputReader::begin(move |collected| collect(pipe, collected))?;
        let (pipe, log_lines) = (
            child.stderr.take().ok_or_else(missing)?,
            LineLogger::new(cx.clone()),
        );
        let log_lines = OutputReader::begin(move |last| log_lines.log_all(pipe, last))?;
        let (sender, events) = unbounded();
        let (watched, group) = (process.pidfd.try_clone()?, process.group);
        let watching = std::thread::Builder::new().name("script".into());
        watching.spawn(move || watch(child, (&watched, group), &sender))?;
        Ok(Self {
            cx: cx.clone(),
            process,
            events,
            output,
            log_lines,
        })
    }

    /// Waits until the script has ended.
    ///
    /// # Errors
    ///
    /// `script-killed` if its status cannot be determined.
    pub(crate) async fn ended(mut self) -> Result<End, DriverError> {
        let mut cancelled_since = None;
        let status = loop {
            match self.events.next().await {
                Some(Event::Ended(Ok(status))) => break status,
                Some(Event::Running) => {
                    check_cancelled(&self.cx, &self.process, &mut cancelled_since).await;
                }
                Some(Event::Ended(Err(error))) => return Err(status_unknown(&error.to_string())),
                None => return Err(status_unknown("the thread that waits for it has ended")),
            }
        };
        let (output, last_lines) = (self.output.take(), self.log_lines.take().text());
        Ok(End {
            status,
            output,
            last_lines,
            cancelled: cancelled_since.is_some(),
        })
    }
}

/// Sends SIGTERM if the operation is cancelled, and SIGKILL if the script then takes too long.
async fn check_cancelled(cx: &HookContext, process: &Process, cancelled_since: &mut Option<u32>) {
    match cancelled_since {
        None if cx.cancelled().await => {
            cx.info("the operation is cancelled: stopping the script (SIGTERM)");
            process.signal(Signal::TERM);
            *cancelled_since = Some(0);
        }
        None => {}
        Some(times) => {
            *times += 1;
            if *times == GRACE_INTERVALS {
                cx.warn("the script does not stop: killing it");
                process.signal(Signal::KILL);
            }
        }
    }
}

fn status_unknown(reason: &str) -> DriverError {
    DriverError::new(
        "script-killed",
        format!("cannot determine how the script ended: {reason}"),
    )
}

impl Drop for Child {
    fn drop(&mut self) {
        // The watching thread reaps it.
        self.process.signal(Signal::KILL);
    }
}

/// Waits for the end of `child`, sends [`Event::Running`] at each interval, and kills the rest of its group.
fn watch(
    mut child: std::process::Child,
    (pidfd, group): (&OwnedFd, Pid),
    events: &UnboundedSender<Event>,
) {
    loop {
        match poll(
            &mut [PollFd::new(pidfd, PollFlags::IN)],
            Some(&POLL_INTERVAL),
        ) {
            // Fails if the hook was dropped, and the child with it.
            Ok(0) => drop(events.unbounded_send(Event::Running)),
            Err(rustix::io::Errno::INTR) => {}
            _ => break,
        }
    }
    // Before `wait`: until then, no other group can have its id.
    let _ = kill_process_group(group, Signal::KILL);
    drop(events.unbounded_send(Event::Ended(child.wait())));
}

/// Collects output up to [`MAX_OUTPUT_LEN`], and discards the rest.
fn collect(mut from: impl Read, collected: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_OUTPUT_LEN - collected.len().min(MAX_OUTPUT_LEN);
        collected.extend_from_slice(&bytes[..count.min(room)]);
    }
}
