//! A request that is refused before its body was read: the rest of the body is read and dropped, so that a client that
//! is still sending gets the response and not a broken connection (RFC 9112, 9.6).
//!
//! At most [`MAX_DISCARDED`] bytes; a longer body, or one that the client holds back until a `100 Continue`
//! (`Expect`), is not read: then the connection closes after the response. The listener's timeouts apply.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt as _;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Maximum number of discarded bytes of a body; the maximum of a JSON body.
const MAX_DISCARDED: usize = crate::body::LARGEST;

/// Receives a body that is dropped before its end.
type Unread = Arc<Mutex<Option<Body>>>;

/// Runs the request, then discards what it left of its body.
pub(crate) async fn discard(request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let unread = Unread::default();
    let returned = Arc::clone(&unread);
    let response = next
        .run(request.map(|body| {
            Body::new(Returned {
                body,
                unread: returned,
            })
        }))
        .await;
    let body = unread.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(body) = body {
        read_to_end(body).await;
    }
    response
}

async fn read_to_end(body: Body) {
    if body.size_hint().lower() > MAX_DISCARDED as u64 {
        return;
    }
    let mut stream = body.into_data_stream();
    let mut read = 0;
    while read <= MAX_DISCARDED {
        let Some(Ok(data)) = stream.next().await else {
            return;
        };
        read += data.len();
    }
}

/// A body that is handed back if it is dropped before its end.
struct Returned {
    body: Body,
    unread: Unread,
}

impl HttpBody for Returned {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(Some(Err(_)))) {
            // The rest cannot be read.
            self.body = Body::empty();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            let body = std::mem::take(&mut self.body);
            *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
