//! A custom kind of VIM: a driver with its own vimType. Its cloud is a set of names; yours has an API.
//! `cargo run -p vnfm --example own_driver --features memory,clock`

use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MemoryPackages, MemoryStore};
use vnfm::ports::{Allocation, Convergence, InfraDriver, OwnedResource, PortError};
use vnfm::ports::{Recorded, Release, Vim, VimCall, VimReport};
use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

/// The rules for drivers are in docs/contracts/infra-driver.md; the feature `conformance` tests them.
#[derive(Clone, Default)]
struct OwnCloud(Arc<tokio::sync::Mutex<BTreeSet<String>>>);

type Done<T> = Result<T, PortError>;

#[async_trait]
impl InfraDriver for OwnCloud {
    fn vim_types(&self) -> &'static [&'static str] {
        &["EXAMPLE.OWN_CLOUD.V_1"]
    }
    fn validate(&self, _: &VimConnectionInfo) -> Done<()> {
        Ok(()) // report missing members of `accessInfo`, without calling the VIM
    }
    fn validate_request(&self, _: &Allocation) -> Done<()> {
        Ok(()) // report unsupported parts of the VNFD
    }
    async fn check(&self, _: &dyn Vim) -> Done<VimReport> {
        Ok(VimReport::default()) // log in
    }
    async fn preview(&self, _: &VimCall<'_>, _: &Convergence<'_>) -> Done<Value> {
        Ok(Value::Null) // images, quota: what `converge` gets as its third argument
    }
    async fn converge(&self, cx: &VimCall<'_>, to: &Convergence<'_>, _: &Value) -> Done<Recorded> {
        let name = cx.ownership.instance_id.clone();
        self.0.lock().await.insert(name); // idempotent; replace the VNFCs that `to` names
        self.observe(cx, to.target, &Value::Null).await
    }
    async fn release(&self, cx: &VimCall<'_>, _: &Allocation, _: &Release) -> Done<()> {
        self.0.lock().await.remove(&cx.ownership.instance_id); // succeeds if absent
        Ok(())
    }
    async fn observe(&self, cx: &VimCall<'_>, _: &Allocation, _: &Value) -> Done<Recorded> {
        let handle = json!(self.0.lock().await.get(&cx.ownership.instance_id));
        let rest = Recorded::default();
        Ok(Recorded { handle, ..rest })
    }
    async fn owned(&self, _: &dyn Vim, _: &str) -> Done<Vec<OwnedResource>> {
        Ok(Vec::new()) // all resources with our tag: orphans are found by it
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (packages, cloud) = (Arc::new(MemoryPackages::default()), OwnCloud::default());
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let drivers = Drivers::default().with(cloud.clone());
    let parts = EngineParts::new(store.clone(), packages.clone(), Arc::new(SystemClock));
    let engine = Engine::new(EngineParts { drivers, ..parts });
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");
    let sample = format!("{samples}/vnf-ha-pair");
    let vnf = Arc::new(Package::open(sample.as_ref(), &Limits::default())?);
    let create = CreateVnfRequest::new(&vnf.vnfd().descriptor_id);
    packages.onboard(&*store, ("default", "pair"), vnf).await?;
    let tenant = engine.tenant("default");
    let to = VimChange::to(VimConnectionInfo::new("EXAMPLE.OWN_CLOUD.V_1"));
    let vim = tenant.register_vim(to).await?.id;
    let id = tenant.create(create).await?.vnf.id;
    let request = InstantiateVnfRequest::new("simple").on_vim(vim);
    let op = tenant.instantiate(&id, request).await?;
    engine.drive(&op).await?.completed()?; // the error has the state and the cause
    println!("Completed, on the cloud: {}", cloud.0.lock().await.len());
    Ok(())
}
