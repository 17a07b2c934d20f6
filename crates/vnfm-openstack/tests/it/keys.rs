//! Barbican on the simulated cloud.

use crate::barbican::{self, KEY, TestLogin, assert_refused};
use crate::simulated::{connection, world};
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, SecretSealer as _};
use vnfm_sim::faults::{Fault, Rule};
use vnfm_types::Secret;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_stored_in_barbican() {
    let world = world(Duration::ZERO).await;
    let (login, barbican) = TestLogin::new(connection(&world));
    barbican::a_key_is_stored_listed_and_read_back(&barbican).await;
    let right = world.endpoints().password.clone();
    barbican::a_wrong_password_is_reported_and_a_new_one_used_at_once((&login, &barbican), &right)
        .await;
    assert_eq!(world.ledger().violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_across_pages() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = TestLogin::new(connection(&world));
    for number in 0..101 {
        barbican
            .store_key("vnfm-many", &Secret::new(number.to_string()))
            .await
            .unwrap();
    }
    assert_eq!(barbican.key_ids("vnfm-many").await.unwrap().len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_renewed_once_and_then_reported() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = TestLogin::new(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    let logins = || world.ledger().calls_named("keystone.token_create").len();
    let before = logins();
    world.cloud().revoke_tokens();
    assert_eq!(barbican.key(&id).await.unwrap().reveal(), KEY);
    assert_eq!(logins(), before + 1, "renewed once");
    let refuse = Rule::new("barbican.secret_payload", Fault::Status { status: 401 }).nth(1, 9);
    world.faults().add(refuse);
    assert_refused(&barbican.key(&id).await.unwrap_err(), "secrets.barbican");
    assert_eq!(logins(), before + 2, "and only once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transient_failure_is_retried_and_an_outage_reported() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = TestLogin::new(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    let failing = |times| {
        let fault = Fault::Status { status: 503 };
        Rule::new("barbican.secret_payload", fault).nth(1, times)
    };
    world.faults().add(failing(2));
    assert_eq!(barbican.key(&id).await.unwrap().reveal(), KEY);
    world.faults().clear();
    world.faults().add(failing(99));
    let error = barbican.key(&id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.next().contains("Barbican answer"), "{}", error.next());
    world.faults().clear();
    let forbidden = Fault::Status { status: 403 };
    world
        .faults()
        .add(Rule::new("barbican.secret_create", forbidden));
    assert_refused(
        &barbican
            .store_key("vnfm-x", &Secret::new(KEY))
            .await
            .unwrap_err(),
        "`creator`",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_project_are_invisible() {
    let world = world(Duration::ZERO).await;
    let (login, barbican) = TestLogin::new(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    for member in ["username", "project"] {
        login.set_access(member, "admin");
    }
    assert_eq!(
        barbican.key(&id).await.unwrap_err().code().name,
        "barbican.no-key"
    );
    assert_eq!(barbican.key_ids("vnfm-x").await.unwrap(), [""; 0]);
}
