//! The composition root: every part of the server is built here, in this order, and nowhere else.
//!
//! ```text
//! keys ─ store ─┬─ packages ─ onboarding
//!               ├─ drivers: OpenStack, Kubernetes
//!               ├─ plugins (kubernetes-cluster, …)
//!               ├─ host services: SSH with pinned keys, HTTP
//!               ├─ NFVO, if configured; packages from it
//!               └─ engine ─ router ─ listener
//!                        └─ driving loop, notifier, subscription at the NFVO
//! ```
//! | file | contents |
//! |---|---|
//! | here | starting, reloading and stopping a server; its background tasks |
//! | `compose/adapters.rs` | the engine and what it calls, built from the configuration |
//! | `compose/database.rs` | the database behind its ports |
//! | `compose/serving.rs` | listeners for the API and for monitoring |

mod adapters;
mod database;
mod serving;

use self::adapters::{Base, MAX_PACKAGE_BYTES};
use self::serving::Serving;
use crate::config::{Config, Differences};
use crate::data;
use crate::drive::{self, DriveQueue};
use crate::maintenance::Maintenance;
use crate::nfvo::Nfvo;
use crate::onboarding;
use crate::readiness::Readiness;
use crate::routes;
use crate::schedules;
use crate::secrets::Rotation;
use crate::state::{App, AppState};
use crate::supervisor::Supervisor;
use anyhow::Context as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use vnfm_core::Notifier;
use vnfm_core::ports::{Clock, StoreAdmin};

/// A running server: listeners, driving and background work.
pub struct Server {
    serving: Serving,
    driving: JoinHandle<()>,
    stop: Arc<Notify>,
    /// The separate listener for health and metrics.
    monitoring: Option<Serving>,
    app: App,
    database: Arc<dyn StoreAdmin>,
    /// The configuration as it was last loaded.
    config: Config,
}

/// Default hours between two prunings.
const PRUNE_INTERVAL_HOURS: u32 = 24;

impl Server {
    /// Starts a server; it accepts requests when this returns.
    ///
    /// # Errors
    ///
    /// If the data folder, database, key file, certificate or address cannot be used; the error names it.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        data::claim(&config.data)?;
        let listener = TcpListener::bind(config.listen)
            .with_context(|| format!("cannot listen on {}", config.listen))?;
        let base = Base::open(&config).await?;
        let (app, notifier, unfinished) = build_app(&config, &base, listener.local_addr()?).await?;
        for fetch in unfinished {
            onboarding::resume(
                app.onboarding.clone(),
                &app.instrumentation.supervisor,
                fetch,
            );
        }
        let stop = Arc::new(Notify::new());
        let every = config.retention.every_hours.unwrap_or(PRUNE_INTERVAL_HOURS);
        let background = BackgroundTasks {
            app: app.clone(),
            clock: base.clock.clone(),
            prune_interval: Duration::from_hours(every.into()),
            notifier,
            follows_vims: config.vims.follow.unwrap_or(true),
        };
        let driving = tokio::spawn(background.run(stop.clone()));
        let monitoring = serving::monitoring(&config, &app, &base.clock)?;
        let service =
            serving::http_service(&config, &app, routes::router(app.clone()), &base.clock);
        let serving = serving::serve(listener, service?, app.instrumentation.supervisor.clone())?;
        Ok(Self {
            serving,
            driving,
            stop,
            monitoring,
            app,
            database: base.database.admin,
            config,
        })
    }

    /// Base URL, with the address that the server listens on.
    pub fn url(&self) -> String {
        let scheme = self.config.scheme();
        format!("{scheme}://{}", self.serving.address)
    }

    /// Address of the separate listener for health and metrics, if configured.
    pub fn monitoring(&self) -> Option<SocketAddr> {
        self.monitoring.as_ref().map(|serving| serving.address)
    }

    /// Applies the settings that can change while the server runs: `limits` and `on_failure`. The caller applies the log filter.
    pub fn reload(&mut self, new: Config) -> Differences {
        let differences = self.config.differences(&new);
        let engine = &self.app.engine;
        engine.set_limits(adapters::engine_limits(&new));
        let max_bytes = new.limits.package_bytes.unwrap_or(MAX_PACKAGE_BYTES);
        self.app.onboarding.set_max_bytes(max_bytes);
        self.app
            .page_size
            .store(new.limits.page_size(), Ordering::Relaxed);
        if let Some(maintenance) = &self.app.maintenance {
            maintenance.set_min_free(new.limits.free_bytes);
        }
        self.config.apply_live(new);
        differences
    }

    /// Completes when a part of the server fails, with its name and the reason; the process should then exit.
    pub async fn failed(&self) -> String {
        self.app.instrumentation.supervisor.failed().await
    }

    /// The supervisor of the background tasks.
    pub fn supervisor(&self) -> &Supervisor {
        &self.app.instrumentation.supervisor
    }

    /// Stops accepting requests and leaves running operations as journalled, for the next start. Afterwards the database is
    /// complete in its one file.
    pub async fn stop(self) {
        self.app.instrumentation.supervisor.stop();
        self.stop.notify_one();
        let mut errors = Vec::new();
        let all: Vec<_> = std::iter::once(self.serving)
            .chain(self.monitoring)
            .collect();
        for serving in &all {
            serving.stop.send_replace(true);
        }
        errors.extend(self.driving.await.err());
        for serving in all {
            errors.extend(serving.task.await.err());
        }
        for error in errors {
            tracing::error!(%error, "a task of the server panicked or was cancelled");
        }
        if let Err(error) = self.database.checkpoint_log().await {
            tracing::warn!(%error, "cannot merge the write-ahead log into the database; it stays as a separate file");
        }
    }
}

/// Builds the state of the handlers and the notifier, and lists the packages whose fetch was interrupted.
async fn build_app(
    config: &Config,
    base: &Base,
    address: SocketAddr,
) -> anyhow::Result<(App, Notifier, Vec<onboarding::Fetch>)> {
    let access = adapters::access(config, &base.clock)?;
    let nfvo = adapters::nfvo(config, address, &base.clock)?;
    let operating = serving::operating(config)?;
    let engine =
        adapters::engine(config, base, nfvo.clone())?.observed_by(operating.metrics.clone());
    let maintenance = Arc::new(adapters::maintenance(config, base).await?);
    let onboarding = adapters::onboarding(config, base)?;
    let unfinished = adapters::unfinished((&engine, &onboarding), &base.database, &access).await?;
    engine
        .record_levels(base.database.unfinished.instances_without_levels().await?)
        .await?;
    let notifier = adapters::notifier(&config.notifications, base, &operating.metrics)?;
    let app = AppState {
        engine,
        onboarding: Arc::new(onboarding),
        wake: DriveQueue::default(),
        subscribers: notifier.subscribers.clone(),
        page_size: config.limits.page_size().into(),
        public_url: config.public_url.clone(),
        nfvo: config.nfvo.as_ref().map(Nfvo::root),
        nfvo_packages: None,
        tls: config.tls.is_some(),
        access,
        plugins: Some(base.plugins.clone()),
        rotation: Arc::new(Rotation(base.database.keys.clone())),
        readiness: Readiness::new(maintenance.clone(), base.plugins.clone()),
        maintenance: Some(maintenance),
        instrumentation: operating,
    };
    let app = match &nfvo {
        Some(nfvo) => app.with_packages_of(nfvo),
        None => app,
    };
    Ok((app.into(), notifier, unfinished))
}

/// Tasks that run independently of requests.
struct BackgroundTasks {
    app: App,
    clock: Arc<dyn Clock>,
    prune_interval: Duration,
    notifier: Notifier,
    follows_vims: bool,
}

impl BackgroundTasks {
    /// Drives operations, prunes, notifies subscribers, and follows VIMs and the NFVO's packages until `stop` is notified. If
    /// the database was restored, first waits until an operator confirms the recovery.
    async fn run(self, stop: Arc<Notify>) {
        let stopped = stop.notified();
        tokio::pin!(stopped);
        let maintenance = self.app.maintenance.clone();
        if let Some(maintenance) = &maintenance
            && let Some(recovery) = maintenance.recovery()
        {
            tracing::warn!(
                ?recovery,
                "in recovery: `vnfmctl recovery show`, then `vnfmctl recovery confirm`"
            );
            tokio::select! {
                () = maintenance.recovery_confirmed() => {}
                () = &mut stopped => return,
            }
        }
        let (app, engine) = (&self.app, self.app.engine.clone());
        let supervisor = &app.instrumentation.supervisor;
        let driving = supervisor.run(
            "driving of operations",
            drive::run(
                engine.clone(),
                self.clock.clone(),
                app.wake.clone(),
                stopped,
            ),
        );
        let (clock, wake) = (self.clock.clone(), app.wake.clone());
        let scheduling = schedules::run(engine.clone(), clock, wake, maintenance.clone());
        let pruning = prune(maintenance, self.prune_interval);
        let following = async {
            match &app.nfvo_packages {
                Some(supply) => supply.follow().await,
                None => std::future::pending().await,
            }
        };
        let following_vims = async {
            if self.follows_vims {
                engine.follow_vims().await;
            }
            std::future::pending::<()>().await;
        };
        // A failed task does not end the others: operations are driven until the server stops in order.
        tokio::select! {
            _ = driving => {}
            () = supervisor.run_forever("pruning", pruning) => {}
            () = supervisor.run_forever("scheduled operations", scheduling) => {}
            () = supervisor.run_forever("notifier", self.notifier.run()) => {}
            () = supervisor.run_forever("subscription at the NFVO", following) => {}
            () = supervisor.run_forever("following of VIMs", following_vims) => {}
        }
        supervisor.fail("driving of operations", "ended by itself");
    }
}

async fn prune(maintenance: Option<Arc<Maintenance>>, interval: Duration) {
    if let Some(maintenance) = maintenance {
        maintenance.prune_every(interval).await;
    }
    std::future::pending::<()>().await;
}
