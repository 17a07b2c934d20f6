//! Enforces a minimum rate for request bodies: a certain number of bytes per window. A window starts when the server
//! waits and nothing is there, so a slow server does not count against the client.

use super::activity::Activity;
use super::timeouts::Timeouts;
use crate::problem::Problem;
use axum::http::StatusCode;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use http_body::{Body, Frame, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use vnfm_core::ports::Clock;

/// A request body with a minimum rate.
pub(super) struct MinRateBody<B> {
    inner: B,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
    window: Option<BoxFuture<'static, ()>>,
    /// Bytes received in the window.
    received: u64,
    activity: Arc<Activity>,
    is_waiting: bool,
}

impl<B> Drop for MinRateBody<B> {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

/// Ends a body that is too slow.
#[derive(Debug, thiserror::Error)]
#[error("the request body is too slow")]
struct TooSlow;

type Broken = Box<dyn Error + Send + Sync>;

impl<B> MinRateBody<B> {
    pub(super) fn new(
        inner: B,
        (timeouts, clock): (Timeouts, Arc<dyn Clock>),
        activity: Arc<Activity>,
    ) -> Self {
        Self {
            inner,
            timeouts,
            clock,
            window: None,
            received: 0,
            activity,
            is_waiting: false,
        }
    }

    fn set_waiting(&mut self, waits: bool) {
        if std::mem::replace(&mut self.is_waiting, waits) != waits {
            self.activity.set_waiting_for_body(waits);
        }
    }

    fn is_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let (clock, time) = (&self.clock, self.timeouts.body);
            let window = self.window.get_or_insert_with(|| clock.sleep(time));
            ready!(window.poll_unpin(context));
            self.window = None;
            if std::mem::take(&mut self.received) < self.timeouts.body_bytes {
                return Poll::Ready(());
            }
        }
    }
}

impl<B> Body for MinRateBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Broken>,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            let data = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.received += data.map_or(0, |data| data.len() as u64);
            self.set_waiting(false);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.set_waiting(true);
        self.is_too_slow(context)
            .map(|()| Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The response (408) if the error's cause is a slow body.
pub(crate) fn too_slow(error: &(dyn Error + 'static)) -> Option<Problem> {
    let mut at = Some(error);
    while let Some(error) = at {
        if error.is::<TooSlow>() {
            let detail = "the request body is too slow";
            let problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "request.too-slow", detail);
            return Some(
                problem.hint("send it faster, or raise `limits.body_seconds` in the configuration"),
            );
        }
        at = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Activity, MinRateBody, too_slow};
    use crate::listener::Timeouts;
    use crate::listener::activity::tests::ManualClock;
    use crate::listener::activity::{Busy, Idleness};
    use axum::body::Body;
    use bytes::Bytes;
    use futures::channel::mpsc;
    use futures::future::FutureExt as _;
    use futures::{SinkExt as _, StreamExt as _};
    use std::sync::Arc;

    const TIMEOUTS: Timeouts = Timeouts {
        headers: std::time::Duration::from_secs(1),
        body: std::time::Duration::from_secs(2),
        body_bytes: 10,
        idle: std::time::Duration::from_secs(3),
        streams: 1,
    };

    #[tokio::test]
    async fn a_slow_body_fails_and_a_fast_one_completes() {
        let clock = ManualClock::new();
        let (mut send, chunks) = mpsc::channel::<Result<Bytes, std::io::Error>>(9);
        let activity = Arc::new(Activity::default());
        let body = Body::from_stream(chunks);
        let body = MinRateBody::new(body, (TIMEOUTS, clock.clone()), activity.clone());
        let mut stream = Body::new(body).into_data_stream();
        for _ in 0..5 {
            assert!(stream.next().now_or_never().is_none(), "pending");
            send.send(Ok(Bytes::from_static(b"0123456789")))
                .await
                .unwrap();
            assert_eq!(stream.next().await.unwrap().unwrap().len(), 10);
            clock.advance(TIMEOUTS.body);
        }
        assert!(
            stream.next().now_or_never().is_none(),
            "enough came in the last window"
        );
        let _busy = Busy::new(activity.clone());
        assert_eq!(activity.idleness(), Idleness::Incomplete);
        send.send(Ok(Bytes::from_static(b"drip"))).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 4);
        clock.advance(TIMEOUTS.body);
        let error = stream
            .next()
            .now_or_never()
            .expect("the body fails")
            .unwrap()
            .unwrap_err();
        assert_eq!(too_slow(&error).unwrap().details().status, 408);
    }
}
