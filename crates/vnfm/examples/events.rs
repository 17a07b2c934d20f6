//! Events as a stream that resumes after a restart: remember the number of the last event you processed.
//! `cargo run -p vnfm --example events --features memory,clock`

use futures_util::StreamExt as _;
use std::pin::pin;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::types::{
    CreateVnfRequest, InstantiateVnfRequest, LcmOperationState, TerminateVnfRequest,
    VimConnectionInfo,
};
use vnfm::{Drivers, Engine, EngineParts, Event, SystemClock, VimChange};

/// Prints events after number `last` until an operation has stopped; returns the number to resume from.
async fn follow(engine: &Engine, mut last: u64) -> anyhow::Result<u64> {
    let mut events = pin!(engine.events(last));
    while let Some(row) = events.next().await {
        let row = row?;
        let state = match row.event()? {
            Event::Operation { state, .. } => Some(state),
            _ => None,
        };
        let shown = state.map_or("", LcmOperationState::as_str);
        println!("{} {} {shown}", row.seq, row.kind);
        last = row.seq; // store it together with your own reaction
        if state.is_some_and(|state| !state.is_driven()) {
            break;
        }
    }
    Ok(last)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let packages = Arc::new(MemoryPackages::default());
    let engine = Engine::new(EngineParts {
        drivers: Drivers::default().with(MemoryVim::default()),
        ..EngineParts::new(store.clone(), packages.clone(), clock)
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
    let tenant = engine.tenant("default");
    let to = VimChange::to(VimConnectionInfo::new(MEMORY_VIM));
    let vim = tenant.register_vim(to).await?.id;
    let id = tenant.create(create).await?.vnf.id;

    // Events arrive while operations are driven, here concurrently.
    let request = InstantiateVnfRequest::new("simple").on_vim(vim);
    let up = tenant.instantiate(&id, request).await?;
    let (driven, last) = tokio::join!(engine.drive(&up), follow(&engine, 0));
    driven?.completed()?;

    // After a restart: no event is missed, and none comes twice.
    let down = tenant
        .terminate(&id, TerminateVnfRequest::forceful())
        .await?;
    engine.drive(&down).await?.completed()?;
    println!("from {} on:", last.as_ref().map_or(0, |last| *last));
    follow(&engine, last?).await?;
    Ok(())
}
