//! Listeners: one for the API, and one for health and metrics if configured.

use crate::access::Access;
use crate::config::{self, Config};
use crate::forwarded::Proxies;
use crate::listener::{self, ConnectionLimits, Descriptors, HttpService};
use crate::routes;
use crate::state::{App, Instrumentation};
use crate::supervisor::Supervisor;
use crate::tls::{self, Files};
use anyhow::Context as _;
use axum::Router;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vnfm_core::ports::Clock;

/// A listener that accepts connections.
pub(super) struct Serving {
    pub(super) address: SocketAddr,
    pub(super) stop: watch::Sender<bool>,
    pub(super) task: JoinHandle<()>,
}

/// A listener's service, with the files that its certificate is reloaded from.
pub(super) struct Service {
    http: HttpService,
    certificate: Option<(Files, tls::Loaded)>,
}

/// How long a stop waits for responses in progress.
const RESPONSE_GRACE: Duration = Duration::from_secs(2);
/// Limit for connections to the monitoring address.
const MONITORING_CONNECTIONS: usize = 32;

/// The metrics and probes, and the proxies that are trusted.
pub(super) fn operating(config: &Config) -> anyhow::Result<Instrumentation> {
    let mut operating = Instrumentation::new().context("cannot register metrics")?;
    operating.proxies = proxies(config)?;
    operating.certificates = config.certificates();
    Ok(operating)
}

fn proxies(config: &Config) -> anyhow::Result<Proxies> {
    Proxies::parse(&config.trusted_proxies)
        .map_err(|error| anyhow::anyhow!("invalid configuration: trusted_proxies: {error}"))
}

/// The service at the main address.
pub(super) fn http_service(
    config: &Config,
    app: &App,
    router: Router,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Service> {
    let limits = connection_limits(&config.limits, &app.access);
    Service::new(config, config.tls_files(), limits, (router, clock))
}

/// Starts the separate listener for health and metrics, if configured.
pub(super) fn monitoring(
    config: &Config,
    app: &App,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Serving>> {
    let Some(address) = config.monitoring.listen else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for health and metrics"))?;
    let is_public = !address.ip().is_loopback();
    let tls = config.tls_files().filter(|_| is_public);
    let router = routes::monitoring(app.clone(), is_public);
    let limits = ConnectionLimits::new(MONITORING_CONNECTIONS, MONITORING_CONNECTIONS);
    let service = Service::new(config, tls, limits, (router, clock))?;
    serve(listener, service, app.instrumentation.supervisor.clone()).map(Some)
}

impl Service {
    fn new(
        config: &Config,
        tls: Option<Files>,
        limits: ConnectionLimits,
        (router, clock): (Router, &Arc<dyn Clock>),
    ) -> anyhow::Result<Self> {
        let loaded = tls.as_ref().map(Files::read).transpose()?;
        let http = HttpService {
            router,
            certificate: loaded.as_ref().map(|loaded| loaded.config.clone()),
            timeouts: config.limits.timeouts(),
            limits,
            proxies: proxies(config)?,
            clock: clock.clone(),
        };
        Ok(Self {
            http,
            certificate: tls.zip(loaded),
        })
    }
}

/// Limits for connections, derived from the limit of file descriptors.
fn connection_limits(limits: &config::Limits, access: &Access) -> ConnectionLimits {
    let descriptors = Descriptors::now((limits.connections, limits.connections_per_address));
    tracing::info!(%descriptors, "serving");
    if limits
        .connections
        .is_some_and(|requested| requested > descriptors.connections)
    {
        tracing::warn!(
            requested = limits.connections,
            connections = descriptors.connections,
            "too few file descriptors for `limits.connections`; raise the limit (LimitNOFILE, `ulimit -n`)"
        );
    }
    access.set_connections(descriptors.connections);
    ConnectionLimits::new(descriptors.connections, descriptors.per_address)
}

/// Serves until [`Serving::stop`] is set, and reloads the certificate when its files change.
pub(super) fn serve(
    listener: TcpListener,
    Service { http, certificate }: Service,
    supervisor: Supervisor,
) -> anyhow::Result<Serving> {
    listener
        .set_nonblocking(true)
        .context("cannot use the listener")?;
    let address = listener.local_addr().context("cannot use the listener")?;
    let listener =
        tokio::net::TcpListener::from_std(listener).context("cannot use the listener")?;
    let clock = http.clock.clone();
    let (stop, stopped) = watch::channel(false);
    let serving = listener::serve(listener, Arc::new(http), stopped, RESPONSE_GRACE);
    let task = tokio::spawn(async move {
        let serving = supervised(serving, supervisor.clone());
        let Some((files, loaded)) = certificate else {
            return serving.await;
        };
        let watching = async move { match tls::watch(files, loaded, clock).await {} };
        tokio::select! {
            () = serving => {}
            () = supervisor.run_forever("watch of the certificate", watching) => {}
        }
    });
    Ok(Serving {
        address,
        stop,
        task,
    })
}

/// A listener that ends before the server stops is a failure.
async fn supervised(serving: impl Future<Output = ()>, supervisor: Supervisor) {
    supervisor.run("listener", serving).await;
    supervisor.fail("listener", "ended by itself");
}
