//! The head of a response with a file or a part of one (RFC 9110 8.8, 14.4).

use vnfm_outbound::header::{CONTENT_RANGE, ETAG, HeaderValue};
use vnfm_outbound::{Response, StatusCode};

/// The members of a response's head that matter to a download.
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    /// `Content-Length`, in bytes; absent if the server omits it.
    pub(super) length: Option<u64>,
    /// `ETag`, if it is a strong one.
    pub(super) tag: Option<HeaderValue>,
    /// `Content-Range`: the first byte, and the size of the file if stated.
    pub(super) range: Option<(u64, Option<u64>)>,
}

impl ResponseHead {
    pub(super) fn new(response: &Response) -> Self {
        let range = response
            .headers()
            .get(CONTENT_RANGE)
            .and_then(|range| range.to_str().ok());
        Self {
            status: response.status(),
            length: response.content_length(),
            tag: response
                .headers()
                .get(ETAG)
                .filter(|tag| is_strong(tag))
                .cloned(),
            range: range.and_then(content_range),
        }
    }
}

/// Parses `bytes 5-9/10` into the first byte and the size of the file, which is `None` for `*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()))
}

/// Whether a tag identifies a representation byte for byte (RFC 9110 8.8.1).
fn is_strong(tag: &HeaderValue) -> bool {
    tag.as_bytes().starts_with(b"\"")
}

#[cfg(test)]
mod tests {
    use super::content_range;

    #[test]
    fn a_content_range_is_parsed() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["", "bytes */10", "bytes 5", "items 5-9/10", "bytes a-9/10"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }
}
