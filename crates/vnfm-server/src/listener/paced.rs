//! A body that comes in time: in each window that we wait for it, so many bytes of it have to come. A window begins when
//! we wait and nothing is there, so that our own slowness costs the client nothing.

use super::Timeouts;
use super::watched::Activity;
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

/// The body of a request.
pub(super) struct Paced<B> {
    inner: B,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
    window: Option<BoxFuture<'static, ()>>,
    /// That came in the window.
    came: u64,
    activity: Arc<Activity>,
    is_waited_for: bool,
}

impl<B> Drop for Paced<B> {
    fn drop(&mut self) {
        self.waits(false);
    }
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("the body came too slowly")]
struct TooSlow;

type Broken = Box<dyn Error + Send + Sync>;

impl<B> Paced<B> {
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
            came: 0,
            activity,
            is_waited_for: false,
        }
    }

    fn waits(&mut self, waits: bool) {
        if std::mem::replace(&mut self.is_waited_for, waits) != waits {
            self.activity.waits_for_body(waits);
        }
    }

    fn is_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let (clock, time) = (&self.clock, self.timeouts.body);
            let window = self.window.get_or_insert_with(|| clock.sleep(time));
            ready!(window.poll_unpin(context));
            self.window = None;
            if std::mem::take(&mut self.came) < self.timeouts.body_bytes {
                return Poll::Ready(());
            }
        }
    }
}

impl<B> Body for Paced<B>
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
            self.came += data.map_or(0, |data| data.len() as u64);
            self.waits(false);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.waits(true);
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

/// What is answered (408) where an error is that a body came too slowly.
pub fn too_slow(error: &(dyn Error + 'static)) -> Option<Problem> {
    let mut at = Some(error);
    while let Some(error) = at {
        if error.is::<TooSlow>() {
            let what = "the body of the request comes too slowly";
            let problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "request.too-slow", what);
            return Some(problem.next("send it faster, or have `limits.body_seconds` raised"));
        }
        at = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Activity, Paced, too_slow};
    use crate::listener::Timeouts;
    use crate::listener::watched::tests::Told;
    use crate::listener::watched::{Busy, Idleness};
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
    async fn a_body_that_drips_ends_and_one_that_comes_in_time_is_whole() {
        let clock = Told::new();
        let (mut send, chunks) = mpsc::channel::<Result<Bytes, std::io::Error>>(9);
        let activity = Arc::new(Activity::default());
        let body = Body::from_stream(chunks);
        let body = Paced::new(body, (TIMEOUTS, clock.clone()), activity.clone());
        let mut stream = Body::new(body).into_data_stream();
        for _ in 0..5 {
            assert!(stream.next().now_or_never().is_none(), "it is waited for");
            send.send(Ok(Bytes::from_static(b"0123456789")))
                .await
                .unwrap();
            assert_eq!(stream.next().await.unwrap().unwrap().len(), 10);
            clock.pass(TIMEOUTS.body);
        }
        assert!(
            stream.next().now_or_never().is_none(),
            "enough came in the last window"
        );
        let _busy = Busy::new(activity.clone());
        assert_eq!(activity.idleness(), Idleness::Incomplete);
        send.send(Ok(Bytes::from_static(b"drip"))).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 4);
        clock.pass(TIMEOUTS.body);
        let error = stream
            .next()
            .now_or_never()
            .expect("it ends")
            .unwrap()
            .unwrap_err();
        assert_eq!(too_slow(&error).unwrap().details().status, 408);
    }
}
