//! Hostile responses: the call has its effect, but its response is built to harm the client.
//!
//! Each [`Hostility`] is derived from the true response, so that it works for every call of
//! every service, present and future.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::http::{Cut, Reply};
use crate::time::pause;

/// A kind of hostile response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hostility {
    /// A JSON string that never ends.
    Endless,
    /// A JSON array that never ends.
    EndlessList,
    /// One byte at a time, without end.
    Dripping,
    /// 256 MiB of JSON with a `Content-Length`.
    Huge,
    /// 100 000 nested arrays, deeper than a parser should follow.
    Deep,
    /// Arrays in place of objects and vice versa.
    Shape,
    /// Numbers in place of strings, strings in place of anything else.
    Types,
    /// An empty body with the original status.
    Empty,
    /// An HTML page instead of JSON.
    Html,
    /// JSON with strings that are not UTF-8.
    NotUtf8,
    /// The true body with a wrong `Content-Encoding`.
    Coding,
    /// The true body with one array repeated to a million entries.
    Million,
    /// Every string of the true body replaced by this one.
    Texts(String),
    /// A redirect to this URL.
    Redirect(String),
    /// Every URL in the true body points to this one.
    Elsewhere(String),
    /// The true response with this `Location`; empty: without one.
    Location(String),
    /// The true response with this `Docker-Content-Digest`.
    Digest(String),
    /// Status 401 with this `WWW-Authenticate`.
    Challenge(String),
    /// Status 500 with a body that never ends.
    EndlessError,
}

/// Chunk size in bytes of an endless response.
const CHUNK_LEN: usize = 64 << 10;
/// Number of chunks in [`Hostility::Huge`].
const HUGE_CHUNKS: usize = 4096;
/// Pause between two bytes of [`Hostility::Dripping`].
const DRIP_INTERVAL: Duration = Duration::from_millis(100);
/// Number of entries in [`Hostility::Million`].
const MILLION_ENTRIES: usize = 1_000_000;
/// Nesting depth of [`Hostility::Deep`], in arrays.
const NESTING_DEPTH: usize = 100_000;

impl Hostility {
    /// The response that replaces the true one; its body ends when `forgotten` completes.
    pub(crate) async fn apply(
        self,
        mut reply: Reply,
        forgotten: impl Future<Output = ()> + Send + 'static,
    ) -> Reply {
        match self {
            Self::Redirect(to) => return Reply::empty(307).with_header("location", to),
            Self::Challenge(text) => {
                return Reply::empty(401).with_header("www-authenticate", text);
            }
            Self::Location(to) => return with_header(reply, "location", to),
            Self::Digest(digest) => return with_header(reply, "docker-content-digest", digest),
            Self::EndlessError => reply.status = 500,
            _ => {}
        }
        let body = std::mem::take(&mut reply.body);
        // A watch never ends, so its body cannot be collected; its replacements do not need it.
        let has_end = hyper::body::Body::size_hint(&body).exact().is_some();
        let body_bytes = if has_end {
            axum::body::to_bytes(body, usize::MAX).await
        } else {
            Ok(Bytes::new())
        };
        let body_bytes = body_bytes.unwrap_or_default();
        let value: Value = serde_json::from_slice(&body_bytes).unwrap_or(Value::Null);
        reply
            .headers
            .retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
        let filler = Bytes::from(vec![b'a'; CHUNK_LEN]);
        let endless = |first: &'static str, piece: Bytes| {
            let first = stream::once(async move { Bytes::from_static(first.as_bytes()) });
            first.chain(stream::repeat(piece)).boxed()
        };
        let body = match self {
            Self::Endless | Self::EndlessError => endless("{\"a\": \"", filler),
            Self::EndlessList => endless("[{}", Bytes::from(",{}".repeat(CHUNK_LEN / 3))),
            Self::Dripping => drip(),
            Self::Huge => {
                let length = CHUNK_LEN * HUGE_CHUNKS + 4;
                reply = reply.with_header("content-length", length.to_string());
                let text = stream::iter(std::iter::repeat_n(filler, HUGE_CHUNKS));
                let ends = |text: &'static str| stream::iter([Bytes::from_static(text.as_bytes())]);
                ends("[\"").chain(text).chain(ends("\"]")).boxed()
            }
            Self::Million => repeat_list(&value),
            other => other.bounded(&mut reply, body_bytes, value),
        };
        let pieces = body.map(Ok::<_, Cut>).take_until(Box::pin(forgotten));
        reply.body = Body::from_stream(pieces);
        reply
    }

    /// The kinds whose body fits into memory.
    fn bounded(
        self,
        reply: &mut Reply,
        body_bytes: Bytes,
        value: Value,
    ) -> BoxStream<'static, Bytes> {
        let bytes = match self {
            Self::Deep => Bytes::from("[".repeat(NESTING_DEPTH)),
            Self::Shape => Bytes::from(other_shape(value).to_string()),
            Self::Types => Bytes::from(map_leaves(value, &other_type).to_string()),
            Self::Empty => Bytes::new(),
            Self::Html => {
                reply.headers.retain(|(name, _)| *name != "content-type");
                reply.headers.push(("content-type", "text/html".into()));
                Bytes::from_static(b"<html><body><h1>Log in</h1></body></html>")
            }
            Self::NotUtf8 => {
                let mark = "\u{1}not-utf-8\u{1}";
                let text = map_leaves(value, &|_| json!(mark)).to_string();
                let mark = json!(mark).to_string();
                let mut bytes = Vec::new();
                for (at, part) in text.split(&mark).enumerate() {
                    bytes.extend_from_slice(if at > 0 { b"\"\xff\xfe\xc3\"" } else { b"" });
                    bytes.extend_from_slice(part.as_bytes());
                }
                Bytes::from(bytes)
            }
            Self::Coding => {
                reply.headers.push(("content-encoding", "gzip".into()));
                body_bytes
            }
            Self::Texts(text) => {
                let put = |old: Value| if old.is_string() { json!(text) } else { old };
                Bytes::from(map_leaves(value, &put).to_string())
            }
            Self::Elsewhere(to) => {
                Bytes::from(map_leaves(value, &|old| redirect_url(old, &to)).to_string())
            }
            _ => body_bytes,
        };
        stream::once(async move { bytes }).boxed()
    }
}

/// The reply with another value of a header; an empty one removes it.
fn with_header(mut reply: Reply, name: &'static str, value: String) -> Reply {
    reply
        .headers
        .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    if value.is_empty() {
        reply
    } else {
        reply.with_header(name, value)
    }
}

/// Sends one space every 100 ms.
fn drip() -> BoxStream<'static, Bytes> {
    let drops = stream::repeat(Bytes::from_static(b" "));
    drops
        .then(|drop| async {
            pause(DRIP_INTERVAL).await;
            drop
        })
        .boxed()
}

/// Replaces each leaf of a value.
fn map_leaves(value: Value, put: &dyn Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(|one| map_leaves(one, put)).collect(),
        Value::Object(all) => {
            let members = all
                .into_iter()
                .map(|(name, one)| (name, map_leaves(one, put)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        leaf => put(leaf),
    }
}

fn other_shape(value: Value) -> Value {
    match value {
        Value::Array(all) => json!({ "list": all }),
        Value::Object(all) => {
            json!([Value::Object(
                all.into_iter()
                    .map(|(name, one)| (name, other_shape(one)))
                    .collect()
            )])
        }
        leaf => json!([leaf]),
    }
}

fn other_type(leaf: Value) -> Value {
    match leaf {
        Value::String(_) => json!(17),
        Value::Number(number) => json!(number.to_string()),
        Value::Null => json!([]),
        leaf => json!({ "value": leaf }),
    }
}

/// A URL gets another authority but keeps its path; any other leaf stays.
fn redirect_url(leaf: Value, to: &str) -> Value {
    let Some(text) = leaf.as_str() else {
        return leaf;
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        return leaf;
    };
    if !matches!(scheme, "http" | "https") {
        return leaf;
    }
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    json!(format!("{to}{path}"))
}

/// The value with its first array repeated to a million entries.
fn repeat_list(value: &Value) -> BoxStream<'static, Bytes> {
    let mark = "\u{1}a million\u{1}";
    let mut marked = value.clone();
    let entry = mark_list(&mut marked, mark).unwrap_or_else(|| json!({}));
    let text = marked.to_string();
    let mark = json!([mark]).to_string();
    let (before, after) = text.split_once(&mark).unwrap_or(("", ""));
    let (before, after) = (
        Bytes::from(format!("{before}[{entry}")),
        format!("]{after}"),
    );
    let entry = Bytes::from(format!(",{entry}").repeat(1000));
    let entries = stream::iter(std::iter::repeat_n(entry, MILLION_ENTRIES / 1000));
    let after = stream::once(async move { Bytes::from(after) });
    stream::once(async move { before })
        .chain(entries)
        .chain(after)
        .boxed()
}

/// Replaces the first array by a mark and returns one of its entries.
fn mark_list(value: &mut Value, mark: &str) -> Option<Value> {
    match value {
        Value::Array(all) => {
            let entry = all.first().cloned().unwrap_or_else(|| json!({}));
            *all = vec![json!(mark)];
            Some(entry)
        }
        Value::Object(all) => all.values_mut().find_map(|one| mark_list(one, mark)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(hostility: Hostility, answer: &Value, most: usize) -> (Reply, Vec<u8>) {
        let mut reply = hostility
            .apply(Reply::json(200, answer), std::future::pending::<()>())
            .await;
        let mut pieces = std::mem::take(&mut reply.body).into_data_stream();
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let Some(piece) = pieces.next().await else {
                break;
            };
            bytes.extend_from_slice(&piece.unwrap());
        }
        (reply, bytes)
    }

    #[tokio::test]
    async fn hostile_responses_are_derived_from_the_true_response() {
        let answer = json!({"servers": [{"name": "a", "n": 1}], "url": "http://true.example/v3/x"});
        let json = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
        let (_, bytes) = text(Hostility::Endless, &answer, 1 << 20).await;
        assert!(bytes.len() >= 1 << 20);
        let (_, bytes) = text(Hostility::Million, &answer, usize::MAX).await;
        assert_eq!(
            json(bytes)["servers"].as_array().unwrap().len(),
            MILLION_ENTRIES + 1
        );
        let (reply, bytes) = text(Hostility::Huge, &answer, usize::MAX).await;
        assert!(
            reply
                .headers
                .contains(&("content-length", bytes.len().to_string()))
        );
        let (_, bytes) = text(Hostility::Types, &answer, usize::MAX).await;
        assert_eq!(json(bytes)["servers"][0], json!({"name": 17, "n": "1"}));
        let (_, bytes) = text(Hostility::Shape, &answer, usize::MAX).await;
        assert!(json(bytes)[0]["servers"].is_object());
        let (_, bytes) = text(Hostility::NotUtf8, &answer, usize::MAX).await;
        assert!(std::str::from_utf8(&bytes).is_err());
        let (_, bytes) = text(
            Hostility::Elsewhere("http://127.9.9.9:1".into()),
            &answer,
            usize::MAX,
        )
        .await;
        assert_eq!(json(bytes)["url"], "http://127.9.9.9:1/v3/x");
        let (_, bytes) = text(Hostility::Texts("$(id)".into()), &answer, usize::MAX).await;
        assert_eq!(json(bytes)["servers"][0], json!({"name": "$(id)", "n": 1}));
        let (reply, _) = text(Hostility::Redirect("http://x/".into()), &answer, usize::MAX).await;
        assert_eq!((reply.status, reply.headers[0].0), (307, "location"));
        let (reply, _) = text(Hostility::Location(String::new()), &answer, usize::MAX).await;
        assert_eq!((reply.status, reply.headers.len()), (200, 1));
        let (reply, bytes) = text(Hostility::EndlessError, &answer, 1 << 20).await;
        assert_eq!((reply.status, bytes.len() >= 1 << 20), (500, true));
    }
}
