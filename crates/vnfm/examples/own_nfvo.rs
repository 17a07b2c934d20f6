//! An orchestrator that grants in its own process, and stores VNF packages as bytes wherever it likes.
//! `cargo run -p vnfm --example own_nfvo --features memory,clock`

use async_trait::async_trait;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package, pack};
use vnfm::memory::{MEMORY_VIM, MemoryStore, MemoryVim};
use vnfm::ports::{Change, Code, ErrorKind, GrantOutcome, Nfvo};
use vnfm::ports::{PackageRecord, Packages, PortError, Store as _};
use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
use vnfm::types::{Grant, GrantInfo, GrantRequest, ResourceDefinition};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

const REJECTED: Code = Code {
    name: "example.rejected",
    kind: ErrorKind::Refused,
    means: "the orchestrator rejects the operation",
    next: "ask the orchestrator's operator why",
};

/// Grants what is not too large; has one package. The rules for NFVOs are in docs/contracts/nfvo.md.
struct OwnNfvo(Arc<Package>);

#[async_trait]
impl Nfvo for OwnNfvo {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        let count = request.add_resources.len();
        println!("asked for {} with {count} resources", request.operation);
        if count > 100 {
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

#[async_trait]
impl Packages for OwnNfvo {
    async fn package(&self, _tenant: &str, _vnf_pkg_id: &str) -> Result<Arc<Package>, PortError> {
        Ok(self.0.clone())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");
    let bytes = pack(format!("{dir}/vnf-ha-pair").as_ref(), &Limits::default())?;
    let package = Package::from_bytes(bytes, &Limits::default())?;
    let vnfd_id = package.vnfd().descriptor_id.clone();
    let nfvo = Arc::new(OwnNfvo(Arc::new(package)));
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let mut parts = EngineParts::new(store.clone(), nfvo.clone(), Arc::new(SystemClock));
    parts.drivers = Drivers::default().with(MemoryVim::default());
    parts.nfvo = Some(nfvo);
    let engine = Engine::new(parts);
    let record = Box::new(PackageRecord::onboarded("default", "pair", &vnfd_id));
    store.write(None, vec![Change::AddPackage(record)]).await?;
    let tenant = engine.tenant("default");
    let to = VimChange::to(VimConnectionInfo::new(MEMORY_VIM));
    let vim = tenant.register_vim(to).await?.id;
    let id = tenant.create(CreateVnfRequest::new(vnfd_id)).await?.vnf.id;
    let request = InstantiateVnfRequest::new("simple").on_vim(vim);
    let op = tenant.instantiate(&id, request).await?;
    println!("{:?}", engine.drive(&op).await?.state);
    Ok(())
}
