//! Waiting without polling: a scene of objects is kept current by watches, and a judge looks at it at each change.
//!
//! ```text
//! feeds ── list + watch ──> Scene ── judge ──> Done | NotYet(reason) ──> Watcher::waiting
//!    ^                                └──────> Failed
//!    └── anew, with the connection that is valid then, after 401, a broken stream, 5xx
//! ```
//! A wait ends at the deadline of the step; what the scene shows then goes into the error. A refused login does
//! not end it: a `vim update` may bring a new credential.

use crate::catalog::api;
use crate::client::Session;
use crate::errors;
use crate::ready::text;
use futures::StreamExt as _;
use futures::future::{Either, select};
use futures::stream::{BoxStream, select_all};
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::Instrument as _;
use vnfm_core::ports::{ErrorKind, PortError, VimCall};

/// Seconds after which the API server ends a watch and it is begun anew; shorter than the longest silence that a
/// client bears.
const WATCH: u32 = 20;
/// Pause after trouble.
const PAUSE: Duration = Duration::from_secs(1);

/// What is watched: the objects of one kind in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feed {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Feed {
    /// Everything of a kind that carries labels.
    pub(crate) fn labelled(resource: &ApiResource, namespace: Option<&str>, labels: &str) -> Self {
        Self {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            labels: Some(labels.to_owned()),
            fields: None,
        }
    }
}

/// The objects of all feeds, as they are now.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    feeds: Vec<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    resource: Option<ApiResource>,
    listed: bool,
    objects: BTreeMap<(String, String), Value>,
    arriving: BTreeMap<(String, String), Value>,
}

impl Scene {
    fn new(feeds: &[Feed]) -> Self {
        let seen = |feed: &Feed| Seen {
            resource: Some(feed.resource.clone()),
            ..Seen::default()
        };
        Self {
            feeds: feeds.iter().map(seen).collect(),
        }
    }

    /// An object, if it is there.
    pub(crate) fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&Value> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.of(resource).find_map(|seen| seen.objects.get(&key))
    }

    /// Every object of a kind of the core group.
    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let fits = move |seen: &&Seen| {
            seen.resource
                .as_ref()
                .is_some_and(|r| r.kind == kind && r.group.is_empty())
        };
        self.feeds
            .iter()
            .filter(fits)
            .flat_map(|seen| seen.objects.values())
    }

    fn of(&self, resource: &ApiResource) -> impl Iterator<Item = &Seen> {
        self.feeds
            .iter()
            .filter(move |seen| seen.resource.as_ref() == Some(resource))
    }

    fn is_complete(&self) -> bool {
        self.feeds.iter().all(|seen| seen.listed)
    }

    fn take(&mut self, feed: usize, event: Event<DynamicObject>) {
        let Some(seen) = self.feeds.get_mut(feed) else {
            return;
        };
        match event {
            Event::Init => seen.arriving.clear(),
            Event::InitApply(object) => {
                drop(
                    seen.arriving
                        .insert(key(&object), shown(seen.resource.as_ref(), object)),
                );
            }
            Event::InitDone => {
                seen.objects = std::mem::take(&mut seen.arriving);
                seen.listed = true;
            }
            Event::Apply(object) => {
                drop(
                    seen.objects
                        .insert(key(&object), shown(seen.resource.as_ref(), object)),
                );
            }
            Event::Delete(object) => drop(seen.objects.remove(&key(&object))),
        }
    }

    /// The kind is not served (any more): there is nothing of it.
    fn take_nothing(&mut self, feed: usize) {
        if let Some(seen) = self.feeds.get_mut(feed) {
            seen.objects.clear();
            seen.listed = true;
        }
    }
}

/// What a judge says of a scene.
pub(crate) enum Verdict<T> {
    Done(T),
    NotYet(String),
    Failed(PortError),
}

/// How a wait ended that did not fail.
pub(crate) enum End<T> {
    Done(T),
    /// The deadline passed.
    Late {
        scene: Scene,
        reason: String,
    },
}

/// Watches `feeds` until `judge` is content, at most until the deadline of `cx`.
///
/// # Errors
///
/// What the judge says, and what the API server refuses for good.
pub(crate) async fn until<T>(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    feeds: &[Feed],
    mut judge: impl FnMut(&Scene) -> Verdict<T>,
) -> Result<End<T>, PortError> {
    let mut wait = Wait {
        cx,
        session,
        scene: Scene::new(feeds),
        reason: String::new(),
        gone: vec![false; feeds.len()],
    };
    wait.say("the API server's first answer");
    let watching = async {
        loop {
            let client = session.client().await?;
            let mut stream = streams(&client, feeds, &wait.gone);
            match wait.follow(&mut stream, &mut judge).await? {
                Turn::Done(value) => return Ok(End::Done(value)),
                Turn::Late => {
                    return Ok(End::Late {
                        scene: wait.scene,
                        reason: wait.reason,
                    });
                }
                Turn::Anew => {}
            }
        }
    };
    watching
        .instrument(tracing::info_span!("watch", vim = session.vim()))
        .await
}

type Events = BoxStream<'static, (usize, watcher::Result<Event<DynamicObject>>)>;

fn streams(client: &Client, feeds: &[Feed], gone: &[bool]) -> Events {
    let open = feeds
        .iter()
        .enumerate()
        .filter(|(index, _)| gone.get(*index) != Some(&true));
    let streams = open.map(|(index, feed)| {
        let mut config = watcher::Config::default().timeout(WATCH);
        config.label_selector.clone_from(&feed.labels);
        config.field_selector.clone_from(&feed.fields);
        let objects = api(client.clone(), &feed.resource, feed.namespace.as_deref());
        watcher::watcher(objects, config)
            .map(move |event| (index, event))
            .boxed()
    });
    select_all(streams).boxed()
}

enum Turn<T> {
    Done(T),
    Late,
    Anew,
}

struct Wait<'a, 'b> {
    cx: &'a VimCall<'b>,
    session: &'a Session<'b>,
    scene: Scene,
    reason: String,
    gone: Vec<bool>,
}

impl Wait<'_, '_> {
    async fn follow<T>(
        &mut self,
        stream: &mut Events,
        judge: &mut impl FnMut(&Scene) -> Verdict<T>,
    ) -> Result<Turn<T>, PortError> {
        loop {
            if self.scene.is_complete() {
                match judge(&self.scene) {
                    Verdict::Done(value) => return Ok(Turn::Done(value)),
                    Verdict::Failed(error) => return Err(error),
                    Verdict::NotYet(reason) => self.say(&reason),
                }
            }
            let event = match select(stream.next(), self.cx.clock.sleep(self.left())).await {
                Either::Left((event, _)) => event,
                Either::Right(_) => return Ok(Turn::Late),
            };
            match event {
                Some((feed, Ok(event))) => self.scene.take(feed, event),
                Some((feed, Err(error))) => return self.trouble(feed, &error).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Bears what may pass; says so.
    async fn trouble<T>(
        &mut self,
        feed: usize,
        error: &watcher::Error,
    ) -> Result<Turn<T>, PortError> {
        let told = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match errors::status(error) {
                410 => return Ok(Turn::Anew),
                404 => {
                    self.scene.take_nothing(feed);
                    self.gone[feed] = true;
                    return Ok(Turn::Anew);
                }
                _ => self.session.told("watch the objects", error),
            },
            watcher::Error::WatchError(status) if status.code == 410 => return Ok(Turn::Anew),
            watcher::Error::WatchError(status) => self
                .session
                .told("watch the objects", &kube::Error::Api(status.clone())),
            watcher::Error::NoResourceVersion => PortError::new(
                &errors::UNEXPECTED,
                "watch the objects",
                "the list has no `resourceVersion`",
            ),
        };
        let vim = self.session.vim();
        if told.code() == &errors::LOGIN_REFUSED {
            self.say(&format!("VIM `{vim}` refuses the login; `vnfmctl vim update {vim}` with a new credential goes on"));
        } else if told.kind() == ErrorKind::Unavailable {
            self.say(&format!("VIM `{vim}` to answer: {}", told.detail()));
        } else {
            return Err(told);
        }
        let left = self.left();
        self.cx.clock.sleep(PAUSE.min(left)).await;
        Ok(if left.is_zero() {
            Turn::Late
        } else {
            Turn::Anew
        })
    }

    fn say(&mut self, reason: &str) {
        if self.reason != reason {
            reason.clone_into(&mut self.reason);
            self.cx.watcher.waiting(reason);
        }
    }

    fn left(&self) -> Duration {
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

/// An object as JSON with its type, which lists leave out.
fn shown(resource: Option<&ApiResource>, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let (Some(resource), true) = (resource, value.is_object()) {
        value["apiVersion"] = resource.api_version.as_str().into();
        value["kind"] = resource.kind.as_str().into();
    }
    value
}

/// The UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}
