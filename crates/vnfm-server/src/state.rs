//! The state that every handler gets: the engine, onboarding, and parts of the configuration.

use crate::access::{Access, Admission};
use crate::drive::DriveQueue;
use crate::forwarded::Proxies;
use crate::maintenance::Maintenance;
use crate::metrics::Metrics;
use crate::nfvo_packages::NfvoPackageSource;
use crate::onboarding::Onboarding;
use crate::probes::LastReadiness;
use crate::supervisor::Supervisor;
use crate::view::Root;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use vnfm_core::Engine;
use vnfm_core::ports::{KeyLocation, StoreError, Subscribers};
use vnfm_plugin_host::PluginHost;
use vnfm_types::v1::ApiVersion;

/// The state of the HTTP handlers.
pub struct AppState {
    /// The engine that begins and drives operations.
    pub engine: Engine,
    /// Checks and stores uploaded packages.
    pub onboarding: Onboarding,
    /// Notified after each accepted operation.
    pub wake: DriveQueue,
    /// Delivers notifications to the subscribers.
    pub subscribers: Arc<dyn Subscribers>,
    /// Entries per page of a list; 0 disables paging.
    pub page_size: AtomicUsize,
    /// Base URL of this server for clients; derived from each request if absent.
    pub public_url: Option<String>,
    /// API root of the NFVO, if one is configured.
    pub nfvo: Option<String>,
    /// The NFVO as a source of packages, if it is one.
    pub nfvo_packages: Option<Arc<NfvoPackageSource>>,
    /// Whether the server uses TLS.
    pub tls: bool,
    /// The logins, roles and quotas of callers.
    pub access: Access,
    /// Plugins loaded from libraries; absent if all drivers are linked in.
    pub plugins: Option<Arc<PluginHost>>,
    /// Replaces the encryption key; see `secrets rotate` and `secrets migrate`.
    pub rotation: Arc<dyn Rotate>,
    /// Backup, pruning and recovery; absent if an embedder brings its own database.
    pub maintenance: Option<Arc<Maintenance>>,
    /// The metrics and probes, and the supervision of tasks.
    pub instrumentation: Instrumentation,
}

impl AppState {
    /// State for an application that embeds the API. The application's middleware identifies the caller
    /// ([`Access::embedded`]), and it manages its own database: no backup, pruning or key rotation here. Change public
    /// fields before passing it to [`crate::routes::router`]; set `public_url` if the router is nested below a path.
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
            onboarding,
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
            instrumentation: Instrumentation::new()?,
        })
    }
}

/// The embedder manages the keys.
struct UnsupportedRotation;

#[async_trait::async_trait]
impl Rotate for UnsupportedRotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        Err(unsupported())
    }
    async fn migrate(&self, _: KeyLocation) -> Result<u64, StoreError> {
        Err(unsupported())
    }
    async fn describe(&self) -> Result<Value, StoreError> {
        Err(unsupported())
    }
}

fn unsupported() -> StoreError {
    let detail =
        "this server is embedded in another application, which manages the encryption keys";
    StoreError::Unavailable(detail.to_owned())
}

/// The metrics and probes, and the supervision of tasks.
pub struct Instrumentation {
    /// The metrics that Prometheus reads.
    pub metrics: Arc<Metrics>,
    /// The proxies whose forwarding headers are trusted.
    pub proxies: Proxies,
    /// Certificate files, with the names of their configuration members.
    pub certificates: Vec<(String, PathBuf)>,
    /// The result of the last readiness check.
    pub last_readiness: LastReadiness,
    /// Supervises the background tasks of the server.
    pub supervisor: Supervisor,
}

impl Instrumentation {
    /// Fresh metrics, no trusted proxies.
    ///
    /// # Errors
    ///
    /// If the metrics contradict themselves: a bug.
    pub fn new() -> prometheus::Result<Self> {
        Ok(Self {
            metrics: Arc::new(Metrics::new()?),
            proxies: Proxies::default(),
            certificates: Vec::new(),
            last_readiness: LastReadiness::default(),
            supervisor: Supervisor::default(),
        })
    }
}

/// Replaces the key that encrypts secrets.
#[async_trait::async_trait]
pub trait Rotate: Send + Sync {
    /// Creates a new key, encrypts everything with it and deletes the old key. Returns the number of values.
    ///
    /// # Errors
    ///
    /// If the database or the key location cannot be written.
    async fn rotate(&self) -> Result<u64, StoreError>;

    /// Encrypts everything with a key at another location; resumes an interrupted migration.
    ///
    /// # Errors
    ///
    /// Those of [`Self::rotate`], and those of the target location.
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError>;

    /// Key locations, and how many values each key encrypts.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn describe(&self) -> Result<Value, StoreError>;
}

impl Admission for AppState {
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

/// The state that all handlers share.
pub type App = Arc<AppState>;

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
            operations: app.engine.operations(),
            ..root
        })
    }
}
