//! Watches (the changes of a kind from a version on, one JSON document per line) and selectors.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Cluster;
use super::objects::{Change, Kind, Store};
use super::writes::status;
use crate::http::{Reply, Request};
use crate::time::pause;

/// A label and field selector.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<(String, Test)>,
    fields: Vec<(Vec<String>, bool, String)>,
}

#[derive(Debug, Clone)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// Parses `labelSelector` and `fieldSelector` of a request.
    pub(crate) fn from_request(request: &Request) -> Self {
        let labels = split(request.param("labelSelector").unwrap_or_default())
            .iter()
            .map(|part| requirement(part))
            .collect();
        let field = |part: &String| {
            let (path, equal, value) = match part.split_once("!=") {
                Some((path, value)) => (path, false, value),
                None => part
                    .split_once("==")
                    .or_else(|| part.split_once('='))
                    .map_or((part.as_str(), true, ""), |(path, value)| {
                        (path, true, value)
                    }),
            };
            (
                path.trim().split('.').map(str::to_owned).collect(),
                equal,
                value.trim().to_owned(),
            )
        };
        let fields = split(request.param("fieldSelector").unwrap_or_default())
            .iter()
            .map(field)
            .collect();
        Self { labels, fields }
    }

    /// Parses a selector in an object's spec; an empty one selects everything, an absent one (`None`) nothing.
    pub(crate) fn of_object(selector: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let selector = selector.as_object()?;
        let equal = selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let equal = equal.map(|(name, value)| (name.clone(), Test::In(vec![text(value)])));
        let more = selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let more = more.map(|expression| {
            let values = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect();
            let test = match expression["operator"].as_str() {
                Some("In") => Test::In(values),
                Some("NotIn") => Test::NotIn(values),
                Some("DoesNotExist") => Test::Absent,
                _ => Test::Exists,
            };
            (text(&expression["key"]), test)
        });
        Some(Self {
            labels: equal.chain(more).collect(),
            fields: Vec::new(),
        })
    }

    /// Whether it selects the object.
    pub(crate) fn matches(&self, body: &Value) -> bool {
        let label = |name: &str| body["metadata"]["labels"][name].as_str();
        let labels = self.labels.iter().all(|(name, test)| match test {
            Test::In(values) => label(name).is_some_and(|value| values.iter().any(|v| v == value)),
            Test::NotIn(values) => {
                label(name).is_none_or(|value| values.iter().all(|v| v != value))
            }
            Test::Exists => label(name).is_some(),
            Test::Absent => label(name).is_none(),
        });
        let field = |path: &[String]| {
            path.iter()
                .try_fold(body, |at, part| at.get(part))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        labels
            && self
                .fields
                .iter()
                .all(|(path, equal, value)| (field(path) == *value) == *equal)
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_i32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement(text: &str) -> (String, Test) {
    let set = |values: &str| {
        values
            .trim()
            .trim_start_matches('(')
            .trim_end_matches(')')
            .split(',')
            .map(|v| v.trim().to_owned())
            .collect()
    };
    let one = |name: &str, test: Test| (name.trim().to_owned(), test);
    if let Some((name, values)) = text.split_once(" notin ") {
        one(name, Test::NotIn(set(values)))
    } else if let Some((name, values)) = text.split_once(" in ") {
        one(name, Test::In(set(values)))
    } else if let Some((name, value)) = text.split_once("!=") {
        one(name, Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        one(name, Test::In(vec![value.trim().to_owned()]))
    } else if let Some(name) = text.strip_prefix('!') {
        one(name, Test::Absent)
    } else {
        one(text, Test::Exists)
    }
}

struct WatchState {
    cluster: Arc<Cluster>,
    kind: Arc<Kind>,
    namespace: String,
    selector: Selector,
    seen: u64,
    changes: watch::Receiver<u64>,
    first: Vec<Value>,
    bookmarks: bool,
    until: tokio::time::Instant,
    ended: bool,
}

/// Serves a list with `?watch=1`, as a stream of events.
pub(crate) fn watch(
    cluster: &Arc<Cluster>,
    store: &Store,
    (kind, namespace): (&Arc<Kind>, &str),
    request: &Request,
) -> Reply {
    let version = request.param("resourceVersion").unwrap_or_default();
    let from: u64 = version.parse().unwrap_or(0);
    let selector = Selector::from_request(request);
    let seconds = request
        .param("timeoutSeconds")
        .and_then(|s| s.parse().ok())
        .unwrap_or(1800);
    let initial = request.param("sendInitialEvents") == Some("true");
    let bookmarks = request.param("allowWatchBookmarks") == Some("true");
    let mut first = Vec::new();
    let mut seen = from;
    if initial || from == 0 {
        let present = store
            .list(&kind.qualified(), namespace)
            .filter(|(_, body)| selector.matches(body));
        first.extend(present.map(|(_, body)| json!({ "type": "ADDED", "object": **body })));
        seen = store.version;
        if initial && bookmarks {
            first.push(bookmark(kind, seen, true));
        }
    } else if store.since(&kind.qualified(), from).is_none() {
        first.push(json!({ "type": "ERROR", "object": expired(from, store.version) }));
    }
    let changes = store.subscribe();
    let until = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let ended = first.first().is_some_and(|event| event["type"] == "ERROR");
    let watching = WatchState {
        cluster: Arc::clone(cluster),
        kind: Arc::clone(kind),
        namespace: namespace.to_owned(),
        selector,
        seen,
        changes,
        first,
        bookmarks,
        until,
        ended,
    };
    let lines = stream::unfold(Some(watching), next);
    Reply {
        body: Body::from_stream(lines),
        ..Reply::empty(200)
    }
    .with_header("content-type", "application/json")
}

/// The next chunk of a watch, with all events that are due.
async fn next(
    watching: Option<WatchState>,
) -> Option<(Result<Bytes, std::io::Error>, Option<WatchState>)> {
    let mut watching = watching?;
    loop {
        let mut due = std::mem::take(&mut watching.first);
        if !watching.ended {
            due.extend(watching.pending_events());
        }
        let over = watching.ended;
        if !due.is_empty() {
            let text = due.iter().fold(String::new(), |text, event| {
                text + &event.to_string() + "\n"
            });
            return Some((Ok(Bytes::from(text)), (!over).then_some(watching)));
        }
        if over {
            return None;
        }
        let left = watching
            .until
            .saturating_duration_since(tokio::time::Instant::now());
        tokio::select! {
            changed = watching.changes.changed() => watching.ended = changed.is_err(),
            () = pause(left.max(Duration::from_millis(1))) => {
                watching.ended = true;
                if watching.bookmarks {
                    watching.first.push(bookmark(&watching.kind, watching.seen, false));
                }
            }
        }
    }
}

impl WatchState {
    fn pending_events(&mut self) -> Vec<Value> {
        let cluster = Arc::clone(&self.cluster);
        let store: MutexGuard<'_, Store> = cluster.store();
        let Some(changes) = store.since(&self.kind.qualified(), self.seen) else {
            self.ended = true;
            return vec![json!({ "type": "ERROR", "object": expired(self.seen, store.version) })];
        };
        self.seen = store.version;
        changes
            .iter()
            .filter_map(|change| self.event(change))
            .collect()
    }

    /// The watch event of a change; an object that enters or leaves the selection is added or deleted.
    fn event(&self, change: &Change) -> Option<Value> {
        let mine = |body: &Arc<Value>| {
            (self.namespace.is_empty() || body["metadata"]["namespace"] == self.namespace.as_str())
                && self.selector.matches(body)
        };
        let before = change.before.as_ref().filter(|body| mine(body));
        let after = change.after.as_ref().filter(|body| mine(body));
        let (kind, object) = match (before, after) {
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", change.after.as_ref().unwrap_or(old)),
            (None, None) => return None,
        };
        Some(json!({ "type": kind, "object": **object }))
    }
}

fn bookmark(kind: &Kind, version: u64, end: bool) -> Value {
    let mut meta = json!({ "resourceVersion": version.to_string(), "creationTimestamp": null });
    if end {
        meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    json!({ "type": "BOOKMARK", "object": { "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": meta } })
}

fn expired(from: u64, now: u64) -> Value {
    status(
        410,
        "Expired",
        &format!("too old resource version: {from} ({now})"),
        Value::Null,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(labels: &str, fields: &str) -> Selector {
        let query = vec![
            ("labelSelector".to_owned(), labels.to_owned()),
            ("fieldSelector".to_owned(), fields.to_owned()),
        ];
        Selector::from_request(&Request {
            method: http::Method::GET,
            path: String::new(),
            query,
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
        })
    }

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let pod = json!({ "metadata": { "name": "p", "labels": { "app": "web", "tier": "a" } }, "status": { "phase": "Running" } });
        for (labels, fields, fits) in [
            ("", "", true),
            ("app=web,tier!=b", "", true),
            ("app in (db, web),!gone", "metadata.name=p", true),
            ("app notin (web)", "", false),
            ("tier", "status.phase!=Running", false),
            ("other", "", false),
            ("", "metadata.name=q", false),
        ] {
            assert_eq!(
                selector(labels, fields).matches(&pod),
                fits,
                "{labels} {fields}"
            );
        }
    }
}
