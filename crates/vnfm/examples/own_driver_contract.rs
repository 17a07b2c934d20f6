//! A driver is tested by the contract of infrastructure drivers: here the VIM in memory, in its place yours.
//! `cargo run -p vnfm --example own_driver_contract --features memory,clock,conformance`

use std::sync::Arc;
use vnfm::SystemClock;
use vnfm::conformance::check;
use vnfm::conformance::infra_driver::{OnVim, RULES, TestBed};
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryVim};
use vnfm::ports::Allocation;
use vnfm::types::{InstantiateVnfRequest, VimConnectionInfo};

/// An empty VIM, and an instance to create on it; each rule gets its own.
fn on_vim(what: Allocation) -> Arc<dyn TestBed> {
    let vim = MemoryVim::default().with_password("a good password");
    let driver = (vim.clone(), Arc::new(SystemClock) as _);
    let login = |password| VimConnectionInfo::new(MEMORY_VIM).access("password", password);
    let runs = vim.clone();
    Arc::new(OnVim {
        wrong_login: Some(login("a wrong password")), // without it, the rules about logins hold of anything
        running: Box::new(move || runs.running_vnfcs()), // for a driver that starts and stops VNFCs
        ..OnVim::new(driver, login("a good password"), what, move || {
            [vim.vnfcs(), vim.snapshots()].concat()
        })
    })
}

// In your crate: `#[tokio::test(flavor = "multi_thread")]`.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vnfd-samples/vnf-ha-pair"
    );
    let package = Arc::new(Package::open(sample.as_ref(), &Limits::default())?);
    let request = InstantiateVnfRequest::new("simple").on_vim("vim");
    let what = Allocation::requested("package", package, request)?;
    check(RULES, || async { on_vim(what.clone()) }).await?;
    println!("{} rules hold", RULES.len());
    Ok(())
}
