//! Full and partial content: archives and files in them (RFC 9110 13.1.5, 14; SOL005 9.4.5.3.2).
//!
//! | `Range` | response |
//! |---|---|
//! | none, a unit other than bytes, several ranges, malformed | 200, everything |
//! | `bytes=5-9`, `bytes=5-`, `bytes=-5` | 206 with `Content-Range` |
//! | beyond the end | 416 with the size |
//!
//! With `If-Range`, the part is sent only if the tag matches; otherwise everything. The tag identifies the exact
//! bytes, so a client may resume at any time, even after a restart of this server.

use crate::problem::{HandlerResult, Problem};
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

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks of a file in an archive that wait for a slow client.
const MAX_QUEUED_CHUNKS: usize = 4;

/// The source of the bytes.
pub(crate) enum Source {
    /// An open file on the disk.
    File(File),
    /// A file in a package, or an external artifact of it by its URI.
    Inside {
        /// The package that the file belongs to.
        package: Arc<Package>,
        /// Path in the package, or URI.
        path: String,
    },
}

/// Content that can be served in parts.
pub(crate) struct Content {
    /// The source of the bytes.
    pub source: Source,
    /// Size of the entire content, in bytes.
    pub size: u64,
    /// Media type for the header `Content-Type`.
    pub kind: &'static str,
    /// Entity tag of these exact bytes, without quotes.
    pub tag: String,
}

/// The part of the content that a request wants.
#[derive(Debug, PartialEq, Eq)]
enum Requested {
    All,
    Part(Range<u64>),
    Unsatisfiable,
}

impl Content {
    /// The response to a request with these headers.
    ///
    /// # Errors
    ///
    /// 500 if the content cannot be read.
    pub(crate) async fn into_response(self, headers: &HeaderMap) -> HandlerResult {
        let tag = format!("\"{}\"", self.tag);
        let (status, range) = match requested_range(headers, self.size, &tag) {
            Requested::Unsatisfiable => return Ok(unsatisfiable(self.size)),
            Requested::All => (StatusCode::OK, 0..self.size),
            Requested::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        };
        let length = range.end - range.start;
        let mut fields = vec![
            (header::CONTENT_TYPE, self.kind.to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
            (header::ACCEPT_RANGES, "bytes".to_owned()),
            (header::ETAG, tag),
        ];
        if status == StatusCode::PARTIAL_CONTENT {
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, self.size);
            fields.push((header::CONTENT_RANGE, value));
        }
        let mut response = (status, self.source.read(range).await?).into_response();
        for (name, value) in fields {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}

/// 416: the size is in `Content-Range` and in the message.
fn unsatisfiable(size: u64) -> Response {
    let detail = format!("the range starts beyond the end: the size is {size} bytes");
    let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "request.range", detail);
    let mut response = problem.into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

fn requested_range(headers: &HeaderMap, size: u64, tag: &str) -> Requested {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let Some(range) = text(header::RANGE) else {
        return Requested::All;
    };
    // A date never matches: no dates are served.
    if headers.contains_key(header::IF_RANGE) && text(header::IF_RANGE).map(str::trim) != Some(tag)
    {
        return Requested::All;
    }
    part(range, size).unwrap_or(Requested::All)
}

/// Parses `bytes=5-9`; `None` if the header is to be ignored.
fn part(range: &str, size: u64) -> Option<Requested> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that overflows is beyond every end.
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
        Requested::Part(range)
    } else {
        Requested::Unsatisfiable
    })
}

impl Source {
    async fn read(self, range: Range<u64>) -> HandlerResult<Body> {
        match self {
            Self::File(file) => file_body(file, range).await,
            Self::Inside { package, path } => Ok(package_body(package, path, range)),
        }
    }
}

async fn file_body(mut file: File, range: Range<u64>) -> HandlerResult<Body> {
    let seek = file.seek(SeekFrom::Start(range.start)).await;
    seek.map_err(|error| Problem::bug(&error))?;
    let file = file.take(range.end - range.start);
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, io::Error>((read > 0).then_some((chunk, file)))
    });
    Ok(Body::from_stream(chunks))
}

/// Unpacks in a blocking thread, as fast as the client reads; a disconnect ends it.
fn package_body(package: Arc<Package>, path: String, range: Range<u64>) -> Body {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    tokio::task::spawn_blocking(move || {
        let remaining = range.end - range.start;
        let mut slice = Slice {
            skip: range.start,
            remaining,
            sender: sender.clone(),
        };
        if let Err(error) = package.copy(&path, &mut slice).map(drop)
            && slice.remaining > 0
        {
            tracing::warn!(path, %error, "cannot send a file of a package completely");
            let error = io::Error::other("cannot read the rest of the file");
            let _ = sender.blocking_send(Err(error)); // the client may have disconnected
        }
    });
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    Body::from_stream(chunks)
}

/// A writer that sends a range of the bytes written.
struct Slice {
    /// Number of bytes before the range, which are skipped.
    skip: u64,
    /// Bytes of the range that are not sent yet.
    remaining: u64,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for Slice {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.remaining == 0 {
            return Err(io::Error::other("the range is complete"));
        }
        let skipped = usize::try_from(self.skip)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.skip -= skipped as u64;
        let rest = &bytes[skipped..];
        let taken = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(rest.len());
        if taken > 0 {
            let chunk = Bytes::copy_from_slice(&rest[..taken]);
            let sent = self.sender.blocking_send(Ok(chunk));
            sent.map_err(|_| io::Error::other("the client has disconnected"))?;
            self.remaining -= taken as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Requested, part, requested_range};
    use axum::http::{HeaderMap, HeaderValue};

    #[test]
    fn ranges_are_parsed_as_in_http() {
        for (range, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=5-9", 5..10),
            ("Bytes = 5-9", 5..10),
            ("bytes=5-", 5..10),
            ("bytes=5-99999999999999999999", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
        ] {
            assert_eq!(part(range, 10), Some(Requested::Part(expected)), "{range}");
        }
        for range in [
            "bytes=10-",
            "bytes=10-12",
            "bytes=-0",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(part(range, 10), Some(Requested::Unsatisfiable), "{range}");
        }
        assert_eq!(
            part("bytes=0-", 0),
            Some(Requested::Unsatisfiable),
            "empty content has no parts"
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
    fn a_part_is_sent_only_if_the_tag_matches() {
        let requested = |if_range: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert("range", HeaderValue::from_static("bytes=5-"));
            if let Some(value) = if_range {
                headers.insert("if-range", HeaderValue::from_static(value));
            }
            requested_range(&headers, 10, "\"a\"")
        };
        assert_eq!(requested(None), Requested::Part(5..10));
        assert_eq!(requested(Some("\"a\"")), Requested::Part(5..10));
        for other in ["\"b\"", "W/\"a\"", "Wed, 04 Mar 2026 05:06:07 GMT", ""] {
            assert_eq!(requested(Some(other)), Requested::All, "{other}");
        }
    }
}
