//! A request body that a thread writes, such as a file that is unpacked: only a few pieces are in memory at a time.

use bytes::Bytes;
use futures_util::stream::poll_fn;
use reqwest::Body;
use std::io::{self, BufWriter, Write};
use tokio::sync::mpsc::{Sender, channel};

const PIECE_BYTES: usize = 256 << 10;
const MAX_QUEUED_PIECES: usize = 4;

/// The body that `write` produces on a thread of its own. An error aborts the request.
pub fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let (pieces, mut body) = channel(MAX_QUEUED_PIECES);
    // The thread ends with the last piece, or when the receiver is dropped.
    std::thread::spawn(move || {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces));
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            // Fails only if the receiver was dropped, which needs no error.
            let _ = out.get_mut().0.blocking_send(Err(error));
        }
    });
    Body::wrap_stream(poll_fn(move |cx| body.poll_recv(cx)))
}

struct Pieces(Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
