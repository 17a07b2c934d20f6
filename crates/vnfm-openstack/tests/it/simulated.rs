//! Against the simulated cloud: the stories of every cloud, and what only a cloud that obeys can show.

use crate::proxy::TlsProxy;
use crate::stories;
use crate::support::{OneVdu, Place};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, InfraDriver};
use vnfm_sim::faults::{Fault, Rule, When};
use vnfm_sim::openstack::CloudOptions;
use vnfm_sim::{Options, World};
use vnfm_types::{OPENSTACK, VimConnectionInfo};

pub(crate) async fn world(server_build: Duration) -> World {
    let cloud = CloudOptions {
        server_build,
        ..CloudOptions::default()
    };
    World::start(Options {
        cloud,
        ..Options::default()
    })
    .await
    .unwrap()
}

/// A cloud that takes its time, so that a test can come between.
async fn slow_world() -> World {
    world(Duration::from_secs(2)).await
}

pub(crate) fn connection(world: &World) -> VimConnectionInfo {
    let info = json!({
        "vimType": OPENSTACK,
        "interfaceInfo": {"endpoint": world.endpoints().auth_url},
        "accessInfo": {
            "username": world.endpoints().user,
            "password": world.endpoints().password,
            "project": world.endpoints().user,
            "region": "RegionOne",
        },
    });
    serde_json::from_value(info).unwrap()
}

pub(crate) fn place(world: &World) -> Place {
    Place::new(connection(world), "provider")
}

/// Nothing is left, and nothing was asked that a cloud does not have.
pub(crate) fn is_clean(world: &World) {
    assert_eq!(world.books().violations(), Vec::<String>::new());
    let left: Vec<String> = world
        .books()
        .left_behind()
        .iter()
        .map(|one| format!("{} {}", one.kind, one.name))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

/// How many stacks were asked for.
fn creations(world: &World) -> usize {
    world.books().calls_of("heat.stack_create").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_from_the_vnfd_comes_and_goes() {
    let world = world(Duration::ZERO).await;
    stories::the_sample_comes_and_goes(&place(&world), "vnf-a-k8s-cluster").await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_with_a_base_hot_comes_and_goes() {
    let world = world(Duration::ZERO).await;
    stories::the_sample_comes_and_goes(&place(&world), "vnf-a-k8s-cluster-base-hot").await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cloud_lacks_is_refused_by_name() {
    let world = world(Duration::ZERO).await;
    world.cloud().set_quota("instances", 100);
    let place = place(&world);
    stories::a_check_logs_in_and_tells_what_is_there(&place).await;
    stories::what_the_cloud_lacks_is_refused_by_name(&place).await;
    stories::a_wrong_login_is_refused(&place).await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_stack_is_not_touched() {
    let world = world(Duration::ZERO).await;
    stories::a_foreign_stack_is_not_touched(&place(&world), &mut place(&world)).await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_link_that_others_manage_is_used_and_told() {
    let world = world(Duration::ZERO).await;
    stories::an_internal_link_that_others_manage_is_used_and_told(&place(&world)).await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_the_package_comes_and_goes() {
    let world = world(Duration::ZERO).await;
    stories::an_image_of_the_package_comes_and_goes(&place(&world)).await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_is_lost_makes_one_stack() {
    let faults = [
        Fault::ErrorAfterEffect {
            error_after_effect: 500,
        },
        Fault::ErrorAfterEffect {
            error_after_effect: 503,
        },
        Fault::Drop { drop: When::After },
        Fault::Drop { drop: When::Before },
        Fault::Status { status: 503 },
    ];
    for fault in faults {
        let world = world(Duration::ZERO).await;
        let place = place(&world);
        let what = OneVdu::default().on(&place);
        world
            .faults()
            .arm(Rule::new("heat.stack_create", fault.clone()));
        let made = place
            .make(&what)
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(place.owned().await, [place.stack_name()], "{fault:?}");
        place.release(&what, made.handle).await.unwrap();
        is_clean(&world);
    }
}

/// Heat refuses the name of a deleted stack for a moment after it has stopped showing the stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_heat_still_holds_is_asked_for_again() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let what = OneVdu::default().on(&place);
    world
        .faults()
        .arm(Rule::new("heat.stack_create", Fault::Status { status: 409 }).nth(1, 4));
    let made = place.make(&what).await.unwrap();
    assert_eq!(creations(&world), 5);
    let heard = place.ear.all();
    assert!(
        heard.iter().any(|text| text.contains("let go of the name")),
        "{heard:?}"
    );
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_fails_for_a_while_is_waited_out() {
    let world = slow_world().await;
    let place = place(&world);
    let what = OneVdu::default().on(&place);
    world
        .faults()
        .arm(Rule::new("heat.stack_show", Fault::Status { status: 503 }).nth(2, 9));
    world
        .faults()
        .arm(Rule::new("heat.stack_show", Fault::Drop { drop: When::Before }).nth(12, 2));
    world
        .faults()
        .arm(Rule::new("nova.server_show", Fault::Status { status: 500 }).nth(1, 2));
    let made = place.make(&what).await.unwrap();
    assert_eq!(creations(&world), 1);
    let heard = place.ear.all();
    assert!(heard.iter().any(|text| text.contains("(503)")), "{heard:?}");
    world
        .faults()
        .arm(Rule::new("heat.stack_delete", Fault::Status { status: 500 }).nth(1, 2));
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_in_the_middle_is_renewed() {
    let world = slow_world().await;
    let place = place(&world);
    let what = OneVdu::default().on(&place);
    let prepared = place.prepare(&what).await.unwrap();
    let (made, ()) = tokio::join!(place.allocate(&what, &prepared), async {
        place.ear.hears("CREATE_IN_PROGRESS").await;
        world.cloud().revoke_tokens();
    });
    assert_eq!(world.books().calls_of("keystone.token_create").len(), 2);
    place.release(&what, made.unwrap().handle).await.unwrap();
    is_clean(&world);
}

/// The password is changed in the middle; the operation waits, says for what, and goes on with the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_in_the_middle_is_waited_for() {
    let world = slow_world().await;
    let place = place(&world);
    let what = OneVdu::default().on(&place);
    let prepared = place.prepare(&what).await.unwrap();
    let (made, ()) = tokio::join!(place.allocate(&what, &prepared), async {
        place.ear.hears("CREATE_IN_PROGRESS").await;
        world.cloud().set_password("nfv", "planted-new-password");
        place
            .ear
            .hears("refuses the login; `vnfmctl vim update cloud`")
            .await;
        place.vim.set_access("password", "planted-new-password");
    });
    assert_eq!(creations(&world), 1);
    place.release(&what, made.unwrap().handle).await.unwrap();
    assert!(!format!("{:?}", place.ear.all()).contains("planted"));
    is_clean(&world);
}

/// The same just when the stack was made and is looked for, and before anything was made at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_around_the_creation_is_waited_for() {
    for call in ["heat.stack_create", "heat.stack_list"] {
        let world = slow_world().await;
        let place = place(&world);
        let what = OneVdu::default().on(&place);
        let prepared = place.prepare(&what).await.unwrap();
        world
            .faults()
            .arm(Rule::new(call, Fault::Delay { delay_ms: 300 }));
        let changes = async {
            let called = async {
                while world.faults().script()[0].1 == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), called)
                .await
                .unwrap();
            world.cloud().set_password("nfv", "planted-new-password");
            place
                .ear
                .hears("refuses the login; `vnfmctl vim update cloud`")
                .await;
            place.vim.set_access("password", "planted-new-password");
        };
        let (made, ()) = tokio::join!(place.allocate(&what, &prepared), changes);
        let made_by_heat = |call: &vnfm_sim::books::Call| call.status == 201;
        let creations = world.books().calls_of("heat.stack_create");
        assert_eq!(
            creations.into_iter().filter(made_by_heat).count(),
            1,
            "{call}"
        );
        place.release(&what, made.unwrap().handle).await.unwrap();
        is_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_nobody_brings_ends_at_the_deadline() {
    let world = slow_world().await;
    let mut place = place(&world);
    let what = OneVdu::default().on(&place);
    let prepared = place.prepare(&what).await.unwrap();
    place.seconds = 2;
    let (made, ()) = tokio::join!(place.allocate(&what, &prepared), async {
        place.ear.hears("CREATE_IN_PROGRESS").await;
        world.cloud().set_password("nfv", "other");
    });
    assert_eq!(made.unwrap_err().name(), "openstack.login-refused");
    place.seconds = 60;
    place.vim.set_access("password", "other");
    place.release(&what, Value::Null).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_is_not_ready_in_time_is_gone_on_with() {
    let world = slow_world().await;
    let mut place = place(&world);
    let what = OneVdu::default().on(&place);
    let prepared = place.prepare(&what).await.unwrap();
    place.seconds = 1;
    let error = place.allocate(&what, &prepared).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.deadline", ErrorKind::Unavailable),
        "{error}"
    );
    place.seconds = 60;
    let made = place.allocate(&what, &prepared).await.unwrap();
    assert_eq!(creations(&world), 1);
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

/// Heat's engine has died in the middle of a creation. Until its time limit the stack is waited for; then it is made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_nobody_works_on_is_made_again_once_its_time_is_over() {
    for heals in [false, true] {
        let world = world(Duration::ZERO).await;
        let mut place = place(&world);
        let what = OneVdu::default().on(&place);
        let prepared = place.prepare(&what).await.unwrap();
        world.faults().arm(Rule::new(
            "heat.resource_create",
            Fault::Hang { hang: true },
        ));
        place.seconds = 1;
        for _ in 0..2 {
            let error = place.allocate(&what, &prepared).await.unwrap_err();
            assert_eq!(error.name(), "heat.deadline", "{error}");
        }
        assert_eq!(creations(&world), 1, "it may still be worked on");
        place.clock.ahead = jiff::SignedDuration::from_mins(3);
        place.seconds = 60;
        let made = if heals {
            let seen = place.observe(&what).await;
            place.heal(&what, &seen, &[]).await.unwrap()
        } else {
            place.allocate(&what, &prepared).await.unwrap()
        };
        assert_eq!(creations(&world), 2);
        assert_eq!(place.owned().await, [place.stack_name()]);
        place.release(&what, made.handle).await.unwrap();
        is_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocate_that_was_cut_off_is_adopted_and_can_be_released_without_its_answer() {
    let world = slow_world().await;
    let place = place(&world);
    let what = place.cluster("vnf-a-k8s-cluster");
    let prepared = place.prepare(&what).await.unwrap();
    tokio::select! {
        made = place.allocate(&what, &prepared) => panic!("faster than its first wait: {made:?}"),
        () = place.ear.hears("not complete: ") => {}
    }
    let made = place.allocate(&what, &prepared).await.unwrap();
    assert_eq!(creations(&world), 1);
    assert_eq!(made.inventory.vnfc_resource_info.len(), 3);
    place.release(&what, Value::Null).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_failed_says_why_and_is_made_again() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let what = place.cluster("vnf-a-k8s-cluster");
    let prepared = place.prepare(&what).await.unwrap();
    world.cloud().set_quota("instances", 1);
    let error = place.allocate(&what, &prepared).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.quota", ErrorKind::Refused),
        "{error}"
    );
    assert!(
        error.request_id().is_some_and(|id| id.starts_with("req-")),
        "{error:?}"
    );
    assert!(error.resource().is_some(), "{error:?}");
    assert_eq!(
        place.owned().await,
        [place.stack_name()],
        "what was made stays for a retry"
    );
    world.cloud().set_quota("instances", -1);
    let made = place.allocate(&what, &prepared).await.unwrap();
    assert_eq!(creations(&world), 2);
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_are_read_from_the_console_log() {
    let world = world(Duration::ZERO).await;
    let place = place(&world);
    let what = OneVdu::default().on(&place);
    let made = place.make(&what).await.unwrap();
    let server = &made.inventory.vnfc_resource_info[0]
        .compute_resource
        .resource_id;
    let keys = place.driver.host_keys(&place.vim, server).await.unwrap();
    assert!(
        keys.iter()
            .all(|key| key.starts_with("ssh-") || key.starts_with("ecdsa-")),
        "{keys:?}"
    );
    assert!(!keys.is_empty());
    assert!(
        place
            .driver
            .host_keys(&place.vim, "no-such-server")
            .await
            .unwrap()
            .is_empty()
    );
    place.release(&what, made.handle).await.unwrap();
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_ca_is_trusted_only_where_the_connection_says_so() {
    let world = world(Duration::ZERO).await;
    let mut info = connection(&world);
    let proxy = TlsProxy::before(&world.endpoints().auth_url).await;
    info.interface_info
        .insert("endpoint".into(), json!(proxy.url));
    let refused = Place::new(info.clone(), "provider");
    let error = refused.driver.check(&refused.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.certificate", ErrorKind::Refused),
        "{error}"
    );
    info.interface_info
        .insert("trustedCertificates".into(), json!([proxy.ca_pem]));
    let trusted = Place::new(info.clone(), "provider");
    stories::a_check_logs_in_and_tells_what_is_there(&trusted).await;
    info.interface_info
        .insert("trustedCertificates".into(), json!([]));
    info.interface_info
        .insert("skipCertificateVerification".into(), json!(true));
    let blind = Place::new(info, "provider");
    stories::a_check_logs_in_and_tells_what_is_there(&blind).await;
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_is_refused_with_the_way_out() {
    let world = world(Duration::ZERO).await;
    let info = connection(&world);
    let credential = crate::credential::Credential::make(&info).await;
    let place = Place::new(credential.connection(&info), "provider");
    let error = place.make(&OneVdu::default().on(&place)).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.application-credential", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.next().contains("password"), "{}", error.next());
    is_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_the_endpoint_is_unavailable() {
    let world = world(Duration::ZERO).await;
    let mut info = connection(&world);
    drop(world);
    let place = Place::new(info.clone(), "provider");
    let error = place.driver.check(&place.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.unreachable", ErrorKind::Unavailable),
        "{error}"
    );
    info.access_info.remove("project");
    let error = place.driver.validate(&info).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`accessInfo.project` is missing"),
        "{error}"
    );
}
