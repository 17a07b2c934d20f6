//! Logins: what a check reports, and how login errors are distinguished.

use crate::support::{World, deployment, package};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use vnfm_core::ports::{Convergence, ErrorKind, InfraDriver as _};

#[tokio::test]
async fn a_check_reports_version_login_and_expiry() {
    let Some(world) = World::start().await else {
        return;
    };
    let report = world.driver.check(&world.vim).await.unwrap();
    let system = world.namespaces().get("kube-system").await.unwrap();
    assert_eq!(report.identity, system.metadata.uid);
    assert!(
        report.detail["version"]
            .as_str()
            .unwrap()
            .starts_with("v1.")
    );
    assert_eq!(report.detail["login"], "client certificate");
    assert!(report.expires_at.unwrap() > jiff::Timestamp::now());
    assert!(!report.detail.contains_key("warning"));
}

#[tokio::test]
async fn login_errors_are_distinguished() {
    let Some(world) = World::start().await else {
        return;
    };
    let token = |token: &str| json!({"bearer_token": token}).as_object().cloned().unwrap();
    let proper = world.vim.login.lock().unwrap().0.clone();
    world.vim.update(|vim| vim.access_info = token("hunter2"));
    let refused = world.driver.check(&world.vim).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.login-refused", ErrorKind::Refused)
    );
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .cert
        .pem();
    world.vim.update(|vim| {
        drop(
            vim.interface_info
                .insert("ssl_ca_cert".into(), other.replace('\n', " ").into()),
        );
    });
    let stranger = world.driver.check(&world.vim).await.unwrap_err();
    assert_eq!(
        (stranger.name(), stranger.kind()),
        ("kubernetes.certificate", ErrorKind::Refused),
        "{stranger}"
    );
    world.vim.update(|vim| {
        drop(
            vim.interface_info
                .insert("endpoint".into(), "https://127.0.0.1:1".into()),
        );
    });
    let unreachable_error = world.driver.check(&world.vim).await.unwrap_err();
    assert_eq!(
        (unreachable_error.name(), unreachable_error.kind()),
        ("kubernetes.unreachable", ErrorKind::Unavailable),
        "{unreachable_error}"
    );
    world.vim.update(|vim| {
        *vim = proper;
        vim.interface_info
            .insert("ssl_ca_cert".into(), "None".into());
    });
    let report = world.driver.check(&world.vim).await.unwrap();
    assert!(
        report.detail["warning"]
            .as_str()
            .unwrap()
            .contains("not verified")
    );
    for error in [refused, stranger, unreachable_error] {
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

/// A service account with the role `cluster-admin`, and a token of it.
async fn account(world: &World, name: &str) -> (Api<ServiceAccount>, String) {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    create_account(&accounts, name).await;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}))
    .unwrap();
    Api::all(world.client.clone())
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let token = token(&accounts, name).await;
    (accounts, token)
}

async fn create_account(accounts: &Api<ServiceAccount>, name: &str) {
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
}

async fn token(accounts: &Api<ServiceAccount>, name: &str) -> String {
    let spec = TokenRequestSpec {
        expiration_seconds: Some(3600),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token.unwrap()
}

/// Removes the scheduling gates of the first pod.
async fn open_gate(world: &World) {
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let pod = pods
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let change = json!({"spec": {"schedulingGates": null}});
    world
        .change(&pods, &pod.metadata.name.unwrap(), change)
        .await;
}

#[tokio::test]
async fn a_new_token_reaches_an_operation_that_waits() {
    let Some(world) = World::start().await else {
        return;
    };
    let name = format!("account-{}", world.owner.instance_id);
    let (accounts, first) = account(&world, &name).await;
    let use_token = |token: String| {
        world.vim.update(|vim| {
            vim.access_info = json!({"bearer_token": token}).as_object().cloned().unwrap();
        });
    };
    use_token(first);
    let report = world.driver.check(&world.vim).await.unwrap();
    assert_eq!(
        (&report.detail["login"], &report.detail["expires"]),
        (&json!("bearer token"), &json!("token"))
    );
    // Not ready until the test removes the scheduling gate.
    let gate = "      schedulingGates: [{name: example.com/gate}]\n";
    let what = package(&[(1, &deployment(1, gate))], "", json!({}));
    let prepared = world
        .driver
        .preview(&world.cx(60), &Convergence::create(&what))
        .await
        .unwrap();
    let cx = world.cx(90);
    let change = Convergence::create(&what);
    let allocate = world.driver.converge(&cx, &change, &prepared);
    let meanwhile = async {
        world.seen.wait_for("replicas available").await;
        accounts
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        world
            .seen
            .wait_for("refuses the login; `vnfmctl vim update cluster`")
            .await;
        create_account(&accounts, &name).await;
        use_token(token(&accounts, &name).await);
        open_gate(&world).await;
    };
    let (allocated, ()) = tokio::join!(allocate, meanwhile);
    let allocated = allocated.unwrap();
    assert_eq!(allocated.inventory.vnfc_resource_info.len(), 1);
    world.terminate(&what, allocated.handle).await.unwrap();
    world.assert_nothing_left().await;
    accounts
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    Api::<ClusterRoleBinding>::all(world.client.clone())
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
}
