//! Packages that come from the NFVO (SOL003 10): fetched when an instance is to be made of a VNFD that is not here, and when
//! the NFVO says that it has on-boarded one; then they are what they are there.
//!
//! ```text
//! POST vnf_instances ─ vnfdId not here ─┐                         ┌ a package here has the same hash ─┐
//! VnfPackageOnboardingNotification ─────┴► asked for at the NFVO ─┴ fetched, compared ────────────────┴► taken in
//!
//! VnfPackageChangeNotification, and a look now and then ─► asked for at the NFVO ─► enabled, disabled, deleted
//! ```
//! | file | what |
//! |---|---|
//! | here | what is configured, and fetching |
//! | `supply/changes.rs` | what becomes of packages at the NFVO |
//! | `supply/standing.rs` | the subscription: made, looked at, made anew |
//!
//! What the NFVO tells is a hint: what is done is what it answers when it is asked. One VNFD of one tenant is fetched once
//! at a time, in a task of its own; whoever waits for it too long is told to ask again, and it comes all the same.

mod changes;
mod standing;

pub use changes::Notification;

use crate::nfvo::Connection;
use crate::problem::{Answer, Problem};
use crate::state::{App, AppState};
use axum::http::StatusCode;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;
use vnfm_core::Refusal;
use vnfm_core::ports::{Clock, PackageRecord, PortError};
use vnfm_core::query::Query;
use vnfm_nfvo::OfferedPackage;
use vnfm_types::{NfvoPackage, Secret};

/// Seconds that a request waits for a package where nothing else is configured.
const WAIT: u64 = 60;
/// Seconds between two looks at the NFVO where nothing else is configured.
const LOOK: u64 = 300;
/// Who the NFVO is for us.
const USER: &str = "nfvo";

/// `nfvo.packages` of the configuration: the NFVO is a source of VNF packages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NfvoPackages {
    /// Tenants that get its packages; `default` alone where absent.
    pub tenants: Vec<String>,
    /// Whether we subscribe to what is on-boarded, disabled and deleted there; true where absent.
    pub subscribe: Option<bool>,
    /// Whether what is on-boarded there is fetched at once, and not only when it is wanted; true where absent. Needs
    /// `subscribe`.
    pub prefetch: Option<bool>,
    /// Seconds that the request for an instance waits while its package is fetched; 60 where absent.
    pub wait_seconds: Option<u64>,
    /// Seconds between two looks at the subscription and at what has become of the packages; 300 where absent.
    pub look_seconds: Option<u64>,
}

/// Who waits for a package that is on its way.
type OnItsWay = Shared<BoxFuture<'static, Answer<()>>>;

/// The NFVO as the source of packages.
pub struct Supply {
    nfvo: Arc<Connection>,
    clock: Arc<dyn Clock>,
    tenants: Vec<String>,
    subscribe: bool,
    prefetch: bool,
    wait: Duration,
    look: Duration,
    /// Where the NFVO tells us.
    callback: String,
    /// What it logs in with; made anew with each process.
    password: Secret,
    /// By tenant and VNFD.
    fetching: Mutex<HashMap<(String, String), OnItsWay>>,
    /// One VNFD after the other for all tenants, so that what one has fetched the next one finds.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Supply {
    /// The NFVO behind a connection, for a server that is at `root` for it.
    pub(crate) fn new(
        nfvo: Arc<Connection>,
        config: &NfvoPackages,
        root: &str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut tenants = config.tenants.clone();
        if tenants.is_empty() {
            tenants.push("default".to_owned());
        }
        let subscribe = config.subscribe.unwrap_or(true);
        Self {
            nfvo,
            clock,
            tenants,
            subscribe,
            prefetch: subscribe && config.prefetch.unwrap_or(true),
            wait: Duration::from_secs(config.wait_seconds.unwrap_or(WAIT)),
            look: Duration::from_secs(config.look_seconds.unwrap_or(LOOK).max(1)),
            callback: format!("{}/vnfm/v1/nfvo_notifications", root.trim_end_matches('/')),
            password: Secret::new(format!(
                "{}{}",
                Uuid::new_v4().simple(),
                Uuid::new_v4().simple()
            )),
            fetching: Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// Sees to it that the package of a VNFD is here, for a tenant that gets packages of the NFVO.
    ///
    /// # Errors
    ///
    /// 422 where neither we nor the NFVO have one that may be used, 503 where the NFVO does not answer or the package
    /// takes longer than is waited.
    pub async fn provide(&self, app: &App, tenant: &str, vnfd_id: &str) -> Answer<()> {
        if !self.serves(tenant) || is_here(app, tenant, vnfd_id).await? {
            return Ok(());
        }
        let fetched = self.fetched(app, tenant, vnfd_id);
        tokio::time::timeout(self.wait, fetched)
            .await
            .unwrap_or_else(|_| {
                let what =
                    format!("the package with vnfdId `{vnfd_id}` is on its way from the NFVO");
                let unavailable = StatusCode::SERVICE_UNAVAILABLE;
                Err(Problem::new(unavailable, "package.on-its-way", what).next("ask again"))
            })
    }

    fn serves(&self, tenant: &str) -> bool {
        self.tenants.iter().any(|one| one == tenant)
    }

    /// The one fetching of it that there is; begun where there is none.
    fn fetched(&self, app: &App, tenant: &str, vnfd_id: &str) -> OnItsWay {
        let key = (tenant.to_owned(), vnfd_id.to_owned());
        let mut all = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key) {
            return known.clone();
        }
        let (app, of) = (app.clone(), key.clone());
        let task = tokio::spawn(async move {
            let Some(supply) = app.supply.clone() else {
                return Ok(());
            };
            let outcome = supply.fetch(&app, &of.0, &of.1).await;
            supply
                .fetching
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&of);
            outcome
        });
        let ended = async move { task.await.unwrap_or_else(|error| Err(Problem::bug(&error))) };
        let fetched = ended.boxed().shared();
        all.insert(key, fetched.clone());
        fetched
    }

    async fn fetch(&self, app: &AppState, tenant: &str, vnfd_id: &str) -> Answer<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(vnfd_id.to_owned()).or_default().clone()
        };
        let _turn = turn.lock().await;
        let outcome = self.fetch_in_turn(app, tenant, vnfd_id).await;
        match &outcome {
            Ok(()) => tracing::info!(tenant, vnfd_id, "a package is here from the NFVO"),
            Err(problem) => {
                let why = &problem.details().detail;
                tracing::warn!(
                    tenant,
                    vnfd_id,
                    why,
                    "a package does not come from the NFVO"
                );
            }
        }
        outcome
    }

    async fn fetch_in_turn(&self, app: &AppState, tenant: &str, vnfd_id: &str) -> Answer<()> {
        if is_here(app, tenant, vnfd_id).await? {
            return Ok(());
        }
        if let Some(upkeep) = &app.upkeep {
            upkeep.room()?;
        }
        let offered = self
            .nfvo
            .current()
            .packages
            .find_by_vnfd(vnfd_id)
            .await
            .map_err(refused)?;
        offered.usable().map_err(refused)?;
        let left = app.access.bytes_left(app, tenant).await?;
        let nfvo = NfvoPackage {
            vnf_pkg_id: offered.id.clone(),
            operational_state: offered.operational_state,
        };
        let (record, _taking) = app.onboarding.begin_from_nfvo(tenant, nfvo).await?;
        let content = self.content(app, &offered, app.onboarding.most(left)).await;
        app.onboarding.end_from_nfvo(record, content).await
    }

    /// The archive in a file: one that is here already, or what the NFVO sends.
    async fn content(
        &self,
        app: &AppState,
        offered: &OfferedPackage,
        most: u64,
    ) -> Answer<PathBuf> {
        if let Some(hash) = offered.sha256()
            && let Some(file) = app.onboarding.copy_of(&hash).await
        {
            tracing::info!(
                vnf_pkg_id = offered.id,
                "a package is here already, and not fetched"
            );
            return Ok(file);
        }
        let file = app.onboarding.incoming();
        self.nfvo
            .current()
            .packages
            .fetch(offered, most, &file)
            .await
            .map_err(refused)?;
        Ok(file)
    }
}

/// Whether a package with the VNFD is here; also one that is DISABLED, of which no instance is made.
async fn is_here(app: &AppState, tenant: &str, vnfd_id: &str) -> Answer<bool> {
    Ok(!with_vnfd(app, tenant, vnfd_id).await?.is_empty())
}

async fn with_vnfd(app: &AppState, tenant: &str, vnfd_id: &str) -> Answer<Vec<PackageRecord>> {
    let of_vnfd = Query::only("vnfdId", vnfd_id);
    Ok(app.engine.store().package_records(tenant, &of_vnfd).await?)
}

fn refused(error: PortError) -> Problem {
    Refusal::unprocessable(error).into()
}
