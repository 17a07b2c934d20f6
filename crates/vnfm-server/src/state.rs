//! The state that every handler gets: the engine, onboarding, and parts of the configuration.

use crate::access::quota::Quotas;
use crate::access::{Access, Admission};
use crate::drive::DriveQueue;
use crate::forwarded::Proxies;
use crate::maintenance::Maintenance;
use crate::metrics::Metrics;
use crate::nfvo::Connection;
use crate::nfvo_packages::{NfvoPackageSource, PackageIntake};
use crate::onboarding::Onboarding;
use crate::readiness::Readiness;
use crate::secrets::{Rotate, UnsupportedRotation};
use crate::supervisor::Supervisor;
use crate::view::Root;
use axum::extract::{ConnectInfo, FromRef, FromRequestParts};
use axum::http::request::Parts;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use vnfm_core::Engine;
use vnfm_core::ports::Subscribers;
use vnfm_plugin_host::PluginHost;
use vnfm_types::v1::ApiVersion;

/// The state of the HTTP handlers: the handles of all parts, each for the routes that need it.
pub struct AppState {
    pub(crate) engine: Engine,
    /// Checks and stores uploaded packages.
    pub(crate) onboarding: Arc<Onboarding>,
    /// Notified after each accepted operation.
    pub(crate) wake: DriveQueue,
    /// Delivers notifications to the subscribers.
    pub(crate) subscribers: Arc<dyn Subscribers>,
    /// Entries per page of a list; 0 disables paging.
    pub(crate) page_size: AtomicUsize,
    /// Base URL of this server for clients; derived from each request if absent.
    pub(crate) public_url: Option<String>,
    /// API root of the NFVO, if one is configured.
    pub(crate) nfvo: Option<String>,
    /// The NFVO as a source of packages, if it is one.
    pub(crate) nfvo_packages: Option<Arc<NfvoPackageSource>>,
    /// Whether the server uses TLS.
    pub(crate) tls: bool,
    /// The logins, roles and quotas of callers.
    pub(crate) access: Access,
    /// Plugins loaded from libraries; absent if all drivers are linked in.
    pub(crate) plugins: Option<Arc<PluginHost>>,
    /// Replaces the encryption key; see `secrets rotate` and `secrets migrate`.
    pub(crate) rotation: Arc<dyn Rotate>,
    /// Backup, pruning and recovery; absent if an embedder brings its own database.
    pub(crate) maintenance: Option<Arc<Maintenance>>,
    pub(crate) readiness: Readiness,
    pub(crate) instrumentation: Instrumentation,
}

impl AppState {
    /// State for an application that embeds the API. The application's middleware identifies the caller
    /// ([`Principal`](crate::Principal) in the request's extensions), and it manages its own database: no backup, pruning
    /// or key rotation here. If the router is nested below a path, add [`Self::with_public_url`].
    ///
    /// # Errors
    ///
    /// If the metrics or the access settings contradict themselves: a bug.
    pub fn embedded(
        engine: Engine,
        onboarding: Onboarding,
        subscribers: Arc<dyn Subscribers>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            engine,
            onboarding: Arc::new(onboarding),
            wake: DriveQueue::default(),
            subscribers,
            page_size: AtomicUsize::new(100),
            public_url: None,
            nfvo: None,
            nfvo_packages: None,
            tls: false,
            access: Access::embedded()?,
            plugins: None,
            rotation: Arc::new(UnsupportedRotation),
            maintenance: None,
            readiness: Readiness::default(),
            instrumentation: Instrumentation::new()?,
        })
    }

    /// With this base URL in links, instead of one that is derived from each request.
    #[must_use]
    pub fn with_public_url(mut self, url: impl Into<String>) -> Self {
        self.public_url = Some(url.into());
        self
    }

    /// With at most this many entries per page of a list (default: 100); 0 disables paging.
    #[must_use]
    pub fn with_page_size(mut self, entries: usize) -> Self {
        self.page_size = entries.into();
        self
    }

    /// With logins of its own instead of those of the embedding application.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// With keys that can be rotated.
    #[must_use]
    pub fn with_rotation(mut self, rotation: Arc<dyn Rotate>) -> Self {
        self.rotation = rotation;
        self
    }

    /// With metrics that other parts write too, such as an engine that they observe.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.instrumentation.metrics = metrics;
        self
    }

    /// With packages from this NFVO, if it is configured as a source.
    #[must_use]
    pub fn with_packages_of(mut self, nfvo: &Arc<Connection>) -> Self {
        self.nfvo_packages = NfvoPackageSource::new(nfvo, self.intake());
        self
    }

    /// The queue of accepted operations, for [`drive`](crate::drive()).
    pub fn drive_queue(&self) -> DriveQueue {
        self.wake.clone()
    }

    /// The engine behind the API.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The NFVO as a source of packages, if it is one.
    pub fn nfvo_packages(&self) -> Option<Arc<NfvoPackageSource>> {
        self.nfvo_packages.clone()
    }

    /// What fetched packages go through.
    pub fn intake(&self) -> PackageIntake {
        PackageIntake {
            engine: self.engine.clone(),
            onboarding: self.onboarding.clone(),
            quotas: self.access.quota_table().clone(),
            maintenance: self.maintenance.clone(),
        }
    }
}

/// Metrics, certificates and supervision.
pub(crate) struct Instrumentation {
    /// The metrics that Prometheus reads.
    pub(crate) metrics: Arc<Metrics>,
    /// The proxies whose forwarding headers are trusted.
    pub(crate) proxies: Proxies,
    /// Certificate files, with the names of their configuration members.
    pub(crate) certificates: Vec<(String, PathBuf)>,
    /// Supervises the background tasks of the server.
    pub(crate) supervisor: Supervisor,
}

impl Instrumentation {
    /// Fresh metrics, no trusted proxies.
    ///
    /// # Errors
    ///
    /// If the metrics contradict themselves: a bug.
    pub(crate) fn new() -> prometheus::Result<Self> {
        Ok(Self {
            metrics: Arc::new(Metrics::new()?),
            proxies: Proxies::default(),
            certificates: Vec::new(),
            supervisor: Supervisor::default(),
        })
    }
}

/// The state, shared by all handlers. Each takes the handles that it uses: `State<Engine>`, not `State<App>`, where one
/// is enough.
#[derive(Clone)]
pub struct App(Arc<AppState>);

impl From<AppState> for App {
    fn from(state: AppState) -> Self {
        Self(Arc::new(state))
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl FromRef<App> for Engine {
    fn from_ref(app: &App) -> Self {
        app.engine.clone()
    }
}

impl FromRef<App> for Arc<Onboarding> {
    fn from_ref(app: &App) -> Self {
        app.onboarding.clone()
    }
}

impl FromRef<App> for Arc<Quotas> {
    fn from_ref(app: &App) -> Self {
        app.access.quota_table().clone()
    }
}

impl FromRef<App> for Arc<dyn Rotate> {
    fn from_ref(app: &App) -> Self {
        app.rotation.clone()
    }
}

impl Admission for App {
    fn access(&self) -> &Access {
        &self.access
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn proxies(&self) -> &Proxies {
        &self.instrumentation.proxies
    }
}

impl FromRequestParts<App> for Root {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map(|peer| peer.0.ip());
        let forwarded = || app.instrumentation.proxies.public_url(&parts.headers, peer);
        let public_url = app.public_url.clone().or_else(forwarded);
        let root = Self::from_headers(&parts.headers, public_url.as_deref(), app.tls);
        let api_version = ApiVersion::of_path(parts.uri.path());
        Ok(Self {
            nfvo: app.nfvo.clone(),
            api_version,
            ..root
        })
    }
}
