//! An own store, tried with the contract before it is trusted. This one counts what another one writes; yours may be
//! a table beside your own: `Store` is one trait, and `MemoryStore` shows all of it without SQL.
//! `cargo run -p vnfm --example own_store --features memory,clock,conformance`

use std::sync::Arc;
use vnfm::conformance::{check, store};
use vnfm::memory::MemoryStore;
use vnfm::ports::{Clock, Store};

/// Where your own store is opened, empty.
async fn fresh() -> Arc<dyn Store> {
    let clock: Arc<dyn Clock> = Arc::new(vnfm::SystemClock);
    Arc::new(MemoryStore::new(clock))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    for rule in store::RULES.iter().take(3) {
        println!("{}: {}", rule.name, rule.says());
    }
    // In a test: `check(store::RULES, fresh).await.unwrap()` names every rule that does not hold, and why.
    check(store::RULES, fresh).await?;
    println!("all {} rules hold", store::RULES.len());
    Ok(())
}
