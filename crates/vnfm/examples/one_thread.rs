//! An engine on one thread, whose driving future is dropped in the middle: that is equivalent to a crash, and
//! `resume_all` continues from the journal.
//! `cargo run -p vnfm --example one_thread --features memory,clock`

use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::ports::Clock;
use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

/// Drives an operation until it has begun a step, then drops it.
async fn dropped_on_its_way(engine: &Engine, op: &str) -> anyhow::Result<()> {
    let mut driving = pin!(engine.drive(op));
    loop {
        let looked = pin!(tokio::task::yield_now());
        match select(driving, looked).await {
            Either::Left((ended, _)) => return Ok(ended?.completed()?),
            Either::Right(((), on)) => driving = on,
        }
        if !engine.store().journal(op).await?.is_empty() {
            return Ok(()); // here `driving` is dropped
        }
    }
}

fn main() -> anyhow::Result<()> {
    // A single thread, and no runtime inside the engine: any executor can drive its futures.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let clock = Arc::new(SystemClock);
        let vim = MemoryVim::default().with_call_duration(Duration::from_millis(10), clock.clone());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let packages = Arc::new(MemoryPackages::default());
        let limits = vnfm::Limits {
            lease: Duration::from_millis(50),
            ..Default::default()
        };
        let engine = Engine::new(EngineParts {
            drivers: Drivers::default().with(vim.clone()),
            limits, // how long after a crash another process may take over
            ..EngineParts::new(store.clone(), packages.clone(), clock.clone())
        });
        let sample = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../vnfd-samples/vnf-ha-pair"
        );
        let package = Package::open(sample.as_ref(), &Limits::default())?;
        let create = CreateVnfRequest::new(&package.vnfd().descriptor_id);
        packages
            .onboard(&*store, ("default", "pair"), Arc::new(package))
            .await?;
        let to = VimConnectionInfo::new(MEMORY_VIM);
        let cloud = engine.register_vim("default", VimChange::to(to)).await?.id;
        let id = engine.create("default", create).await?.vnf.id;
        let request = InstantiateVnfRequest::new("simple").on_vim(cloud);
        let op = engine.instantiate("default", &id, request).await?;

        dropped_on_its_way(&engine, &op).await?;
        let state = engine.progress("default", &op).await?.operation_state;
        println!("dropped in {state:?}, {} VNFCs", vim.vnfcs().len());
        clock.sleep(engine.limits().lease).await; // until the lease of the dropped future has expired
        engine.resume_all().await?;
        let state = engine.progress("default", &op).await?.operation_state;
        println!("resumed to {state:?}, {} VNFCs", vim.vnfcs().len());
        Ok(())
    })
}
