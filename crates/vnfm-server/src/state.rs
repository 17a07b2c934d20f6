//! What every handler gets: the engine, where packages go, and what the server was configured with.

use crate::access::Access;
use crate::drive::Wake;
use crate::forwarded::Proxies;
use crate::metrics::Metrics;
use crate::onboarding::Onboarding;
use crate::parts;
use crate::probes::LastLook;
use crate::supply::Supply;
use crate::upkeep::Upkeep;
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
use vnfm_core::ports::{StoreError, Subscribers};
use vnfm_plugin_host::PluginHost;
use vnfm_store::KeyLocation;
use vnfm_types::v1::ApiVersion;

/// What the server is made of, as far as handlers see it.
pub struct AppState {
    /// The engine.
    pub engine: Engine,
    /// Where uploaded packages are checked and kept.
    pub onboarding: Onboarding,
    /// Told after each acceptance.
    pub wake: Wake,
    /// Who is told of lifecycle changes.
    pub subscribers: Arc<dyn Subscribers>,
    /// How many entries a page of a list has; 0: all are in one answer.
    pub page: AtomicUsize,
    /// Where clients find this server; derived from each request where absent.
    pub public_url: Option<String>,
    /// What stands before the paths of the NFVO, where there is one.
    pub nfvo: Option<String>,
    /// The NFVO as a source of packages, where it is one.
    pub supply: Option<Arc<Supply>>,
    /// True where it is served by TLS.
    pub tls: bool,
    /// Who may do what.
    pub access: Access,
    /// Plugins that are libraries; none where all drivers are linked in.
    pub plugins: Option<Arc<PluginHost>>,
    /// Replaces the key that seals secrets; see `secrets rotate` and `secrets migrate`.
    pub rotation: Arc<dyn Rotate>,
    /// Backup, pruning and recovery; none where an embedder brings a database of its own.
    pub upkeep: Option<Arc<Upkeep>>,
    /// What those need who operate it.
    pub operating: Operating,
}

impl AppState {
    /// The facade as a part of an embedder's application: who asks its layers say ([`Access::embedded`]), and its database
    /// is its own, so there is no backup, pruning or rotation of keys here. What is public may be changed before
    /// [`crate::routes::router`] gets it; `public_url` is where clients find it, where it is nested below a path.
    ///
    /// # Errors
    ///
    /// Where the figures or the access contradict themselves: a bug.
    pub fn embedded(
        engine: Engine,
        onboarding: Onboarding,
        subscribers: Arc<dyn Subscribers>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            engine,
            onboarding,
            wake: Wake::default(),
            subscribers,
            page: AtomicUsize::new(100),
            public_url: None,
            nfvo: None,
            supply: None,
            tls: false,
            access: Access::embedded()?,
            plugins: None,
            rotation: Arc::new(NotHere),
            upkeep: None,
            operating: Operating::new()?,
        })
    }
}

/// Keys that the embedder looks after.
struct NotHere;

#[async_trait::async_trait]
impl Rotate for NotHere {
    async fn rotate(&self) -> Result<u64, StoreError> {
        Err(not_here())
    }
    async fn migrate(&self, _: KeyLocation) -> Result<u64, StoreError> {
        Err(not_here())
    }
    async fn shown(&self) -> Result<Value, StoreError> {
        Err(not_here())
    }
}

fn not_here() -> StoreError {
    let what = "this server is part of another application, which seals its secrets itself";
    StoreError::Unavailable(what.to_owned())
}

/// What those need who operate the server.
pub struct Operating {
    /// What Prometheus reads.
    pub metrics: Arc<Metrics>,
    /// The proxies whose word about where this server is counts.
    pub proxies: Proxies,
    /// Files of certificates, by the name of their member in the configuration.
    pub certificates: Vec<(String, PathBuf)>,
    /// How ready it was when somebody asked last.
    pub last_look: LastLook,
    /// What runs beside requests.
    pub parts: parts::Parts,
}

impl Operating {
    /// With figures of its own, behind no proxy.
    ///
    /// # Errors
    ///
    /// Where the figures contradict themselves: a bug.
    pub fn new() -> prometheus::Result<Self> {
        Ok(Self {
            metrics: Arc::new(Metrics::new()?),
            proxies: Proxies::default(),
            certificates: Vec::new(),
            last_look: LastLook::default(),
            parts: parts::Parts::default(),
        })
    }
}

/// Replaces the key that seals secrets.
#[async_trait::async_trait]
pub trait Rotate: Send + Sync {
    /// Makes a new key, seals everything anew, forgets the old key; returns how many values were sealed anew.
    ///
    /// # Errors
    ///
    /// Where the database, or the place of the key, cannot be written.
    async fn rotate(&self) -> Result<u64, StoreError>;

    /// Seals everything with a key in another place; goes on where an earlier one was cut short.
    ///
    /// # Errors
    ///
    /// As [`Self::rotate`].
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError>;

    /// Where keys lie, and what each sealed.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    async fn shown(&self) -> Result<Value, StoreError>;
}

/// Shared by all handlers.
pub type App = Arc<AppState>;

impl FromRequestParts<App> for Root {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map(|peer| peer.0.ip());
        let told = || app.operating.proxies.outer(&parts.headers, peer);
        let public_url = app.public_url.clone().or_else(told);
        let root = Self::of(&parts.headers, public_url.as_deref(), app.tls);
        let edition = ApiVersion::of_path(parts.uri.path());
        Ok(Self {
            nfvo: app.nfvo.clone(),
            api_version: edition,
            ..root
        })
    }
}
