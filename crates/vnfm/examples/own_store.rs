//! A custom store, tested against the contract before it is trusted. This one counts the writes of another store; yours may
//! be a table in your own database: `Store` is one trait, and `MemoryStore` implements all of it without SQL.
//! `cargo run -p vnfm --example own_store --features memory,clock,conformance`

use std::sync::Arc;
use vnfm::conformance::{check, store};
use vnfm::memory::MemoryStore;
use vnfm::ports::{Clock, Store};

/// Opens your own store, empty.
async fn fresh() -> Arc<dyn Store> {
    let clock: Arc<dyn Clock> = Arc::new(vnfm::SystemClock);
    Arc::new(MemoryStore::new(clock))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    for rule in store::RULES.iter().take(3) {
        println!("{}: {}", rule.name, rule.says());
    }
    // In a test: `check(store::RULES, fresh).await.unwrap()` names every violated rule, and why.
    check(store::RULES, fresh).await?;
    println!("all {} rules hold", store::RULES.len());
    Ok(())
}
