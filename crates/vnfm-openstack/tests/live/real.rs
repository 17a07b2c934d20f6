//! Against a real OpenStack: `VNFM_LIVE_OPENSTACK` is the path of a clouds.yaml with a cloud `nfv`.
//!
//! The cloud has a network `provider`, an image `nfv-image`, and two hypervisors.

use crate::proxy::TlsProxy;
use crate::stories;
use crate::support::{OneVdu, Place};
use serde_json::{Value, json};
use vnfm_core::ports::{ErrorKind, InfraDriver};
use vnfm_types::{OPENSTACK, VimConnectionInfo};

/// The cloud's connection; none where the tier cannot run, which is said loudly.
pub(crate) fn connection() -> Option<VimConnectionInfo> {
    let Ok(path) = std::env::var("VNFM_LIVE_OPENSTACK") else {
        let why = "skipped: VNFM_LIVE_OPENSTACK names no clouds.yaml; `cargo xtask stack up openstack` starts a cloud";
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        eprintln!("{why}");
        return None;
    };
    let clouds = clouds(&path);
    let cloud = &clouds["clouds"]["nfv"];
    let info = json!({
        "vimType": OPENSTACK,
        "interfaceInfo": {"endpoint": cloud["auth"]["auth_url"]},
        "accessInfo": {
            "username": cloud["auth"]["username"],
            "password": cloud["auth"]["password"],
            "project": cloud["auth"]["project_name"],
            "userDomain": cloud["auth"]["user_domain_id"],
            "projectDomain": cloud["auth"]["project_domain_id"],
            "region": cloud["region_name"],
        },
    });
    Some(serde_json::from_value(info).unwrap())
}

fn clouds(path: &str) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("`{path}`: {error}"));
    serde_yaml::from_str(&text).unwrap()
}

/// Name and password of another user of the clouds.yaml.
pub(crate) fn login(cloud: &str) -> (String, String) {
    let clouds = clouds(&std::env::var("VNFM_LIVE_OPENSTACK").unwrap());
    let auth = &clouds["clouds"][cloud]["auth"];
    let text = |name: &str| auth[name].as_str().unwrap().to_owned();
    (text("username"), text("password"))
}

pub(crate) fn place() -> Option<Place> {
    Some(Place::new(connection()?, "provider"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_from_the_vnfd_comes_and_goes() {
    let Some(place) = place() else { return };
    let story = stories::the_sample_comes_and_goes(&place, "vnf-a-k8s-cluster");
    place
        .cleaned(&place.cluster("vnf-a-k8s-cluster"), story)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_with_a_base_hot_comes_and_goes() {
    let Some(place) = place() else { return };
    let story = stories::the_sample_comes_and_goes(&place, "vnf-a-k8s-cluster-base-hot");
    place
        .cleaned(&place.cluster("vnf-a-k8s-cluster-base-hot"), story)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cloud_lacks_is_refused_by_name() {
    let Some(place) = place() else { return };
    stories::a_check_logs_in_and_tells_what_is_there(&place).await;
    stories::what_the_cloud_lacks_is_refused_by_name(&place).await;
    stories::a_wrong_login_is_refused(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_stack_is_not_touched() {
    let (Some(place), Some(mut other)) = (place(), place()) else {
        return;
    };
    let what = OneVdu::default().on(&place);
    place
        .cleaned(
            &what,
            stories::a_foreign_stack_is_not_touched(&place, &mut other),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_the_package_comes_and_goes() {
    let Some(place) = place() else { return };
    let what = stories::with_image(&place);
    place
        .cleaned(
            &what,
            stories::an_image_of_the_package_comes_and_goes(&place),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_package_share_its_image() {
    let Some(place) = place() else { return };
    let what = stories::with_image(&place);
    place
        .cleaned(
            &what,
            stories::instances_of_a_package_share_its_image(&place),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_link_that_others_manage_is_used_and_told() {
    let Some(place) = place() else { return };
    let story = stories::an_internal_link_that_others_manage_is_used_and_told(&place);
    place
        .cleaned(&place.cluster("vnf-a-k8s-cluster"), story)
        .await;
}

/// Three servers that must lie on three of two hypervisors: Heat gives up, says why, and a retry starts anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_failed_says_why_and_is_made_again() {
    let Some(place) = place() else { return };
    let what = OneVdu {
        count: 3,
        apart: true,
        ..OneVdu::default()
    }
    .on(&place);
    let story = async {
        let prepared = place.prepare(&what).await.unwrap();
        let error = place.allocate(&what, &prepared).await.unwrap_err();
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
        let again = place.allocate(&what, &prepared).await.unwrap_err();
        assert_eq!(again.name(), "heat.stack-failed");
        let heard = place.ear.all();
        assert!(
            heard.iter().any(|text| text.contains("making it again")),
            "{heard:?}"
        );
        place.release(&what, Value::Null).await.unwrap();
        assert!(place.owned().await.is_empty());
    };
    place.cleaned(&what, story).await;
}

/// An allocate that is dropped on its way is gone on with by the next one.
#[tokio::test(flavor = "multi_thread")]
async fn an_allocate_that_was_cut_off_is_adopted() {
    let Some(place) = place() else { return };
    let what = OneVdu::default().on(&place);
    let story = async {
        let prepared = place.prepare(&what).await.unwrap();
        tokio::select! {
            made = place.allocate(&what, &prepared) => panic!("faster than its first wait: {made:?}"),
            () = place.ear.hears("CREATE_IN_PROGRESS") => {}
        }
        let made = place.allocate(&what, &prepared).await.unwrap();
        let heard = place.ear.all();
        assert!(
            heard.iter().any(|text| text.contains("is there already")),
            "{heard:?}"
        );
        assert_eq!(made.inventory.vnfc_resource_info.len(), 1);
        let server = &made.inventory.vnfc_resource_info[0]
            .compute_resource
            .resource_id;
        place.driver.host_keys(&place.vim, server).await.unwrap();
        place.release(&what, made.handle).await.unwrap();
    };
    place.cleaned(&what, story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_ca_is_trusted_only_where_the_connection_says_so() {
    let Some(mut info) = connection() else { return };
    let proxy = TlsProxy::before(info.interface_info["endpoint"].as_str().unwrap()).await;
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
    let trusted = Place::new(info, "provider");
    stories::a_check_logs_in_and_tells_what_is_there(&trusted).await;
}

/// This Heat wants a trust, and Keystone gives none to an application credential.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_is_refused_with_the_way_out() {
    let Some(info) = connection() else { return };
    let credential = crate::credential::Credential::make(&info).await;
    let place = Place::new(credential.connection(&info), "provider");
    let what = OneVdu::default().on(&place);
    let outcome = place.make(&what).await;
    credential.delete().await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("heat.application-credential", ErrorKind::Refused),
        "{error}"
    );
    assert!(error.next().contains("password"), "{}", error.next());
}
