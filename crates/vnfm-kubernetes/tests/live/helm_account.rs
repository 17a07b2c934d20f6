//! On a VIM with a policy, and for a role that is limited to namespaces, helm has rights in the VNF's namespace only.

use crate::charts::{ALL, package, programs, worlds};
use crate::support::World;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::Allocation;
use vnfm_kubernetes::Helm;
use vnfm_types::VimPolicy;

/// A policy of rules that the API server enforces for such an account.
fn enforced() -> VimPolicy {
    VimPolicy {
        pod_security: None,
        service_accounts: None,
        external_ips: None,
        ..VimPolicy::for_borrowers()
    }
}

fn config_map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: spied}}\ndata: {data}\n")
}

/// The objects of helm's account that exist.
async fn account(world: &World) -> Vec<DynamicObject> {
    let (name, place) = (
        format!("vnfm-helm-{}", world.owner.instance_id),
        world.namespace(),
    );
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut found = Vec::new();
    for (version, kind, plural) in [
        ("v1", "ServiceAccount", "serviceaccounts"),
        (rbac, "Role", "roles"),
        (rbac, "RoleBinding", "rolebindings"),
    ] {
        let api = world.api(version, kind, plural, Some(&place));
        found.extend(api.get_opt(&name).await.unwrap());
    }
    for (kind, plural) in [
        ("ClusterRole", "clusterroles"),
        ("ClusterRoleBinding", "clusterrolebindings"),
    ] {
        found.extend(
            world
                .api(rbac, kind, plural, None)
                .get_opt(&name)
                .await
                .unwrap(),
        );
    }
    found
}

/// Instantiation fails, for a reason with this text; afterwards nothing is left.
async fn assert_fails(world: &World, what: &Allocation, text: &str) {
    let error = world.instantiate(what, 30).await.unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    world.terminate(what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
    assert!(account(world).await.is_empty());
}

#[tokio::test]
async fn a_chart_with_hooks_is_installed_changed_and_removed_under_an_account_of_its_own() {
    for (_, mut world) in worlds().await {
        world.vim.policy = enforced();
        let what = package(ALL, &json!({}));
        let created = world.instantiate(&what, 60).await.unwrap();
        let account_objects = account(&world).await;
        assert_eq!(account_objects.len(), 3);
        for object in &account_objects {
            let labels = object.metadata.labels.as_ref().unwrap();
            assert_eq!(labels["vnfm.dev/instance"], world.owner.instance_id);
        }
        let handle = created.handle.to_string();
        assert!(handle.contains("\"ServiceAccount\"") && handle.contains("\"RoleBinding\""));
        let rules = account_objects[1].data["rules"].to_string();
        assert!(
            rules.contains("\"jobs\"") && !rules.contains("\"roles\""),
            "{rules}"
        );
        let jobs = world.api("batch/v1", "Job", "jobs", Some(&world.namespace()));
        jobs.get("prepare").await.unwrap();
        let mut larger = what.clone();
        let deployment = Arc::make_mut(&mut larger.deployment);
        deployment.vdu_instances.insert("WebServer".into(), 2);
        let scaled = crate::charts::update(&world, &created, &larger)
            .await
            .unwrap();
        assert_eq!(scaled.inventory.vnfc_resource_info.len(), 2);
        world.terminate(&what, scaled.handle).await.unwrap();
        world.assert_nothing_left().await;
        assert!(account(&world).await.is_empty());
    }
}

#[tokio::test]
async fn the_account_of_a_shared_namespace_goes_with_its_instance() {
    for (_, mut world) in worlds().await {
        let namespace = format!("shared-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        world.vim.policy = VimPolicy {
            namespaces: Some(vec![namespace.clone()]),
            ..enforced()
        };
        let what = package(&ALL[..1], &json!({"namespace": namespace}));
        let created = world.instantiate(&what, 60).await.unwrap();
        let accounts = world.api("v1", "ServiceAccount", "serviceaccounts", Some(&namespace));
        let name = format!("vnfm-helm-{}", world.owner.instance_id);
        accounts.get(&name).await.unwrap();
        world.terminate(&what, created.handle).await.unwrap();
        assert!(accounts.get_opt(&name).await.unwrap().is_none());
        world.assert_nothing_left().await;
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn lookup_reads_the_namespace_of_the_vnf_and_nothing_else() {
    for (_, mut world) in worlds().await {
        world.vim.policy = enforced();
        let all = config_map("{all: {{ lookup \"v1\" \"Secret\" \"\" \"\" | toJson | quote }}}");
        let what = package(&[("templates/spy.yaml", &all)], &json!({}));
        assert_fails(&world, &what, "forbidden").await;
        let system = config_map(
            "{all: {{ lookup \"v1\" \"ConfigMap\" \"kube-system\" \"\" | toJson | quote }}}",
        );
        let what = package(&[("templates/spy.yaml", &system)], &json!({}));
        assert_fails(&world, &what, "forbidden").await;
        let nodes = config_map("{all: {{ lookup \"v1\" \"Node\" \"\" \"\" | toJson | quote }}}");
        let what = package(&[("templates/spy.yaml", &nodes)], &json!({}));
        assert_fails(&world, &what, "forbidden").await;
        let own = config_map(
            "{all: {{ lookup \"v1\" \"ConfigMap\" .Release.Namespace \"\" | toJson | quote }}}",
        );
        let what = package(&[("templates/spy.yaml", &own)], &json!({}));
        let created = world.instantiate(&what, 60).await.unwrap();
        let spied = world.config_maps(&world.namespace()).get("spied").await;
        let text = spied.unwrap().data["data"]["all"].to_string();
        assert!(text.contains("kube-root-ca.crt"), "{text}");
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

/// A hook that is a Job where nobody looks, and binds its namespace to the administrator where helm installs it.
const ESCAPING: &str = "{{- if lookup \"v1\" \"ConfigMap\" .Release.Namespace \"kube-root-ca.crt\" }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vnfm-test-escape, annotations: {helm.sh/hook: pre-install}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
{{- else }}
apiVersion: batch/v1
kind: Job
metadata: {name: prepare, annotations: {helm.sh/hook: pre-install}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: prepare, image: 'localhost/busybox:1'}]}}}
{{- end }}
";

#[tokio::test]
async fn a_hook_that_changes_when_it_is_installed_does_not_escape() {
    for (program, mut world) in worlds().await {
        world.vim.policy = enforced();
        let what = package(&[("templates/hook.yaml", ESCAPING)], &json!({}));
        let is_new = program.ends_with("helm4");
        let text = if is_new {
            "is not in the plan"
        } else {
            "forbidden"
        };
        assert_fails(&world, &what, text).await;
        let kind = ("ClusterRoleBinding", "clusterrolebindings");
        let bindings = world.api("rbac.authorization.k8s.io/v1", kind.0, kind.1, None);
        assert!(
            bindings
                .get_opt("vnfm-test-escape")
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test]
async fn hooks_that_nobody_would_check_are_refused_by_the_rule() {
    for (program, mut world) in worlds().await {
        world.vim.policy = VimPolicy::for_borrowers();
        let what = package(ALL, &json!({}));
        if program.ends_with("helm4") {
            let created = world.instantiate(&what, 60).await.unwrap();
            world.terminate(&what, created.handle).await.unwrap();
        } else {
            let refused = world.instantiate(&what, 20).await.unwrap_err();
            assert_eq!(refused.name(), "kubernetes.policy");
            assert!(
                refused.to_string().contains("`serviceAccounts`"),
                "{refused}"
            );
            assert!(refused.next().contains("Helm 4"), "{refused}");
        }
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn a_role_that_is_limited_to_namespaces_limits_helm_on_an_open_vim() {
    for (_, world) in worlds().await {
        let namespace = format!("role-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let limited = |what: &mut Allocation| {
            let deployment = Arc::make_mut(&mut what.deployment);
            deployment.role_namespaces = vec![namespace.clone()];
        };
        let params = json!({"namespace": namespace});
        let all = config_map("{all: {{ lookup \"v1\" \"Secret\" \"\" \"\" | toJson | quote }}}");
        let mut spy = package(&[("templates/spy.yaml", &all)], &params);
        limited(&mut spy);
        let error = world.instantiate(&spy, 30).await.unwrap_err();
        assert!(error.to_string().contains("forbidden"), "{error}");
        world.terminate(&spy, Value::Null).await.unwrap();
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: too-much}\n";
        let mut wide = package(&[("templates/role.yaml", role)], &params);
        limited(&mut wide);
        let refused = world.instantiate(&wide, 30).await.unwrap_err();
        assert_eq!(refused.name(), "kubernetes.policy", "{refused}");
        let mut what = package(&ALL[..1], &params);
        limited(&mut what);
        let created = world.instantiate(&what, 60).await.unwrap();
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn cluster_scoped_objects_need_a_policy_that_allows_them() {
    for (_, mut world) in worlds().await {
        let name = format!("wide-{}", world.owner.instance_id);
        let role = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules: []\n"
        );
        let what = package(&[("templates/role.yaml", &role)], &json!({}));
        world.vim.policy = VimPolicy {
            cluster_scoped: Some(false),
            ..VimPolicy::OPEN
        };
        let refused = world.instantiate(&what, 30).await.unwrap_err();
        assert!(refused.to_string().contains("clusterScoped"), "{refused}");
        world.vim.policy = VimPolicy {
            cluster_scoped: Some(true),
            ..VimPolicy::OPEN
        };
        let created = world.instantiate(&what, 60).await.unwrap();
        assert_eq!(account(&world).await.len(), 5);
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
        assert!(account(&world).await.is_empty());
    }
}

/// A login that may do everything in one namespace but grant rights.
async fn modest_login(world: &World, namespace: &str) -> String {
    let name = "modest";
    let rules = json!([
        {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]},
    ]);
    let rbac = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let group = "rbac.authorization.k8s.io";
    for (kind, plural, version, members) in [
        ("ServiceAccount", "serviceaccounts", "v1", json!({})),
        ("Role", "roles", rbac, json!({"rules": rules})),
        (
            "RoleBinding",
            "rolebindings",
            rbac,
            json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": name}, "subjects": subjects}),
        ),
    ] {
        let mut object = members;
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name});
        let api = world.api(version, kind, plural, Some(namespace));
        world.make(&api, object).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let created = accounts.create_token_request(name, &params, &request).await;
    created.unwrap().status.unwrap().token.unwrap()
}

#[tokio::test]
async fn the_right_that_a_login_lacks_is_named() {
    let Some(mut world) = World::start().await else {
        return;
    };
    world.driver = world.driver.with_helm(Helm::new(&programs()[0], None));
    let namespace = format!("modest-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let token = modest_login(&world, &namespace).await;
    world.vim.update(|vim| {
        vim.access_info = json!({"bearer_token": token}).as_object().cloned().unwrap();
    });
    world.vim.policy = VimPolicy {
        namespaces: Some(vec![namespace.clone()]),
        ..enforced()
    };
    let what = package(&ALL[..1], &json!({"namespace": namespace}));
    let refused = world.instantiate(&what, 30).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.forbidden", "{refused}");
    let text = refused.to_string();
    assert!(text.contains("`roles.rbac.authorization.k8s.io`"), "{text}");
    assert!(!text.contains(&token));
    world.clean(&world.namespaces(), &namespace).await;
}
