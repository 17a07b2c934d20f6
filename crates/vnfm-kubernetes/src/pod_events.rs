//! Which instances change on a cluster outside of operations: one watch on the pods that carry our labels.
//!
//! ```text
//! list 1 pod ── resourceVersion ── watch from there ──> event: the instance that the pod's label names
//!    ^             (Missed)            ^    ├─ bookmark, end after 20 s ──> Unchanged
//!    │                                 └────┴─ 5xx, a broken or silent stream: again, from the last version seen
//!    └── 410: the version is too old
//! ```
//! Only metadata is transferred, and nothing of a pod is kept. An event is at most as large as any response; a stream that
//! sends thousands a second is read slowly, and one that ends at once is opened at growing intervals.
//!
//! The VIM's own login is used. One that may not list the pods of all namespaces follows those of the VIM's namespace.

use crate::catalog::{api, core};
use crate::client::Session;
use crate::driver::KubernetesDriver;
use crate::errors::{self, FORBIDDEN, UNREACHABLE};
use crate::labels::{INSTALLATION, INSTANCE, label_of};
use futures::future::{Either, select};
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta, WatchEvent, WatchParams};
use std::pin::pin;
use std::time::Duration;
use vnfm_core::ports::{Clock, Observes, PortError, Vim, VimEvent};

/// Seconds after which the API server ends a watch and it is started again; less than the client's read timeout.
const WATCH_SECONDS: u32 = 20;
/// Time limit of a response, and of the next event of a watch.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The pauses before a watch or list is repeated begin with the first, and double after each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 6;
/// After so many events there is a pause, so that a cluster cannot occupy a processor.
const BURST: u32 = 1000;
const BURST_PAUSE: Duration = Duration::from_millis(200);

const ACTION: &str = "watch the pods of our instances";

impl Observes for KubernetesDriver {
    fn events<'a>(
        &'a self,
        vim: &'a dyn Vim,
        installation_id: &'a str,
        clock: &'a dyn Clock,
    ) -> BoxStream<'a, Result<VimEvent, PortError>> {
        let events = PodEvents {
            session: self.session_of(vim),
            clock,
            selector: format!("{INSTALLATION}={installation_id},{INSTANCE}"),
            namespace: None,
            version: None,
            watch: None,
            failures: 0,
            pause: None,
            read: 0,
        };
        stream::unfold(events, |mut events| async move {
            let next = events.next().await;
            Some((next, events))
        })
        .boxed()
    }
}

type Event = WatchEvent<PartialObjectMeta<DynamicObject>>;

/// Where a watch is.
struct PodEvents<'a> {
    session: Session<'a>,
    clock: &'a dyn Clock,
    selector: String,
    /// `None`: all namespaces.
    namespace: Option<String>,
    /// The last version seen; `None`: events may have been missed.
    version: Option<String>,
    watch: Option<BoxStream<'static, kube::Result<Event>>>,
    /// Since the last event.
    failures: u32,
    /// To be made before the next call.
    pause: Option<Duration>,
    /// Events since the last pause.
    read: u32,
}

impl PodEvents<'_> {
    async fn next(&mut self) -> Result<VimEvent, PortError> {
        let mut next = self.step().await;
        // An event without an instance of ours tells nothing.
        while let Ok(None) = next {
            next = self.step().await;
        }
        if next.is_err() {
            self.watch = None;
            self.pause_longer();
        }
        next.map(|event| event.unwrap_or(VimEvent::Unchanged))
    }

    /// One list, start of a watch, or event.
    async fn step(&mut self) -> Result<Option<VimEvent>, PortError> {
        if let Some(pause) = self.pause.take() {
            self.clock.sleep(pause).await;
        }
        let Some(version) = self.version.clone() else {
            self.version = Some(self.list().await?);
            return Ok(Some(VimEvent::Missed));
        };
        let Some(watch) = &mut self.watch else {
            self.start(&version).await?;
            return Ok(Some(VimEvent::Unchanged));
        };
        let late = self.clock.sleep(TIMEOUT);
        let event = match select(watch.next(), late).await {
            Either::Left((event, _)) => event,
            Either::Right(_) => return Err(self.silent()),
        };
        match event {
            Some(Ok(event)) => self.read(event),
            Some(Err(error)) => self.failed(&error).map(|()| None),
            None => {
                self.watch = None;
                self.pause = Some(FIRST_PAUSE);
                Ok(None)
            }
        }
    }

    fn read(&mut self, event: Event) -> Result<Option<VimEvent>, PortError> {
        let pod = match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => pod,
            WatchEvent::Bookmark(bookmark) => {
                self.failures = 0;
                self.version = Some(bookmark.metadata.resource_version);
                return Ok(Some(VimEvent::Unchanged));
            }
            WatchEvent::Error(status) => {
                let error = kube::Error::Api(status);
                return self.failed(&error).map(|()| None);
            }
        };
        self.failures = 0;
        self.read += 1;
        if self.read >= BURST {
            self.read = 0;
            self.pause = Some(BURST_PAUSE);
        }
        if pod.metadata.resource_version.is_some() {
            self.version.clone_from(&pod.metadata.resource_version);
        }
        Ok(label_of(&pod.metadata, INSTANCE).map(|id| VimEvent::Changed(id.clone())))
    }

    /// A version that is too old is no error: what was missed is reported.
    fn failed(&mut self, error: &kube::Error) -> Result<(), PortError> {
        if errors::status(error) != 410 {
            return Err(self.session.port_error(ACTION, error));
        }
        (self.watch, self.version) = (None, None);
        self.pause_longer();
        Ok(())
    }

    fn pause_longer(&mut self) {
        self.pause = Some(FIRST_PAUSE * 2_u32.pow(self.failures.min(MAX_DOUBLINGS)));
        self.failures = self.failures.saturating_add(1);
    }

    /// The version of the list of pods.
    async fn list(&mut self) -> Result<String, PortError> {
        let listed = self.list_in_namespace().await;
        let listed = match listed {
            Err(error) if error.code() == &FORBIDDEN && self.namespace.is_none() => {
                self.namespace = self.session.namespace().await?;
                if self.namespace.is_none() {
                    return Err(error);
                }
                self.list_in_namespace().await
            }
            listed => listed,
        };
        listed.inspect_err(|_| self.namespace = None)
    }

    async fn list_in_namespace(&mut self) -> Result<String, PortError> {
        let params = &ListParams::default().labels(&self.selector).limit(1);
        let (session, namespace) = (&self.session, self.namespace.as_deref());
        let listed = session.call(ACTION, |client| async move {
            pods(client, namespace).list_metadata(params).await
        });
        let listed = match select(pin!(listed), self.clock.sleep(TIMEOUT)).await {
            Either::Left((listed, _)) => listed?,
            Either::Right(_) => return Err(self.silent()),
        };
        let version = listed.metadata.resource_version;
        let none = || PortError::new(&errors::UNEXPECTED, ACTION, "a list has no resourceVersion");
        version
            .filter(|version| !version.is_empty())
            .ok_or_else(none)
    }

    async fn start(&mut self, version: &str) -> Result<(), PortError> {
        let params = WatchParams::default()
            .labels(&self.selector)
            .timeout(WATCH_SECONDS);
        let pods = pods(self.session.client().await?, self.namespace.as_deref());
        let started = pods.watch_metadata(&params, version).boxed();
        let started = match select(started, self.clock.sleep(TIMEOUT)).await {
            Either::Left((started, _)) => started,
            Either::Right(_) => return Err(self.silent()),
        };
        match started {
            Ok(watch) => self.watch = Some(watch.boxed()),
            Err(error) => self.failed(&error)?,
        }
        Ok(())
    }

    fn silent(&self) -> PortError {
        let seconds = TIMEOUT.as_secs();
        let text = format!("no response within {seconds} seconds");
        PortError::new(&UNREACHABLE, ACTION, text).on(self.session.vim())
    }
}

fn pods(client: kube::Client, namespace: Option<&str>) -> Api<DynamicObject> {
    api(client, &core("Pod", "pods"), namespace)
}
