//! Detects connections whose clients are inactive: send no headers or no further request, or do not read the response.

use super::connection_limits::Permit;
use super::timeouts::Timeouts;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use vnfm_core::ports::Clock;

/// The activity of one connection.
#[derive(Default)]
pub(super) struct Activity {
    /// Requests without a complete response.
    busy: AtomicUsize,
    /// Number of requests so far.
    requests: AtomicU64,
    /// The headers of a request have started to arrive.
    is_receiving_headers: AtomicBool,
    /// In HTTP/2, the timeout for headers applies only to the first request: later bytes may be keep-alive frames.
    is_http2: AtomicBool,
    /// Number of writes that completed.
    writes: AtomicU64,
    /// The last write is blocked by the client.
    is_write_blocked: AtomicBool,
    /// Request bodies that the server waits for.
    bodies: AtomicUsize,
    /// The connection must close to free its slot.
    is_evicted: AtomicBool,
    changed: Notify,
}

/// How idle a connection is; the most idle first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idleness {
    /// No request was received on it yet.
    Silent,
    /// Every request has its response.
    Idle,
    /// The server waits for a request body.
    Incomplete,
    /// A response is in progress.
    Responding,
}

impl Activity {
    pub(super) fn idleness(&self) -> Idleness {
        let busy = self.busy.load(SeqCst);
        match busy {
            0 if self.requests.load(SeqCst) == 0 => Idleness::Silent,
            0 => Idleness::Idle,
            _ if self.bodies.load(SeqCst) >= busy => Idleness::Incomplete,
            _ => Idleness::Responding,
        }
    }

    /// Whether no response is due: no complete request is unanswered.
    pub(super) fn is_without_request(&self) -> bool {
        self.idleness() == Idleness::Silent
            || (self.is_receiving_headers.load(SeqCst) && self.idleness() == Idleness::Idle)
    }

    /// Asks the connection to close, to free its slot.
    pub(super) fn evict(&self) {
        self.is_evicted.store(true, SeqCst);
        self.changed.notify_one();
    }

    /// Whether the connection was asked to close.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(SeqCst)
    }

    /// Completes when the connection is asked to close.
    pub(super) async fn evicted(&self) {
        while !self.is_evicted() {
            self.changed.notified().await;
        }
    }

    /// Adds or removes a body that the server waits for.
    pub(super) fn set_waiting_for_body(&self, is_waiting: bool) {
        if is_waiting {
            self.bodies.fetch_add(1, SeqCst);
        } else {
            self.bodies.fetch_sub(1, SeqCst);
        }
    }

    /// Completes when the client was inactive for too long, or the connection was asked to close.
    pub(super) async fn timed_out(&self, clock: &dyn Clock, timeouts: &Timeouts) {
        let (mut last_writes, mut was_blocked) = (0, false);
        loop {
            if self.is_evicted() {
                return;
            }
            let changed = self.changed.notified();
            let is_busy = self.busy.load(SeqCst) > 0;
            let requests = self.requests.load(SeqCst);
            let waits_for_headers = requests == 0 || self.is_receiving_headers.load(SeqCst);
            let time = if !is_busy && waits_for_headers {
                timeouts.headers
            } else {
                timeouts.idle
            };
            tokio::select! {
                () = changed => {
                    was_blocked = false;
                    continue;
                }
                () = clock.sleep(time) => {}
            }
            if !is_busy {
                return;
            }
            // A response may take long to produce; the client may not block it forever.
            let writes = self.writes.load(SeqCst);
            let is_blocked = self.is_write_blocked.load(SeqCst) && writes == last_writes;
            if is_blocked && was_blocked {
                return;
            }
            (last_writes, was_blocked) = (writes, self.is_write_blocked.load(SeqCst));
        }
    }
}

/// A request until its response is sent.
pub(super) struct Busy(Arc<Activity>);

impl Busy {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        activity.busy.fetch_add(1, SeqCst);
        activity.requests.fetch_add(1, SeqCst);
        activity.is_receiving_headers.store(false, SeqCst);
        activity.changed.notify_one();
        Self(activity)
    }

    /// Wraps the response so that this and the permit end with its body.
    pub(super) fn until_sent(self, response: Response, permit: Option<Permit>) -> Response {
        response.map(|inner| {
            Body::new(TrackedBody {
                inner,
                _until: (self, permit),
            })
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, SeqCst);
        self.0.changed.notify_one();
    }
}

/// The body of a response.
struct TrackedBody {
    inner: Body,
    _until: (Busy, Option<Permit>),
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Records reads and writes of a stream.
pub(super) struct ObservedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The first bytes, until the protocol is known.
    first: Option<Vec<u8>>,
}

/// The start of the HTTP/2 preface; no method starts like this.
const HTTP2: &[u8] = b"PRI ";

impl<S> ObservedStream<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            first: Some(Vec::new()),
        }
    }

    fn on_read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(first) = &mut self.first {
            first.extend(bytes.iter().take(HTTP2.len() - first.len()));
            if first.len() == HTTP2.len() {
                self.activity.is_http2.store(first == HTTP2, SeqCst);
                self.first = None;
            }
        }
        let activity = &self.activity;
        let counts = activity.busy.load(SeqCst) == 0
            && activity.requests.load(SeqCst) > 0
            && !activity.is_http2.load(SeqCst);
        if counts && !activity.is_receiving_headers.swap(true, SeqCst) {
            activity.changed.notify_one();
        }
    }

    fn on_write<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.activity.writes.fetch_add(1, SeqCst);
        }
        self.activity
            .is_write_blocked
            .store(outcome.is_pending(), SeqCst);
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, into);
        self.on_read(&into.filled()[before..]);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.on_write(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        if outcome.is_pending() {
            self.on_write(outcome)
        } else {
            outcome
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.on_write(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Activity, Busy, ObservedStream};
    use crate::listener::Timeouts;
    use axum::response::IntoResponse as _;
    use futures::future::{BoxFuture, FutureExt as _};
    use jiff::Timestamp;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::watch;
    use vnfm_core::ports::Clock;

    /// Time advances only when a test says so.
    pub(crate) struct ManualClock(watch::Sender<Duration>, Mutex<()>);

    impl ManualClock {
        pub(crate) fn new() -> Arc<Self> {
            Arc::new(Self(watch::Sender::default(), Mutex::default()))
        }

        pub(crate) fn advance(&self, time: Duration) {
            let _one = self.1.lock().unwrap();
            self.0.send_modify(|now| *now += time);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + *self.0.borrow()
        }
        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            let mut time = self.0.subscribe();
            let until = *time.borrow() + duration;
            Box::pin(async move {
                let _ = time.wait_for(|now| *now >= until).await;
            })
        }
    }

    /// Two seconds for headers, five for inactivity.
    fn timeouts() -> Timeouts {
        let (headers, idle) = (Duration::from_secs(2), Duration::from_secs(5));
        Timeouts {
            headers,
            idle,
            ..Timeouts::default()
        }
    }

    async fn send(
        io: &mut (
            tokio::io::DuplexStream,
            ObservedStream<tokio::io::DuplexStream>,
        ),
        text: &str,
    ) {
        io.0.write_all(text.as_bytes()).await.unwrap();
        let mut read = vec![0; text.len()];
        io.1.read_exact(&mut read).await.unwrap();
    }

    #[tokio::test]
    async fn headers_and_inactivity_time_out_but_a_pending_response_does_not() {
        let (clock, timeouts, activity) = (
            ManualClock::new(),
            timeouts(),
            Arc::new(Activity::default()),
        );
        let second = Duration::from_secs(1);
        let (near, far) = tokio::io::duplex(1024);
        let mut io = (near, ObservedStream::new(far, activity.clone()));
        let mut over = std::pin::pin!(activity.timed_out(&*clock, &timeouts));
        assert!((&mut over).now_or_never().is_none());
        send(&mut io, "GET / HT").await;
        clock.advance(second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "headers are still arriving"
        );
        let busy = Busy::new(activity.clone());
        assert!((&mut over).now_or_never().is_none());
        clock.advance(60 * second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "a response may take long"
        );
        drop(busy.until_sent("done".into_response(), None));
        assert!((&mut over).now_or_never().is_none());
        clock.advance(4 * second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "inactivity is allowed for a while"
        );
        send(&mut io, "G").await;
        assert!((&mut over).now_or_never().is_none());
        clock.advance(second);
        send(&mut io, "E").await;
        assert!((&mut over).now_or_never().is_none());
        clock.advance(second);
        assert!(
            (&mut over).now_or_never().is_some(),
            "single letters are not a request"
        );
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_its_response_times_out() {
        let (clock, timeouts, activity) = (
            ManualClock::new(),
            timeouts(),
            Arc::new(Activity::default()),
        );
        let (_near, far) = tokio::io::duplex(8);
        let mut io = ObservedStream::new(far, activity.clone());
        let mut over = std::pin::pin!(activity.timed_out(&*clock, &timeouts));
        let _busy = Busy::new(activity.clone());
        assert!((&mut over).now_or_never().is_none());
        io.write_all(b"12345678").await.unwrap();
        assert!(io.write_all(b"9").now_or_never().is_none(), "nobody reads");
        clock.advance(timeouts.idle);
        assert!(
            (&mut over).now_or_never().is_none(),
            "the client may have stopped just now"
        );
        clock.advance(timeouts.idle);
        let mut more = (&mut over).now_or_never();
        if more.is_none() {
            clock.advance(timeouts.idle);
            more = (&mut over).now_or_never();
        }
        assert!(more.is_some());
    }
}
