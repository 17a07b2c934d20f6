//! The same limits for a client built on hyper: a resolver, and a measured response body.

use crate::body::{Meter, ReadError};
use crate::{Destinations, Policy};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use hyper_util::client::legacy::connect::dns::Name;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Maximum duration of a watch.
const MAX_WATCH: Duration = Duration::from_mins(10);

/// Resolves names for hyper's `HttpConnector` to allowed addresses. It is not called for hosts that are IP addresses, so
/// check the URL as well.
#[derive(Debug, Clone)]
pub struct Resolver(pub Destinations);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let to = self.0.clone();
        Box::pin(async move {
            let found = to.resolve(name.as_str()).await?;
            let found: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            Ok(found.into_iter())
        })
    }
}

/// A response body that fails once it exceeds its policy.
#[derive(Debug)]
pub struct Measured<B> {
    body: B,
    meter: Meter,
    ends: Instant,
    /// Whether the body is a stream of one object per line, each measured separately.
    lines: bool,
}

impl<B> Measured<B> {
    /// Measures one response; with `lines`, each line separately, for an unbounded watch.
    pub fn new(body: B, policy: &Policy, lines: bool) -> Self {
        let total = if lines { MAX_WATCH } else { policy.total };
        Self {
            body,
            meter: Meter::new(policy),
            ends: Instant::now() + total,
            lines,
        }
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        if !self.lines {
            return self.meter.take(piece);
        }
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            self.meter.take(line)?;
            if line.ends_with(b"\n") {
                self.meter.begin_again();
            }
        }
        Ok(())
    }
}

impl<B> Body for Measured<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(next.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            if Instant::now() > self.ends {
                return Err(ReadError::TooSlow.into());
            }
            if let Some(piece) = frame.data_ref() {
                self.take(piece)?;
            }
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
