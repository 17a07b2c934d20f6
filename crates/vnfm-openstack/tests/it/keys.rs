//! Barbican on the simulated cloud: what only a cloud that obeys can show.

use crate::barbican::{self, Door, KEY, is_refused};
use crate::simulated::{connection, world};
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, SecretSealer as _};
use vnfm_sim::faults::{Fault, Rule};
use vnfm_types::Secret;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_kept_in_barbican() {
    let world = world(Duration::ZERO).await;
    let (door, barbican) = Door::of(connection(&world));
    barbican::a_key_is_kept_found_and_given_back(&barbican).await;
    let right = world.endpoints().password.clone();
    barbican::a_wrong_password_is_said_and_a_new_one_taken((&door, &barbican), &right).await;
    assert_eq!(world.books().violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_keys_than_a_page_has_are_all_named() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = Door::of(connection(&world));
    for number in 0..101 {
        barbican
            .store_key("vnfm-many", &Secret::new(number.to_string()))
            .await
            .unwrap();
    }
    assert_eq!(barbican.key_ids("vnfm-many").await.unwrap().len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_taken_is_renewed_once_and_then_said() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = Door::of(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    let logins = || world.books().calls_of("keystone.token_create").len();
    let before = logins();
    world.cloud().revoke_tokens();
    assert_eq!(barbican.key(&id).await.unwrap().reveal(), KEY);
    assert_eq!(logins(), before + 1, "renewed once");
    let refuse = Rule::new("barbican.secret_payload", Fault::Status { status: 401 }).nth(1, 9);
    world.faults().arm(refuse);
    is_refused(&barbican.key(&id).await.unwrap_err(), "secrets.barbican");
    assert_eq!(logins(), before + 2, "and not again and again");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_for_a_moment_is_asked_again_and_one_that_is_away_is_said() {
    let world = world(Duration::ZERO).await;
    let (_, barbican) = Door::of(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    let failing = |times| {
        let fault = Fault::Status { status: 503 };
        Rule::new("barbican.secret_payload", fault).nth(1, times)
    };
    world.faults().arm(failing(2));
    assert_eq!(barbican.key(&id).await.unwrap().reveal(), KEY);
    world.faults().disarm();
    world.faults().arm(failing(99));
    let error = barbican.key(&id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.next().contains("Barbican answer"), "{}", error.next());
    world.faults().disarm();
    let forbidden = Fault::Status { status: 403 };
    world
        .faults()
        .arm(Rule::new("barbican.secret_create", forbidden));
    is_refused(
        &barbican
            .store_key("vnfm-x", &Secret::new(KEY))
            .await
            .unwrap_err(),
        "`creator`",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_project_is_none_of_ours() {
    let world = world(Duration::ZERO).await;
    let (door, barbican) = Door::of(connection(&world));
    let id = barbican
        .store_key("vnfm-x", &Secret::new(KEY))
        .await
        .unwrap();
    for member in ["username", "project"] {
        door.set_access(member, "admin");
    }
    assert_eq!(
        barbican.key(&id).await.unwrap_err().code().name,
        "barbican.no-key"
    );
    assert_eq!(barbican.key_ids("vnfm-x").await.unwrap(), [""; 0]);
}
