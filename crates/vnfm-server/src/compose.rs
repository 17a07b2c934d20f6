//! The composition root: everything is made here, in this order, and nowhere else.
//!
//! ```text
//! keys ─ store ─┬─ packages ─ onboarding
//!               ├─ drivers: OpenStack, Kubernetes
//!               ├─ plugins (kubernetes-cluster, …)
//!               ├─ host services: SSH with pinned keys, HTTP
//!               ├─ NFVO, where one is configured; packages from it
//!               └─ engine ─ router ─ listener
//!                        └─ driving loop, notifier, subscription at the NFVO
//! ```

use crate::access::Access;
use crate::config::{self, Config, Differences, Purpose};
use crate::data;
use crate::drive::{self, Wake};
use crate::externals::Externals;
use crate::forwarded::Proxies;
use crate::kept;
use crate::listener::{self, Descriptors, Door, Places};
use crate::nfvo::{self, Nfvo};
use crate::onboarding::{self, Fetch, Onboarding};
use crate::parts::Parts;
use crate::problem::Problem;
use crate::routes;
use crate::secrets;
use crate::signatures::Signatures;
use crate::state::{App, AppState, Operating, Rotate};
use crate::supply::Supply;
use crate::tls::{self, Files};
use crate::told::Measured;
use crate::upkeep::{self, Upkeep};
use anyhow::Context as _;
use axum::Router;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use vnfm::{Hosts, SystemClock};
use vnfm_core::ports::{self, Budget, Clock, StoreError};
use vnfm_core::{DeliveryTimeouts, Drivers, Engine, EngineParts, Limits, Notifier};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Callbacks, Networks};
use vnfm_openstack::OpenStack;
use vnfm_plugin_host::PluginHost;
use vnfm_store::{KeyLocation, PackageDir, SqliteStore};

/// A running server.
pub struct Server {
    serving: Serving,
    driving: JoinHandle<()>,
    stop: Arc<Notify>,
    /// Health and metrics at an address of their own.
    monitoring: Option<Serving>,
    app: App,
    store: Arc<SqliteStore>,
    /// As it was configured last.
    config: Config,
}

/// What listens somewhere.
struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// How long a stop waits for answers that are on their way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How long a subscriber may take to answer where nothing else is configured.
const ANSWER: Duration = Duration::from_secs(10);
/// Connections to the address of health and metrics.
const MONITORING: usize = 32;
/// Hours between two prunings where nothing else is configured.
const PRUNE_HOURS: u32 = 24;
/// Calls that one VIM gets at a time where nothing else is configured.
const VIM_CALLS: usize = 32;
/// Operations on one VIM at a time where nothing else is configured.
const VIM_OPERATIONS: usize = 100;
/// The largest package where nothing else is configured.
const LARGEST_PACKAGE: u64 = 512 * 1024 * 1024;

impl Server {
    /// Starts a server as `config` says; it answers when this returns.
    ///
    /// # Errors
    ///
    /// Where the data folder, database, key file, certificate or address cannot be used: said with its name.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let folder = &config.data;
        data::claim(folder)?;
        let listener = TcpListener::bind(config.listen)
            .with_context(|| format!("cannot listen at {}", config.listen))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = Arc::new(secrets::open(folder, &config.secrets, &clock).await?);
        let descriptor_limits = descriptor_limits(&config);
        let packages = Arc::new(PackageDir::open(
            &folder.join("packages"),
            descriptor_limits,
        )?);
        let plugins = Arc::new(plugins(&config, &clock)?);
        let access = access(&config, &clock)?;
        let (nfvo, supply) = nfvo(&config, listener.local_addr()?, &clock)?;
        let operating = operating(&config)?;
        let engine = engine(&config, (&store, &packages), (&plugins, nfvo), &clock)?
            .observed_by(operating.metrics.clone());
        let kept = (
            upkeep::retention(&config.retention),
            config.limits.free_bytes,
        );
        let upkeep = Upkeep::new(
            (store.clone(), packages.clone()),
            folder,
            kept,
            clock.clone(),
        )
        .await;
        let upkeep = Arc::new(upkeep.context("cannot use the database")?);
        let onboarding = onboarding(&config, (&store, packages), &plugins, &clock)?;
        let unfinished = unfinished(&onboarding, &store, &access).await?;
        engine
            .record_levels(store.instances_without_levels().await?)
            .await?;
        let wake = Wake::default();
        let mut notifier = notifier(&config.notifications, &store, &clock)?;
        let (inner, metrics) = (notifier.subscribers, operating.metrics.clone());
        notifier.subscribers = Arc::new(Measured {
            inner,
            clock: clock.clone(),
            metrics,
        });
        let app: App = Arc::new(AppState {
            engine: engine.clone(),
            onboarding,
            wake: wake.clone(),
            subscribers: notifier.subscribers.clone(),
            page: config.limits.page_size().into(),
            public_url: config.public_url.clone(),
            nfvo: config.nfvo.as_ref().map(Nfvo::root),
            supply,
            tls: config.tls.is_some(),
            access,
            plugins: Some(plugins),
            rotation: Arc::new(Rotation(store.clone())),
            upkeep: Some(upkeep.clone()),
            operating,
        });
        for fetch in unfinished {
            onboarding::go_on(app.clone(), fetch);
        }
        let stop = Arc::new(Notify::new());
        let every = config.retention.every_hours.unwrap_or(PRUNE_HOURS);
        let pruning = Duration::from_hours(every.into());
        let beside = Beside {
            upkeep,
            pruning,
            notifier,
            app: app.clone(),
        };
        let driving = tokio::spawn(work(engine, (clock.clone(), wake), beside, stop.clone()));
        let monitoring = monitoring(&config, (&app, &clock))?;
        let router = routes::router(app.clone());
        let places = places(&config.limits, &app.access);
        let (at, parts) = ((&config, certificate(&config)), app.operating.parts.clone());
        let serving = serve(listener, at, places, (router, clock), parts)?;
        Ok(Self {
            serving,
            driving,
            stop,
            monitoring,
            app,
            store,
            config,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        let scheme = if self.config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.serving.address)
    }

    /// Where health and metrics have an address of their own.
    pub fn monitoring(&self) -> Option<SocketAddr> {
        self.monitoring.as_ref().map(|serving| serving.address)
    }

    /// Takes over what of a changed configuration can change while it runs: limits. What is logged is not its own.
    pub fn reload(&mut self, new: Config) -> Differences {
        let differences = config::differences(&self.config, &new);
        let engine = &self.app.engine;
        engine.set_limits(limits(&new));
        let largest = new.limits.package_bytes.unwrap_or(LARGEST_PACKAGE);
        self.app.onboarding.set_largest(largest);
        self.app
            .page
            .store(new.limits.page_size(), Ordering::Relaxed);
        if let Some(upkeep) = &self.app.upkeep {
            upkeep.set_least_free(new.limits.free_bytes);
        }
        self.config.take_over(new);
        differences
    }

    /// Completes once a part of the server failed, and says which and why: the process is to end then.
    pub async fn failed(&self) -> String {
        self.app.operating.parts.failed().await
    }

    /// What runs beside requests.
    pub fn parts(&self) -> &Parts {
        &self.app.operating.parts
    }

    /// Stops: no new requests, and what is being driven is left where the journal has it for the next start. The database
    /// is whole in its one file then.
    pub async fn stop(self) {
        self.app.operating.parts.stop();
        self.stop.notify_one();
        let mut ends = Vec::new();
        let all: Vec<_> = std::iter::once(self.serving)
            .chain(self.monitoring)
            .collect();
        for serving in &all {
            serving.stop.send_replace(true);
        }
        ends.extend(self.driving.await.err());
        for serving in all {
            ends.extend(serving.task.await.err());
        }
        for error in ends {
            tracing::error!(%error, "a task of the server ended badly");
        }
        if let Err(error) = self.store.fold().await {
            tracing::warn!(%error, "the write-ahead log stays beside the database");
        }
    }
}

/// What is done beside driving operations.
struct Beside {
    upkeep: Arc<Upkeep>,
    pruning: Duration,
    notifier: Notifier,
    app: App,
}

/// Drives operations, unless the database was restored and nobody has looked at it yet; beside that prunes, tells
/// subscribers, and is told by the NFVO.
async fn work(
    engine: Engine,
    (clock, wake): (Arc<dyn Clock>, Wake),
    Beside {
        upkeep,
        pruning,
        notifier,
        app,
    }: Beside,
    stop: Arc<Notify>,
) {
    let stopped = stop.notified();
    tokio::pin!(stopped);
    if let Some(recovery) = upkeep.recovery() {
        tracing::warn!(
            ?recovery,
            "in recovery: `vnfmctl recovery show`, then `vnfmctl recovery confirm`"
        );
        tokio::select! {
            () = upkeep.is_confirmed() => {}
            () = &mut stopped => return,
        }
    }
    let parts = &app.operating.parts;
    let driving = parts.ending(
        "driving of operations",
        drive::run(engine, clock, wake, stopped),
    );
    let pruned = async {
        upkeep.prune_every(pruning).await;
        std::future::pending::<()>().await;
    };
    let supplied = async {
        match &app.supply {
            Some(supply) => supply.stand(&app).await,
            None => std::future::pending().await,
        }
    };
    // A part that failed ends nothing beside it: operations are driven until the server stops in order.
    tokio::select! {
        _ = driving => {}
        () = parts.lasting("pruning", pruned) => {}
        () = parts.lasting("notifier", notifier.run()) => {}
        () = parts.lasting("subscription at the NFVO", supplied) => {}
    }
    parts.fail("driving of operations", "ended by itself");
}

/// Whoever tells subscribers.
fn notifier(
    config: &config::Notifications,
    store: &Arc<SqliteStore>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Notifier> {
    let networks = Networks::parse(&config.networks).map_err(|why| {
        anyhow::anyhow!("the configuration is wrong: notifications.networks: {why}")
    })?;
    let answer = config.answer_seconds.map_or(ANSWER, Duration::from_secs);
    let tls = nfvo::tls(
        config.authorities_file.as_deref(),
        config.certificate.as_ref(),
    )
    .context("cannot use `notifications` of the configuration")?;
    let default = DeliveryTimeouts::default();
    let patience = DeliveryTimeouts {
        unanswered: config
            .give_up_hours
            .map_or(default.unanswered, Duration::from_hours),
        refused: config
            .refused_minutes
            .map_or(default.refused, Duration::from_mins),
    };
    Ok(Notifier {
        store: store.clone(),
        clock: clock.clone(),
        subscribers: Arc::new(Callbacks::new(networks, answer, &tls, clock.clone())?),
        patience,
    })
}

/// Whoever grants operations, if anybody is to be asked; and the same as a source of packages, if it is one.
type Granting = (Option<Arc<dyn ports::Nfvo>>, Option<Arc<Supply>>);

fn nfvo(config: &Config, address: SocketAddr, clock: &Arc<dyn Clock>) -> anyhow::Result<Granting> {
    let Some(nfvo) = &config.nfvo else {
        return Ok((None, None));
    };
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let own = format!("{scheme}://{address}");
    let root = config.public_url.as_deref().unwrap_or(&own);
    let wrong = "cannot use `nfvo` of the configuration";
    let connection = Arc::new(nfvo.connect(root, clock.clone()).context(wrong)?);
    let supply = connection.supply().map(Arc::new);
    Ok((Some(connection), supply))
}

/// Who may do what.
fn access(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<Access> {
    match config.access.clone() {
        None => Access::by_token(config.token.clone()),
        Some(settings) => Access::new(settings, config.token.clone(), clock),
    }
    .map(|access| access.allowing(config.limits.refused_logins(), clock))
    .context("cannot use `access` of the configuration")
}

/// Packages that a process before us left in the middle. From here on what tenants have is counted.
async fn unfinished(
    onboarding: &Onboarding,
    store: &SqliteStore,
    access: &Access,
) -> anyhow::Result<Vec<Fetch>> {
    let why = |problem: Problem| anyhow::anyhow!("{}", problem.details().detail);
    onboarding
        .measure(store.unmeasured_packages().await?)
        .await
        .map_err(why)?;
    store.set_quotas(access.quotas());
    onboarding
        .unfinished(store.unfinished_packages().await?)
        .await
        .map_err(why)
}

/// How many connections there may be, as the descriptors of this process are.
fn places(limits: &config::Limits, access: &Access) -> Places {
    let descriptors = Descriptors::now((limits.connections, limits.connections_per_address));
    tracing::info!(%descriptors, "serving");
    if limits
        .connections
        .is_some_and(|wanted| wanted > descriptors.connections)
    {
        tracing::warn!(
            wanted = limits.connections,
            connections = descriptors.connections,
            "there are too few descriptors for `limits.connections`; raise the limit (LimitNOFILE, `ulimit -n`)"
        );
    }
    access.on_connections(descriptors.connections);
    Places::new(descriptors.connections, descriptors.of_one)
}

/// Where uploaded packages are checked and kept.
fn onboarding(
    config: &Config,
    (store, packages): (&Arc<SqliteStore>, Arc<PackageDir>),
    plugins: &Arc<PluginHost>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Onboarding> {
    let largest = config.limits.package_bytes.unwrap_or(LARGEST_PACKAGE);
    let signatures = Signatures::new(config.packages.clone(), clock.clone())
        .context("the configuration is wrong")?;
    let externals =
        Externals::new(&config.packages.external).context("the configuration is wrong")?;
    let (trusted, plugins) = ((signatures, externals), plugins.clone());
    Ok(Onboarding::new(
        store.clone(),
        packages,
        plugins,
        trusted,
        largest,
    ))
}

fn plugins(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<PluginHost> {
    let plugins = config.plugin_host();
    data::make_private(&plugins.dir)?;
    if let Err(error) = vnfm_store::sweep(vnfm_store::Folder::Plugins, &plugins.dir) {
        tracing::warn!(%error, folder = %plugins.dir.display(), "cannot remove what a crash left");
    }
    Ok(PluginHost::new(plugins, clock.clone()))
}

fn engine(
    config: &Config,
    (store, packages): (&Arc<SqliteStore>, &Arc<PackageDir>),
    (plugins, nfvo): (&Arc<PluginHost>, Option<Arc<dyn ports::Nfvo>>),
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Engine> {
    let (vims, hooks) = (
        config.destinations(Purpose::Vims)?,
        config.destinations(Purpose::Hooks)?,
    );
    tokio::spawn(kept::tell(store.kept_addresses(), vims.clone()));
    Ok(Engine::new(EngineParts {
        store: store.clone(),
        packages: packages.clone(),
        drivers: Drivers::default()
            .with(OpenStack::new(clock.clone(), vims.clone()))
            .with(KubernetesDriver::new(vims)),
        mgmt: plugins.clone(),
        host: Arc::new(Hosts::new(store.clone(), hooks)),
        nfvo,
        schemas: Arc::new(vnfm::schema_violations),
        clock: clock.clone(),
        limits: limits(config),
    }))
}

/// What is read of a package at most. One that was taken stays readable where the setting becomes smaller.
fn descriptor_limits(config: &Config) -> vnfm_descriptor::Limits {
    let mut limits = vnfm_descriptor::Limits::default();
    limits.resources = limits
        .resources
        .max(config.limits.resources.unwrap_or_default());
    limits
}

/// Limits as they are configured.
fn limits(config: &Config) -> Limits {
    let (limits, default) = (&config.limits, Limits::default());
    let grant = config.nfvo.as_ref().and_then(|nfvo| nfvo.grant_seconds);
    let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
    Limits {
        step: seconds(limits.step_seconds, default.step),
        hook: seconds(limits.hook_seconds, default.hook),
        grant: seconds(grant, default.grant),
        grant_call: config
            .nfvo
            .as_ref()
            .map_or(default.grant_call, Nfvo::answer),
        lease: seconds(limits.lease_seconds, default.lease),
        vim_calls: limits.vim_calls.unwrap_or(VIM_CALLS),
        vim_operations: limits.vim_operations.unwrap_or(VIM_OPERATIONS),
        plan: Budget {
            resources: limits.resources.unwrap_or(default.plan.resources),
            bytes: limits.plan_bytes.unwrap_or(default.plan.bytes),
        },
    }
}

/// What those need who operate the server.
fn operating(config: &Config) -> anyhow::Result<Operating> {
    let mut operating = Operating::new().context("cannot keep figures")?;
    operating.proxies = proxies(config)?;
    operating.certificates = config.certificates();
    Ok(operating)
}

/// The proxies that are trusted.
fn proxies(config: &Config) -> anyhow::Result<Proxies> {
    Proxies::parse(&config.trusted_proxies)
        .map_err(|why| anyhow::anyhow!("the configuration is wrong: trusted_proxies: {why}"))
}

/// Health and metrics at an address of their own, where one is configured.
fn monitoring(
    config: &Config,
    (app, clock): (&App, &Arc<dyn Clock>),
) -> anyhow::Result<Option<Serving>> {
    let Some(address) = config.monitoring.listen else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot listen at {address} for health and metrics"))?;
    let is_open = !address.ip().is_loopback();
    let tls = certificate(config).filter(|_| is_open);
    let router = routes::monitoring(app.clone(), is_open);
    let (places, parts) = (
        Places::new(MONITORING, MONITORING),
        app.operating.parts.clone(),
    );
    serve(
        listener,
        (config, tls),
        places,
        (router, clock.clone()),
        parts,
    )
    .map(Some)
}

/// Serves until it is told to stop.
async fn listening(serving: impl Future<Output = ()>, parts: Parts) {
    parts.ending("listener", serving).await;
    parts.fail("listener", "ended by itself");
}

fn serve(
    listener: TcpListener,
    (config, tls): (&Config, Option<Files>),
    places: Places,
    (router, clock): (Router, Arc<dyn Clock>),
    parts: Parts,
) -> anyhow::Result<Serving> {
    listener
        .set_nonblocking(true)
        .context("cannot use the listener")?;
    let address = listener.local_addr().context("cannot use the listener")?;
    let listener =
        tokio::net::TcpListener::from_std(listener).context("cannot use the listener")?;
    let read = tls.as_ref().map(Files::read).transpose()?;
    let door = Arc::new(Door {
        router,
        certificate: read.as_ref().map(|read| read.config.clone()),
        timeouts: config.limits.timeouts(),
        places,
        proxies: proxies(config)?,
        clock: clock.clone(),
    });
    let (stop, stopped) = watch::channel(false);
    let serving = listener::serve(listener, door, stopped, LAST_ANSWERS);
    let task = tokio::spawn(async move {
        let serving = listening(serving, parts.clone());
        let Some((files, read)) = tls.zip(read) else {
            return serving.await;
        };
        let watching = async move { match tls::watch(files, read, clock).await {} };
        tokio::select! {
            () = serving => {}
            () = parts.lasting("watch of the certificate", watching) => {}
        }
    });
    Ok(Serving {
        address,
        stop,
        task,
    })
}

/// The files of the certificate, and of the authorities of clients where they are to show one.
fn certificate(config: &Config) -> Option<Files> {
    let clients = config
        .access
        .as_ref()
        .and_then(|access| access.certificates.as_ref());
    let clients = clients.map(|clients| (clients.authorities_file.clone(), clients.required));
    config.tls.as_ref().map(|tls| Files {
        cert: tls.cert.clone(),
        key: tls.key.clone(),
        clients,
    })
}

struct Rotation(Arc<SqliteStore>);

#[async_trait::async_trait]
impl Rotate for Rotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        self.0.rotate().await
    }
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError> {
        self.0.migrate(to).await
    }
    async fn shown(&self) -> Result<Value, StoreError> {
        secrets::shown(&self.0).await
    }
}
