//! Logins for programs inside an instance, on the simulated cloud, with what only a simulation can inject.

use crate::credential_scenarios::{self, SECRET, create, wanted};
use crate::simulated::{assert_clean, bed, world};
use crate::support::OneVdu;
use serde_json::Value;
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

/// Services accept a revoked login for some minutes: what a program creates meanwhile blocks the stack's networks.
#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_to_delete_a_stack_removes_what_programs_created_meanwhile() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    create(&bed, &wanted(), SECRET).await.unwrap();
    let allocation = OneVdu::default().allocation(&bed);
    bed.instantiate(&allocation).await.unwrap();
    let conflict = Fault::Status { status: 409 };
    let rule = Rule::new("heat.resource_delete", conflict).nth(1, 1);
    world.faults().add(rule);
    bed.release(&allocation, Value::Null).await.unwrap();

    let calls = world.ledger().calls();
    let names = calls.iter().map(|call| call.call.as_str());
    let steps = ["heat.stack_delete", "neutron.network_list"];
    let mut order: Vec<&str> = names.filter(|name| steps.contains(name)).collect();
    order.dedup();
    let [delete, look] = steps;
    assert!(
        order.ends_with(&[look, delete, look, delete, look]),
        "{order:?}"
    );
    assert_clean(&world);
}
