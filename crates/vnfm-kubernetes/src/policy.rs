//! What the plan of an instance would create, against the policy of its VIM or of the caller's role.
//!
//! | rule | refuses |
//! |---|---|
//! | `namespaces` | objects in, and instances that use, another namespace |
//! | `kinds` | objects of other kinds |
//! | `clusterScoped: false` | objects outside of namespaces, but for the instance's own namespace |
//! | `podSecurity: baseline` | pods that ask for their host, in whatever kind ([`crate::pod_security`]) |
//! | `serviceAccounts: own` | pods that run as an account which the package does not bring, Secrets that ask for tokens |
//! | `externalIps: false` | Services with `externalIPs` |
//! | `limits` | more objects or pods |
//!
//! Most of it a request can tell. Whether a namespace is the instance's own, and whether a kind of somebody else's is
//! outside of namespaces, only the cluster knows: [`permit_placed`] looks at the same plan with its answers.

use crate::amount::pods_at_a_time;
use crate::apply::{NamespaceState, Placed};
use crate::errors::POLICY;
use crate::manifests::{Item, Plan};
use crate::pod_security::{beyond_baseline, pods};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::PortError;
use vnfm_types::policy::BUILTIN;
use vnfm_types::{PodSecurity, ServiceAccounts, VimPolicy};

/// The label by which the API server enforces the same.
pub(crate) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Namespaced kinds of Kubernetes, without those that grant rights (`rbac.authorization.k8s.io`, …), lead traffic past
/// network policies (`Endpoints`, `EndpointSlice`), or are made by the cluster itself.
const BUILTINS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "ConfigMap",
            "LimitRange",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "apps",
        &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
    ),
    ("autoscaling", &["HorizontalPodAutoscaler"]),
    ("batch", &["CronJob", "Job"]),
    ("networking.k8s.io", &["Ingress", "NetworkPolicy"]),
    ("policy", &["PodDisruptionBudget"]),
];

/// Kinds of Kubernetes outside of namespaces, so that a request tells already. Of others the cluster knows.
const OUTSIDE: &[(&str, &[&str])] = &[
    (
        "",
        &["ComponentStatus", "Namespace", "Node", "PersistentVolume"],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "networking.k8s.io",
        &["IngressClass", "IPAddress", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    (
        "rbac.authorization.k8s.io",
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    ("resource.k8s.io", &["DeviceClass", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

/// Whether the plan fits, as far as package and request tell. Where neither names a namespace, the VIM's record or the
/// instance does.
///
/// # Errors
///
/// `Refused`, naming object and rule.
pub(crate) fn permit(plan: &Plan, named: bool, policy: &VimPolicy) -> Result<(), PortError> {
    if policy.is_open() {
        return Ok(());
    }
    if named {
        permit_namespace(&plan.namespace, policy, None)?;
    }
    let accounts = accounts(plan);
    for item in plan.items() {
        permit_object(item, plan, policy)?;
        if policy.service_accounts == Some(ServiceAccounts::Own) {
            permit_accounts(item, &accounts)?;
        }
    }
    permit_amount(plan, policy)
}

/// The same with what the cluster says.
///
/// # Errors
///
/// As [`permit`].
pub(crate) fn permit_placed(
    plan: &Plan,
    stages: &[Vec<Placed>],
    policy: &VimPolicy,
    state: Option<NamespaceState>,
) -> Result<(), PortError> {
    permit(plan, false, policy)?;
    permit_namespace(&plan.namespace, policy, state)?;
    for placed in stages.iter().flatten() {
        let outside = placed.target.namespace.is_none();
        if outside && policy.cluster_scoped == Some(false) && !is_own_namespace(&placed.item, plan)
        {
            let what = "it is outside of namespaces, and the rule `clusterScoped: false` allows no such object";
            return Err(refused(&placed.item, what));
        }
    }
    Ok(())
}

/// Whether an instance may use a namespace; `state` where the cluster was asked whose it is.
///
/// # Errors
///
/// `Refused`, naming it and the rule.
pub(crate) fn permit_namespace(
    name: &str,
    policy: &VimPolicy,
    state: Option<NamespaceState>,
) -> Result<(), PortError> {
    if policy.allows_namespace(name) {
        return Ok(());
    }
    let allowed = policy
        .namespaces
        .iter()
        .flatten()
        .map(|one| format!("`{one}`"));
    let rule = format!(
        "the rule `namespaces` allows {}",
        allowed.collect::<Vec<_>>().join(", ")
    );
    let clusters = name == "default" || name.starts_with("kube-");
    let why = match state {
        _ if !policy.allows_own_namespace() => rule,
        _ if clusters => {
            format!("it is the cluster's, and {rule}, the one that is made for the instance")
        }
        Some(NamespaceState::Shared) => {
            format!(
                "it was there before the VNF, and {rule}, the one that is made for the instance"
            )
        }
        _ => return Ok(()),
    };
    Err(
        PortError::new(&POLICY, format!("use namespace `{name}`"), why)
            .on(format!("Namespace `{name}`")),
    )
}

fn permit_object(item: &Item, plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let own = is_own_namespace(item, plan);
    permit_kind(item, own, policy)?;
    if policy.cluster_scoped == Some(false) && !own && is_in(OUTSIDE, item) {
        let what = "it is outside of namespaces, and the rule `clusterScoped: false` allows no such object";
        return Err(refused(item, what));
    }
    if let Some(namespace) = item
        .namespace
        .as_deref()
        .filter(|name| **name != *plan.namespace)
        && !policy.allows_namespace(namespace)
    {
        let what = format!(
            "it is to be in namespace `{namespace}`, which the rule `namespaces` does not allow"
        );
        return Err(refused(item, &what));
    }
    if policy.pod_security == Some(PodSecurity::Baseline) {
        let label = item
            .object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(ENFORCE));
        let label = label.filter(|level| *level != "baseline" && *level != "restricted");
        let found = beyond_baseline(&item.object);
        let found = found.or_else(|| {
            own.then_some(label)
                .flatten()
                .map(|one| format!("label {ENFORCE}: {one}"))
        });
        if let Some(found) = found {
            let what = format!("the rule `podSecurity: baseline` does not allow `{found}`");
            return Err(refused(item, &what));
        }
    }
    let external = item
        .object
        .pointer("/spec/externalIPs")
        .and_then(Value::as_array);
    let is_service = item.group().is_empty() && item.kind == "Service";
    if policy.external_ips == Some(false)
        && is_service
        && external.is_some_and(|all| !all.is_empty())
    {
        return Err(refused(
            item,
            "the rule `externalIps: false` does not allow `spec.externalIPs`",
        ));
    }
    Ok(())
}

fn permit_kind(item: &Item, own: bool, policy: &VimPolicy) -> Result<(), PortError> {
    let Some(kinds) = &policy.kinds else {
        return Ok(());
    };
    match kinds.check(|entry| (own && entry == BUILTIN) || names(entry, item)) {
        Ok(()) => Ok(()),
        Err(Some(entry)) => Err(refused(item, &format!("the rule `kinds` denies `{entry}`"))),
        Err(None) => {
            let what = format!("the rule `kinds` does not allow `{}`", full_kind(item));
            Err(refused(item, &what))
        }
    }
}

/// Whether an entry of `kinds` is about an object.
fn names(entry: &str, item: &Item) -> bool {
    let group = item.group();
    match entry.rsplit_once('/') {
        _ if entry == "*" => true,
        _ if entry == BUILTIN => is_in(BUILTINS, item),
        Some((of, "*")) => of == group || (of == "core" && group.is_empty()),
        Some((of, kind)) => {
            (of == group || (of == "core" && group.is_empty())) && kind == item.kind
        }
        None => group.is_empty() && entry == item.kind,
    }
}

fn is_in(table: &[(&str, &[&str])], item: &Item) -> bool {
    let group = item.group();
    table
        .iter()
        .any(|(of, kinds)| *of == group && kinds.contains(&item.kind.as_str()))
}

fn full_kind(item: &Item) -> String {
    let group = item.group();
    if group.is_empty() {
        item.kind.clone()
    } else {
        format!("{group}/{}", item.kind)
    }
}

/// Whether it is of a kind that Kubernetes itself defines, and what it means is known.
pub(crate) fn is_builtin(item: &Item) -> bool {
    is_in(BUILTINS, item)
}

/// Whether it is the namespace that is made for the instance.
fn is_own_namespace(item: &Item, plan: &Plan) -> bool {
    item.group().is_empty() && item.kind == "Namespace" && item.name == plan.namespace
}

/// The service accounts that the package brings, with `default`.
fn accounts(plan: &Plan) -> BTreeSet<&str> {
    let brought = plan
        .items()
        .filter(|item| item.group().is_empty() && item.kind == "ServiceAccount");
    brought
        .map(|item| item.name.as_str())
        .chain(["", "default"])
        .collect()
}

fn permit_accounts(item: &Item, accounts: &BTreeSet<&str>) -> Result<(), PortError> {
    for pod in pods(&item.object) {
        for member in ["serviceAccountName", "serviceAccount"] {
            let name = pod.spec.get(member).filter(|name| !name.is_null());
            let name = name.map(|name| name.as_str().unwrap_or("?"));
            if let Some(name) = name.filter(|name| !accounts.contains(name)) {
                let what = format!(
                    "the rule `serviceAccounts: own` does not allow `{}.{member}: {name}`, which the package does not bring",
                    pod.path
                );
                return Err(refused(item, &what));
            }
        }
    }
    let is_secret = item.group().is_empty() && item.kind == "Secret";
    if is_secret && item.object["type"] == "kubernetes.io/service-account-token" {
        let what = "the rule `serviceAccounts: own` does not allow a Secret that asks for a token";
        return Err(refused(item, what));
    }
    Ok(())
}

fn permit_amount(plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let limits = policy.limits.clone().unwrap_or_default();
    let objects = plan.items().count() as u64;
    let pods = plan
        .items()
        .map(pods_at_a_time)
        .fold(0, u64::saturating_add);
    for (name, limit, count) in [
        ("objects", limits.objects, objects),
        ("pods", limits.pods, pods),
    ] {
        if let Some(limit) = limit.filter(|limit| count > *limit) {
            let what =
                format!("it has {count} {name}, and the rule `limits.{name}` allows {limit}");
            return Err(PortError::new(&POLICY, "make the VNF", what).on(format!("limits.{name}")));
        }
    }
    Ok(())
}

fn refused(item: &Item, what: &str) -> PortError {
    let object = format!("{} `{}`", item.kind, item.name);
    PortError::new(&POLICY, format!("make {object} (`{}`)", item.place), what).on(object)
}

/// The rules that a plan for `policy` is held to by the cluster itself: labels of the namespace that we make.
pub(crate) fn labels(policy: &VimPolicy) -> Option<(&'static str, &'static str)> {
    (policy.pod_security == Some(PodSecurity::Baseline)).then_some((ENFORCE, "baseline"))
}

/// The user as whom an operation of `tenant` calls the cluster.
///
/// # Errors
///
/// `Refused` where no service account can have the name.
pub(crate) fn user_of(policy: &VimPolicy, tenant: &str) -> Result<Option<String>, PortError> {
    let Some(user) = &policy.impersonate else {
        return Ok(None);
    };
    let user = user.replace("{tenant}", tenant);
    let account = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    let fits = |name: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        !name.is_empty() && name.len() <= 253 && name.chars().all(plain)
    };
    match account {
        Some((namespace, name)) if fits(namespace) && fits(name) => Ok(Some(user)),
        _ => {
            let what = format!(
                "no service account can be `{user}`: lower-case letters, digits, `-` and `.`"
            );
            Err(PortError::new(&POLICY, "act as the tenant's service account", what)
                .on("policy.impersonate")
                .hint("name an account in `policy.impersonate` that does not hold `{tenant}`, or rename the tenant"))
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
