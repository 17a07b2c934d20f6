//! Keys in a real Barbican.

use crate::barbican::{
    Door, a_key_is_kept_found_and_given_back, a_wrong_password_is_said_and_a_new_one_taken,
};
use crate::real::{connection, login};
use vnfm_core::ports::SecretSealer as _;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_kept_in_a_real_barbican() {
    let Some(connection) = connection() else {
        return;
    };
    let (door, barbican) = Door::of(connection);
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
    a_key_is_kept_found_and_given_back(&barbican).await;
    let (_, password) = login("nfv");
    a_wrong_password_is_said_and_a_new_one_taken((&door, &barbican), &password).await;
}
