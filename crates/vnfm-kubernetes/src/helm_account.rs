//! The account under which helm runs on a VIM with a policy, and for a role that is limited to namespaces.
//!
//! ```text
//! plan      ServiceAccount, Role, RoleBinding `vnfm-helm-<instance id>` in the VNF's namespace, before everything else
//! each run  TokenRequest ── a token as long as the run may take ── kubeconfig in memory
//! ```
//! So the API server itself limits hooks and `lookup`, which render only when helm runs, to the namespace and to the kinds
//! that the policies allow. Secrets are always among them: helm keeps its revisions there. If the policies allow
//! cluster-scoped objects, a `ClusterRole` allows those of the plan by name, and no others.
//!
//! A policy that names an account of the tenant (`impersonate`) has helm run as that one.

use crate::catalog::Catalog;
use crate::client::Session;
use crate::errors::{FORBIDDEN, POLICY};
use crate::identifiers::segment;
use crate::item::Item;
use crate::kinds::Kind;
use crate::manifests::Plan;
use crate::object_policy::{permit_resolved, permits_kind, unchecked_rules};
use crate::resolved::{NamespaceState, ResolvedObject};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vnfm_core::ports::{Backoff, Expired, PortError, VimCall};
use vnfm_types::{Secret, VimPolicy};

/// The position of its objects in a plan.
const LOCATION: &str = "helm's account";
const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// What helm does with objects.
const VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];
/// The shortest lifetime of a token that API servers accept, and how much longer than the run it lives, in seconds.
const MIN_LIFETIME: i64 = 600;
const SPARE_LIFETIME: i64 = 60;
/// The interval between looks whether the rights of the account apply.
const INTERVAL: Duration = Duration::from_millis(100);

/// A login for one run of helm.
pub(crate) struct HelmLogin {
    pub(crate) kubeconfig: Secret,
    /// Whether helm runs the chart's hooks with this login.
    pub(crate) hooks: bool,
}

/// The name of the account of an instance, and of its roles.
fn account_name(instance: &str) -> String {
    format!("vnfm-helm-{instance}")
}

/// The objects of the account, for a plan with charts; none if helm runs with another login.
///
/// # Errors
///
/// The kinds that the cluster serves could not be read.
pub(crate) async fn objects(
    session: &Session<'_>,
    plan: &Plan,
    instance: &str,
) -> Result<Vec<Item>, PortError> {
    if plan.charts.is_empty() || !session.confines_helm() {
        return Ok(Vec::new());
    }
    let catalog = Catalog::new(session, plan.items().map(|item| &item.object));
    let policies: Vec<&VimPolicy> = session.policies().collect();
    let rules = namespaced_rules(&catalog.all().await?, &policies);
    let (name, place) = (account_name(instance), plan.namespace.as_str());
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": place}]);
    let role = |kind: &str| json!({"apiGroup": RBAC, "kind": kind, "name": name});
    let mut objects = vec![
        item(("v1", "ServiceAccount", &name), Some(place), json!({})),
        item(
            (RBAC_VERSION, "Role", &name),
            Some(place),
            json!({"rules": rules}),
        ),
        item(
            (RBAC_VERSION, "RoleBinding", &name),
            Some(place),
            json!({"roleRef": role("Role"), "subjects": subjects}),
        ),
    ];
    let outside = cluster_rules(&catalog, plan).await?;
    if !outside.is_empty() {
        let (rules, bound) = (
            json!({"rules": outside}),
            json!({"roleRef": role("ClusterRole"), "subjects": subjects}),
        );
        objects.push(item((RBAC_VERSION, "ClusterRole", &name), None, rules));
        objects.push(item(
            (RBAC_VERSION, "ClusterRoleBinding", &name),
            None,
            bound,
        ));
    }
    Ok(objects)
}

fn item(
    (api_version, kind, name): (&str, &str, &str),
    namespace: Option<&str>,
    members: Value,
) -> Item {
    let mut object = members;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    Item {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        object,
        location: LOCATION.to_owned(),
    }
}

/// The rules for the namespaced kinds that all policies allow, and for Secrets.
fn namespaced_rules(served: &[Kind], policies: &[&VimPolicy]) -> Vec<Value> {
    let is_permitted = |kind: &&Kind| {
        let (version, name) = (&kind.resource.api_version, &kind.resource.kind);
        let mut policies = policies.iter();
        kind.namespaced && policies.all(|policy| permits_kind(version, name, policy))
    };
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    groups.entry("").or_default().insert("secrets");
    for kind in served.iter().filter(is_permitted) {
        let plurals = groups.entry(&kind.resource.group).or_default();
        plurals.insert(&kind.resource.plural);
    }
    let rule = |(group, plurals): (&str, BTreeSet<&str>)| json!({"apiGroups": [group], "resources": plurals, "verbs": VERBS});
    groups.into_iter().map(rule).collect()
}

/// The rules for the cluster-scoped objects that charts render. Only names can be limited, and not when they are created.
async fn cluster_rules(catalog: &Catalog<'_>, plan: &Plan) -> Result<Vec<Value>, PortError> {
    let mut named: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let is_of_chart = |item: &&Item| {
        let mut charts = plan.charts.iter();
        charts.any(|chart| chart.renders(item, &plan.namespace))
    };
    for item in plan.items().filter(is_of_chart) {
        let kind = catalog.find(&item.api_version, &item.kind).await?;
        if let Some(kind) = kind.filter(|kind| !kind.namespaced) {
            let key = (kind.resource.group, kind.resource.plural);
            named.entry(key).or_default().insert(&item.name);
        }
    }
    let rules = named.into_iter().flat_map(|((group, plural), names)| {
        let (groups, plurals) = (json!([group]), json!([plural]));
        let verbs = ["get", "update", "patch", "delete"];
        [
            json!({"apiGroups": groups, "resources": plurals, "resourceNames": names, "verbs": verbs}),
            json!({"apiGroups": groups, "resources": plurals, "verbs": ["create"]}),
        ]
    });
    Ok(rules.collect())
}

/// Checks a plan against all policies, with the hooks of its charts.
///
/// # Errors
///
/// `Refused`, naming object and rule.
pub(crate) async fn permit(
    session: &Session<'_>,
    plan: &Plan,
    stages: &[Vec<ResolvedObject>],
    state: Option<NamespaceState>,
) -> Result<(), PortError> {
    // What a role may create was checked when it requested it, except for charts, which are rendered only now.
    let applicable = if plan.charts.is_empty() {
        1
    } else {
        usize::MAX
    };
    for policy in session.policies().take(applicable) {
        permit_resolved(plan, stages, policy, state)?;
    }
    permit_hooks(session, plan).await
}

/// Refuses hooks that neither we nor the API server would check.
///
/// # Errors
///
/// `Refused`, naming the rule; or helm cannot be used.
async fn permit_hooks(session: &Session<'_>, plan: &Plan) -> Result<(), PortError> {
    let hook = plan.charts.iter().find_map(|chart| chart.hooks.first());
    let (Some(hook), true) = (hook, session.confines_helm()) else {
        return Ok(());
    };
    let unchecked = unchecked_by_helm(session).await?;
    if unchecked.is_empty() {
        return Ok(());
    }
    let rules: Vec<String> = unchecked.iter().map(|rule| format!("`{rule}`")).collect();
    let detail = format!(
        "it is a hook of a chart, which Helm 3 creates without a check of {}",
        rules.join(", ")
    );
    let (kind, name) = (&hook.kind, &hook.name);
    let action = format!("create {kind} `{name}` (`{}`)", hook.location);
    Err(PortError::new(&POLICY, action, detail)
        .on(format!("{kind} `{name}`"))
        .hint("have the operator configure a Helm 4, which passes hooks through the same check as other objects"))
}

/// The rules that nobody checks for hooks as they are created.
async fn unchecked_by_helm(session: &Session<'_>) -> Result<BTreeSet<&'static str>, PortError> {
    let version = session.helm()?.version().await;
    let passes = version.is_ok_and(|version| version.renders_hooks());
    let rules = session.policies().flat_map(unchecked_rules);
    Ok(rules.filter(|_| !passes).collect())
}

/// Checks that the VIM's login may give helm an account.
///
/// # Errors
///
/// `Refused`, naming the right that is missing.
pub(crate) async fn check_rights(session: &Session<'_>, plan: &Plan) -> Result<(), PortError> {
    if plan.account.is_empty() {
        return Ok(());
    }
    let needed = [
        ("", "serviceaccounts", ""),
        ("", "serviceaccounts", "token"),
        (RBAC, "roles", ""),
        (RBAC, "rolebindings", ""),
    ];
    for (group, resource, subresource) in needed {
        let requested = (group, resource, subresource);
        let review = review(&plan.namespace, requested);
        let review = &review;
        let action = "give helm an account of its own";
        let allowed = session
            .call(
                action,
                |client| async move { is_allowed(&client, review).await },
            )
            .await?;
        if !allowed {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let dot = if group.is_empty() { "" } else { "." };
            let detail = format!(
                "the VIM's login may not create `{resource}{slash}{subresource}{dot}{group}` in namespace `{}`; on this VIM, helm runs under an account that has rights in the VNF's namespace only",
                plan.namespace
            );
            return Err(PortError::new(&FORBIDDEN, action, detail)
                .on(session.vim().to_owned())
                .hint("grant the VIM's login that right, or name an account of the tenant in `policy.impersonate`"));
        }
    }
    Ok(())
}

fn review(
    namespace: &str,
    (group, resource, subresource): (&str, &str, &str),
) -> SelfSubjectAccessReview {
    let text = |text: &str| Some(text.to_owned());
    let attributes = ResourceAttributes {
        namespace: text(namespace),
        verb: text("create"),
        group: text(group),
        resource: text(resource),
        subresource: text(subresource).filter(|text| !text.is_empty()),
        ..ResourceAttributes::default()
    };
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

async fn is_allowed(client: &Client, review: &SelfSubjectAccessReview) -> kube::Result<bool> {
    let all: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let reviewed = all.create(&PostParams::default(), review).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}

/// A login for a run of helm in `namespace`; `None`: the account does not exist.
///
/// # Errors
///
/// No token could be created, or its rights do not apply until the deadline.
pub(crate) async fn login(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<Option<HelmLogin>, PortError> {
    if !session.confines_helm() {
        return own_login(session).await.map(Some);
    }
    let Some(token) = token(cx, session, namespace).await? else {
        return Ok(None);
    };
    wait_for_rights(cx, session, (namespace, &token)).await?;
    Ok(Some(HelmLogin {
        kubeconfig: session.kubeconfig(Some(token)).await?,
        hooks: unchecked_by_helm(session).await?.is_empty(),
    }))
}

/// The VIM's own login, or the tenant's account; with hooks only if no policy limits them.
///
/// # Errors
///
/// The connection cannot be read.
pub(crate) async fn own_login(session: &Session<'_>) -> Result<HelmLogin, PortError> {
    Ok(HelmLogin {
        kubeconfig: session.kubeconfig(None).await?,
        hooks: session.policies().all(VimPolicy::is_open),
    })
}

/// The error for a missing account.
pub(crate) fn missing(cx: &VimCall<'_>, namespace: &str) -> PortError {
    let name = account_name(&cx.ownership.instance_id);
    let object = format!("ServiceAccount `{name}` in namespace `{namespace}`");
    let detail = format!("{object} does not exist: somebody deleted it");
    PortError::new(&FORBIDDEN, "log in for helm", detail)
        .on(object)
        .hint("retry the operation, which creates it again")
}

async fn token(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
) -> Result<Option<Secret>, PortError> {
    let name = &segment(&account_name(&cx.ownership.instance_id));
    let left = cx.deadline.duration_since(cx.clock.now()).as_secs();
    let spec = TokenRequestSpec {
        expiration_seconds: Some((left + SPARE_LIFETIME).max(MIN_LIFETIME)),
        ..TokenRequestSpec::default()
    };
    let request = &TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let created = session
        .find("create a token for helm", |client| async move {
            let accounts: Api<ServiceAccount> = Api::namespaced(client, &segment(namespace));
            let params = PostParams::default();
            accounts.create_token_request(name, &params, request).await
        })
        .await?;
    let status = created.and_then(|created| created.status);
    Ok(status.and_then(|status| status.token).map(Secret::new))
}

/// Authorizers learn of new roles a little later than clients do.
async fn wait_for_rights(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, token): (&str, &Secret),
) -> Result<(), PortError> {
    let client = session.client_with(token).await?;
    let (action, review) = (
        "check the rights of helm's account",
        review(namespace, ("", "secrets", "")),
    );
    let mut backoff = Backoff::for_call(cx, INTERVAL);
    loop {
        let allowed = is_allowed(&client, &review).await;
        if allowed.map_err(|error| session.port_error(action, &error))? {
            return Ok(());
        }
        if let Err(Expired) = backoff.pause("the rights of helm's account to apply").await {
            let detail = "they do not apply; is there an authorizer other than RBAC?";
            return Err(PortError::new(&FORBIDDEN, action, detail).on(session.vim().to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::core;
    use crate::kinds::kind_for_test;

    #[test]
    fn the_role_allows_what_all_policies_allow_and_secrets() {
        let borrower = VimPolicy::for_borrowers();
        let no_jobs: VimPolicy =
            serde_json::from_value(json!({"kinds": {"deny": ["Pod", "Secret"]}})).unwrap();
        let served = [
            kind_for_test(core("Pod", "pods"), true),
            kind_for_test(core("ConfigMap", "configmaps"), true),
            kind_for_test(core("Node", "nodes"), false),
            kind_for_test(core("Endpoints", "endpoints"), true),
        ];
        let resources =
            |policies: &[&VimPolicy]| namespaced_rules(&served, policies)[0]["resources"].clone();
        assert_eq!(
            resources(&[&borrower]),
            json!(["configmaps", "pods", "secrets"])
        );
        assert_eq!(
            resources(&[&borrower, &no_jobs]),
            json!(["configmaps", "secrets"])
        );
        let open = json!(["configmaps", "endpoints", "pods", "secrets"]);
        assert_eq!(resources(&[&VimPolicy::OPEN]), open);
    }
}
