//! An orchestrator that grants in its own process, and stores VNF packages as bytes wherever it likes.
//! `cargo run -p vnfm --example own_nfvo --features memory,clock`

use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryStore, MemoryVim};
use vnfm::ports::{
    Change, Code, ErrorKind, GrantOutcome, Nfvo, PackageRecord, Packages, PortError, Store as _,
};
use vnfm::types::{Grant, GrantInfo, GrantRequest, ResourceDefinition};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

const NAME: &str = "example.rejected";
const REJECTED: Code = Code {
    name: NAME,
    kind: ErrorKind::Refused,
    means: "the orchestrator rejects the operation",
    next: "ask the orchestrator's operator why",
};

/// Grants everything that is not too large. The rules for NFVOs are in docs/contracts/nfvo.md.
struct OwnNfvo;

#[async_trait]
impl Nfvo for OwnNfvo {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        println!(
            "asked for {} with {} resources",
            request.operation,
            request.add_resources.len()
        );
        if request.add_resources.len() > 100 {
            return Err(PortError::new(&REJECTED, "grant", "that is too much"));
        }
        let info = |one: &ResourceDefinition| GrantInfo {
            resource_definition_id: one.id.clone(),
            ..Default::default()
        };
        Ok(GrantOutcome::Granted(Box::new(Grant {
            id: format!("grant of {}", request.vnf_lcm_op_occ_id),
            vnf_instance_id: request.vnf_instance_id.clone(),
            vnf_lcm_op_occ_id: request.vnf_lcm_op_occ_id.clone(),
            add_resources: request.add_resources.iter().map(info).collect(),
            ..Grant::default()
        })))
    }
    async fn poll_grant(&self, _: &str) -> Result<GrantOutcome, PortError> {
        Ok(GrantOutcome::UnknownLocation) // it decides at once, so no request is ever pending
    }
}

/// Packages from any source of bytes; read once, or each time.
struct OwnPackages(Arc<Package>);

#[async_trait]
impl Packages for OwnPackages {
    async fn package(&self, _tenant: &str, _vnf_pkg_id: &str) -> Result<Arc<Package>, PortError> {
        Ok(self.0.clone())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vnfd-samples/vnf-ha-pair"
    );
    let bytes = vnfm::descriptor::pack(sample.as_ref(), &Limits::default())?; // from your catalogue
    let package = Arc::new(Package::from_bytes(bytes, &Limits::default())?);
    let vnfd_id = package.vnfd().descriptor_id.clone();
    let clock = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let engine = Engine::new(EngineParts {
        drivers: Drivers::default().with(MemoryVim::default()),
        nfvo: Some(Arc::new(OwnNfvo)),
        ..EngineParts::new(store.clone(), Arc::new(OwnPackages(package)), clock)
    });
    let record = PackageRecord::onboarded("default", "pair", &vnfd_id);
    store
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?;
    let to = serde_json::from_value(json!({"vimType": MEMORY_VIM}))?;
    let vim = engine.register_vim("default", VimChange::to(to)).await?.id;
    let create = serde_json::from_value(json!({"vnfdId": vnfd_id}))?;
    let id = engine.create("default", create).await?.vnf.id;
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let op = engine
        .instantiate("default", &id, serde_json::from_value(request)?)
        .await?;
    engine.drive(&op).await?;
    println!(
        "{:?}",
        engine.progress("default", &op).await?.operation_state
    );
    Ok(())
}
