//! The host as seen by a plugin in a hook process: calls go over the socket, many concurrently.

use crate::process_runner::wire::{self, Frame};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use vnfm_core::ports::{ErrorKind, PortError};
use vnfm_plugin_abi::{Answer, BoxAnswer, HostSide};

/// The connection to the engine.
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

    /// Sends a message. Ignores errors: if the engine is gone, the reading thread ends this process.
    pub(super) fn send(&self, kind: u8, id: u32, name: &str, body: &[u8]) {
        let _ = wire::write(&mut *lock(&self.socket), &Frame::new(kind, id, name, body));
    }

    /// Reports why no hook can run.
    pub(super) fn refuse(&self, error: &PortError) {
        let details = serde_json::json!({ "doing": error.action(), "what": error.detail() });
        self.send(
            wire::REFUSED,
            0,
            error.name(),
            details.to_string().as_bytes(),
        );
    }

    /// Completes the pending call with this id.
    pub(super) fn complete(&self, id: u32, answer: Answer) {
        if let Some(waiting) = lock(&self.waiting).remove(&id) {
            // Fails if the call was dropped.
            let _ = waiting.send(answer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host of a driver that is being created, or of the running hook.
pub(super) struct Side {
    pub(super) link: Arc<Link>,
    pub(super) hook: bool,
}

/// Name of log frames that belong to the hook.
pub(crate) const HOOK_LOG: &str = "hook";

impl HostSide for Side {
    fn log(&self, level: u32, text: &str) {
        let name = if self.hook { HOOK_LOG } else { "" };
        self.link.send(wire::LOG, level, name, text.as_bytes());
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
        Box::pin(PendingCall {
            link: self.link.clone(),
            id,
            answer: Some(answer),
        })
    }
}

/// A service call that waits for its response.
struct PendingCall {
    link: Arc<Link>,
    id: u32,
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Future for PendingCall {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let lost = || {
            Err(crate::errors::service_failure(
                ErrorKind::Broken,
                "the connection to the host is lost",
            ))
        };
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(lost());
        };
        let complete = ready!(Pin::new(answer).poll(context));
        self.answer = None;
        Poll::Ready(complete.unwrap_or_else(|_| lost()))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.answer.is_some() && lock(&self.link.waiting).remove(&self.id).is_some() {
            self.link.send(wire::DROPPED, self.id, "", b"");
        }
    }
}
