//! A MgmtDriver that is a plain object of the program: no library, no C ABI. The VNFD refers to it as to any other.
//! `cargo run -p vnfm --example own_hooks --features memory,clock`

use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::ports::{Declaration, Effects, HookDeclaration, HookHost, HookRequest};
use vnfm::ports::{MgmtDriver, PortError};
use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
use vnfm::{Drivers, Engine, EngineParts, StaticPlugins, SystemClock, VimChange};

/// Counts the VNFCs of an instance. The rules for hooks are in docs/contracts/mgmt-driver.md.
struct Counting(Declaration);

impl Counting {
    fn new() -> Self {
        let hook = |name: &str| (name.to_owned(), HookDeclaration::default());
        Self(Declaration {
            name: "mgmt-drivers-kubernetes".into(), // as the VNFD spells it
            version: "1.0.0".into(),
            hooks: ["instantiate_end", "terminate_end"].map(hook).into(),
            config_schema: None,
        })
    }
}

#[async_trait]
impl MgmtDriver for Counting {
    fn declaration(&self) -> &Declaration {
        &self.0
    }
    async fn call(&self, hook: HookRequest, host: Arc<dyn HookHost>) -> Result<Effects, PortError> {
        // A hook is repeated after a crash: it saves a checkpoint for what it must not do twice.
        let known = host.call("checkpoint.get", json!({"key": "begun"})).await?;
        if known["value"].is_null() {
            let begun = json!({"key": "begun", "value": true});
            host.call("checkpoint.put", begun).await?;
            host.log("info", "for the first time");
        }
        println!("{} of {}", hook.hook, hook.instance.vnf_product_name);
        let count = hook.inventory.vnfc_resource_info.len();
        Ok(Effects::none().metadata("counted", count))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let packages = Arc::new(MemoryPackages::default());
    let engine = Engine::new(EngineParts {
        drivers: Drivers::default().with(MemoryVim::default()),
        mgmt: Arc::new(StaticPlugins::default().with(Counting::new())),
        ..EngineParts::new(store.clone(), packages.clone(), clock)
    });
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");
    let sample = format!("{samples}/vnf-a-seed");
    let package = Arc::new(Package::open(sample.as_ref(), &Limits::default())?);
    let create = CreateVnfRequest::new(&package.vnfd().descriptor_id);
    let ids = ("default", "seed");
    packages.onboard(&*store, ids, package).await?;
    let tenant = engine.tenant("default");
    let to = VimChange::to(VimConnectionInfo::new(MEMORY_VIM));
    let vim = tenant.register_vim(to).await?.id;
    let id = tenant.create(create).await?.vnf.id;
    let request = InstantiateVnfRequest::new("cluster_install").on_vim(vim);
    let op = tenant.instantiate(&id, request).await?;
    engine.drive(&op).await?.completed()?;
    let vnf = tenant.instance(&id).await?.vnf;
    println!("Completed, {:?}", vnf.metadata);
    Ok(())
}
