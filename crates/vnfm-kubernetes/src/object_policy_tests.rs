//! Which objects the rules of a policy refuse, and which they allow.

use super::{permit, permit_namespace, unchecked_rules};
use crate::charts::chart_for_test;
use crate::impersonation::impersonated_user;
use crate::item::item_for_test;
use crate::manifests::Plan;
use crate::resolved::NamespaceState;
use serde_json::{Value, json};
use vnfm_types::{InstanceLimits, Selection, VimPolicy};

fn plan(objects: &[Value]) -> Plan {
    let items = objects.iter().cloned().map(item_for_test).collect();
    Plan {
        namespace: "mine".into(),
        is_named: true,
        stages: vec![items],
        ..Plan::default()
    }
}

#[test]
fn hooks_of_charts_are_checked_as_other_objects_unless_a_tenants_account_creates_them() {
    let of_borrowers = VimPolicy::for_borrowers();
    let with_account = VimPolicy {
        impersonate: Some("system:serviceaccount:mine:installer".into()),
        ..VimPolicy::for_borrowers()
    };
    let mut plan = plan(&[object("v1", "ConfigMap")]);
    plan.charts.push(chart_for_test("web"));
    permit(&plan, false, &of_borrowers).unwrap();
    permit(&plan, false, &with_account).unwrap();
    permit(&plan, false, &VimPolicy::OPEN).unwrap();
    let hook = |kind| item_for_test(object("batch/v1", kind));
    plan.charts[0].hooks.push(hook("Job"));
    permit(&plan, false, &of_borrowers).unwrap();
    let refused = permit(&plan, false, &with_account).unwrap_err();
    assert!(refused.to_string().contains("hook"), "{refused}");
    plan.charts[0].hooks.push(hook("Strange"));
    let refused = permit(&plan, false, &of_borrowers).unwrap_err();
    assert!(refused.to_string().contains("Strange"), "{refused}");
}

#[test]
fn the_api_server_enforces_namespaces_and_kinds() {
    let rules: Vec<_> = unchecked_rules(&VimPolicy::for_borrowers()).collect();
    assert_eq!(rules, ["podSecurity", "serviceAccounts", "externalIps"]);
    let by_role = VimPolicy {
        pod_security: None,
        service_accounts: None,
        external_ips: None,
        ..VimPolicy::for_borrowers()
    };
    assert_eq!(unchecked_rules(&by_role).count(), 0);
}

fn object(api: &str, kind: &str) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": "it"}})
}

/// The error if `policy` refuses the object.
fn refusal(object: &Value, policy: &VimPolicy) -> Option<String> {
    permit(&plan(std::slice::from_ref(object)), true, policy)
        .err()
        .map(|error| {
            assert_eq!(error.name(), "kubernetes.policy");
            error.to_string()
        })
}

/// Every row: an object, and the rule by which a borrower's policy refuses it.
fn assert_refused(rows: &[(Value, &str)]) {
    let policy = VimPolicy::for_borrowers();
    for (object, rule) in rows {
        let refusal = refusal(object, &policy).unwrap_or_default();
        assert!(
            refusal.contains(&format!("the rule `{rule}")),
            "{object}: {refusal:?}"
        );
        assert!(
            refusal.contains(&format!("{} `", object["kind"].as_str().unwrap())),
            "{refusal}"
        );
    }
}

#[test]
fn a_borrower_creates_objects_that_stay_in_its_namespace() {
    let policy = VimPolicy::for_borrowers();
    let pod = json!({"containers": [{"name": "a", "image": "b"}]});
    for (api, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "PersistentVolumeClaim"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    ] {
        assert_eq!(refusal(&object(api, kind), &policy), None, "{kind}");
    }
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "mine"},
        "spec": {"template": {"spec": pod}}});
    assert_eq!(refusal(&web, &policy), None);
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    assert_eq!(refusal(&own, &policy), None);
}

#[test]
fn a_borrower_creates_no_objects_of_other_kinds() {
    assert_refused(&[
        (
            object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
            "kinds",
        ),
        (
            object("rbac.authorization.k8s.io/v1", "RoleBinding"),
            "kinds",
        ),
        (
            object(
                "admissionregistration.k8s.io/v1",
                "MutatingWebhookConfiguration",
            ),
            "kinds",
        ),
        (
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            "kinds",
        ),
        (object("example.com/v1", "Thing"), "kinds"),
        (object("apps.example.com/v1", "Deployment"), "kinds"),
        (object("v1", "PersistentVolume"), "kinds"),
        (object("discovery.k8s.io/v1", "EndpointSlice"), "kinds"),
        (
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
            "kinds",
        ),
    ]);
}

#[test]
fn a_borrower_stays_in_its_namespace_and_its_pods_off_the_host() {
    assert_refused(&[
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}}),
            "namespaces",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [], "hostNetwork": true}}),
            "podSecurity: baseline",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"externalIPs": ["192.0.2.1"]}}),
            "externalIps",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}),
            "serviceAccounts",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [], "serviceAccountName": "admin"}}),
            "serviceAccounts",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine", "labels": {super::ENFORCE: "privileged"}}}),
            "podSecurity: baseline",
        ),
    ]);
}

#[test]
fn a_policy_may_allow_more_and_less() {
    let kinds = |allow: &[&str], deny: &[&str]| {
        let all = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let kinds = Selection {
            allow: Some(all(allow)),
            deny: all(deny),
        };
        VimPolicy {
            kinds: Some(kinds),
            ..VimPolicy::for_borrowers()
        }
    };
    let thing = object("example.com/v1", "Thing");
    assert_eq!(
        refusal(&thing, &kinds(&["BUILTIN", "example.com/Thing"], &[])),
        None
    );
    assert_eq!(refusal(&thing, &kinds(&["example.com/*"], &[])), None);
    assert!(
        refusal(
            &thing,
            &kinds(&["Thing", "core/*", "example.com/Other"], &[])
        )
        .is_some()
    );
    let denied = refusal(
        &object("v1", "Secret"),
        &kinds(&["BUILTIN"], &["core/Secret"]),
    )
    .unwrap();
    assert!(denied.contains("denies `core/Secret`"), "{denied}");
    // What is allowed by its kind is still cluster-scoped.
    let role = object("rbac.authorization.k8s.io/v1", "ClusterRole");
    let error = refusal(&role, &kinds(&["*"], &[])).unwrap();
    assert!(error.contains("clusterScoped: false"), "{error}");
    for object in [role, thing, object("v1", "Node")] {
        assert_eq!(refusal(&object, &VimPolicy::OPEN), None);
    }
}

#[test]
fn an_account_of_the_package_may_be_used() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [], "serviceAccountName": "own"}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own"}});
    let both = plan(&[pod.clone(), account]);
    assert!(permit(&both, true, &VimPolicy::for_borrowers()).is_ok());
    assert!(permit(&plan(&[pod]), true, &VimPolicy::for_borrowers()).is_err());
}

#[test]
fn the_state_of_a_namespace_decides_whether_it_may_be_used() {
    let borrower = VimPolicy::for_borrowers();
    let ask = |name: &str, state, policy: &VimPolicy| {
        permit_namespace(name, policy, state).map_err(|error| error.to_string())
    };
    for state in [
        None,
        Some(NamespaceState::Absent),
        Some(NamespaceState::Ours),
    ] {
        assert_eq!(ask("mine", state, &borrower), Ok(()));
    }
    let there = ask("mine", Some(NamespaceState::Shared), &borrower).unwrap_err();
    assert!(there.contains("it existed before the VNF"), "{there}");
    for name in ["kube-system", "default"] {
        assert!(
            ask(name, None, &borrower)
                .unwrap_err()
                .contains("it belongs to the cluster")
        );
    }
    let narrowed = VimPolicy::for_namespaces(&["web".into()]);
    assert_eq!(ask("web", Some(NamespaceState::Shared), &narrowed), Ok(()));
    assert!(
        ask("mine", Some(NamespaceState::Ours), &narrowed)
            .unwrap_err()
            .contains("`web`")
    );
}

#[test]
fn the_limits_of_a_policy_bound_an_instance() {
    let limits = InstanceLimits {
        objects: Some(2),
        pods: Some(5),
        servers: None,
    };
    let policy = VimPolicy {
        limits: Some(limits),
        ..VimPolicy::OPEN
    };
    let web = |replicas: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{}]}}}})
    };
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3, "template": {"spec": {"containers": [{}]}}}});
    assert!(permit(&plan(&[web(json!(2)), job.clone()]), true, &policy).is_ok());
    for objects in [
        vec![web(json!(3)), job],
        vec![web(json!("many"))],
        vec![
            object("v1", "Secret"),
            object("v1", "Secret"),
            object("v1", "Secret"),
        ],
    ] {
        let error = permit(&plan(&objects), true, &policy).unwrap_err();
        assert!(error.resource().unwrap().starts_with("limits."), "{error}");
    }
}

#[test]
fn the_impersonated_user_must_be_a_valid_service_account() {
    let policy = |user: &str| VimPolicy {
        impersonate: Some(user.into()),
        ..VimPolicy::OPEN
    };
    let mine = policy("system:serviceaccount:tenants:{tenant}");
    assert_eq!(
        impersonated_user(&mine, "acme").unwrap().unwrap(),
        "system:serviceaccount:tenants:acme"
    );
    assert_eq!(impersonated_user(&VimPolicy::OPEN, "acme").unwrap(), None);
    for tenant in ["a_b", "ACME", ""] {
        assert!(impersonated_user(&mine, tenant).is_err(), "{tenant}");
    }
}
