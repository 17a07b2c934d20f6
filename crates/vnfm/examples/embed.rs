//! VNF-A in another program: a simulated cloud, the engine, a package, and a Kubernetes cluster at the end.
//! `cargo run -p vnfm --example embed --features sqlite,openstack,kubernetes,plugins,hosts,sim`

use std::sync::Arc;
use vnfm::ports::{Change, PackageRecord, SecretConnection, Store as _};
use vnfm::store::{PackageDir, SecretKeys, SqliteStore};
use vnfm::{Drivers, Engine, EngineParts, Hosts, SystemClock, VimChange};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let world = vnfm::sim::World::start(vnfm::sim::Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let data = folder.path();

    // The engine: a store, packages, drivers, hooks, hosts, time. Each is a port; bring your own for any of them.
    let keys = SecretKeys::open(&data.join("secrets.key"))?;
    let store = Arc::new(SqliteStore::open(&data.join("vnfm.db"), keys).await?);
    let limits = vnfm::descriptor::Limits::default();
    let packages = Arc::new(PackageDir::open(&data.join("packages"), limits)?);
    let clock = Arc::new(SystemClock);
    let hooks = vnfm::plugins::PluginHost::new(vnfm::plugins::Config::default(), clock.clone());
    hooks.register(vnfm_plugin_sdk::static_driver::<
        kubernetes_cluster::KubernetesCluster,
    >())?;
    // The simulated world is on this machine. Where others name VIMs: `Destinations::within(Networks::default())`.
    let anywhere = vnfm::outbound::Destinations::anywhere;
    let engine = Engine::new(EngineParts {
        drivers: Drivers::default()
            .with(vnfm::openstack::OpenStack::new(clock.clone(), anywhere()))
            .with(vnfm::kubernetes::KubernetesDriver::new(anywhere())),
        mgmt: Arc::new(hooks),
        host: Arc::new(Hosts::new(store.clone(), anywhere())),
        schemas: Arc::new(vnfm::schema_violations),
        ..EngineParts::new(store.clone(), packages.clone(), clock) // a local policy grants
    });

    // A package, a VIM, an instance. On a real cloud only the VIM's connection and the request differ.
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vnfd-samples/vnf-a-k8s-cluster"
    );
    let vnfd_id = packages
        .take("vnf-a", sample.as_ref())
        .await?
        .vnfd()
        .descriptor_id
        .clone();
    let record = PackageRecord::onboarded("default", "vnf-a", &vnfd_id);
    store
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?;
    let vim = register_cloud(&engine, &world).await?;
    let create = serde_json::from_value(serde_json::json!({"vnfdId": vnfd_id}))?;
    let instance = engine.create("default", create).await?.vnf.id;
    let request = std::fs::read_to_string(format!("{sample}/requests/instantiate.json"))?;
    let request = world.fill(&request, &vim, "cluster-1");

    // Accepted, then driven here, on the runtime that this program chose.
    let op = engine
        .instantiate("default", &instance, serde_json::from_str(&request)?)
        .await?;
    engine.drive(&op).await?;
    let end = engine.progress("default", &op).await?;
    println!(
        "{}: {:?}",
        end.operation_state,
        end.error.map(|error| error.detail)
    );
    println!(
        "the cluster is VIM {}",
        engine.vim("default", "cluster-1").await?.id
    );
    Ok(())
}

/// Registers the simulated OpenStack, and returns the id of the VIM.
async fn register_cloud(engine: &Engine, world: &vnfm::sim::World) -> anyhow::Result<String> {
    let to = world.endpoints();
    let cloud = serde_json::from_value(serde_json::json!({
        "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "interfaceInfo": {"endpoint": to.auth_url},
        "accessInfo": {"username": to.user, "password": to.password, "project": to.user}}))?;
    let change = VimChange {
        connection: SecretConnection(cloud),
        ..VimChange::default()
    };
    Ok(engine.register_vim("default", change).await?.id)
}
