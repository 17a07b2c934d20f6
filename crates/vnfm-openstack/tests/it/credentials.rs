//! Logins for programs inside an instance, on the simulated cloud, with what only a simulation can inject.

use crate::credential_scenarios::{self, SECRET, create, wanted};
use crate::simulated::{assert_clean, bed, world};
use std::time::Duration;
use vnfm_core::ports::ErrorKind;
use vnfm_sim::faults::{Fault, Rule, When};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_exists_as_long_as_its_instance() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    credential_scenarios::a_login_exists_as_long_as_its_instance(&bed).await;
    credential_scenarios::a_role_that_the_user_lacks_is_refused(&bed).await;
    credential_scenarios::a_foreign_login_is_not_touched(&bed).await;
    assert_clean(&world);
}

/// The response to the creation is lost: the next attempt finds its login by the secret, which it knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_leaves_no_second_login() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let lost = Fault::Drop { drop: When::After };
    let rule = Rule::new("keystone.credential_create".to_owned(), lost).nth(1, 1);
    world.faults().add(rule);
    let error = create(&bed, &wanted(), SECRET).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(bed.owned().await.len(), 1);
    create(&bed.restarted(), &wanted(), SECRET).await.unwrap();
    assert_eq!(bed.owned().await.len(), 1);
    let creations = world.ledger().calls_named("keystone.credential_create");
    assert_eq!(creations.len(), 1, "it was adopted");
}
