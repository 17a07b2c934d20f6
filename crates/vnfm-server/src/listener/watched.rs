//! A connection that is closed where its client does nothing: sends no headers, no further request, or does not read its
//! answer.

use super::Timeouts;
use super::places::Place;
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

/// What a connection does.
#[derive(Default)]
pub(super) struct Activity {
    /// Requests that are not answered to their end.
    busy: AtomicUsize,
    /// Requests that there were.
    requests: AtomicU64,
    /// A request has begun to come.
    is_coming: AtomicBool,
    /// Only a first request is waited for as long as for headers in HTTP/2: what comes later may be a sign of life.
    is_http2: AtomicBool,
    /// Writes that the client let us do.
    written: AtomicU64,
    /// One that it does not.
    is_held_up: AtomicBool,
    /// Bodies of requests that are waited for.
    bodies: AtomicUsize,
    /// It is to make room for others.
    is_told_to_go: AtomicBool,
    changed: Notify,
}

/// How little a connection does; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idleness {
    /// It has not sent a request.
    Silent,
    /// It has none that is not answered.
    Idle,
    /// A body is waited for.
    Incomplete,
    /// A request is being answered.
    AtWork,
}

impl Activity {
    /// How little it does.
    pub(super) fn idleness(&self) -> Idleness {
        let busy = self.busy.load(SeqCst);
        match busy {
            0 if self.requests.load(SeqCst) == 0 => Idleness::Silent,
            0 => Idleness::Idle,
            _ if self.bodies.load(SeqCst) >= busy => Idleness::Incomplete,
            _ => Idleness::AtWork,
        }
    }

    /// Whether there is nobody to say anything to: no request has come whole that is not answered.
    pub(super) fn is_unasked(&self) -> bool {
        self.idleness() == Idleness::Silent
            || (self.is_coming.load(SeqCst) && self.idleness() == Idleness::Idle)
    }

    /// It is to make room for others.
    pub(super) fn go(&self) {
        self.is_told_to_go.store(true, SeqCst);
        self.changed.notify_one();
    }

    /// Whether it was told to.
    pub(super) fn is_told_to_go(&self) -> bool {
        self.is_told_to_go.load(SeqCst)
    }

    /// Completes once it is to make room for others.
    pub(super) async fn told_to_go(&self) {
        while !self.is_told_to_go() {
            self.changed.notified().await;
        }
    }

    /// That a body is waited for, or is no longer.
    pub(super) fn waits_for_body(&self, waits: bool) {
        if waits {
            self.bodies.fetch_add(1, SeqCst);
        } else {
            self.bodies.fetch_sub(1, SeqCst);
        }
    }

    /// Completes once the client has done nothing for too long, or is to make room for others.
    pub(super) async fn is_over(&self, clock: &dyn Clock, timeouts: &Timeouts) {
        let (mut written, mut was_held_up) = (0, false);
        loop {
            if self.is_told_to_go() {
                return;
            }
            let changed = self.changed.notified();
            let is_busy = self.busy.load(SeqCst) > 0;
            let requests = self.requests.load(SeqCst);
            let waits_for_headers = requests == 0 || self.is_coming.load(SeqCst);
            let time = if !is_busy && waits_for_headers {
                timeouts.headers
            } else {
                timeouts.idle
            };
            tokio::select! {
                () = changed => {
                    was_held_up = false;
                    continue;
                }
                () = clock.sleep(time) => {}
            }
            if !is_busy {
                return;
            }
            // The answer may take its time; the client may not take it for ever.
            let now = self.written.load(SeqCst);
            let is_held_up = self.is_held_up.load(SeqCst) && now == written;
            if is_held_up && was_held_up {
                return;
            }
            (written, was_held_up) = (now, self.is_held_up.load(SeqCst));
        }
    }
}

/// A request, until its answer is sent.
pub(super) struct Busy(Arc<Activity>);

impl Busy {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        activity.busy.fetch_add(1, SeqCst);
        activity.requests.fetch_add(1, SeqCst);
        activity.is_coming.store(false, SeqCst);
        activity.changed.notify_one();
        Self(activity)
    }

    /// The answer, with which this and a place end.
    pub(super) fn until_sent(self, response: Response, place: Option<Place>) -> Response {
        response.map(|inner| {
            Body::new(Sent {
                inner,
                _until: (self, place),
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

/// The body of an answer.
struct Sent {
    inner: Body,
    _until: (Busy, Option<Place>),
}

impl http_body::Body for Sent {
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

/// What is read from and written to, and noted.
pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The first bytes, until it is clear what is spoken.
    first: Option<Vec<u8>>,
}

/// How HTTP/2 begins, and no method does.
const HTTP2: &[u8] = b"PRI ";

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            first: Some(Vec::new()),
        }
    }

    fn came(&mut self, bytes: &[u8]) {
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
        if counts && !activity.is_coming.swap(true, SeqCst) {
            activity.changed.notify_one();
        }
    }

    fn wrote<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.activity.written.fetch_add(1, SeqCst);
        }
        self.activity.is_held_up.store(outcome.is_pending(), SeqCst);
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, into);
        self.came(&into.filled()[before..]);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        if outcome.is_pending() {
            self.wrote(outcome)
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
        self.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Activity, Busy, Watched};
    use crate::listener::Timeouts;
    use axum::response::IntoResponse as _;
    use futures::future::{BoxFuture, FutureExt as _};
    use jiff::Timestamp;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::watch;
    use vnfm_core::ports::Clock;

    /// Time passes when a test says so.
    pub(crate) struct Told(watch::Sender<Duration>, Mutex<()>);

    impl Told {
        pub(crate) fn new() -> Arc<Self> {
            Arc::new(Self(watch::Sender::default(), Mutex::default()))
        }

        pub(crate) fn pass(&self, time: Duration) {
            let _one = self.1.lock().unwrap();
            self.0.send_modify(|now| *now += time);
        }
    }

    impl Clock for Told {
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

    /// Two seconds for headers, five for doing nothing.
    fn timeouts() -> Timeouts {
        let (headers, idle) = (Duration::from_secs(2), Duration::from_secs(5));
        Timeouts {
            headers,
            idle,
            ..Timeouts::default()
        }
    }

    async fn sent(
        io: &mut (tokio::io::DuplexStream, Watched<tokio::io::DuplexStream>),
        text: &str,
    ) {
        io.0.write_all(text.as_bytes()).await.unwrap();
        let mut read = vec![0; text.len()];
        io.1.read_exact(&mut read).await.unwrap();
    }

    #[tokio::test]
    async fn a_client_has_little_time_for_headers_more_for_nothing_and_all_for_an_answer() {
        let (clock, timeouts, activity) = (Told::new(), timeouts(), Arc::new(Activity::default()));
        let second = Duration::from_secs(1);
        let (near, far) = tokio::io::duplex(1024);
        let mut io = (near, Watched::new(far, activity.clone()));
        let mut over = std::pin::pin!(activity.is_over(&*clock, &timeouts));
        assert!((&mut over).now_or_never().is_none());
        sent(&mut io, "GET / HT").await;
        clock.pass(second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "headers are on their way"
        );
        let busy = Busy::new(activity.clone());
        assert!((&mut over).now_or_never().is_none());
        clock.pass(60 * second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "an answer takes its time"
        );
        drop(busy.until_sent("done".into_response(), None));
        assert!((&mut over).now_or_never().is_none());
        clock.pass(4 * second);
        assert!(
            (&mut over).now_or_never().is_none(),
            "it may do nothing for a while"
        );
        sent(&mut io, "G").await;
        assert!((&mut over).now_or_never().is_none());
        clock.pass(second);
        sent(&mut io, "E").await;
        assert!((&mut over).now_or_never().is_none());
        clock.pass(second);
        assert!(
            (&mut over).now_or_never().is_some(),
            "one letter after the other is no request"
        );
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_its_answer_is_left() {
        let (clock, timeouts, activity) = (Told::new(), timeouts(), Arc::new(Activity::default()));
        let (_near, far) = tokio::io::duplex(8);
        let mut io = Watched::new(far, activity.clone());
        let mut over = std::pin::pin!(activity.is_over(&*clock, &timeouts));
        let _busy = Busy::new(activity.clone());
        assert!((&mut over).now_or_never().is_none());
        io.write_all(b"12345678").await.unwrap();
        assert!(io.write_all(b"9").now_or_never().is_none(), "nobody reads");
        clock.pass(timeouts.idle);
        assert!(
            (&mut over).now_or_never().is_none(),
            "it may have stopped just now"
        );
        clock.pass(timeouts.idle);
        let mut more = (&mut over).now_or_never();
        if more.is_none() {
            clock.pass(timeouts.idle);
            more = (&mut over).now_or_never();
        }
        assert!(more.is_some());
    }
}
