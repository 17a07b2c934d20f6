//! What a change would do to each object: a server-side dry run, compared with the object that exists.
//!
//! ```text
//! object ─ exists? ─┬─ no ── create
//!                   └─ yes ─ dry run of our apply ─ what differs? ─┬─ nothing: keep
//!                                                                  └─ paths: update
//! pods   ─ those of a workload whose template changes, or to replace ─ replace; more or fewer replicas ─ create, delete
//! prune  ─ what the record has and the target has no more ─ delete, with its pods
//! ```
//! The dry run applies defaults, webhooks and validation like the change itself. Only paths are named: a Secret has values.

use crate::apply::{dry_run, find_ours, namespace_state, resolve_stages};
use crate::attach;
use crate::autoscaled;
use crate::catalog::{Catalog, Target};
use crate::client::Session;
use crate::delete::Handle;
use crate::difference::compared;
use crate::helm_account::permit;
use crate::inventory::inventory;
use crate::kept_namespace::snapshot_in;
use crate::labels;
use crate::manifests::Plan;
use crate::object::{find, find_metadata};
use crate::replicas::{has_replicas, replicas, vdu_of};
use crate::requested;
use crate::resolved::{NamespaceState, ResolvedObject};
use crate::storages::Scope;
use crate::virtual_machines::{INSTANCE, MACHINE, REPLICA_SET, machines};
use kube::api::DynamicObject;
use std::collections::BTreeSet;
use vnfm_core::ports::{
    Allocation, Convergence, PlannedResource, PortError, ResourceAction, ResourcePlan, VimCall,
};
use vnfm_descriptor::Flavour;
use vnfm_types::VnfcResourceInfo;

/// What a change would do to the objects of `plan`.
///
/// # Errors
///
/// The API server's error, as the change itself would get it.
pub(crate) async fn convergence(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    plan: &Plan,
    change: &Convergence<'_>,
) -> Result<ResourcePlan, PortError> {
    let catalog = Catalog::new(session, plan.items().map(|item| &item.object));
    let stages = resolve_stages(plan, &catalog).await?;
    let state = namespace_state(session, cx.ownership, &plan.namespace).await?;
    permit(session, plan, &stages, Some(state)).await?;
    attach::require(session, plan).await?;
    let before = serde_json::from_value::<Handle>(change.handle().clone()).unwrap_or_default();
    let own = Target::namespace(&plan.namespace);
    let flavour = requested::flavour(change.target);
    let mut planned = Planned {
        flavour: flavour.as_deref(),
        change,
        plan: ResourcePlan::default(),
    };
    let defines_own = stages.iter().flatten().any(|one| one.target == own);
    if state == NamespaceState::Absent && !defines_own {
        planned.add(row(&own, ResourceAction::Create));
    }
    if state == NamespaceState::Ours && !defines_own {
        planned.add(row(&own, ResourceAction::Keep));
    }
    let known: BTreeSet<&str> = before
        .objects
        .iter()
        .filter_map(|one| one.uid.as_deref())
        .collect();
    for resolved in stages.iter().flatten() {
        let target = &resolved.target;
        let is_new = state == NamespaceState::Absent
            && target.namespace.as_deref() == Some(plan.namespace.as_str());
        if *target == own && state == NamespaceState::Shared {
            continue;
        }
        let live = if is_new {
            None
        } else {
            existing(cx, session, target, &known).await?
        };
        let (action, because) = match live {
            None => (ResourceAction::Create, Vec::new()),
            Some(live) => {
                let restores = change.current.is_some();
                compared(&live, &dry_run(cx, session, resolved, restores).await?)
            }
        };
        planned.add(row(target, action).because(because.clone()));
        planned.pods(resolved, (action, &because));
        planned.plan.unknown.extend(autoscaled::notice(resolved));
    }
    let lacking = lacking(&plan.namespace, &stages, &before);
    planned.prune((cx, session), lacking).await?;
    if change.replace.with_storage && !change.replace.vnfcs.is_empty() {
        let what = "which claims only the replaced pods mount: they are replaced, too";
        planned.plan.unknown.push(what.to_owned());
    }
    Ok(planned.plan)
}

/// What the record has and the plan has no more, in the order of deletion.
fn lacking(
    namespace: &str,
    stages: &[Vec<ResolvedObject>],
    before: &Handle,
) -> impl Iterator<Item = Target> + use<> {
    let nowhere: Vec<Vec<_>> = stages.iter().map(|stage| vec![None; stage.len()]).collect();
    let kept = Handle::new(namespace, stages, &nowhere);
    kept.lacking(before).deletion_order().into_iter().flatten()
}

/// What a release would do: `stages` are the objects of the record.
///
/// # Errors
///
/// The API server's error.
pub(crate) async fn release(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, stages): (&str, &[Vec<Target>]),
    allocation: &Allocation,
) -> Result<ResourcePlan, PortError> {
    let own = Target::namespace(namespace);
    let mut scope = Scope::from_targets(stages.iter().flatten());
    scope.namespaces.insert(namespace.to_owned());
    let catalog = Catalog::new(session, std::iter::empty());
    let pods = inventory(cx, session, &catalog, allocation, &scope).await?;
    let mut rows = Vec::new();
    for target in stages.iter().flatten().filter(|target| **target != own) {
        if is_ours(cx, session, target).await? {
            rows.push(row(target, ResourceAction::Delete));
        }
    }
    let vnfcs = pods.vnfc_resource_info.iter();
    rows.extend(vnfcs.map(|vnfc| pod(vnfc, ResourceAction::Delete)));
    let mut plan = ResourcePlan::from_resources(rows);
    if is_ours(cx, session, &own).await? {
        if snapshot_in(cx, session, &own.name).await?.is_some() {
            plan.resources.push(row(&own, ResourceAction::Keep));
        } else if own.name == format!("vnf-{}", cx.ownership.instance_id) {
            plan.resources.push(row(&own, ResourceAction::Delete));
        } else {
            let what = format!("whether {own} stays: it does if another instance uses it");
            plan.unknown.push(what);
        }
    }
    Ok(plan)
}

/// The object, if it exists; refused if it is not ours.
async fn existing(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
    known: &BTreeSet<&str>,
) -> Result<Option<DynamicObject>, PortError> {
    let live = find(session, target).await?;
    let uid = live.as_ref().and_then(|one| one.metadata.uid.as_deref());
    if live.is_some() && !uid.is_some_and(|uid| known.contains(uid)) {
        find_ours(session, cx.ownership, target).await?;
    }
    Ok(live.filter(|one| one.metadata.deletion_timestamp.is_none()))
}

async fn is_ours(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
) -> Result<bool, PortError> {
    let found = find_metadata(session, target).await?;
    Ok(found.is_some_and(|metadata| labels::is_ours(&metadata, cx.ownership)))
}

fn row(target: &Target, action: ResourceAction) -> PlannedResource {
    let name = match &target.namespace {
        Some(namespace) => format!("{namespace}/{}", target.name),
        None => target.name.clone(),
    };
    PlannedResource::new(&*target.resource.kind, name, action)
}

fn pod(vnfc: &VnfcResourceInfo, action: ResourceAction) -> PlannedResource {
    let row = PlannedResource::new("Pod", &*vnfc.compute_resource.resource_id, action);
    row.of_vdu(&*vnfc.vdu_id, Some(vnfc.id.clone()))
}

/// A plan that is being made.
struct Planned<'a> {
    flavour: Option<&'a Flavour>,
    change: &'a Convergence<'a>,
    plan: ResourcePlan,
}

impl Planned<'_> {
    fn add(&mut self, row: PlannedResource) {
        self.plan.resources.push(row);
    }

    /// What happens to the pods of a workload, if they are VNFCs.
    fn pods(&mut self, resolved: &ResolvedObject, (action, because): (ResourceAction, &[String])) {
        let (kind, name) = (
            resolved.target.resource.kind.as_str(),
            &resolved.target.name,
        );
        let Some(flavour) = self.flavour else { return };
        let vdu = vdu_of(flavour, kind, name).map(|vdu| vdu.name.clone());
        let itself = flavour.vdus.is_empty().then(|| name.clone());
        let Some(vdu) = vdu.or(itself).filter(|_| runs_pods(kind)) else {
            return;
        };
        let current = self.change.current.into_iter();
        let vnfcs = current.flat_map(|recorded| &recorded.inventory.vnfc_resource_info);
        let vnfcs: Vec<_> = vnfcs.filter(|vnfc| vnfc.vdu_id == vdu).collect();
        let desired = match kind {
            "Pod" => 1,
            MACHINE | INSTANCE => {
                usize::try_from(machines(&resolved.item.object)).unwrap_or(usize::MAX)
            }
            kind if has_replicas(kind) => {
                usize::try_from(replicas(&resolved.item.object)).unwrap_or(usize::MAX)
            }
            _ if action == ResourceAction::Keep => vnfcs.len(),
            _ => {
                let what = format!("how many pods {kind} `{name}` has afterwards");
                return self.plan.unknown.push(what);
            }
        };
        let is_ordered = kind == "StatefulSet";
        if desired < vnfcs.len() && desired > 0 && !is_ordered {
            let (count, all) = (vnfcs.len() - desired, vnfcs.len());
            let what = format!("which {count} of the {all} pods of {kind} `{name}` go");
            return self.plan.unknown.push(what);
        }
        let template: Vec<String> = because
            .iter()
            .filter(|path| path.starts_with("spec.template") || matches!(kind, "Pod" | INSTANCE))
            .filter(|_| !matches!(kind, MACHINE | REPLICA_SET))
            .cloned()
            .collect();
        for (index, vnfc) in vnfcs.iter().enumerate() {
            let is_named = self.change.replace.vnfcs.contains(&vnfc.id);
            let (action, because) = if index >= desired {
                (ResourceAction::Delete, vec!["spec.replicas".to_owned()])
            } else if is_named {
                (ResourceAction::Replace, vec!["vnfcInstanceId".to_owned()])
            } else if !template.is_empty() {
                (ResourceAction::Replace, template.clone())
            } else {
                (ResourceAction::Keep, Vec::new())
            };
            self.add(pod(vnfc, action).because(because));
        }
        for _ in vnfcs.len()..desired {
            let row = PlannedResource::new("Pod", &**name, ResourceAction::Create);
            let row = row.of_vdu(&*vdu, None);
            self.add(row.because(vec!["spec.replicas".to_owned()]));
        }
    }

    /// Deletes what the target has no more, with its pods.
    async fn prune(
        &mut self,
        (cx, session): (&VimCall<'_>, &Session<'_>),
        lacking: impl Iterator<Item = Target>,
    ) -> Result<(), PortError> {
        let mut deleted = Vec::new();
        for target in lacking {
            if is_ours(cx, session, &target).await? {
                self.add(row(&target, ResourceAction::Delete));
                deleted.push(target);
            }
        }
        self.deleted_pods(&deleted);
        Ok(())
    }

    /// The VNFCs that nothing runs afterwards: those of deleted workloads, and of VDUs that the flavour does not have.
    fn deleted_pods(&mut self, deleted: &[Target]) {
        let Some(flavour) = self.flavour else { return };
        let runs = |target: &Target, vdu: &str| {
            let kind = target.resource.kind.as_str();
            let own = vdu_of(flavour, kind, &target.name).filter(|_| runs_pods(kind));
            own.is_some_and(|own| own.name == vdu)
        };
        let is_missing = |vdu: &str| !flavour.vdus.is_empty() && !flavour.vdus.contains_key(vdu);
        let current = self.change.current.into_iter();
        for vnfc in current.flat_map(|recorded| &recorded.inventory.vnfc_resource_info) {
            let vdu = vnfc.vdu_id.as_str();
            let mut listed = self
                .plan
                .resources
                .iter()
                .filter_map(|row| row.vnfc.as_ref());
            if listed.any(|id| *id == vnfc.id) {
                continue;
            }
            if is_missing(vdu) || deleted.iter().any(|target| runs(target, vdu)) {
                let because = vec![format!("vduInstances.{vdu}")];
                self.add(pod(vnfc, ResourceAction::Delete).because(because));
            }
        }
    }
}

/// Whether its pods can be VNFCs.
fn runs_pods(kind: &str) -> bool {
    has_replicas(kind)
        || matches!(
            kind,
            "Pod" | "DaemonSet" | "Job" | "CronJob" | MACHINE | INSTANCE
        )
}

#[cfg(test)]
mod tests {
    use super::{ResourceAction, compared};
    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    fn object(more: &Value, spec: &Value) -> DynamicObject {
        let mut metadata = json!({"name": "a", "labels": {"x": "y"}});
        let more = more.as_object().unwrap().clone();
        metadata.as_object_mut().unwrap().extend(more);
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "data": spec, "status": {"at": more_of(spec)}});
        serde_json::from_value(object).unwrap()
    }

    fn more_of(spec: &Value) -> usize {
        spec.to_string().len()
    }

    #[test]
    fn only_what_is_stated_is_compared_and_no_value_is_shown() {
        let live = object(
            &json!({"uid": "1", "resourceVersion": "1", "annotations": {"vnfm.dev/operation": "o1"}}),
            &json!({"password": "cGxhbnRlZA=="}),
        );
        let same = object(
            &json!({"uid": "2", "resourceVersion": "7", "annotations": {"vnfm.dev/operation": "o2"}}),
            &json!({"password": "cGxhbnRlZA=="}),
        );
        assert_eq!(compared(&live, &same), (ResourceAction::Keep, Vec::new()));
        let other = object(
            &json!({"annotations": {"vnfm.dev/operation": "o2"}}),
            &json!({"password": "b3RoZXI=", "new": ""}),
        );
        let paths = vec!["data.password".to_owned(), "data.new".to_owned()];
        assert_eq!(compared(&live, &other), (ResourceAction::Update, paths));
    }
}
