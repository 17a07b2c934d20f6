//! Events as a stream that resumes after a restart: remember the number of the last event you processed.
//! `cargo run -p vnfm --example events --features memory,clock`

use futures_util::StreamExt as _;
use serde_json::json;
use std::pin::pin;
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

/// States in which an operation stops.
const STOPPED: [&str; 4] = ["COMPLETED", "FAILED_TEMP", "FAILED", "ROLLED_BACK"];

/// Prints events after number `last` until an operation has stopped; returns the number to resume from.
async fn follow(engine: &Engine, mut last: u64) -> anyhow::Result<u64> {
    let mut events = pin!(engine.events(last));
    while let Some(event) = events.next().await {
        let event = event?;
        let state = event.body["operationState"].as_str().unwrap_or_default();
        println!("{} {} {state}", event.seq, event.kind);
        last = event.seq; // store it together with your own reaction
        if STOPPED.contains(&state) {
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
    let create = serde_json::from_value(json!({"vnfdId": package.vnfd().descriptor_id}))?;
    packages
        .onboard(&*store, ("default", "pair"), Arc::new(package))
        .await?;
    let to = serde_json::from_value(json!({"vimType": MEMORY_VIM}))?;
    let vim = engine.register_vim("default", VimChange::to(to)).await?.id;
    let id = engine.create("default", create).await?.vnf.id;

    // Events arrive while operations are driven, here concurrently.
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let up = engine
        .instantiate("default", &id, serde_json::from_value(request)?)
        .await?;
    let (driven, last) = tokio::join!(engine.drive(&up), follow(&engine, 0));
    driven?;

    // After a restart: no event is missed, and none comes twice.
    let down = json!({"terminationType": "FORCEFUL"});
    let down = engine
        .terminate("default", &id, serde_json::from_value(down)?)
        .await?;
    engine.drive(&down).await?;
    println!("from {} on:", last.as_ref().map_or(0, |last| *last));
    follow(&engine, last?).await?;
    Ok(())
}
