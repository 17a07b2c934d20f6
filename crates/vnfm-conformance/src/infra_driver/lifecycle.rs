//! Rules about creating, observing and releasing resources.

use super::test_bed::TestBed;
use super::test_instance::{NOTICE_TIMEOUT, TestInstance, resources_on_vim, vnfcs};
use futures_util::future::{Either, select};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{Convergence, ErrorKind, PortError};

type Shared = Arc<dyn TestBed>;

pub(super) async fn a_driver_lists_its_vim_types(stand: Shared) {
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
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let first = stand.driver().check(&instance.vim).await.unwrap();
    let second = stand.driver().check(&instance.vim).await.unwrap();
    assert_eq!(first.identity, second.identity);
    assert_eq!(resources_on_vim(&stand).await, before);
}

pub(super) async fn a_wrong_login_is_refused(stand: Shared) {
    let Some(wrong) = stand.wrong_login() else {
        return;
    };
    let instance = TestInstance::new(&stand);
    instance.vim.set_login(wrong);
    let error = stand.driver().check(&instance.vim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

pub(super) async fn a_changed_login_applies_to_the_next_call(stand: Shared) {
    let Some(wrong) = stand.wrong_login() else {
        return;
    };
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    stand.driver().check(&instance.vim).await.unwrap();
    instance.vim.set_login(wrong);
    let error = instance
        .created()
        .await
        .expect_err("it continued with the old login");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    instance.vim.set_login(stand.login());
    stand.driver().check(&instance.vim).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn each_call_holds_a_slot(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let mut turns = 0;
    let mut assert_slot_held = |of: &str| {
        let now = instance.vim.turns.load(SeqCst);
        assert!(now > turns, "`{of}` calls the VIM without a slot");
        turns = now;
    };
    stand.driver().check(&instance.vim).await.unwrap();
    assert_slot_held("check");
    let created = instance.created().await.unwrap();
    assert_slot_held("converge");
    instance.observed(&created.handle).await.unwrap();
    assert_slot_held("observe");
    instance.owned().await;
    assert_slot_held("owned");
    instance.release(created.handle).await.unwrap();
    assert_slot_held("release");
    instance.check_released(&before).await;
}

pub(super) async fn a_preview_changes_nothing(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let (clock, what) = (stand.clock(), stand.what());
    for _ in 0..2 {
        let deadline = instance.call(&*clock);
        stand
            .driver()
            .preview(
                &instance.cx(&*clock, &deadline),
                &Convergence::create(&what),
            )
            .await
            .unwrap();
    }
    assert_eq!(resources_on_vim(&stand).await, before);
}

pub(super) async fn what_the_vim_lacks_is_refused(stand: Shared) {
    let Some(what) = stand.infeasible_allocation() else {
        return;
    };
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let clock = stand.clock();
    let deadline = instance.call(&*clock);
    let preview = stand
        .driver()
        .preview(
            &instance.cx(&*clock, &deadline),
            &Convergence::create(&what),
        )
        .await;
    let error = preview.expect_err("a missing resource was not noticed");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(resources_on_vim(&stand).await, before);
}

pub(super) async fn created_resources_are_tagged_and_released(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let created = instance.created().await.unwrap();
    assert!(
        !created.inventory.vnfc_resource_info.is_empty(),
        "no VNFC is reported"
    );
    for vnfc in &created.inventory.vnfc_resource_info {
        assert!(!vnfc.id.is_empty() && !vnfc.vdu_id.is_empty(), "{vnfc:?}");
        assert!(!vnfc.compute_resource.resource_id.is_empty(), "{vnfc:?}");
    }
    let ids: BTreeSet<_> = created
        .inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| &vnfc.id)
        .collect();
    assert_eq!(
        ids.len(),
        created.inventory.vnfc_resource_info.len(),
        "two VNFCs with one id"
    );
    assert!(
        !instance.owned().await.is_empty(),
        "no resource is tagged as ours"
    );
    assert_ne!(
        resources_on_vim(&stand).await,
        before,
        "nothing was created"
    );
    let stranger = TestInstance::new(&stand);
    assert_eq!(
        stranger.owned().await,
        BTreeSet::new(),
        "resources of another installation"
    );
    instance.release(created.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn a_repeated_creation_creates_nothing_more(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let once = instance.created().await.unwrap();
    let existing = resources_on_vim(&stand).await;
    let twice = instance.created().await.unwrap();
    assert_eq!(twice.handle, once.handle);
    assert_eq!(vnfcs(&twice), vnfcs(&once));
    assert_eq!(resources_on_vim(&stand).await, existing);
    instance.release(twice.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn a_release_of_nothing_succeeds(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    instance.release(Value::Null).await.unwrap();
    let created = instance.created().await.unwrap();
    instance.release(created.handle.clone()).await.unwrap();
    instance.release(created.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn resources_of_another_installation_are_not_touched(stand: Shared) {
    let (theirs, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let created = theirs.created().await.unwrap();
    let existing = resources_on_vim(&stand).await;
    let mut ours = TestInstance::new(&stand);
    ours.ownership
        .instance_id
        .clone_from(&theirs.ownership.instance_id);
    // The driver may refuse, or find no resources of its own; the existing ones stay.
    let _ = ours.release(Value::Null).await;
    assert_eq!(
        resources_on_vim(&stand).await,
        existing,
        "`release` deleted resources of another installation"
    );
    theirs.release(created.handle).await.unwrap();
    theirs.check_released(&before).await;
}

pub(super) async fn an_observation_changes_nothing(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let nothing = instance.observed(&Value::Null).await.unwrap();
    assert!(
        nothing.inventory.vnfc_resource_info.is_empty(),
        "{:?}",
        nothing.inventory
    );
    let created = instance.created().await.unwrap();
    let existing = resources_on_vim(&stand).await;
    for handle in [&Value::Null, &created.handle] {
        assert_eq!(
            vnfcs(&instance.observed(handle).await.unwrap()),
            vnfcs(&created)
        );
    }
    assert_eq!(resources_on_vim(&stand).await, existing);
    instance.release(created.handle).await.unwrap();
    instance.check_released(&before).await;
}

pub(super) async fn a_call_ends_at_its_deadline(stand: Shared) {
    let (mut instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    instance.timeout = SignedDuration::from_secs(-1);
    // It may finish before it notices the deadline.
    let outcome = within(&stand, instance.created())
        .await
        .expect("`converge` does not end");
    let handle = outcome.map(|created| created.handle).unwrap_or_default();
    let released = within(&stand, instance.release(handle)).await;
    let _ = released.expect("`release` does not end");
    instance.timeout = SignedDuration::from_mins(15);
    instance.release(Value::Null).await.unwrap();
    instance.check_released(&before).await;
}

async fn within<T>(stand: &Shared, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), stand.clock().sleep(NOTICE_TIMEOUT)).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) => None,
    }
}

pub(super) async fn no_secret_is_revealed(stand: Shared) {
    let (instance, before) = (TestInstance::new(&stand), resources_on_vim(&stand).await);
    let record = |error: PortError| {
        instance
            .recorder
            .hear(format!("{error} {:?} {}", error, error.next()));
    };
    let created = instance.created().await.unwrap();
    let wrong = stand.wrong_login();
    if let Some(wrong) = &wrong {
        instance.vim.set_login(wrong.clone());
        stand
            .driver()
            .check(&instance.vim)
            .await
            .map_or_else(record, drop);
        instance
            .release(created.handle.clone())
            .await
            .unwrap_or_else(record);
        instance.vim.set_login(stand.login());
    }
    instance.release(created.handle).await.unwrap();
    instance.check_released(&before).await;
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
        let leak = instance
            .recorder
            .all()
            .into_iter()
            .find(|line| line.contains(secret));
        assert_eq!(
            leak.map(|_| name),
            None,
            "it reveals this member of `accessInfo`"
        );
    }
}
