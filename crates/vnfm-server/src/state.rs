//! What every handler gets: the engine, where packages go, and what the server was configured with.

use crate::drive::Wake;
use crate::onboarding::Onboarding;
use crate::upkeep::Upkeep;
use crate::view::Root;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use vnfm_core::Engine;
use vnfm_core::ports::Subscribers;
use vnfm_plugin_host::PluginHost;
use vnfm_types::Secret;

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
    pub page: usize,
    /// Where clients find this server; derived from each request where absent.
    pub public_url: Option<String>,
    /// What stands before the paths of the NFVO, where there is one.
    pub nfvo: Option<String>,
    /// True where it is served by TLS.
    pub tls: bool,
    /// The bearer token that each request needs; none on loopback.
    pub token: Option<Secret>,
    /// Plugins that are libraries; none where all drivers are linked in.
    pub plugins: Option<Arc<PluginHost>>,
    /// Replaces the key that seals secrets; see `secrets rotate`.
    pub rotation: Arc<dyn Rotate>,
    /// Backup, pruning and recovery; none where an embedder brings a database of its own.
    pub upkeep: Option<Arc<Upkeep>>,
}

/// Replaces the key that seals secrets.
#[async_trait::async_trait]
pub trait Rotate: Send + Sync {
    /// Makes a new key, seals everything anew, forgets the old key; returns how many values were sealed anew.
    ///
    /// # Errors
    ///
    /// Where database or key file cannot be written.
    async fn rotate(&self) -> Result<u64, vnfm_core::ports::StoreError>;
}

/// Shared by all handlers.
pub type App = Arc<AppState>;

/// The one tenant, as long as nobody logs in.
pub const TENANT: &str = "default";

impl FromRequestParts<App> for Root {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let root = Self::of(&parts.headers, app.public_url.as_deref(), app.tls);
        Ok(Self { nfvo: app.nfvo.clone(), ..root })
    }
}
