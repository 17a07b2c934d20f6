//! Logins for programs inside an instance, on the simulated cloud, with what only a simulation can inject.

use crate::credential_scenarios::{self, SECRET, create, credentials, wanted};
use crate::simulated::{assert_clean, bed, world};
use crate::support::OneVdu;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Allocation, ErrorKind};
use vnfm_sim::faults::{Fault, Rule, When};
use vnfm_types::Secret;

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

/// The allocation of an instance whose record has the login [`wanted`].
pub(crate) fn with_known_login(mut allocation: Allocation) -> Allocation {
    let deployment = Arc::make_mut(&mut allocation.deployment);
    let known = (wanted().name, Secret::new(SECRET));
    deployment.credentials.extend([known]);
    allocation
}

/// A login that Keystone does not list may still be valid: the instance is not released before it is revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_fails_while_keystone_does_not_list_the_logins_of_the_instance() {
    for status in [403, 404] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        create(&bed, &wanted(), SECRET).await.unwrap();
        let allocation = with_known_login(OneVdu::default().allocation(&bed));
        bed.instantiate(&allocation).await.unwrap();
        let hidden = || Rule::new("keystone.credential_list", Fault::Status { status }).nth(1, 1);
        world.faults().add(hidden());
        let error = bed.release(&allocation, Value::Null).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("openstack.credentials-hidden", ErrorKind::Refused),
            "{error}"
        );
        assert!(error.next().contains("list_application_credentials"));
        assert_eq!(bed.owned().await.len(), 2, "the stack and the login");
        world.faults().add(hidden());
        let call = bed.call();
        let undo = credentials(&bed).revoke_credentials(&call, &[]);
        let error = undo.await.unwrap_err();
        assert_eq!(error.name(), "openstack.credentials-hidden", "{error}");
        bed.release(&allocation, Value::Null).await.unwrap();
        assert!(bed.owned().await.is_empty());
        assert_clean(&world);
    }
}

/// A cloud that lets nobody list application credentials creates none, and its instances are released as ever.
#[tokio::test(flavor = "multi_thread")]
async fn without_logins_keystone_need_not_list_any() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let hidden = Rule::new("keystone.credential_list", Fault::Status { status: 403 });
    world.faults().add(hidden.nth(1, 100));
    let error = create(&bed, &wanted(), SECRET).await.unwrap_err();
    assert_eq!(error.name(), "openstack.credentials-hidden", "{error}");
    let check = credentials(&bed).check_revocable(&bed.call()).await;
    let error = check.unwrap_err();
    assert_eq!(error.name(), "openstack.credentials-hidden", "{error}");
    let created = world.ledger().calls_named("keystone.credential_create");
    assert!(created.is_empty(), "it could not be revoked: {created:?}");
    let allocation = OneVdu::default().allocation(&bed);
    bed.instantiate(&allocation).await.unwrap();
    bed.release(&allocation, Value::Null).await.unwrap();
    assert_clean(&world);
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
