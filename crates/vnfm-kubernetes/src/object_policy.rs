//! Checks the plan of an instance against the policy of its VIM or of the caller's role.
//!
//! | rule | refuses |
//! |---|---|
//! | `namespaces` | objects in, and instances that use, another namespace, or networks in one |
//! | `kinds` | objects of other kinds |
//! | `clusterScoped: false` | cluster-scoped objects except the instance's own namespace |
//! | `podSecurity: baseline` | pods that access their host, in any kind ([`crate::pod_security`]) |
//! | `serviceAccounts: own` | pods that run as an account that the package does not contain, Secrets that request tokens |
//! | `externalIps: false` | Services with `externalIPs` |
//! | `limits` | more objects or pods |
//! | any, with `impersonate` | hooks of charts; without it, helm runs under [an account of its own](crate::helm_account) |
//!
//! Most rules can be checked without the cluster. Only the cluster knows whether a namespace is the instance's own and
//! whether a custom kind is cluster-scoped: [`permit_resolved`] checks the plan again with that knowledge.

use crate::amount::concurrent_pods;
use crate::errors::POLICY;
use crate::item::Item;
use crate::manifests::Plan;
use crate::network_policy::{foreign_network, permit_links};
use crate::pod_security::{baseline_violation, pod_specs};
use crate::resolved::{NamespaceState, ResolvedObject};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::PortError;
use vnfm_types::policy::BUILTIN;
use vnfm_types::{PodSecurity, ServiceAccounts, VimPolicy};

const CLUSTER_SCOPED_REFUSED: &str =
    "it is cluster-scoped, and the rule `clusterScoped: false` allows no such object";

/// The namespace label that makes the API server enforce a pod security level.
pub(crate) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Namespaced kinds of Kubernetes, except those that grant permissions (`rbac.authorization.k8s.io`, …), bypass network
/// policies (`Endpoints`, `EndpointSlice`), or are created by the cluster itself.
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

/// Cluster-scoped kinds of Kubernetes, to check requests early. For other kinds the cluster is asked.
const CLUSTER_SCOPED: &[(&str, &[&str])] = &[
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

/// Checks the plan as far as package and request determine it. `named`: they name the namespace; otherwise it comes from
/// the VIM's record or the instance.
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
    permit_hooks(plan, policy)?;
    let accounts = accounts(plan);
    for item in all_items(plan) {
        permit_object(item, plan, policy)?;
        if policy.service_accounts == Some(ServiceAccounts::Own) {
            permit_accounts(item, &accounts)?;
        }
    }
    permit_links(plan, policy)?;
    permit_amount(plan, policy)
}

/// The objects of the plan, and the hooks of its charts.
fn all_items(plan: &Plan) -> impl Iterator<Item = &Item> {
    let hooks = plan.charts.iter().flat_map(|chart| &chart.hooks);
    plan.items().chain(hooks)
}

/// Checks the plan with what the cluster knows about its kinds and namespace.
///
/// # Errors
///
/// Those of [`permit`]; also cluster-scoped objects that the policy forbids.
pub(crate) fn permit_resolved(
    plan: &Plan,
    stages: &[Vec<ResolvedObject>],
    policy: &VimPolicy,
    state: Option<NamespaceState>,
) -> Result<(), PortError> {
    permit(plan, false, policy)?;
    permit_namespace(&plan.namespace, policy, state)?;
    for resolved in stages.iter().flatten() {
        let outside = resolved.target.namespace.is_none();
        if outside
            && policy.cluster_scoped == Some(false)
            && !is_own_namespace(&resolved.item, plan)
        {
            return Err(policy_error(&resolved.item, CLUSTER_SCOPED_REFUSED));
        }
    }
    Ok(())
}

/// Checks whether an instance may use a namespace; `state` is known once the cluster was asked.
///
/// # Errors
///
/// `Refused`, naming the namespace and the rule.
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
    let is_system = name == "default" || name.starts_with("kube-");
    let detail = match state {
        _ if !policy.allows_own_namespace() => rule,
        _ if is_system => {
            format!("it belongs to the cluster, and {rule}, the one created for the instance")
        }
        Some(NamespaceState::Shared) => {
            format!("it existed before the VNF, and {rule}, the one created for the instance")
        }
        _ => return Ok(()),
    };
    Err(
        PortError::new(&POLICY, format!("use namespace `{name}`"), detail)
            .on(format!("Namespace `{name}`")),
    )
}

fn permit_object(item: &Item, plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let own = is_own_namespace(item, plan);
    permit_kind(item, own, policy)?;
    if policy.cluster_scoped == Some(false) && !own && is_in(CLUSTER_SCOPED, item) {
        return Err(policy_error(item, CLUSTER_SCOPED_REFUSED));
    }
    if let Some(namespace) = item
        .namespace
        .as_deref()
        .filter(|name| **name != *plan.namespace)
        && !policy.allows_namespace(namespace)
    {
        let detail =
            format!("its namespace is `{namespace}`, which the rule `namespaces` does not allow");
        return Err(policy_error(item, &detail));
    }
    if let Some(detail) = foreign_network(item, plan, policy) {
        return Err(policy_error(item, &detail));
    }
    if policy.pod_security == Some(PodSecurity::Baseline) {
        let label = item
            .object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(ENFORCE));
        let label = label.filter(|level| *level != "baseline" && *level != "restricted");
        let found = baseline_violation(&item.object);
        let found = found.or_else(|| {
            own.then_some(label)
                .flatten()
                .map(|one| format!("label {ENFORCE}: {one}"))
        });
        if let Some(found) = found {
            let detail = format!("the rule `podSecurity: baseline` does not allow `{found}`");
            return Err(policy_error(item, &detail));
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
        return Err(policy_error(
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
    match kinds.check(|entry| (own && entry == BUILTIN) || entry_matches(entry, item)) {
        Ok(()) => Ok(()),
        Err(Some(entry)) => Err(policy_error(
            item,
            &format!("the rule `kinds` denies `{entry}`"),
        )),
        Err(None) => {
            let detail = format!("the rule `kinds` does not allow `{}`", full_kind(item));
            Err(policy_error(item, &detail))
        }
    }
}

/// Whether an entry of the rule `kinds` matches an object.
fn entry_matches(entry: &str, item: &Item) -> bool {
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

/// Whether Kubernetes itself defines the kind, so that its members are known.
pub(crate) fn is_builtin(item: &Item) -> bool {
    is_in(BUILTINS, item)
}

/// Whether it is the namespace created for the instance.
fn is_own_namespace(item: &Item, plan: &Plan) -> bool {
    item.group().is_empty() && item.kind == "Namespace" && item.name == plan.namespace
}

/// The service accounts that the package contains, and `default`.
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
    for pod in pod_specs(&item.object) {
        for member in ["serviceAccountName", "serviceAccount"] {
            let name = pod.spec.get(member).filter(|name| !name.is_null());
            let name = name.map(|name| name.as_str().unwrap_or("?"));
            if let Some(name) = name.filter(|name| !accounts.contains(name)) {
                let detail = format!(
                    "the rule `serviceAccounts: own` does not allow `{}.{member}: {name}`, which the package does not contain",
                    pod.path
                );
                return Err(policy_error(item, &detail));
            }
        }
    }
    let is_secret = item.group().is_empty() && item.kind == "Secret";
    if is_secret && item.object["type"] == "kubernetes.io/service-account-token" {
        let detail =
            "the rule `serviceAccounts: own` does not allow a Secret that requests a token";
        return Err(policy_error(item, detail));
    }
    Ok(())
}

/// The account of a tenant may have more rights than the policy allows, and helm creates hooks as it renders them then.
fn permit_hooks(plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let mut hooks = plan.charts.iter().flat_map(|chart| &chart.hooks);
    match hooks.next().filter(|_| policy.impersonate.is_some()) {
        None => Ok(()),
        Some(hook) => Err(policy_error(
            hook,
            "it is a hook of a chart, which the account in `policy.impersonate` creates unchecked",
        )),
    }
}

/// The rules that RBAC does not know. The API server enforces the others for an account that has rights for kinds in one
/// namespace.
pub(crate) fn unchecked_rules(policy: &VimPolicy) -> impl Iterator<Item = &'static str> {
    let rules = [
        (
            policy.pod_security == Some(PodSecurity::Baseline),
            "podSecurity",
        ),
        (
            policy.service_accounts == Some(ServiceAccounts::Own),
            "serviceAccounts",
        ),
        (policy.external_ips == Some(false), "externalIps"),
        (policy.limits.is_some(), "limits"),
    ];
    rules
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, name)| name)
}

/// Whether the rule `kinds` allows a kind.
pub(crate) fn permits_kind(api_version: &str, kind: &str, policy: &VimPolicy) -> bool {
    let item = Item {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: String::new(),
        namespace: None,
        object: Value::Null,
        location: String::new(),
    };
    permit_kind(&item, false, policy).is_ok()
}

fn permit_amount(plan: &Plan, policy: &VimPolicy) -> Result<(), PortError> {
    let limits = policy.limits.clone().unwrap_or_default();
    let objects = all_items(plan).count() as u64;
    let pods = all_items(plan)
        .map(concurrent_pods)
        .fold(0, u64::saturating_add);
    for (name, limit, count) in [
        ("objects", limits.objects, objects),
        ("pods", limits.pods, pods),
    ] {
        if let Some(limit) = limit.filter(|limit| count > *limit) {
            let detail =
                format!("it has {count} {name}, and the rule `limits.{name}` allows {limit}");
            return Err(
                PortError::new(&POLICY, "create the VNF", detail).on(format!("limits.{name}"))
            );
        }
    }
    Ok(())
}

fn policy_error(item: &Item, detail: &str) -> PortError {
    let object = format!("{} `{}`", item.kind, item.name);
    PortError::new(
        &POLICY,
        format!("create {object} (`{}`)", item.location),
        detail,
    )
    .on(object)
}

/// The label of a namespace that we create by which the cluster itself enforces `policy`.
pub(crate) fn namespace_label(policy: &VimPolicy) -> Option<(&'static str, &'static str)> {
    (policy.pod_security == Some(PodSecurity::Baseline)).then_some((ENFORCE, "baseline"))
}

#[cfg(test)]
#[path = "object_policy_tests.rs"]
mod tests;
