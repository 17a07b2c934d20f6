//! The driver against the simulated cloud: the scenarios shared with a real cloud, and faults that
//! only a simulator can inject.

use crate::proxy::TlsProxy;
use crate::scenarios;
use crate::support::{OneVdu, TestBed};
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

/// A cloud whose servers take two seconds to build, so that a test can interrupt an operation.
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

pub(crate) fn bed(world: &World) -> TestBed {
    TestBed::new(connection(world), "provider")
}

/// Asserts that no resource is left behind and that no call violated an API.
pub(crate) fn assert_clean(world: &World) {
    assert_eq!(world.ledger().violations(), Vec::<String>::new());
    let left: Vec<String> = world
        .ledger()
        .left_behind()
        .iter()
        .map(|one| format!("{} {}", one.kind, one.name))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

/// Requests to update a stack to another template.
pub(crate) fn updates(world: &World) -> usize {
    world.ledger().calls_named("heat.stack_update").len()
}

/// Requests to create a stack.
pub(crate) fn creations(world: &World) -> usize {
    world.ledger().calls_named("heat.stack_create").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_without_a_base_hot_is_created_and_released() {
    let world = world(Duration::ZERO).await;
    scenarios::create_and_release_sample(&bed(&world), "vnf-a-k8s-cluster").await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_with_a_base_hot_is_created_and_released() {
    let world = world(Duration::ZERO).await;
    scenarios::create_and_release_sample(&bed(&world), "vnf-a-k8s-cluster-base-hot").await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn tackers_layout_has_the_granted_zone() {
    let world = world(Duration::ZERO).await;
    scenarios::tackers_layout_has_the_granted_zone(&bed(&world), "edge").await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unplaced_zone_is_refused_or_logged() {
    let world = world(Duration::ZERO).await;
    scenarios::an_unplaced_zone_is_refused_or_logged(&bed(&world), "edge").await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_cloud_resources_are_refused_by_name() {
    let world = world(Duration::ZERO).await;
    world.cloud().set_quota("instances", 100);
    let bed = bed(&world);
    scenarios::a_check_logs_in_and_lists_the_services(&bed).await;
    scenarios::missing_cloud_resources_are_refused_by_name(&bed).await;
    scenarios::a_wrong_login_is_refused(&bed).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_stack_is_not_touched() {
    let world = world(Duration::ZERO).await;
    scenarios::a_foreign_stack_is_not_touched(&bed(&world), &mut bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_externally_managed_link_is_used_and_reported() {
    let world = world(Duration::ZERO).await;
    scenarios::an_externally_managed_link_is_used_and_reported(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_image_is_uploaded_and_deleted_with_its_instance() {
    let world = world(Duration::ZERO).await;
    scenarios::a_package_image_is_uploaded_and_deleted_with_its_instance(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_response_is_lost_creates_one_stack() {
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
        let bed = bed(&world);
        let allocation = OneVdu::default().allocation(&bed);
        world
            .faults()
            .add(Rule::new("heat.stack_create", fault.clone()));
        let allocated = bed
            .instantiate(&allocation)
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(bed.owned().await, [bed.stack_name()], "{fault:?}");
        bed.release(&allocation, allocated.handle).await.unwrap();
        assert_clean(&world);
    }
}

/// Heat refuses the name of a deleted stack for a moment after it stops listing the stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_is_retried_while_heat_holds_the_stack_name() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    world
        .faults()
        .add(Rule::new("heat.stack_create", Fault::Status { status: 409 }).nth(1, 4));
    let allocated = bed.instantiate(&allocation).await.unwrap();
    assert_eq!(creations(&world), 5);
    let messages = bed.watcher.messages();
    assert!(
        messages
            .iter()
            .any(|text| text.contains("release the name")),
        "{messages:?}"
    );
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_failures_during_a_creation_are_retried() {
    let world = slow_world().await;
    let bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    world
        .faults()
        .add(Rule::new("heat.stack_show", Fault::Status { status: 503 }).nth(2, 9));
    world
        .faults()
        .add(Rule::new("heat.stack_show", Fault::Drop { drop: When::Before }).nth(12, 2));
    world
        .faults()
        .add(Rule::new("nova.server_show", Fault::Status { status: 500 }).nth(1, 2));
    let allocated = bed.instantiate(&allocation).await.unwrap();
    assert_eq!(creations(&world), 1);
    let messages = bed.watcher.messages();
    assert!(
        messages.iter().any(|text| text.contains("(503)")),
        "{messages:?}"
    );
    world
        .faults()
        .add(Rule::new("heat.stack_delete", Fault::Status { status: 500 }).nth(1, 2));
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_during_an_operation_is_renewed() {
    let world = slow_world().await;
    let bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    let prepared = bed.prepare(&allocation).await.unwrap();
    let (allocated, ()) = tokio::join!(bed.allocate(&allocation, &prepared), async {
        bed.watcher.wait_for("CREATE_IN_PROGRESS").await;
        world.cloud().revoke_tokens();
    });
    assert_eq!(world.ledger().calls_named("keystone.token_create").len(), 2);
    bed.release(&allocation, allocated.unwrap().handle)
        .await
        .unwrap();
    assert_clean(&world);
}

/// The password changes during the operation, which waits, reports why, and continues with the new one.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_waits_for_a_changed_password() {
    let world = slow_world().await;
    let bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    let prepared = bed.prepare(&allocation).await.unwrap();
    let (allocated, ()) = tokio::join!(bed.allocate(&allocation, &prepared), async {
        bed.watcher.wait_for("CREATE_IN_PROGRESS").await;
        world.cloud().set_password("nfv", "planted-new-password");
        bed.watcher
            .wait_for("refuses the login; `vnfmctl vim update cloud`")
            .await;
        bed.vim.set_access("password", "planted-new-password");
    });
    assert_eq!(creations(&world), 1);
    bed.release(&allocation, allocated.unwrap().handle)
        .await
        .unwrap();
    assert!(!format!("{:?}", bed.watcher.messages()).contains("planted"));
    assert_clean(&world);
}

/// As above, but during the creation request, and during the lookup before it.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_waits_for_a_password_changed_around_the_creation() {
    for call in ["heat.stack_create", "heat.stack_list"] {
        let world = slow_world().await;
        let bed = bed(&world);
        let allocation = OneVdu::default().allocation(&bed);
        let prepared = bed.prepare(&allocation).await.unwrap();
        world
            .faults()
            .add(Rule::new(call, Fault::Delay { delay_ms: 300 }));
        let changes = async {
            let called = async {
                while world.faults().rules()[0].1 == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), called)
                .await
                .unwrap();
            world.cloud().set_password("nfv", "planted-new-password");
            bed.watcher
                .wait_for("refuses the login; `vnfmctl vim update cloud`")
                .await;
            bed.vim.set_access("password", "planted-new-password");
        };
        let (allocated, ()) = tokio::join!(bed.allocate(&allocation, &prepared), changes);
        let is_created = |call: &vnfm_sim::ledger::Call| call.status == 201;
        let creations = world.ledger().calls_named("heat.stack_create");
        assert_eq!(
            creations.into_iter().filter(is_created).count(),
            1,
            "{call}"
        );
        bed.release(&allocation, allocated.unwrap().handle)
            .await
            .unwrap();
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_stays_wrong_fails_at_the_deadline() {
    let world = slow_world().await;
    let mut bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    let prepared = bed.prepare(&allocation).await.unwrap();
    bed.seconds = 2;
    let (allocated, ()) = tokio::join!(bed.allocate(&allocation, &prepared), async {
        bed.watcher.wait_for("CREATE_IN_PROGRESS").await;
        world.cloud().set_password("nfv", "other");
    });
    assert_eq!(allocated.unwrap_err().name(), "openstack.login-refused");
    bed.seconds = 60;
    bed.vim.set_access("password", "other");
    bed.release(&allocation, Value::Null).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_misses_the_deadline_is_adopted_on_retry() {
    let world = slow_world().await;
    let mut bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    let prepared = bed.prepare(&allocation).await.unwrap();
    bed.seconds = 1;
    let error = bed.allocate(&allocation, &prepared).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.deadline", ErrorKind::Unavailable),
        "{error}"
    );
    bed.seconds = 60;
    let allocated = bed.allocate(&allocation, &prepared).await.unwrap();
    assert_eq!(creations(&world), 1);
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

/// Heat's engine dies during a creation. The driver waits until the stack's time limit, then recreates the stack.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_creation_is_recreated_after_its_time_limit() {
    for by_heal in [false, true] {
        let world = world(Duration::ZERO).await;
        let mut bed = bed(&world);
        let allocation = OneVdu::default().allocation(&bed);
        let prepared = bed.prepare(&allocation).await.unwrap();
        world.faults().add(Rule::new(
            "heat.resource_create",
            Fault::Hang { hang: true },
        ));
        bed.seconds = 1;
        for _ in 0..2 {
            let error = bed.allocate(&allocation, &prepared).await.unwrap_err();
            assert_eq!(error.name(), "heat.deadline", "{error}");
        }
        assert_eq!(creations(&world), 1, "Heat may still be working on it");
        bed.clock.ahead = jiff::SignedDuration::from_mins(3);
        bed.seconds = 60;
        let allocated = if by_heal {
            let seen = bed.observe(&allocation).await;
            bed.heal(&allocation, &seen, &[]).await.unwrap()
        } else {
            bed.allocate(&allocation, &prepared).await.unwrap()
        };
        assert_eq!(creations(&world), 2);
        assert_eq!(bed.owned().await, [bed.stack_name()]);
        bed.release(&allocation, allocated.handle).await.unwrap();
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_allocate_is_adopted_and_can_be_released_without_its_handle() {
    let world = slow_world().await;
    let bed = bed(&world);
    let allocation = bed.cluster("vnf-a-k8s-cluster");
    let prepared = bed.prepare(&allocation).await.unwrap();
    tokio::select! {
        allocated = bed.allocate(&allocation, &prepared) => panic!("the call ended before its first wait: {allocated:?}"),
        () = bed.watcher.wait_for("not complete: ") => {}
    }
    let allocated = bed.allocate(&allocation, &prepared).await.unwrap();
    assert_eq!(creations(&world), 1);
    assert_eq!(allocated.inventory.vnfc_resource_info.len(), 3);
    bed.release(&allocation, Value::Null).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_stack_names_its_cause_and_is_recreated() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = bed.cluster("vnf-a-k8s-cluster");
    let prepared = bed.prepare(&allocation).await.unwrap();
    world.cloud().set_quota("instances", 1);
    let error = bed.allocate(&allocation, &prepared).await.unwrap_err();
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
        bed.owned().await,
        [bed.stack_name()],
        "the failed stack stays for a retry"
    );
    world.cloud().set_quota("instances", -1);
    let allocated = bed.allocate(&allocation, &prepared).await.unwrap();
    assert_eq!(creations(&world), 2);
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_are_read_from_the_console_log() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = OneVdu::default().allocation(&bed);
    let allocated = bed.instantiate(&allocation).await.unwrap();
    let server = &allocated.inventory.vnfc_resource_info[0]
        .compute_resource
        .resource_id;
    let keys = bed.driver.host_keys(&bed.vim, server).await.unwrap();
    assert!(
        keys.iter()
            .all(|key| key.starts_with("ssh-") || key.starts_with("ecdsa-")),
        "{keys:?}"
    );
    assert!(!keys.is_empty());
    assert!(
        bed.driver
            .host_keys(&bed.vim, "no-such-server")
            .await
            .unwrap()
            .is_empty()
    );
    bed.release(&allocation, allocated.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_ca_is_trusted_only_if_the_connection_names_it() {
    let world = world(Duration::ZERO).await;
    let mut info = connection(&world);
    let proxy = TlsProxy::before(&world.endpoints().auth_url).await;
    info.interface_info
        .insert("endpoint".into(), json!(proxy.url));
    let refused = TestBed::new(info.clone(), "provider");
    let error = refused.driver.check(&refused.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.certificate", ErrorKind::Refused),
        "{error}"
    );
    info.interface_info
        .insert("trustedCertificates".into(), json!([proxy.ca_pem]));
    let trusted = TestBed::new(info.clone(), "provider");
    scenarios::a_check_logs_in_and_lists_the_services(&trusted).await;
    info.interface_info
        .insert("trustedCertificates".into(), json!([]));
    info.interface_info
        .insert("skipCertificateVerification".into(), json!(true));
    let unverified = TestBed::new(info, "provider");
    scenarios::a_check_logs_in_and_lists_the_services(&unverified).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_is_refused_with_a_hint() {
    let world = world(Duration::ZERO).await;
    let info = connection(&world);
    let credential = crate::credential::Credential::create(&info).await;
    let bed = TestBed::new(credential.connection(&info), "provider");
    let error = bed
        .instantiate(&OneVdu::default().allocation(&bed))
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.application-credential", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.next().contains("password"), "{}", error.next());
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_endpoint_is_unavailable() {
    let world = world(Duration::ZERO).await;
    let mut info = connection(&world);
    drop(world);
    let bed = TestBed::new(info.clone(), "provider");
    let error = bed.driver.check(&bed.vim).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("openstack.unreachable", ErrorKind::Unavailable),
        "{error}"
    );
    info.access_info.remove("project");
    let error = bed.driver.validate(&info).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`accessInfo.project` is missing"),
        "{error}"
    );
}
