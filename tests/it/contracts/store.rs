//! The in-memory store meets the contract.

use std::sync::Arc;
use vnfm_conformance::{check, store};
use vnfm_core::ports::Store;
use vnfm_memory::MemoryStore;

async fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(vnfm::SystemClock)))
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_store_meets_the_contract() {
    check(store::RULES, memory).await.unwrap();
}
