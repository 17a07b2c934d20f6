//! The composition root: everything is made here, in this order, and nowhere else.
//!
//! ```text
//! keys ─ store ─┬─ packages ─ onboarding
//!               ├─ drivers: OpenStack, Kubernetes
//!               ├─ plugins (kubernetes-cluster, …)
//!               ├─ host services: SSH with pinned keys, HTTP
//!               ├─ NFVO, where one is configured
//!               └─ engine ─ router ─ listener
//!                        └─ driving loop, notifier
//! ```

use crate::config::{self, Config, Tls};
use crate::drive::{self, Wake};
use crate::nfvo::{self, Nfvo};
use crate::onboarding::Onboarding;
use crate::routes;
use crate::state::{App, AppState, Rotate};
use crate::upkeep::{self, Upkeep};
use anyhow::Context as _;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use vnfm::{Hosts, SystemClock};
use vnfm_core::ports::{self, Clock, StoreError};
use vnfm_core::{Drivers, Engine, EngineParts, Limits, Notifier, Patience};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Callbacks, Networks};
use vnfm_openstack::OpenStack;
use vnfm_plugin_host::PluginHost;
use vnfm_store::{PackageDir, SecretKeys, SqliteStore};

/// A running server.
pub struct Server {
    address: SocketAddr,
    tls: bool,
    handle: Handle<SocketAddr>,
    serving: JoinHandle<std::io::Result<()>>,
    driving: JoinHandle<()>,
    stop: Arc<Notify>,
}

/// How long a stop waits for answers that are on their way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How long a subscriber may take to answer where nothing else is configured.
const ANSWER: Duration = Duration::from_secs(10);
/// Hours between two prunings where nothing else is configured.
const PRUNE_HOURS: u32 = 24;
/// The largest package where nothing else is configured.
const LARGEST_PACKAGE: u64 = 512 * 1024 * 1024;

impl Server {
    /// Starts a server as `config` says; it answers when this returns.
    ///
    /// # Errors
    ///
    /// Where the data folder, database, key file, certificate or address cannot be used: said with its name.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let data = &config.data;
        make_private(data)?;
        let listener = TcpListener::bind(config.listen)
            .with_context(|| format!("cannot listen at {}", config.listen))?;
        let keys =
            SecretKeys::open(&data.join("secrets.key")).context("cannot use the key file")?;
        let database = data.join("vnfm.db");
        let opened = SqliteStore::open(&database, keys).await;
        let store =
            Arc::new(opened.with_context(|| format!("cannot use `{}`", database.display()))?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let descriptor_limits = vnfm_descriptor::Limits::default();
        let packages = Arc::new(PackageDir::open(&data.join("packages"), descriptor_limits)?);
        let plugins = Arc::new(plugins(&config, &clock)?);
        let nfvo = nfvo(&config, listener.local_addr()?, &clock)?;
        let engine = engine(&config, (&store, &packages), (&plugins, nfvo), &clock);
        let kept = (upkeep::retention(&config.retention), config.limits.free_bytes);
        let upkeep =
            Upkeep::new((store.clone(), packages.clone()), data, kept, clock.clone()).await;
        let upkeep = Arc::new(upkeep.context("cannot use the database")?);
        let largest = config.limits.package_bytes.unwrap_or(LARGEST_PACKAGE);
        let wake = Wake::default();
        let notifier = notifier(&config.notifications, &store, &clock)?;
        let app: App = Arc::new(AppState {
            engine: engine.clone(),
            onboarding: Onboarding::new(store.clone(), packages, plugins.clone(), largest),
            wake: wake.clone(),
            subscribers: notifier.subscribers.clone(),
            page: config.limits.page_size(),
            public_url: config.public_url.clone(),
            nfvo: config.nfvo.as_ref().map(Nfvo::root),
            tls: config.tls.is_some(),
            token: config.token.clone(),
            plugins: Some(plugins),
            rotation: Arc::new(Rotation(store)),
            upkeep: Some(upkeep.clone()),
        });
        let stop = Arc::new(Notify::new());
        let every = config.retention.every_hours.unwrap_or(PRUNE_HOURS);
        let pruning = Duration::from_hours(every.into());
        let beside = Beside { upkeep, pruning, notifier };
        let driving = tokio::spawn(work(engine, (clock, wake), beside, stop.clone()));
        let tls = config.tls.is_some();
        let (address, handle, serving) = serve(listener, config.tls.as_ref(), app).await?;
        Ok(Self { address, tls, handle, serving, driving, stop })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Stops: no new requests, and what is being driven is left where the journal has it for the next start.
    pub async fn stop(self) {
        self.stop.notify_one();
        self.handle.graceful_shutdown(Some(LAST_ANSWERS));
        for outcome in [self.driving.await.err(), self.serving.await.err()].into_iter().flatten() {
            tracing::error!(error = %outcome, "a task of the server ended badly");
        }
    }
}

/// What is done beside driving operations.
struct Beside {
    upkeep: Arc<Upkeep>,
    pruning: Duration,
    notifier: Notifier,
}

/// Drives operations, unless the database was restored and nobody has looked at it yet; beside that prunes and tells
/// subscribers.
async fn work(
    engine: Engine,
    (clock, wake): (Arc<dyn Clock>, Wake),
    Beside { upkeep, pruning, notifier }: Beside,
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
    let driving = drive::run(engine, clock, wake, stopped);
    tokio::pin!(driving);
    let pruned = async {
        upkeep.prune_every(pruning).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = &mut driving => {}
        () = pruned => {}
        () = notifier.run() => {}
    }
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
    let tls = nfvo::tls(config.authorities_file.as_deref(), config.certificate.as_ref())
        .context("cannot use `notifications` of the configuration")?;
    let patience = config.give_up_hours.map(|hours| Patience(Duration::from_hours(hours)));
    Ok(Notifier {
        store: store.clone(),
        clock: clock.clone(),
        subscribers: Arc::new(Callbacks::new(networks, answer, &tls, clock.clone())?),
        patience: patience.unwrap_or_default(),
    })
}

/// Whoever grants operations, if anybody is to be asked.
fn nfvo(
    config: &Config,
    address: SocketAddr,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<dyn ports::Nfvo>>> {
    let Some(nfvo) = &config.nfvo else { return Ok(None) };
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let own = format!("{scheme}://{address}");
    let root = config.public_url.as_deref().unwrap_or(&own);
    let grants = nfvo.connect(root, clock.clone());
    Ok(Some(Arc::new(grants.context("cannot use `nfvo` of the configuration")?)))
}

fn plugins(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<PluginHost> {
    let dir = config.plugins.dir.clone().unwrap_or_else(|| config.data.join("plugins"));
    make_private(&dir)?;
    Ok(PluginHost::new(config.plugins.for_host(dir), clock.clone()))
}

fn engine(
    config: &Config,
    (store, packages): (&Arc<SqliteStore>, &Arc<PackageDir>),
    (plugins, nfvo): (&Arc<PluginHost>, Option<Arc<dyn ports::Nfvo>>),
    clock: &Arc<dyn Clock>,
) -> Engine {
    let (limits, default) = (&config.limits, Limits::default());
    let grant = config.nfvo.as_ref().and_then(|nfvo| nfvo.grant_seconds);
    let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
    Engine::new(EngineParts {
        store: store.clone(),
        packages: packages.clone(),
        drivers: Drivers::default()
            .with(OpenStack::new(clock.clone()))
            .with(KubernetesDriver::new()),
        mgmt: plugins.clone(),
        host: Arc::new(Hosts::new(store.clone())),
        nfvo,
        clock: clock.clone(),
        limits: Limits {
            step: seconds(limits.step_seconds, default.step),
            hook: seconds(limits.hook_seconds, default.hook),
            grant: seconds(grant, default.grant),
            grant_call: config.nfvo.as_ref().map_or(default.grant_call, Nfvo::answer),
            lease: seconds(limits.lease_seconds, default.lease),
        },
    })
}

async fn serve(
    listener: TcpListener,
    tls: Option<&Tls>,
    app: App,
) -> anyhow::Result<(SocketAddr, Handle<SocketAddr>, JoinHandle<std::io::Result<()>>)> {
    listener.set_nonblocking(true).context("cannot use the listener")?;
    let address = listener.local_addr().context("cannot use the listener")?;
    let handle = Handle::new();
    let service = routes::router(app).into_make_service();
    let serving = if let Some(tls) = tls {
        let server = axum_server::from_tcp_rustls(listener, certificate(tls).await?)?;
        tokio::spawn(server.handle(handle.clone()).serve(service))
    } else {
        let server = axum_server::from_tcp(listener)?;
        tokio::spawn(server.handle(handle.clone()).serve(service))
    };
    Ok((address, handle, serving))
}

async fn certificate(tls: &Tls) -> anyhow::Result<RustlsConfig> {
    RustlsConfig::from_pem_file(&tls.cert, &tls.key).await.with_context(|| {
        format!("cannot use the certificate `{}` with `{}`", tls.cert.display(), tls.key.display())
    })
}

/// A folder that only its owner reads and writes.
fn make_private(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot make the folder `{}`", dir.display()))
}

struct Rotation(Arc<SqliteStore>);

#[async_trait::async_trait]
impl Rotate for Rotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        self.0.rotate().await
    }
}
