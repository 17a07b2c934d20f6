//! The host as a plugin in a process of its own sees it: every call goes over the socket, many at once.

use crate::process::wire::{self, Frame};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use vnfm_core::ports::{ErrorKind, PortError};
use vnfm_plugin_abi::{Answer, BoxAnswer, HostSide};

/// The way to the engine.
pub(super) struct Link {
    socket: Mutex<UnixStream>,
    waiting: Mutex<BTreeMap<u32, oneshot::Sender<Answer>>>,
    next: AtomicU32,
}

impl Link {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket: Mutex::new(socket),
            waiting: Mutex::default(),
            next: AtomicU32::new(1),
        }
    }

    /// Sends a message. Where nobody is there any more, the thread that reads ends this process.
    pub(super) fn send(&self, kind: u8, id: u32, name: &str, body: &[u8]) {
        let _ = wire::write(&mut *lock(&self.socket), &Frame::new(kind, id, name, body));
    }

    /// Says why no hook can be run.
    pub(super) fn refuse(&self, error: &PortError) {
        let said = serde_json::json!({ "doing": error.action(), "what": error.detail() });
        self.send(wire::REFUSED, 0, error.name(), said.to_string().as_bytes());
    }

    /// Hands an answer to who waits for it.
    pub(super) fn answered(&self, id: u32, answer: Answer) {
        if let Some(waiting) = lock(&self.waiting).remove(&id) {
            // It was dropped meanwhile.
            let _ = waiting.send(answer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host of the driver while it is made, or of the running hook.
pub(super) struct Side {
    pub(super) link: Arc<Link>,
    pub(super) hook: bool,
}

/// Name of a log line that is the hook's own.
pub(crate) const OF_THE_HOOK: &str = "hook";

impl HostSide for Side {
    fn log(&self, level: u32, text: &str) {
        let whose = if self.hook { OF_THE_HOOK } else { "" };
        self.link.send(wire::LOG, level, whose, text.as_bytes());
    }

    fn call(&self, service: &str, request: &[u8]) -> BoxAnswer {
        if !self.hook {
            return Box::pin(std::future::ready(Err(crate::services::no_services_yet(
                service,
            ))));
        }
        let id = self.link.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.link.waiting).insert(id, sender);
        self.link.send(wire::SERVICE, id, service, request);
        Box::pin(Waiting {
            link: self.link.clone(),
            id,
            answer: Some(answer),
        })
    }
}

/// A service that was asked for.
struct Waiting {
    link: Arc<Link>,
    id: u32,
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Future for Waiting {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let gone = || {
            Err(crate::services::failure(
                ErrorKind::Broken,
                "the host is gone",
            ))
        };
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(gone());
        };
        let answered = ready!(Pin::new(answer).poll(context));
        self.answer = None;
        Poll::Ready(answered.unwrap_or_else(|_| gone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.answer.is_some() && lock(&self.link.waiting).remove(&self.id).is_some() {
            self.link.send(wire::DROPPED, self.id, "", b"");
        }
    }
}
