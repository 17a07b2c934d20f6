//! Streams an image from a package: only a few pieces of it are in memory at a time.
//!
//! ```text
//! package ── a thread unpacks ── a few pieces ── the request's body
//! ```
//! A repeated request unpacks the image again. A read error aborts the request.

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc::{Sender, channel};
use futures::executor::block_on;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use vnfm_descriptor::Package;

const PIECE_BYTES: usize = 256 << 10;
const MAX_QUEUED_PIECES: usize = 4;

/// An image file in a package.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) package: Arc<Package>,
    pub(crate) path: String,
    /// Size of the image in bytes.
    pub(crate) size: u64,
}

impl Image {
    /// A request body that streams the image.
    pub(crate) fn body(&self) -> vnfm_outbound::Body {
        let (pieces, body) = channel(MAX_QUEUED_PIECES);
        let Image { package, path, .. } = self.clone();
        // The thread ends with the last piece, or when the receiver is dropped.
        std::thread::spawn(move || {
            let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces));
            let copied = package.copy(&path, &mut out).map_err(io::Error::other);
            if let Err(error) = copied.and_then(|_| out.flush()) {
                // Fails only if the receiver was dropped, which needs no error.
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
