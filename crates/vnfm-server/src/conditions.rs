//! Conditional requests (RFC 9110 13, SOL013 5.7): `ETag` and `Last-Modified` in responses, `If-None-Match` for reads,
//! `If-Match` and `If-Unmodified-Since` for changes. The engine checks the conditions on the version that it then
//! overwrites, so of two clients that change the same version, one gets 412.

use crate::problem::{HandlerResult, Problem};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use serde::Serialize;
use std::hash::{DefaultHasher, Hasher as _};
use vnfm_core::ports::{InstanceRecord, SnapshotRecord};

/// The conditions of a request on the resource's state.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// `If-Match`; `None` if absent, empty for `*`.
    tags: Option<Vec<String>>,
    since: Option<Timestamp>,
}

impl Conditions {
    /// Parses the headers of a conditional request.
    ///
    /// # Errors
    ///
    /// 400 if `If-Match` is not a list of tags.
    pub(crate) fn from_headers(headers: &HeaderMap) -> HandlerResult<Self> {
        let text = |name| {
            headers
                .get(name)
                .map(|value: &HeaderValue| value.to_str().unwrap_or_default())
        };
        let tags = match text(header::IF_MATCH).map(str::trim) {
            None => None,
            Some("*") => Some(Vec::new()),
            Some(list) => Some(tags(list).ok_or_else(|| {
                Problem::bad_request(format!("`If-Match` is `*` or tags in quotes, not `{list}`"))
            })?),
        };
        // An invalid date is ignored (RFC 9110 13.1.4).
        let since = text(header::IF_UNMODIFIED_SINCE).filter(|_| tags.is_none());
        let since = since.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        Ok(Self { tags, since })
    }

    /// Whether an instance meets the conditions.
    pub(crate) fn are_met_by(&self, record: &InstanceRecord) -> bool {
        self.hold(&instance_tag(record), changed(record))
    }

    /// Whether a snapshot meets the conditions.
    pub(crate) fn are_met_by_snapshot(&self, record: &SnapshotRecord) -> bool {
        self.hold(&snapshot_tag(record), record.changed_at)
    }

    /// Whether they hold for a resource with this tag that was changed then.
    fn hold(&self, tag: &str, changed: Option<Timestamp>) -> bool {
        let matched = |tags: &Vec<String>| tags.is_empty() || tags.iter().any(|one| one == tag);
        let unchanged =
            |since: Timestamp| changed.is_none_or(|at| at.as_second() <= since.as_second());
        self.tags.as_ref().is_none_or(matched) && self.since.is_none_or(unchanged)
    }
}

/// Responds with 304 if `If-None-Match` has the tag of the response (RFC 9110 13.1.2). Applies to every response with
/// a tag, so handlers need not check it.
pub(crate) async fn unchanged(request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let lines = request.headers().get_all(header::IF_NONE_MATCH).iter();
    let known: Vec<_> = lines
        .filter_map(|line| line.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut response = next.run(request).await;
    let tag = response
        .headers()
        .get(header::ETAG)
        .and_then(|tag| tag.to_str().ok());
    let is_known = is_read && response.status().is_success();
    if !is_known || !tag.is_some_and(|tag| knows(&known, tag)) {
        return response;
    }
    for name in [
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
    ] {
        response.headers_mut().remove(name);
    }
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.body_mut() = Body::empty();
    response
}

/// Whether one of the lists has `tag`, by weak comparison (RFC 9110 8.8.3.2).
fn knows(lists: &[String], tag: &str) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    lists.iter().any(|list| {
        let weak = list.replace("W/\"", "\"");
        list.trim() == "*" || tags(&weak).is_some_and(|known| known.contains(&strong(tag)))
    })
}

impl Conditions {
    /// Whether a resource without a modification date meets the conditions, by its tag.
    pub(crate) fn are_met_by_tag(&self, tag: &str) -> bool {
        let named = |tags: &Vec<String>| tags.is_empty() || tags.iter().any(|one| one == tag);
        self.tags.as_ref().is_none_or(named)
    }
}

/// Parses `"a", "b"`; weak tags match nothing.
fn tags(list: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start();
        let weak = rest.starts_with("W/");
        rest = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = rest.split_once('"')?;
        found.extend((!weak).then(|| format!("\"{tag}\"")));
        match after.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None if after.trim().is_empty() => break,
            None => return None,
        }
    }
    // If there were only weak tags: one that matches nothing.
    found.extend(found.is_empty().then(String::new));
    Some(found)
}

/// An instance's tag changes with each write, and with whether it is busy, because that changes its links.
fn instance_tag(record: &InstanceRecord) -> String {
    let busy = if record.active_op.is_some() {
        "-busy"
    } else {
        ""
    };
    format!("\"{}{busy}\"", record.version)
}

fn changed(record: &InstanceRecord) -> Option<Timestamp> {
    record.changed_at.or(record.created_at)
}

/// `ETag` and `Last-Modified` of an instance.
pub(crate) fn of_instance(record: &InstanceRecord) -> HeaderMap {
    headers(&instance_tag(record), changed(record))
}

/// A snapshot's tag changes with each write.
fn snapshot_tag(record: &SnapshotRecord) -> String {
    format!("\"{}\"", record.version)
}

/// `ETag` and `Last-Modified` of a snapshot.
pub(crate) fn of_snapshot(record: &SnapshotRecord) -> HeaderMap {
    headers(&snapshot_tag(record), record.changed_at)
}

/// A JSON response with a tag computed from its content.
pub(crate) fn json_with_tag<T: Serialize>(resource: &T, changed: Option<Timestamp>) -> Response {
    let text = match serde_json::to_vec(resource) {
        Ok(text) => text,
        Err(error) => return Problem::bug(&error).into_response(),
    };
    let kind = HeaderValue::from_static("application/json");
    (
        [(header::CONTENT_TYPE, kind)],
        headers(&tag_of(&text), changed),
        text,
    )
        .into_response()
}

/// The tag of a resource, computed from its content.
///
/// # Errors
///
/// 500 if it has no JSON form: a bug.
pub(crate) fn tag<T: Serialize>(resource: &T) -> HandlerResult<String> {
    let text = serde_json::to_vec(resource).map_err(|error| Problem::bug(&error))?;
    Ok(tag_of(&text))
}

fn tag_of(text: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    format!("\"{:016x}\"", hasher.finish())
}

fn headers(tag: &str, changed: Option<Timestamp>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let date = changed.and_then(|at| DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok());
    for (name, value) in [
        (header::ETAG, Some(tag)),
        (header::LAST_MODIFIED, date.as_deref()),
    ] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.insert(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::{Conditions, tags};
    use axum::http::{HeaderMap, HeaderValue};
    use vnfm_core::ports::InstanceRecord;

    fn record() -> InstanceRecord {
        let changed_at = Some("2026-03-04T05:06:07.5Z".parse().unwrap());
        InstanceRecord {
            version: 7,
            changed_at,
            ..InstanceRecord::default()
        }
    }

    fn holds(name: &'static str, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        Conditions::from_headers(&headers)
            .unwrap()
            .are_met_by(&record())
    }

    #[test]
    fn tag_lists_are_parsed() {
        assert_eq!(tags(r#""a""#), Some(vec![r#""a""#.into()]));
        assert_eq!(
            tags(r#""a,b" , W/"c","d""#),
            Some(vec![r#""a,b""#.into(), r#""d""#.into()])
        );
        assert_eq!(tags(r#"W/"a""#), Some(vec![String::new()]));
        for wrong in ["", "a", r#""a"#, r#""a" "b""#, r#""a","#, "*, \"a\""] {
            assert_eq!(tags(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn conditions_compare_tag_and_date() {
        assert!(
            holds("if-match", "\"7\"")
                && holds("if-match", "*")
                && holds("if-match", "\"6\", \"7\"")
        );
        assert!(
            !holds("if-match", "\"6\"")
                && !holds("if-match", "W/\"7\"")
                && !holds("if-match", "\"7-busy\"")
        );
        assert!(holds(
            "if-unmodified-since",
            "Wed, 04 Mar 2026 05:06:07 GMT"
        ));
        assert!(!holds(
            "if-unmodified-since",
            "Wed, 04 Mar 2026 05:06:06 GMT"
        ));
        assert!(holds("if-unmodified-since", "yesterday"));
        assert!(Conditions::default().are_met_by(&record()));
    }
}
