//! Waiting without polling: watches keep a cache of objects current, and a check runs on it at each change.
//!
//! ```text
//! feeds ── list + watch ──> ObjectCache ── check ──> Done | NotYet(reason) ──> Watcher::waiting
//!    ^                                       └─────> Failed
//!    └── restarted with the current connection after 401, 5xx or a broken stream
//! ```
//! A wait ends at the deadline of the step; the error describes the cache at that time. A refused login does not end it:
//! a `vim update` may bring a new credential.

use crate::catalog::api;
use crate::client::Session;
use crate::errors;
use crate::status::text;
use futures::StreamExt as _;
use futures::future::{Either, select};
use futures::stream::{BoxStream, FuturesUnordered, StreamFuture};
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::Instrument as _;
use vnfm_core::ports::{ErrorKind, PortError, VimCall};
use vnfm_core::to_json_or_log;

/// Seconds after which the API server ends a watch and it is restarted; less than the client's read timeout.
const WATCH_SECONDS: u32 = 20;
/// The pause before the watches are restarted after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What is watched: the objects of one kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feed {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Feed {
    /// The objects of a kind that match the label selector `labels`.
    pub(crate) fn labelled(resource: &ApiResource, namespace: Option<&str>, labels: &str) -> Self {
        Self {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            labels: Some(labels.to_owned()),
            fields: None,
        }
    }
}

/// The current objects of all feeds.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache {
    feeds: Vec<FeedObjects>,
}

#[derive(Debug, Default)]
struct FeedObjects {
    resource: Option<ApiResource>,
    listed: bool,
    objects: BTreeMap<(String, String), Value>,
    listing: BTreeMap<(String, String), Value>,
}

impl ObjectCache {
    fn new(feeds: &[Feed]) -> Self {
        let seen = |feed: &Feed| FeedObjects {
            resource: Some(feed.resource.clone()),
            ..FeedObjects::default()
        };
        Self {
            feeds: feeds.iter().map(seen).collect(),
        }
    }

    /// `None` if the object does not exist or is not watched.
    pub(crate) fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&Value> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.feeds_of(resource)
            .find_map(|seen| seen.objects.get(&key))
    }

    /// Every object of a kind of the core group.
    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let is_kind = move |seen: &&FeedObjects| {
            seen.resource
                .as_ref()
                .is_some_and(|r| r.kind == kind && r.group.is_empty())
        };
        self.feeds
            .iter()
            .filter(is_kind)
            .flat_map(|seen| seen.objects.values())
    }

    /// Every object of a kind that is watched.
    pub(crate) fn objects(&self, resource: &ApiResource) -> impl Iterator<Item = &Value> {
        self.feeds_of(resource)
            .flat_map(|seen| seen.objects.values())
    }

    fn feeds_of(&self, resource: &ApiResource) -> impl Iterator<Item = &FeedObjects> {
        self.feeds
            .iter()
            .filter(move |seen| seen.resource.as_ref() == Some(resource))
    }

    fn is_complete(&self) -> bool {
        self.feeds.iter().all(|seen| seen.listed)
    }

    fn apply_event(&mut self, feed: usize, event: Event<DynamicObject>) {
        let Some(seen) = self.feeds.get_mut(feed) else {
            return;
        };
        match event {
            Event::Init => seen.listing.clear(),
            Event::InitApply(object) => {
                drop(
                    seen.listing
                        .insert(key(&object), typed_json(seen.resource.as_ref(), object)),
                );
            }
            Event::InitDone => {
                seen.objects = std::mem::take(&mut seen.listing);
                seen.listed = true;
            }
            Event::Apply(object) => {
                drop(
                    seen.objects
                        .insert(key(&object), typed_json(seen.resource.as_ref(), object)),
                );
            }
            Event::Delete(object) => drop(seen.objects.remove(&key(&object))),
        }
    }

    /// For a kind that is not (or no longer) served: it has no objects.
    fn clear_feed(&mut self, feed: usize) {
        if let Some(seen) = self.feeds.get_mut(feed) {
            seen.objects.clear();
            seen.listed = true;
        }
    }
}

/// The result of a check.
pub(crate) enum Verdict<T> {
    Done(T),
    NotYet(String),
    Failed(PortError),
}

/// How a wait without an error ended.
pub(crate) enum WaitEnd<T> {
    Done(T),
    /// The deadline passed before a verdict.
    Expired {
        cache: ObjectCache,
        reason: String,
    },
}

/// Watches `feeds` until `check` is done, at most until the deadline of `cx`.
///
/// # Errors
///
/// Those of `check`, and permanent errors of the API server.
pub(crate) async fn watch_until<T>(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    feeds: &[Feed],
    mut check: impl FnMut(&ObjectCache) -> Verdict<T>,
) -> Result<WaitEnd<T>, PortError> {
    let mut wait = WatchLoop {
        cx,
        session,
        cache: ObjectCache::new(feeds),
        reason: String::new(),
        not_served: vec![false; feeds.len()],
    };
    wait.report("the first response of the API server");
    let watching = async {
        loop {
            let client = session.client().await?;
            let streams = streams(&client, feeds, &wait.not_served);
            match wait.follow(streams, &mut check).await? {
                StreamEnd::Done(value) => return Ok(WaitEnd::Done(value)),
                StreamEnd::Expired => {
                    return Ok(WaitEnd::Expired {
                        cache: wait.cache,
                        reason: wait.reason,
                    });
                }
                StreamEnd::Restart => {}
            }
        }
    };
    watching
        .instrument(tracing::info_span!("watch", vim = session.vim()))
        .await
}

/// The events of one feed; its list comes first.
type Events = BoxStream<'static, (usize, watcher::Result<Event<DynamicObject>>)>;

fn streams(
    client: &Client,
    feeds: &[Feed],
    not_served: &[bool],
) -> FuturesUnordered<StreamFuture<Events>> {
    let open = feeds
        .iter()
        .enumerate()
        .filter(|(index, _)| not_served.get(*index) != Some(&true));
    let streams = open.map(|(index, feed)| {
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        config.label_selector.clone_from(&feed.labels);
        config.field_selector.clone_from(&feed.fields);
        let objects = api(client.clone(), &feed.resource, feed.namespace.as_deref());
        let events = watcher::watcher(objects, config).map(move |event| (index, event));
        events.boxed().into_future()
    });
    streams.collect()
}

enum StreamEnd<T> {
    Done(T),
    Expired,
    Restart,
}

struct WatchLoop<'a, 'b> {
    cx: &'a VimCall<'b>,
    session: &'a Session<'b>,
    cache: ObjectCache,
    reason: String,
    not_served: Vec<bool>,
}

impl WatchLoop<'_, '_> {
    /// Reads the lists of all feeds, and watches them only if the check is not done then: an unneeded watch would cost a
    /// connection.
    async fn follow<T>(
        &mut self,
        mut reading: FuturesUnordered<StreamFuture<Events>>,
        check: &mut impl FnMut(&ObjectCache) -> Verdict<T>,
    ) -> Result<StreamEnd<T>, PortError> {
        let mut listed = Vec::new();
        loop {
            if self.cache.is_complete() {
                match check(&self.cache) {
                    Verdict::Done(value) => return Ok(StreamEnd::Done(value)),
                    Verdict::Failed(error) => return Err(error),
                    Verdict::NotYet(reason) => self.report(&reason),
                }
                reading.extend(listed.drain(..).map(Events::into_future));
            }
            let deadline = self.cx.clock.sleep(self.remaining());
            let (event, rest) = match select(reading.next(), deadline).await {
                Either::Left((Some(read), _)) => read,
                Either::Left((None, deadline)) => {
                    deadline.await;
                    return Ok(StreamEnd::Expired);
                }
                Either::Right(_) => return Ok(StreamEnd::Expired),
            };
            match event {
                Some((feed, Ok(event))) => {
                    let is_listed = matches!(event, Event::InitDone);
                    self.cache.apply_event(feed, event);
                    if is_listed {
                        listed.push(rest);
                    } else {
                        reading.push(rest.into_future());
                    }
                }
                Some((feed, Err(error))) => return self.tolerate(feed, &error).await,
                None => {} // a watcher's stream has no end
            }
        }
    }

    /// Reports an error that may be transient and waits; returns any other.
    async fn tolerate<T>(
        &mut self,
        feed: usize,
        error: &watcher::Error,
    ) -> Result<StreamEnd<T>, PortError> {
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match errors::status(error) {
                410 => return Ok(StreamEnd::Restart),
                404 => {
                    self.cache.clear_feed(feed);
                    self.not_served[feed] = true;
                    return Ok(StreamEnd::Restart);
                }
                _ => self.session.port_error("watch the objects", error),
            },
            watcher::Error::WatchError(status) if status.code == 410 => {
                return Ok(StreamEnd::Restart);
            }
            watcher::Error::WatchError(status) => self
                .session
                .port_error("watch the objects", &kube::Error::Api(status.clone())),
            watcher::Error::NoResourceVersion => PortError::new(
                &errors::UNEXPECTED,
                "watch the objects",
                "the list has no `resourceVersion`",
            ),
        };
        let vim = self.session.vim();
        if error.code() == &errors::LOGIN_REFUSED {
            self.report(&format!("VIM `{vim}` refuses the login; `vnfmctl vim update {vim}` with a new credential lets it continue"));
        } else if error.kind() == ErrorKind::Unavailable {
            self.report(&format!("VIM `{vim}` to answer: {}", error.detail()));
        } else {
            return Err(error);
        }
        let left = self.remaining();
        self.cx.clock.sleep(RETRY_INTERVAL.min(left)).await;
        Ok(if left.is_zero() {
            StreamEnd::Expired
        } else {
            StreamEnd::Restart
        })
    }

    fn report(&mut self, reason: &str) {
        if self.reason != reason {
            reason.clone_into(&mut self.reason);
            self.cx.watcher.waiting(reason);
        }
    }

    fn remaining(&self) -> Duration {
        self.cx
            .deadline
            .duration_since(self.cx.clock.now())
            .try_into()
            .unwrap_or(Duration::ZERO)
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    let metadata = &object.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// Converts to JSON and adds `apiVersion` and `kind`, which lists omit.
pub(crate) fn typed_json(resource: Option<&ApiResource>, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = to_json_or_log("a Kubernetes object", &object).unwrap_or_default();
    if let (Some(resource), true) = (resource, value.is_object()) {
        value["apiVersion"] = resource.api_version.as_str().into();
        value["kind"] = resource.kind.as_str().into();
    }
    value
}

/// `metadata.uid` of an object; empty if absent.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}
