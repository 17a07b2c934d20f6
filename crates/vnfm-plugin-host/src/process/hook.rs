//! One hook in a process of its own, from the engine's side: the request goes out, services come in, the answer
//! ends it.

use super::Phase;
use super::end::{Ended, Tail, census};
use super::launch::{Process, Running, refusal};
use super::wire::{self, Frame};
use crate::child::OF_THE_HOOK;
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

/// What errors tell.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) doing: &'a str,
    pub(super) plugin: &'a str,
    pub(super) limits: &'a ProcessLimits,
}

/// Why there is no answer.
pub(super) struct Failed {
    pub(super) error: PortError,
    /// The process was gone before the hook began.
    pub(super) too_early: bool,
}

/// How many lines of what a process writes go to the operation's log; the last ones are kept for its error.
const MOST_LOGGED: usize = 200;
/// How long the last words of a process that has ended may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a process that has closed its socket may take to end, with all that it started.
const ITS_END: Duration = Duration::from_secs(10);

/// Runs the hook of `call` in a process, for at most `limit`. The process has ended when this returns, and it
/// ends when this is dropped.
pub(super) async fn run(
    running: Running,
    call: &Frame,
    host: &Arc<dyn HookHost>,
    limit: Duration,
    told: Told<'_>,
) -> Result<Vec<u8>, Failed> {
    let Running {
        mut process,
        socket,
        words,
        phase,
    } = running;
    let mut talk = Talk::new(host.clone(), told.plugin, phase);
    talk.send(call);
    let outcome = {
        let mut talking = pin!(talk.until_it_ends(&process, socket, words));
        let ended = timeout(limit, talking.as_mut()).await;
        // Counted before the ways to it are closed, for that ends it.
        ended.map_err(|_| census(process.number))
    };
    let doing = || told.doing.to_owned();
    let ended = match outcome {
        Ok(Ok(Outcome::Answered(answer))) => return Ok(answer),
        Ok(Ok(Outcome::Refused(frame))) => Err(refused(&frame, told)),
        Ok(Ok(Outcome::NoCall)) => Err(driver::protocol(told.doing, driver::NOT_WHOLE)),
        Ok(Ok(Outcome::Failed(error))) => Err(driver::hook_error(error, doing())),
        Ok(Ok(Outcome::Gone)) => Ok(Ended::Gone(process.end().await)),
        Ok(Err(error)) => Ok(Ended::Garbled(error.to_string())),
        Err(processes) => Ok(Ended::Late { limit, processes }),
    };
    process.end().await;
    let too_early = matches!(ended, Ok(Ended::Gone(_))) && talk.phase != Phase::Running;
    let error = match ended {
        Ok(ended) => ended.into_error(doing(), talk.phase, &talk.tail, told.limits),
        Err(error) => error,
    };
    Err(Failed { error, too_early })
}

/// The process runs no hook: the library cannot be opened, or the driver not be made.
fn refused(frame: &Frame, told: Told<'_>) -> PortError {
    if frame.name == wire::CREATE_REFUSED {
        let doing = format!("start plugin `{}`", told.plugin);
        return driver::create_error(frame.id, &frame.body, doing);
    }
    refusal(frame)
}

enum Outcome {
    Answered(Vec<u8>),
    Failed(FfiError),
    Refused(Frame),
    NoCall,
    Gone,
}

type Served = BoxFuture<'static, (u32, Result<Answer, Aborted>)>;

/// What goes on between a process and its host.
struct Talk<'a> {
    host: Arc<dyn HookHost>,
    plugin: &'a str,
    outgoing: UnboundedSender<Vec<u8>>,
    queue: Option<UnboundedReceiver<Vec<u8>>>,
    services: FuturesUnordered<Served>,
    aborts: BTreeMap<u32, AbortHandle>,
    tail: Tail,
    phase: Phase,
    /// Lines of its standard error and output that went to the log.
    logged: usize,
    /// Somebody may still write to its standard error.
    listening: bool,
}

impl<'a> Talk<'a> {
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
            listening: true,
        }
    }

    /// Queues a message; it is written as fast as the process reads.
    fn send(&self, frame: &Frame) {
        // The other end of the queue is ours.
        let _ = self.outgoing.send(frame.bytes());
    }

    async fn until_it_ends(
        &mut self,
        process: &Process,
        socket: std::os::unix::net::UnixStream,
        words: io::PipeReader,
    ) -> io::Result<Outcome> {
        socket.set_nonblocking(true)?;
        let (incoming, writing) = UnixStream::from_std(socket)?.into_split();
        let words = pipe::Receiver::from_owned_fd(OwnedFd::from(words))?;
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
                    Some(Ok(frame)) => if let Some(outcome) = self.heard(frame) {
                        return Ok(outcome);
                    },
                    Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                    _ => match timeout(ITS_END, ended.readable()).await {
                        Ok(_) => break,
                        Err(_) => return Err(io::Error::other("it closed its socket")),
                    },
                },
                Some((id, answer)) = self.services.next() => self.answer(id, answer),
                () = &mut writing => {}
                _ = words.readable(), if self.listening => self.listen(&words),
                _ = ended.readable() => break,
            }
        }
        // What it said before it ended may still be on its way.
        let last = async {
            while let Some(Ok(frame)) = frames.next().await {
                let outcome = self.heard(frame);
                if outcome.is_some() {
                    return outcome;
                }
            }
            None
        };
        if let Ok(Some(outcome)) = timeout(LAST_WORDS, last).await {
            return Ok(outcome);
        }
        let last = async {
            while self.listening && words.readable().await.is_ok() {
                self.listen(&words);
            }
        };
        // Whoever holds it open for longer says nothing that matters.
        let _ = timeout(LAST_WORDS, last).await;
        Ok(Outcome::Gone)
    }

    /// Takes what the process writes to its standard error and output.
    fn listen(&mut self, words: &pipe::Receiver) {
        let mut bytes = [0; 4096];
        match words.try_read(&mut bytes) {
            Ok(count @ 1..) => {
                for line in self.tail.push(&bytes[..count]) {
                    if self.logged < MOST_LOGGED {
                        self.logged += 1;
                        self.host.log("info", &line);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => self.listening = false,
        }
    }

    fn heard(&mut self, frame: Frame) -> Option<Outcome> {
        match frame.kind {
            wire::DECLARED => self.phase = Phase::Creating,
            wire::READY => self.phase = Phase::Waiting,
            wire::BEGUN => self.phase = Phase::Running,
            wire::REFUSED => return Some(Outcome::Refused(frame)),
            wire::LOG if frame.name == OF_THE_HOOK => {
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

/// Writes what is queued; never ends, for a process that does not read any more has ended or will.
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
