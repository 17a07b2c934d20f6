//! An image on its way out of a package: never more than a few pieces of it are in memory.
//!
//! ```text
//! package ── a thread unpacks ── pieces, a few at most ── the request's body
//! ```
//! A request that is made again unpacks again. What cannot be read ends the request.

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc::{Sender, channel};
use futures::executor::block_on;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use vnfm_descriptor::Package;

/// Bytes of a piece, and how many pieces wait.
const PIECE_BYTES: usize = 256 << 10;
const MAX_QUEUED_PIECES: usize = 4;

/// A file of a package that is an image.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) package: Arc<Package>,
    pub(crate) path: String,
    /// In bytes.
    pub(crate) size: u64,
}

impl Image {
    /// The body of a request.
    pub(crate) fn body(&self) -> vnfm_outbound::Body {
        let (pieces, body) = channel(MAX_QUEUED_PIECES);
        let Image { package, path, .. } = self.clone();
        // It ends with the last piece, or when nobody takes them any more.
        std::thread::spawn(move || {
            let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces));
            let copied = package.copy(&path, &mut out).map_err(io::Error::other);
            if let Err(error) = copied.and_then(|_| out.flush()) {
                // Where nobody listens any more, nobody wants to know.
                let _ = block_on(out.get_mut().0.send(Err(error)));
            }
        });
        vnfm_outbound::Body::wrap_stream(body)
    }
}

struct Pieces(Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = block_on(self.0.send(Ok(Bytes::copy_from_slice(bytes))));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
