//! A dry run: the steps, the hooks' drivers, the point of no return.
//! `cargo run -p vnfm --example plan --features memory,clock`

use serde_json::{Value, json};
use std::sync::Arc;
use vnfm::descriptor::{Limits, Package};
use vnfm::lcm::{Begin, Operation, instantiate, terminate};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

async fn show(engine: &Engine, operation: &'static Operation, id: &str, request: &Value) {
    let begin = Begin::new(operation, request.clone());
    match engine.plan("default", id, begin).await {
        Ok(plan) => {
            println!("{}:", plan.operation);
            for step in plan.steps {
                let hook = step
                    .driver
                    .map(|driver| format!(", calls {driver}"))
                    .unwrap_or_default();
                let back = if step.irreversible {
                    ", no way back from here"
                } else {
                    ""
                };
                println!("  {} {}{hook}{back}", step.state.as_str(), step.name);
            }
        }
        Err(refusal) => println!("{} would be refused: {}", operation.kind, refusal.detail),
    }
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
    let to = VimConnectionInfo::new(MEMORY_VIM);
    let vim = engine.register_vim("default", VimChange::to(to)).await?.id;
    let id = engine.create("default", create).await?.vnf.id;

    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": &vim}}});
    let end = json!({"terminationType": "FORCEFUL"});
    show(&engine, &instantiate::OPERATION, &id, &request).await;
    show(
        &engine,
        &instantiate::OPERATION,
        &id,
        &json!({"flavourId": "none"}),
    )
    .await;
    show(&engine, &terminate::OPERATION, &id, &end).await;
    let on_vim = InstantiateVnfRequest::new("simple").on_vim(vim);
    let op = engine.instantiate("default", &id, on_vim).await?;
    engine.drive(&op).await?.completed()?;
    show(&engine, &terminate::OPERATION, &id, &end).await;
    let vnf = engine.store().instance("default", &id).await?;
    println!(
        "still {:?}, nothing runs: {}",
        vnf.vnf.instantiation_state,
        vnf.active_op.is_none()
    );
    Ok(())
}
