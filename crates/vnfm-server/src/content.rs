//! Bytes that are served whole or in part: archives, and files in them (RFC 9110 13.1.5, 14; SOL005 9.4.5.3.2).
//!
//! | `Range` | answer |
//! |---|---|
//! | none, another unit than bytes, several ranges, no range at all | 200, all of it |
//! | `bytes=5-9`, `bytes=5-`, `bytes=-5` | 206 with `Content-Range` |
//! | beyond the end | 416 with the size |
//!
//! With `If-Range` the part is sent only of what has that tag; of anything else all of it. A tag stands for the bytes
//! themselves, so a client may go on after any time, and after a restart of this server.

use crate::problem::{Answer, Problem};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use std::io::{self, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::mpsc;
use vnfm_descriptor::Package;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// Pieces of a file in an archive that wait for a slow client.
const AHEAD: usize = 4;

/// Where bytes come from.
pub enum Source {
    /// A file.
    File(File),
    /// A file in a package, or an external artifact of it by its URI.
    Inside {
        /// The package.
        package: Arc<Package>,
        /// Its path.
        path: String,
    },
}

/// Something that can be served in parts.
pub struct Content {
    /// Where it is.
    pub source: Source,
    /// How large it is, in bytes.
    pub size: u64,
    /// Its media type.
    pub kind: &'static str,
    /// What stands for these very bytes; without quotes.
    pub tag: String,
}

/// What of it is to be sent.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    Beyond,
}

impl Content {
    /// The answer to a request with these headers.
    ///
    /// # Errors
    ///
    /// 500 where it cannot be read.
    pub async fn served(self, headers: &HeaderMap) -> Answer {
        let tag = format!("\"{}\"", self.tag);
        let (status, range) = match wanted(headers, self.size, &tag) {
            Wanted::Beyond => return Ok(beyond(self.size)),
            Wanted::Whole => (StatusCode::OK, 0..self.size),
            Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        };
        let length = range.end - range.start;
        let mut said = vec![
            (header::CONTENT_TYPE, self.kind.to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
            (header::ACCEPT_RANGES, "bytes".to_owned()),
            (header::ETAG, tag),
        ];
        if status == StatusCode::PARTIAL_CONTENT {
            let what = format!("bytes {}-{}/{}", range.start, range.end - 1, self.size);
            said.push((header::CONTENT_RANGE, what));
        }
        let mut response = (status, self.source.read(range).await?).into_response();
        for (name, value) in said {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}

/// 416: the size is in `Content-Range`, and in the words.
fn beyond(size: u64) -> Response {
    let what = format!("the range begins beyond the end: there are {size} bytes");
    let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "request.range", what);
    let mut response = problem.into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

fn wanted(headers: &HeaderMap, size: u64, tag: &str) -> Wanted {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let Some(range) = text(header::RANGE) else {
        return Wanted::Whole;
    };
    // A date stands for nothing here: none is served.
    if headers.contains_key(header::IF_RANGE) && text(header::IF_RANGE).map(str::trim) != Some(tag)
    {
        return Wanted::Whole;
    }
    part(range, size).unwrap_or(Wanted::Whole)
}

/// `bytes=5-9`; `None` for what is to be answered as if it were not there.
fn part(range: &str, size: u64) -> Option<Wanted> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // One that is too large for us is beyond every end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first.trim(), last.trim()) {
        ("", last) => size.saturating_sub(number(last)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            first..last.saturating_add(1).min(size)
        }
    };
    Some(if range.start < range.end {
        Wanted::Part(range)
    } else {
        Wanted::Beyond
    })
}

impl Source {
    async fn read(self, range: Range<u64>) -> Answer<Body> {
        match self {
            Self::File(file) => of_file(file, range).await,
            Self::Inside { package, path } => Ok(of_package(package, path, range)),
        }
    }
}

async fn of_file(mut file: File, range: Range<u64>) -> Answer<Body> {
    let seek = file.seek(SeekFrom::Start(range.start)).await;
    seek.map_err(|error| Problem::bug(&error))?;
    let file = file.take(range.end - range.start);
    let pieces = stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece).await?;
        piece.truncate(read);
        Ok::<_, io::Error>((read > 0).then_some((piece, file)))
    });
    Ok(Body::from_stream(pieces))
}

/// It is unpacked in a thread of its own, as fast as it is taken; whoever hangs up ends it.
fn of_package(package: Arc<Package>, path: String, range: Range<u64>) -> Body {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let left = range.end - range.start;
        let mut slice = Slice {
            skip: range.start,
            left,
            sender: sender.clone(),
        };
        if let Err(error) = package.copy(&path, &mut slice).map(drop)
            && slice.left > 0
        {
            tracing::warn!(path, %error, "a file of a package is not sent to its end");
            let cut = io::Error::other("it cannot be read to its end");
            let _ = sender.blocking_send(Err(cut)); // the client may have gone
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Body::from_stream(pieces)
}

/// Sends a part of what is written into it.
struct Slice {
    /// Bytes before it.
    skip: u64,
    /// Bytes of it.
    left: u64,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for Slice {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("it has come to its end"));
        }
        let skipped = usize::try_from(self.skip)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.skip -= skipped as u64;
        let rest = &bytes[skipped..];
        let taken = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(rest.len());
        if taken > 0 {
            let piece = Bytes::copy_from_slice(&rest[..taken]);
            let sent = self.sender.blocking_send(Ok(piece));
            sent.map_err(|_| io::Error::other("the client has gone"))?;
            self.left -= taken as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, part, wanted};
    use axum::http::{HeaderMap, HeaderValue};

    #[test]
    fn a_range_is_read_as_http_has_it() {
        for (range, is) in [
            ("bytes=0-0", 0..1),
            ("bytes=5-9", 5..10),
            ("Bytes = 5-9", 5..10),
            ("bytes=5-", 5..10),
            ("bytes=5-99999999999999999999", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
        ] {
            assert_eq!(part(range, 10), Some(Wanted::Part(is)), "{range}");
        }
        for range in [
            "bytes=10-",
            "bytes=10-12",
            "bytes=-0",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(part(range, 10), Some(Wanted::Beyond), "{range}");
        }
        assert_eq!(
            part("bytes=0-", 0),
            Some(Wanted::Beyond),
            "of nothing there is no part"
        );
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=9-5",
            "bytes=0-1,3-4",
            "items=0-1",
        ] {
            assert_eq!(part(range, 10), None, "{range}");
        }
        for range in [
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=--1",
            "bytes=1-2-3",
        ] {
            assert_eq!(part(range, 10), None, "{range}");
        }
    }

    #[test]
    fn a_part_is_sent_only_of_what_it_was_begun_with() {
        let of = |if_range: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert("range", HeaderValue::from_static("bytes=5-"));
            if let Some(value) = if_range {
                headers.insert("if-range", HeaderValue::from_static(value));
            }
            wanted(&headers, 10, "\"a\"")
        };
        assert_eq!(of(None), Wanted::Part(5..10));
        assert_eq!(of(Some("\"a\"")), Wanted::Part(5..10));
        for other in ["\"b\"", "W/\"a\"", "Wed, 04 Mar 2026 05:06:07 GMT", ""] {
            assert_eq!(of(Some(other)), Wanted::Whole, "{other}");
        }
    }
}
