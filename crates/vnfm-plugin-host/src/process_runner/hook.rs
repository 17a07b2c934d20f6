//! The engine's side of one hook process: sends the request, serves its calls, returns its result.

use super::end::{Ended, Tail, count_processes};
use super::launch::{Process, Running, refusal};
use super::phase::Phase;
use super::wire::{self, Frame};
use crate::child_process::HOOK_LOG;
use crate::config::ProcessLimits;
use crate::driver;
use crate::services;
use futures::future::{AbortHandle, Aborted, BoxFuture, FutureExt as _};
use futures::stream::{self, FuturesUnordered, StreamExt as _};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use vnfm_core::ports::{HookHost, PortError};
use vnfm_plugin_abi::{Answer, FfiError, PANICKED, READY_ERR, READY_OK};

/// Context for errors and logs.
#[derive(Clone, Copy)]
pub(super) struct HookLabels<'a> {
    pub(super) action: &'a str,
    pub(super) plugin: &'a str,
    pub(super) limits: &'a ProcessLimits,
}

/// Why a hook has no result.
pub(super) struct Failed {
    pub(super) error: PortError,
    /// The process ended before the hook started.
    pub(super) before_hook: bool,
}

/// Maximum number of output lines in the operation's log; an error shows the last ones in any case.
const MAX_LOGGED_LINES: usize = 200;
/// How long to read the remaining output of a process that has ended.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a process that closed its socket may take to end, with everything it started.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the hook of `call` in a process, for at most `limit`. The process has ended when this returns;
/// dropping the future ends it.
pub(super) async fn run(
    running: Running,
    call: &Frame,
    host: &Arc<dyn HookHost>,
    limit: Duration,
    labels: HookLabels<'_>,
) -> Result<Vec<u8>, Failed> {
    let Running {
        mut process,
        socket,
        stderr,
        phase,
    } = running;
    let mut session = Session::new(host.clone(), labels.plugin, phase);
    session.send(call);
    let outcome = {
        let mut exchange = pin!(session.exchange_until_end(&process, socket, stderr));
        let ended = timeout(limit, exchange.as_mut()).await;
        // Counted before its socket is closed, because that ends it.
        ended.map_err(|_| count_processes(process.number))
    };
    let action = || labels.action.to_owned();
    let ended = match outcome {
        Ok(Ok(Outcome::Answered(answer))) => return Ok(answer),
        Ok(Ok(Outcome::Refused(frame))) => Err(refused(&frame, labels)),
        Ok(Ok(Outcome::NoCall)) => Err(driver::protocol(labels.action, driver::INCOMPLETE_DRIVER)),
        Ok(Ok(Outcome::Failed(error))) => Err(driver::hook_error(error, action())),
        Ok(Ok(Outcome::Exited)) => Ok(Ended::Exited(process.end().await)),
        Ok(Err(error)) => Ok(Ended::Garbled(error.to_string())),
        Err(processes) => Ok(Ended::TimedOut { limit, processes }),
    };
    process.end().await;
    let before_hook = matches!(ended, Ok(Ended::Exited(_))) && session.phase != Phase::Running;
    let error = match ended {
        Ok(ended) => ended.into_error(action(), session.phase, &session.tail, labels.limits),
        Err(error) => error,
    };
    Err(Failed { error, before_hook })
}

/// The error of a process that runs no hook: it could not open the library or create the driver.
fn refused(frame: &Frame, labels: HookLabels<'_>) -> PortError {
    if frame.name == wire::CREATE_REFUSED {
        let action = format!("start plugin `{}`", labels.plugin);
        return driver::create_error(frame.id, &frame.body, action);
    }
    refusal(frame)
}

enum Outcome {
    Answered(Vec<u8>),
    Failed(FfiError),
    Refused(Frame),
    NoCall,
    Exited,
}

type Served = BoxFuture<'static, (u32, Result<Answer, Aborted>)>;

/// The exchange of messages with one process.
struct Session<'a> {
    host: Arc<dyn HookHost>,
    plugin: &'a str,
    outgoing: UnboundedSender<Vec<u8>>,
    queue: Option<UnboundedReceiver<Vec<u8>>>,
    services: FuturesUnordered<Served>,
    aborts: BTreeMap<u32, AbortHandle>,
    tail: Tail,
    phase: Phase,
    /// Number of output lines that were logged.
    logged: usize,
    /// False once its standard error is closed.
    stderr_open: bool,
}

impl<'a> Session<'a> {
    fn new(host: Arc<dyn HookHost>, plugin: &'a str, phase: Phase) -> Self {
        let (outgoing, queue) = unbounded_channel();
        Self {
            host,
            plugin,
            outgoing,
            queue: Some(queue),
            services: FuturesUnordered::new(),
            aborts: BTreeMap::new(),
            tail: Tail::default(),
            phase,
            logged: 0,
            stderr_open: true,
        }
    }

    /// Queues a message, which is written as fast as the process reads.
    fn send(&self, frame: &Frame) {
        // Cannot fail: this session owns the receiver.
        let _ = self.outgoing.send(frame.bytes());
    }

    async fn exchange_until_end(
        &mut self,
        process: &Process,
        socket: std::os::unix::net::UnixStream,
        stderr: io::PipeReader,
    ) -> io::Result<Outcome> {
        socket.set_nonblocking(true)?;
        let (incoming, writing) = UnixStream::from_std(socket)?.into_split();
        let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
        let ended = process.watched()?;
        let mut writing = pin!(write_all(writing, self.queue.take()));
        let mut frames = pin!(stream::unfold(incoming, |mut incoming| async {
            let frame = wire::read_async(&mut incoming).await;
            Some((frame, incoming))
        }));
        loop {
            tokio::select! {
                biased;
                frame = frames.next() => match frame {
                    Some(Ok(frame)) => if let Some(outcome) = self.handle_frame(frame) {
                        return Ok(outcome);
                    },
                    Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                    _ => match timeout(EXIT_TIMEOUT, ended.readable()).await {
                        Ok(_) => break,
                        Err(_) => return Err(io::Error::other("it closed its socket and did not exit")),
                    },
                },
                Some((id, answer)) = self.services.next() => self.answer(id, answer),
                () = &mut writing => {}
                _ = stderr.readable(), if self.stderr_open => self.read_stderr(&stderr),
                _ = ended.readable() => break,
            }
        }
        // Messages that it sent before it ended may still arrive.
        let last = async {
            while let Some(Ok(frame)) = frames.next().await {
                let outcome = self.handle_frame(frame);
                if outcome.is_some() {
                    return outcome;
                }
            }
            None
        };
        if let Ok(Some(outcome)) = timeout(STDERR_DRAIN_TIMEOUT, last).await {
            return Ok(outcome);
        }
        let last = async {
            while self.stderr_open && stderr.readable().await.is_ok() {
                self.read_stderr(&stderr);
            }
        };
        // If something holds it open for longer, its output does not matter.
        let _ = timeout(STDERR_DRAIN_TIMEOUT, last).await;
        Ok(Outcome::Exited)
    }

    /// Reads what the process wrote to its standard error and output.
    fn read_stderr(&mut self, stderr: &pipe::Receiver) {
        let mut bytes = [0; 4096];
        match stderr.try_read(&mut bytes) {
            Ok(count @ 1..) => {
                for line in self.tail.push(&bytes[..count]) {
                    if self.logged < MAX_LOGGED_LINES {
                        self.logged += 1;
                        self.host.log("info", &line);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => self.stderr_open = false,
        }
    }

    fn handle_frame(&mut self, frame: Frame) -> Option<Outcome> {
        match frame.kind {
            wire::DECLARED => self.phase = Phase::Creating,
            wire::READY => self.phase = Phase::Waiting,
            wire::BEGUN => self.phase = Phase::Running,
            wire::REFUSED => return Some(Outcome::Refused(frame)),
            wire::LOG if frame.name == HOOK_LOG => {
                self.host.log(services::level_name(frame.id), &frame.text());
            }
            wire::LOG => services::log(self.plugin, frame.id, &frame.text()),
            wire::SERVICE => self.serve(frame),
            wire::DROPPED => {
                if let Some(abort) = self.aborts.remove(&frame.id) {
                    abort.abort();
                }
            }
            wire::DONE => return Some(done(frame)),
            _ => {}
        }
        None
    }

    fn serve(&mut self, Frame { id, name, body, .. }: Frame) {
        let (served, abort) =
            futures::future::abortable(services::serve(self.host.clone(), name, body));
        self.aborts.insert(id, abort);
        self.services
            .push(served.map(move |answer| (id, answer)).boxed());
    }

    fn answer(&mut self, id: u32, answer: Result<Answer, Aborted>) {
        self.aborts.remove(&id);
        match answer {
            Ok(Ok(body)) => self.send(&Frame::new(wire::ANSWER, id, "", &body)),
            Ok(Err(body)) => self.send(&Frame::new(wire::FAILED, id, "", &body)),
            Err(Aborted) => {}
        }
    }
}

fn done(frame: Frame) -> Outcome {
    match frame.id {
        READY_OK => Outcome::Answered(frame.body),
        READY_ERR => Outcome::Failed(FfiError::Answer(frame.body)),
        wire::NO_CALL => Outcome::NoCall,
        PANICKED => Outcome::Failed(FfiError::Panicked(frame.text())),
        status => Outcome::Failed(FfiError::Protocol(status)),
    }
}

/// Writes queued messages. Never returns: a process that no longer reads has ended or will end.
async fn write_all(mut to: OwnedWriteHalf, queue: Option<UnboundedReceiver<Vec<u8>>>) {
    if let Some(mut queue) = queue {
        while let Some(bytes) = queue.recv().await {
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}
