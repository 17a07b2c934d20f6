//! The engine and what it calls, built from the configuration.

use super::database::Database;
use crate::access::Access;
use crate::config::{self, Config, Purpose, Unplaced};
use crate::data;
use crate::externals::Externals;
use crate::legacy_vims;
use crate::maintenance::{Maintenance, MaintenancePorts};
use crate::metrics::Metrics;
use crate::nfvo::{self, Connection, Nfvo};
use crate::notification_metrics::MeasuredSubscribers;
use crate::onboarding::{Fetch, Onboarding};
use crate::problem::Problem;
use crate::signatures::Signatures;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vnfm::{Hosts, SystemClock};
use vnfm_core::ports::{self, Budget, Clock};
use vnfm_core::{DeliveryTimeouts, Drivers, Engine, EngineParts, Limits, Notifier};
use vnfm_hosts::BareHosts;
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Callbacks, Networks};
use vnfm_openstack::{OpenStack, UnplacedZones};
use vnfm_outbound::Destinations;
use vnfm_plugin_host::PluginHost;

/// Default timeout for a subscriber's response.
const SUBSCRIBER_TIMEOUT: Duration = Duration::from_secs(10);
/// Default number of concurrent calls per VIM.
const VIM_CALLS: usize = 32;
/// Default number of concurrent operations per VIM.
const VIM_OPERATIONS: usize = 100;
/// Default limit for the size of a package.
pub(super) const MAX_PACKAGE_BYTES: u64 = 512 * 1024 * 1024;

/// What the other parts are built on.
pub(super) struct Base {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) database: Database,
    pub(super) plugins: Arc<PluginHost>,
}

impl Base {
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let database = Database::open(config, &clock, descriptor_limits(config)).await?;
        let plugins = plugins(config, &clock)?;
        Ok(Self {
            clock,
            database,
            plugins: Arc::new(plugins),
        })
    }
}

fn plugins(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<PluginHost> {
    let plugins = config.plugin_host();
    data::make_private(&plugins.dir)?;
    if let Err(error) = vnfm_store::remove_leftovers_in(vnfm_store::Folder::Plugins, &plugins.dir) {
        tracing::warn!(%error, folder = %plugins.dir.display(), "cannot remove temporary files left by a crash");
    }
    Ok(PluginHost::new(plugins, clock.clone()))
}

pub(super) fn engine(
    config: &Config,
    base: &Base,
    nfvo: Option<Arc<Connection>>,
) -> anyhow::Result<Engine> {
    let (vims, hooks) = (
        config.destinations(Purpose::Vims)?,
        config.destinations(Purpose::Hooks)?,
    );
    tokio::spawn(legacy_vims::warn(
        base.database.unchecked_addresses.clone(),
        vims.clone(),
    ));
    Ok(Engine::new(EngineParts {
        store: base.database.store.clone(),
        packages: base.database.packages.clone(),
        drivers: Drivers::default()
            .with(openstack(config, base, vims.clone()))
            .with(kubernetes(config, vims.clone()))
            .with(bare_hosts(config, vims)),
        mgmt: base.plugins.clone(),
        host: Arc::new(Hosts::new(base.database.store.clone(), hooks)),
        nfvo: nfvo.map(|nfvo| nfvo as Arc<dyn ports::Nfvo>),
        schemas: Arc::new(vnfm::schema_violations),
        clock: base.clock.clone(),
        limits: engine_limits(config),
        operations: vnfm_core::lcm::OPERATIONS,
    })
    .with_files(base.database.files.clone()))
}

fn openstack(config: &Config, base: &Base, vims: Destinations) -> OpenStack {
    let unplaced = match config.grants.unplaced {
        Unplaced::Refuse => UnplacedZones::Refuse,
        Unplaced::Warn => UnplacedZones::Warn,
    };
    OpenStack::new(base.clock.clone(), vims).with_unplaced_zones(unplaced)
}

fn kubernetes(config: &Config, vims: Destinations) -> KubernetesDriver {
    let driver = KubernetesDriver::new(vims);
    match config.helm.program() {
        Some(helm) => driver.with_helm(helm),
        None => driver,
    }
}

fn bare_hosts(config: &Config, vims: Destinations) -> BareHosts {
    let driver = BareHosts::new(vims);
    match &config.ipmitool.binary {
        Some(path) => driver.with_ipmitool(path),
        None => driver,
    }
}

/// Limits for reading packages. Packages onboarded under a larger limit stay readable.
fn descriptor_limits(config: &Config) -> vnfm_descriptor::Limits {
    let mut limits = vnfm_descriptor::Limits::default();
    limits.resources = limits
        .resources
        .max(config.limits.resources.unwrap_or_default());
    limits
}

pub(super) fn engine_limits(config: &Config) -> Limits {
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
        on_failure: config.on_failure.policy(),
        on_failure_of: config.on_failure.of_tenants(),
    }
}

pub(super) fn access(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<Access> {
    match config.access.clone() {
        None => Access::by_token(config.token.clone()),
        Some(settings) => Access::new(settings, config.token.clone(), clock),
    }
    .map(|access| access.with_allowance(config.limits.refused_logins(), clock))
    .context("cannot use `access` in the configuration")
}

/// The connection to the NFVO; `None` if not configured. `address` is used in callbacks if no `public_url` is configured.
pub(super) fn nfvo(
    config: &Config,
    address: SocketAddr,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<Connection>>> {
    let Some(nfvo) = &config.nfvo else {
        return Ok(None);
    };
    let own = format!("{}://{address}", config.scheme());
    let root = config.public_url.as_deref().unwrap_or(&own);
    let connection = nfvo.connect(root, clock.clone());
    let connection = connection.context("cannot use `nfvo` in the configuration")?;
    Ok(Some(Arc::new(connection)))
}

pub(super) async fn maintenance(config: &Config, base: &Base) -> anyhow::Result<Maintenance> {
    let limits = (config.retention.retention(), config.limits.free_bytes);
    let database = &base.database;
    let ports = MaintenancePorts {
        admin: database.admin.clone(),
        keys: database.keys.clone(),
        backups: database.backups.clone(),
        packages: database.packages.clone(),
    };
    Maintenance::new(ports, &config.data, limits, base.clock.clone())
        .await
        .context("cannot use the database")
}

pub(super) fn onboarding(config: &Config, base: &Base) -> anyhow::Result<Onboarding> {
    let max_bytes = config.limits.package_bytes.unwrap_or(MAX_PACKAGE_BYTES);
    let signatures = Signatures::new(config.packages.clone(), base.clock.clone())
        .context("invalid configuration")?;
    let externals = Externals::new(&config.packages.external).context("invalid configuration")?;
    Ok(Onboarding::new(
        base.database.store.clone(),
        base.database.packages.clone(),
        base.plugins.clone(),
        (signatures, externals),
        max_bytes,
    ))
}

/// Packages whose fetch an earlier process did not finish. Measures packages and stored files first; from here on quotas apply.
pub(super) async fn unfinished(
    (engine, onboarding): (&Engine, &Onboarding),
    database: &Database,
    access: &Access,
) -> anyhow::Result<Vec<Fetch>> {
    let error = |problem: Problem| anyhow::anyhow!("{}", problem.details().detail);
    onboarding
        .measure(database.unfinished.unmeasured_packages().await?)
        .await
        .map_err(error)?;
    let instances = database.unfinished.all_instances().await?;
    engine
        .files()
        .count(instances)
        .await
        .context("cannot count the stored files")?;
    database.admin.set_quotas(access.quotas());
    onboarding
        .unfinished(database.unfinished.unfinished_packages().await?)
        .await
        .map_err(error)
}

/// Delivers notifications to subscribers, with metrics about the deliveries.
pub(super) fn notifier(
    config: &config::Notifications,
    base: &Base,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Notifier> {
    let networks = Networks::parse(&config.networks).map_err(|error| {
        anyhow::anyhow!("invalid configuration: notifications.networks: {error}")
    })?;
    let timeout = config
        .answer_seconds
        .map_or(SUBSCRIBER_TIMEOUT, Duration::from_secs);
    let tls = nfvo::tls(
        config.authorities_file.as_deref(),
        config.certificate.as_ref(),
    )
    .context("cannot use `notifications` in the configuration")?;
    let default = DeliveryTimeouts::default();
    let patience = DeliveryTimeouts {
        unanswered: config
            .give_up_hours
            .map_or(default.unanswered, Duration::from_hours),
        refused: config
            .refused_minutes
            .map_or(default.refused, Duration::from_mins),
    };
    let callbacks = Callbacks::new(networks, timeout, &tls, base.clock.clone())?;
    Ok(Notifier {
        store: base.database.store.clone(),
        clock: base.clock.clone(),
        subscribers: Arc::new(MeasuredSubscribers {
            inner: Arc::new(callbacks),
            clock: base.clock.clone(),
            metrics: metrics.clone(),
        }),
        patience,
    })
}
