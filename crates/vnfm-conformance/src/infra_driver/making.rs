//! Rules of what is made, looked up, and taken away.

use super::Stand;
use super::place::{Place, SOON, things, vnfcs};
use futures_util::future::{Either, select};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{ErrorKind, PortError};

type Shared = Arc<dyn Stand>;

pub(super) async fn a_driver_says_what_it_serves(stand: Shared) {
    let (driver, login) = (stand.driver(), stand.login());
    assert!(!driver.vim_types().is_empty(), "it serves no vimType");
    let types = driver.vim_types();
    assert!(
        types.contains(&login.vim_type.as_str()),
        "{types:?} without `{}`",
        login.vim_type
    );
    driver.validate(&login).unwrap();
    driver.validate_request(&stand.what()).unwrap();
}

pub(super) async fn a_check_changes_nothing(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let first = stand.driver().check(&place.vim).await.unwrap();
    let second = stand.driver().check(&place.vim).await.unwrap();
    assert_eq!(first.identity, second.identity);
    assert_eq!(things(&stand).await, before);
}

pub(super) async fn a_wrong_login_is_refused(stand: Shared) {
    let Some(wrong) = stand.wrong_login() else {
        return;
    };
    let place = Place::new(&stand);
    place.vim.now_by(wrong);
    let error = stand.driver().check(&place.vim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

pub(super) async fn a_login_that_changes_counts_at_the_next_call(stand: Shared) {
    let Some(wrong) = stand.wrong_login() else {
        return;
    };
    let (place, before) = (Place::new(&stand), things(&stand).await);
    stand.driver().check(&place.vim).await.unwrap();
    place.vim.now_by(wrong);
    let error = place
        .made()
        .await
        .expect_err("it went on with the old login");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    place.vim.now_by(stand.login());
    stand.driver().check(&place.vim).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn each_call_is_made_during_a_turn(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let mut turns = 0;
    let mut counted = |of: &str| {
        let now = place.vim.turns.load(SeqCst);
        assert!(now > turns, "`{of}` calls the VIM without a turn");
        turns = now;
    };
    stand.driver().check(&place.vim).await.unwrap();
    counted("check");
    let made = place.made().await.unwrap();
    counted("allocate");
    place.seen(&made.handle).await.unwrap();
    counted("observe");
    place.owned().await;
    counted("owned");
    place.released(made.handle).await.unwrap();
    counted("release");
    place.is_gone(&before).await;
}

pub(super) async fn a_preparation_changes_nothing(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let (clock, what) = (stand.clock(), stand.what());
    for _ in 0..2 {
        let deadline = place.call(&*clock);
        stand
            .driver()
            .prepare(&place.cx(&*clock, &deadline), &what)
            .await
            .unwrap();
    }
    assert_eq!(things(&stand).await, before);
}

pub(super) async fn what_the_vim_lacks_is_refused(stand: Shared) {
    let Some(what) = stand.impossible() else {
        return;
    };
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let clock = stand.clock();
    let deadline = place.call(&*clock);
    let prepared = stand
        .driver()
        .prepare(&place.cx(&*clock, &deadline), &what)
        .await;
    let error = prepared.expect_err("what the VIM does not have was not missed");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(things(&stand).await, before);
}

pub(super) async fn what_is_made_is_ours_and_goes(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let made = place.made().await.unwrap();
    assert!(
        !made.inventory.vnfc_resource_info.is_empty(),
        "no VNFC is told"
    );
    for vnfc in &made.inventory.vnfc_resource_info {
        assert!(!vnfc.id.is_empty() && !vnfc.vdu_id.is_empty(), "{vnfc:?}");
        assert!(!vnfc.compute_resource.resource_id.is_empty(), "{vnfc:?}");
    }
    let ids: BTreeSet<_> = made
        .inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| &vnfc.id)
        .collect();
    assert_eq!(
        ids.len(),
        made.inventory.vnfc_resource_info.len(),
        "two VNFCs with one id"
    );
    assert!(
        !place.owned().await.is_empty(),
        "nothing says that it is ours"
    );
    assert_ne!(things(&stand).await, before, "nothing is there");
    let stranger = Place::new(&stand);
    assert_eq!(
        stranger.owned().await,
        BTreeSet::new(),
        "another installation's"
    );
    place.released(made.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn an_allocation_that_is_repeated_makes_nothing_more(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let once = place.made().await.unwrap();
    let there = things(&stand).await;
    let twice = place.made().await.unwrap();
    assert_eq!(twice.handle, once.handle);
    assert_eq!(vnfcs(&twice), vnfcs(&once));
    assert_eq!(things(&stand).await, there);
    place.released(twice.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn a_release_of_nothing_succeeds(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    place.released(Value::Null).await.unwrap();
    let made = place.made().await.unwrap();
    place.released(made.handle.clone()).await.unwrap();
    place.released(made.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn what_another_installation_made_is_not_touched(stand: Shared) {
    let (theirs, before) = (Place::new(&stand), things(&stand).await);
    let made = theirs.made().await.unwrap();
    let there = things(&stand).await;
    let mut ours = Place::new(&stand);
    ours.ownership
        .instance_id
        .clone_from(&theirs.ownership.instance_id);
    // Whether it refuses or finds nothing that is its own is the driver's; what is there stays.
    let _ = ours.released(Value::Null).await;
    assert_eq!(
        things(&stand).await,
        there,
        "`release` took what another installation made"
    );
    theirs.released(made.handle).await.unwrap();
    theirs.is_gone(&before).await;
}

pub(super) async fn an_observation_changes_nothing(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let nothing = place.seen(&Value::Null).await.unwrap();
    assert!(
        nothing.inventory.vnfc_resource_info.is_empty(),
        "{:?}",
        nothing.inventory
    );
    let made = place.made().await.unwrap();
    let there = things(&stand).await;
    for handle in [&Value::Null, &made.handle] {
        assert_eq!(vnfcs(&place.seen(handle).await.unwrap()), vnfcs(&made));
    }
    assert_eq!(things(&stand).await, there);
    place.released(made.handle).await.unwrap();
    place.is_gone(&before).await;
}

pub(super) async fn a_call_ends_at_its_deadline(stand: Shared) {
    let (mut place, before) = (Place::new(&stand), things(&stand).await);
    place.patience = SignedDuration::from_secs(-1);
    // A VIM that has done it before anybody looks at the clock is no reason to complain.
    let outcome = within(&stand, place.made())
        .await
        .expect("`allocate` goes on for ever");
    let handle = outcome.map(|made| made.handle).unwrap_or_default();
    let released = within(&stand, place.released(handle)).await;
    let _ = released.expect("`release` goes on for ever");
    place.patience = SignedDuration::from_mins(15);
    place.released(Value::Null).await.unwrap();
    place.is_gone(&before).await;
}

async fn within<T>(stand: &Shared, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), stand.clock().sleep(SOON)).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) => None,
    }
}

pub(super) async fn no_secret_is_told(stand: Shared) {
    let (place, before) = (Place::new(&stand), things(&stand).await);
    let told = |error: PortError| {
        place
            .heard
            .hear(format!("{error} {:?} {}", error, error.next()))
    };
    let made = place.made().await.unwrap();
    let wrong = stand.wrong_login();
    if let Some(wrong) = &wrong {
        place.vim.now_by(wrong.clone());
        stand
            .driver()
            .check(&place.vim)
            .await
            .map_or_else(told, drop);
        place
            .released(made.handle.clone())
            .await
            .unwrap_or_else(told);
        place.vim.now_by(stand.login());
    }
    place.released(made.handle).await.unwrap();
    place.is_gone(&before).await;
    let logins = [Some(stand.login()), wrong];
    let known = ["username", "project", "region"];
    for (name, secret) in logins
        .into_iter()
        .flatten()
        .flat_map(|login| login.access_info)
    {
        let Some(secret) = secret.as_str().filter(|text| text.len() > 7) else {
            continue;
        };
        if known.contains(&name.as_str()) {
            continue;
        }
        let leak = place
            .heard
            .all()
            .into_iter()
            .find(|line| line.contains(secret));
        assert_eq!(
            leak.map(|_| name),
            None,
            "it tells this member of `accessInfo`"
        );
    }
}
