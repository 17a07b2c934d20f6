//! Keys in a real Barbican.

use crate::barbican::{
    TestLogin, a_key_is_stored_listed_and_read_back,
    a_wrong_password_is_reported_and_a_new_one_used_at_once,
};
use crate::bed::{connection, login};
use vnfm_core::ports::SecretSealer as _;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_stored_in_a_real_barbican() {
    let Some(connection) = connection() else {
        return;
    };
    let (test_login, barbican) = TestLogin::new(connection);
    if let Err(error) = barbican.key_ids("vnfm-none").await {
        assert_eq!(error.code().name, "openstack.no-endpoint", "{error}");
        let why = "the cloud has no Barbican; OPENSTACK_BARBICAN=1 starts one with it";
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        eprintln!("skipped: {why}");
        return;
    }
    a_key_is_stored_listed_and_read_back(&barbican).await;
    let (_, password) = login("nfv");
    a_wrong_password_is_reported_and_a_new_one_used_at_once((&test_login, &barbican), &password)
        .await;
}
