//! VNF-A in another program: a simulated cloud, the engine, a package, and a Kubernetes cluster at the end.
//! `cargo run -p vnfm --example embed --features sqlite,openstack,kubernetes,plugins,hosts,sim`

use serde_json::from_str;
use std::sync::Arc;
use vnfm::descriptor::Limits;
use vnfm::ports::{Change, PackageRecord, Store as _};
use vnfm::store::{PackageDir, SecretKeys, SqliteStore};
use vnfm::types::{CreateVnfRequest, OPENSTACK, VimConnectionInfo};
use vnfm::{Drivers, Engine, EngineParts, Hosts, SystemClock, VimChange, plugins};
use vnfm_plugin_sdk::static_driver;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let world = vnfm::sim::World::start(vnfm::sim::Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let dir = folder.path();

    // The engine: a store, packages, drivers, hooks, hosts, time. Each is a port; bring your own for any of them.
    let keys = SecretKeys::open(&dir.join("secrets.key"))?;
    let store = Arc::new(SqliteStore::open(&dir.join("vnfm.db"), keys).await?);
    let packages = Arc::new(PackageDir::open(&dir.join("packages"), Limits::default())?);
    let clock = Arc::new(SystemClock);
    let hooks = plugins::PluginHost::new(plugins::Config::default(), clock.clone());
    hooks.register(static_driver::<kubernetes_cluster::KubernetesCluster>())?;
    let anywhere = vnfm::outbound::Destinations::anywhere; // `within` where tenants name VIMs
    let openstack = vnfm::openstack::OpenStack::new(clock.clone(), anywhere());
    let kubernetes = vnfm::kubernetes::KubernetesDriver::new(anywhere());
    let mut parts = EngineParts::new(store.clone(), packages.clone(), clock);
    parts.drivers = Drivers::default().with(openstack).with(kubernetes);
    parts.mgmt = Arc::new(hooks);
    parts.host = Arc::new(Hosts::new(store.clone(), anywhere()));
    parts.schemas = Arc::new(vnfm::schema_violations);
    let engine = Engine::new(parts); // without an NFVO, a local policy grants

    // A package, a VIM, an instance. On a real cloud, only the VIM's connection and the request differ.
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");
    let sample = format!("{samples}/vnf-a-k8s-cluster");
    let package = packages.store_copy("vnf-a", sample.as_ref()).await?;
    let vnfd_id = &package.vnfd().descriptor_id;
    let record = Box::new(PackageRecord::onboarded("default", "vnf-a", vnfd_id));
    store.write(None, vec![Change::AddPackage(record)]).await?;
    let (to, tenant) = (world.endpoints(), engine.tenant("default"));
    let cloud = VimConnectionInfo::new(OPENSTACK)
        .interface("endpoint", &*to.auth_url)
        .access("username", &*to.user)
        .access("password", &*to.password)
        .access("project", &*to.user);
    let vim = tenant.register_vim(VimChange::to(cloud)).await?;
    let instance = tenant.create(CreateVnfRequest::new(vnfd_id)).await?.vnf.id;
    let request = std::fs::read_to_string(format!("{sample}/requests/instantiate.json"))?;
    let request = from_str(&world.fill_sample(&request, &vim.id, "cluster-1"))?;
    // Accepted here, then driven on the runtime that this program chose.
    let op = tenant.instantiate(&instance, request).await?;
    engine.drive(&op).await?.completed()?;
    let cluster = engine.vim("default", "cluster-1").await?;
    println!("the cluster is VIM {}", cluster.id);
    Ok(())
}
