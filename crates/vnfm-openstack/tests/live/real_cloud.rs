//! Stacks, servers and images on a real OpenStack.

use crate::bed::{bed, connection};
use crate::proxy::TlsProxy;
use crate::scenarios;
use crate::support::{OneVdu, TestBed};
use serde_json::{Value, json};
use vnfm_core::ports::{ErrorKind, InfraDriver};

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_without_a_base_hot_is_created_and_released() {
    let Some(bed) = bed() else { return };
    let scenario = scenarios::create_and_release_sample(&bed, "vnf-a-k8s-cluster");
    bed.with_cleanup(&bed.cluster("vnf-a-k8s-cluster"), scenario)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unplaced_zone_is_refused_or_logged() {
    let Some(bed) = bed() else { return };
    scenarios::an_unplaced_zone_is_refused_or_logged(&bed, "nova").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_cloud_resources_are_refused_by_name() {
    let Some(bed) = bed() else { return };
    scenarios::a_check_logs_in_and_lists_the_services(&bed).await;
    scenarios::missing_cloud_resources_are_refused_by_name(&bed).await;
    scenarios::a_wrong_login_is_refused(&bed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_stack_is_not_touched() {
    let (Some(bed), Some(mut other)) = (bed(), bed()) else {
        return;
    };
    let allocation = OneVdu::default().allocation(&bed);
    bed.with_cleanup(
        &allocation,
        scenarios::a_foreign_stack_is_not_touched(&bed, &mut other),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_image_is_uploaded_and_deleted_with_its_instance() {
    let Some(bed) = bed() else { return };
    let allocation = scenarios::with_image(&bed);
    bed.with_cleanup(
        &allocation,
        scenarios::a_package_image_is_uploaded_and_deleted_with_its_instance(&bed),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_externally_managed_link_is_used_and_reported() {
    let Some(bed) = bed() else { return };
    let scenario = scenarios::an_externally_managed_link_is_used_and_reported(&bed);
    bed.with_cleanup(&bed.cluster("vnf-a-k8s-cluster"), scenario)
        .await;
}

/// Three servers that must run on different hypervisors, of which there are two: Heat gives up with a reason, and
/// a retry recreates the stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_stack_names_its_cause_and_is_recreated() {
    let Some(bed) = bed() else { return };
    let allocation = OneVdu {
        count: 3,
        apart: true,
        ..OneVdu::default()
    }
    .allocation(&bed);
    let scenario = async {
        let prepared = bed.prepare(&allocation).await.unwrap();
        let error = bed.allocate(&allocation, &prepared).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("heat.stack-failed", ErrorKind::Refused),
            "{error}"
        );
        assert!(
            error.to_string().contains("Went to status ERROR"),
            "{error}"
        );
        assert!(error.next().contains("no room"), "{error:?}");
        assert!(
            error
                .resource()
                .is_some_and(|name| name.starts_with("server-")),
            "{error:?}"
        );
        let again = bed.allocate(&allocation, &prepared).await.unwrap_err();
        assert_eq!(again.name(), "heat.stack-failed");
        let messages = bed.watcher.messages();
        assert!(
            messages.iter().any(|text| text.contains("recreating it")),
            "{messages:?}"
        );
        bed.release(&allocation, Value::Null).await.unwrap();
        assert!(bed.owned().await.is_empty());
    };
    bed.with_cleanup(&allocation, scenario).await;
}

/// The next allocate adopts the stack of one that was dropped midway.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_allocate_is_adopted() {
    let Some(bed) = bed() else { return };
    let allocation = OneVdu::default().allocation(&bed);
    let scenario = async {
        let prepared = bed.prepare(&allocation).await.unwrap();
        tokio::select! {
            allocated = bed.allocate(&allocation, &prepared) => panic!("the call ended before its first wait: {allocated:?}"),
            () = bed.watcher.wait_for("CREATE_IN_PROGRESS") => {}
        }
        let allocated = bed.allocate(&allocation, &prepared).await.unwrap();
        let messages = bed.watcher.messages();
        assert!(
            messages.iter().any(|text| text.contains("already exists")),
            "{messages:?}"
        );
        assert_eq!(allocated.inventory.vnfc_resource_info.len(), 1);
        let server = &allocated.inventory.vnfc_resource_info[0]
            .compute_resource
            .resource_id;
        bed.driver.host_keys(&bed.vim, server).await.unwrap();
        bed.release(&allocation, allocated.handle).await.unwrap();
    };
    bed.with_cleanup(&allocation, scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_ca_is_trusted_only_if_the_connection_names_it() {
    let Some(mut info) = connection() else { return };
    let proxy = TlsProxy::before(info.interface_info["endpoint"].as_str().unwrap()).await;
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
    let trusted = TestBed::new(info, "provider");
    scenarios::a_check_logs_in_and_lists_the_services(&trusted).await;
}

/// This Heat needs a trust, which Keystone does not create for an application credential.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_is_refused_with_a_hint() {
    let Some(info) = connection() else { return };
    let credential = crate::credential::Credential::create(&info).await;
    let bed = TestBed::new(credential.connection(&info), "provider");
    let allocation = OneVdu::default().allocation(&bed);
    let outcome = bed.instantiate(&allocation).await;
    credential.delete().await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.application-credential", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.next().contains("password"), "{}", error.next());
}
