//! What an answer with a file, or with a part of one, says before it comes (RFC 9110 8.8, 14.4).

use vnfm_outbound::header::{CONTENT_RANGE, ETAG, HeaderValue};
use vnfm_outbound::{Response, StatusCode};

/// What the head of an answer says.
pub(super) struct Said {
    pub(super) status: StatusCode,
    pub(super) length: Option<u64>,
    /// A strong one.
    pub(super) tag: Option<HeaderValue>,
    /// The first byte that comes, and how many there are altogether where that is said.
    pub(super) range: Option<(u64, Option<u64>)>,
}

impl Said {
    pub(super) fn of(response: &Response) -> Self {
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

/// `bytes 5-9/10`: the first byte, and how many there are altogether where that is said.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, whole) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, whole.trim().parse().ok()))
}

/// Whether a tag stands for these very bytes (RFC 9110 8.8.1).
fn is_strong(tag: &HeaderValue) -> bool {
    tag.as_bytes().starts_with(b"\"")
}

#[cfg(test)]
mod tests {
    use super::content_range;

    #[test]
    fn a_content_range_is_read_as_http_has_it() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["", "bytes */10", "bytes 5", "items 5-9/10", "bytes a-9/10"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }
}
