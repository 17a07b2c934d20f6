//! The rules of the port (`docs/contracts/store.md`), on a file and in memory; a further kind of database
//! is a further test here.

use crate::records::Home;
use std::sync::{Arc, Mutex};
use vnfm_conformance::{check, store};
use vnfm_core::ports::Store;
use vnfm_store::SqliteStore;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_memory_keeps_every_rule() {
    let fresh = || async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().await.unwrap());
        store
    };
    check(store::RULES, fresh).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_a_file_keeps_every_rule() {
    let homes = Mutex::new(Vec::new());
    let fresh = || async {
        let home = Home::new();
        let store: Arc<dyn Store> = Arc::new(home.open().await);
        homes.lock().unwrap().push(home);
        store
    };
    check(store::RULES, fresh).await.unwrap();
}
