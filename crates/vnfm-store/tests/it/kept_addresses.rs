//! Addresses of VIMs in a database of an older version, which did not check addresses, remain allowed.

use crate::records::{Home, TENANT, instance, seed, vim};
use serde_json::json;
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::{Change, Store as _};
use vnfm_store::{UncheckedAddress, unchecked_addresses_of_database};
use vnfm_types::VimConnectionInfo;

fn at(endpoint: &str) -> VimConnectionInfo {
    serde_json::from_value(json!({"vimType": "openstack", "interfaceInfo": {"endpoint": endpoint}}))
        .unwrap()
}

/// Reverts the schema to before the migration that introduced these addresses.
fn as_before(home: &Home) {
    let db = rusqlite::Connection::open(home.database()).unwrap();
    db.execute_batch(
        "DROP TABLE schedules; DROP TABLE volumes; DROP TABLE link_uses; DROP TABLE links; DROP TABLE kept_addresses; DROP TABLE snapshots; DROP INDEX instances_need_levels; DROP INDEX ops_next_pkg;
         UPDATE instances SET request = deployment;
         ALTER TABLE instances DROP COLUMN deployment; ALTER TABLE instances DROP COLUMN needs_levels;
         ALTER TABLE ops DROP COLUMN before; ALTER TABLE ops DROP COLUMN target;
         ALTER TABLE ops DROP COLUMN control; ALTER TABLE journal DROP COLUMN hook; ALTER TABLE journal DROP COLUMN retry;
         ALTER TABLE instances DROP COLUMN on_failure; ALTER TABLE ops DROP COLUMN next_pkg_id;
         DELETE FROM schema_version WHERE version >= 15;
         DELETE FROM meta WHERE key = 'addresses'",
    )
    .unwrap();
}

#[tokio::test]
async fn addresses_of_an_old_database_remain_allowed_until_the_endpoint_changes() {
    let home = Home::new();
    let store = home.open().await;
    let mut record = vim("old", "old");
    record.vim.interface_info = at("http://127.0.0.1:5000").interface_info;
    let id = record.vim.id.clone();
    let mut lives = instance("lives");
    let request = json!({"flavourId": "f", "vimConnectionInfo": {"v": {"vimType": "openstack",
        "interfaceInfo": {"endpoint": "http://127.0.0.1:6000"}, "accessInfo": {"password": "p"}}}});
    let request = serde_json::from_value(request).unwrap();
    lives.deployment = Some(Arc::new(Deployment::requested("package", request)));
    seed(&store, &[]).await;
    let changes = vec![Change::AddVim(record), Change::AddInstance(lives)];
    store.write(None, changes).await.unwrap();
    assert!(
        !store.keeps_address(TENANT, Some(&id), &at("http://127.0.0.1:5000")),
        "it is new"
    );
    store.close().await.unwrap();
    as_before(&home);
    let seen: Vec<_> = unchecked_addresses_of_database(&home.database()).unwrap();
    assert!(
        seen.iter().any(|one| one.vim_id == id),
        "known before the upgrade: {seen:?}"
    );

    let store = home.open().await;
    assert!(store.keeps_address(TENANT, Some(&id), &at("http://127.0.0.1:5000")));
    // Also for a connection in a request.
    assert!(store.keeps_address(TENANT, None, &at("http://127.0.0.1:6000")));
    for (tenant, vim, endpoint) in [
        ("other", Some(id.as_str()), "http://127.0.0.1:5000"),
        (TENANT, None, "http://127.0.0.1:5000"),
        (TENANT, Some(id.as_str()), "http://127.0.0.1:5001"),
    ] {
        let keeps = store.keeps_address(tenant, vim, &at(endpoint));
        assert!(!keeps, "{tenant} {vim:?} {endpoint}");
    }
    let mut through = at("http://127.0.0.1:5000");
    through
        .extra
        .insert("proxy".into(), json!("http://127.0.0.1:1"));
    assert!(
        !store.keeps_address(TENANT, Some(&id), &through),
        "its proxy is another one"
    );
    // After a change of the endpoint and back, the address is checked.
    for endpoint in ["http://192.0.2.1:5000", "http://127.0.0.1:5000"] {
        let mut record = store.vim(TENANT, &id).await.unwrap();
        record.vim.interface_info = at(endpoint).interface_info;
        let changes = vec![Change::PutVim(Box::new(record))];
        store.write(None, changes).await.unwrap();
    }
    assert!(!store.keeps_address(TENANT, Some(&id), &at("http://127.0.0.1:5000")));
    store.close().await.unwrap();
    let store = home.open().await;
    assert!(
        !store.keeps_address(TENANT, Some(&id), &at("http://127.0.0.1:5000")),
        "nor later"
    );
    let left: Vec<UncheckedAddress> = store.unchecked_addresses();
    assert_eq!(left.len(), 1, "that of the request: {left:?}");
    assert_eq!(left[0].endpoint, "http://127.0.0.1:6000");
}
