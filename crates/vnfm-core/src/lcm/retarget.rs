//! The work that changes to another deployment share ([`change_flavour`](super::change_flavour),
//! [`change_ext_conn`](super::change_ext_conn), [`change_vnfpkg`](super::change_vnfpkg)): the driver makes the resources
//! match the target, or again what was before.
//!
//! ```text
//! no VNFC goes ──► adapt: in place, can be undone          VNFCs go ──► replace: what they stored is lost, so it cannot
//! ```

use super::changes::{self, inventory};
use super::instantiate::Prepared;
use super::op_context::JOURNAL;
use super::operation::{Completion, Requested};
use super::step::{Output, Step, StepOutput, journaled};
use super::{Op, outcome};
use crate::deployment::Deployment;
use crate::patch::merge_patch;
use crate::ports::Vim as _;
use crate::ports::{
    Allocation, Convergence, Inventory, PortError, ROLLING_PARAM, Recorded, Rolling,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::{
    ExtVirtualLinkData, KeyValuePairs, LcmOperationState, VimConnectionInfo, VimPolicy,
    VnfExtCpData,
};

/// Logs in, and looks up what the target needs.
pub(super) const PREPARE: Step = Step::new("prepare", Starting, |op| journaled(prepare(op)));

/// Changes resources in place; a rollback changes them back.
pub(super) const ADAPT: Step = Step::new("adapt", Processing, |op| {
    journaled(async { change(op).await.map(Adapted) })
})
.undone_by(|op| journaled(undo(op)))
.observed_by(|op| journaled(async { observe(op).await.map(Adapted) }));

/// Changes resources, of which some are lost.
pub(super) const REPLACE: Step = Step::new("replace", Processing, |op| {
    journaled(async { change(op).await.map(Replaced) })
})
.irreversible()
.observed_by(|op| journaled(async { observe(op).await.map(Replaced) }));

/// The instance after a change in place.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Adapted(pub Recorded);

impl StepOutput for Adapted {
    const STEP: &'static str = "adapt";
}

/// The instance after a change that replaced resources.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Replaced(pub Recorded);

impl StepOutput for Replaced {
    const STEP: &'static str = "replace";
}

/// Checks a target as an instantiation of it would be: links, CPs, size, policy of the VIM.
pub(super) async fn check(
    requested: &Requested<'_>,
    deployment: Deployment,
) -> Result<Arc<Deployment>, Refusal> {
    let package = requested.package().await;
    let package = package.map_err(Refusal::unprocessable)?;
    check_in(requested, deployment, &package, None).await
}

/// As [`check`], for a target in this package; refuses batches that the driver cannot form.
pub(super) async fn check_in(
    requested: &Requested<'_>,
    mut deployment: Deployment,
    package: &Arc<Package>,
    rolling: Option<Rolling>,
) -> Result<Arc<Deployment>, Refusal> {
    let context = requested.context;
    let namespaces = &requested.scope.namespaces;
    let is_other = deployment.leaves_package(&requested.instance.vnf_pkg_id);
    if is_other {
        deployment.role_namespaces.clone_from(namespaces);
    }
    let allocation = Allocation {
        package: package.clone(),
        deployment: Arc::new(deployment),
        instance_name: requested.instance.vnf.vnf_instance_name.clone(),
        awaits_grant: context.ports.nfvo.is_some(),
        budget: context.limits().plan,
    };
    super::check_budget(&allocation).map_err(Refusal::unprocessable)?;
    let connections = &allocation.deployment.vim_connection_info;
    let (vim, driver) = vims::of_connections(context, requested.tenant(), connections).await?;
    let checked = driver.validate_request(&allocation);
    checked.map_err(Refusal::unprocessable)?;
    let permitted = driver.permit(&allocation, vim.policy());
    permitted.map_err(Refusal::unprocessable)?;
    if !namespaces.is_empty() {
        // Another package or network must not lead a caller out of its namespaces, no more than an instantiation.
        let before = requested.instance.deployment.as_deref();
        let links = &allocation.deployment.ext_virtual_links;
        let limit = if is_other {
            VimPolicy::for_namespaces(namespaces)
        } else if before.is_some_and(|before| before.ext_virtual_links != *links) {
            VimPolicy {
                namespaces: VimPolicy::for_namespaces(namespaces).namespaces,
                ..VimPolicy::OPEN
            }
        } else {
            VimPolicy::OPEN
        };
        let permitted = driver.permit(&allocation, &limit);
        permitted.map_err(Refusal::unprocessable)?;
    }
    if rolling.is_some() && !driver.rolls(&allocation) {
        let what = format!(
            "additionalParams.{ROLLING_PARAM}: the package, or the VIM `{}`, determines in which order VNFCs change",
            vim.name()
        );
        return Err(Refusal::new(
            Why::Unprocessable,
            &refusal::BAD_PARAMETERS,
            what,
        ));
    }
    Ok(allocation.deployment)
}

/// Refuses connections of a request that name another VIM than that of the instance: a VNF does not move.
pub(super) async fn check_same_vim(
    requested: &Requested<'_>,
    given: &BTreeMap<String, Box<VimConnectionInfo>>,
) -> Result<(), Refusal> {
    let Some(deployment) = requested
        .instance
        .deployment
        .as_deref()
        .filter(|_| !given.is_empty())
    else {
        return Ok(());
    };
    let (context, tenant) = (requested.context, requested.tenant());
    let own = &deployment.vim_connection_info;
    if vims::repeats(own, given) {
        return Ok(());
    }
    let (own, _) = vims::of_connections(context, tenant, own).await?;
    let (other, _) = vims::of_connections(context, tenant, given).await?;
    if other.registered_id().is_some() && other.registered_id() == own.registered_id() {
        return Ok(());
    }
    let what = "vimConnectionInfo names another VIM than that of the instance, which stays there";
    Err(Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what))
}

/// The parameter with the values of a Base HOT for Tacker, by VDU, VNFC and CP.
const LAYOUT: &str = "nfv";

/// Merges `additionalParams.nfv` of a request into that of the instance: VNFCs that come or change get their values from it,
/// and later operations keep them.
pub(super) fn merge_layout(
    requested: &Requested<'_>,
    deployment: &mut Deployment,
    params: &KeyValuePairs,
) {
    let Some(layout) = params.get(LAYOUT) else {
        return;
    };
    let patch = KeyValuePairs::from_iter([(LAYOUT.to_owned(), layout.clone())]);
    merge_patch(&mut deployment.additional_params, Some(&patch));
    requested
        .op_id
        .clone_into(&mut deployment.params_changed_by);
}

/// Merges the links of a request into those of an instance (SOL003 4.4.1.10, 4.4.1.11): a configuration replaces the one of
/// the same CP and key on whichever link, a null removes it; a CP without configurations moves as a whole. What is not named
/// stays.
///
/// # Errors
///
/// A null for a configuration that the link does not have; a link that the instance does not have, without CPs.
pub(super) fn merge_links(
    links: &mut Vec<ExtVirtualLinkData>,
    changes: &[ExtVirtualLinkData],
) -> Result<(), String> {
    for change in changes {
        for data in &change.ext_cps {
            for link in links.iter_mut() {
                let is_whole =
                    |known: &VnfExtCpData| known.cp_config.is_empty() || data.cp_config.is_empty();
                link.ext_cps
                    .retain(|known| known.cpd_id != data.cpd_id || !is_whole(known));
            }
            for (key, config) in &data.cp_config {
                let from_all = config.is_some();
                let mut was_there = false;
                for link in links
                    .iter_mut()
                    .filter(|link| from_all || link.id == change.id)
                {
                    was_there |= remove_config(link, &data.cpd_id, key);
                }
                if !from_all && !was_there {
                    let (cpd, link) = (&data.cpd_id, &change.id);
                    return Err(format!(
                        "extVirtualLinks `{link}` has no cpConfig `{key}` of `{cpd}` to remove"
                    ));
                }
            }
        }
        let at = links.iter().position(|link| link.id == change.id);
        if at.is_none() && change.ext_cps.is_empty() {
            let link = &change.id;
            return Err(format!(
                "extVirtualLinks `{link}` is not a link of the instance, and names no connection point to connect to it"
            ));
        }
        let at = at.unwrap_or_else(|| {
            links.push(ExtVirtualLinkData {
                ext_cps: Vec::new(),
                ..change.clone()
            });
            links.len() - 1
        });
        merge_link(&mut links[at], change);
    }
    links.retain(|link| !link.ext_cps.is_empty());
    Ok(())
}

fn remove_config(link: &mut ExtVirtualLinkData, cpd: &str, key: &str) -> bool {
    let mut removed = false;
    link.ext_cps.retain_mut(|data| {
        let was_there = data.cpd_id == cpd && data.cp_config.remove(key).is_some();
        removed |= was_there;
        !(was_there && data.cp_config.is_empty())
    });
    removed
}

fn merge_link(link: &mut ExtVirtualLinkData, change: &ExtVirtualLinkData) {
    link.resource_id.clone_from(&change.resource_id);
    for port in &change.ext_link_ports {
        link.ext_link_ports.retain(|known| known.id != port.id);
        link.ext_link_ports.push(port.clone());
    }
    for data in &change.ext_cps {
        let only_removes = data.cp_config.values().all(Option::is_none);
        if only_removes && !data.cp_config.is_empty() {
            continue;
        }
        let configs = data.cp_config.iter().filter(|(_, config)| config.is_some());
        let configs = configs.map(|(key, config)| (key.clone(), config.clone()));
        let known = link
            .ext_cps
            .iter_mut()
            .find(|known| known.cpd_id == data.cpd_id);
        match known {
            Some(known) => known.cp_config.extend(configs),
            None => link.ext_cps.push(VnfExtCpData {
                cpd_id: data.cpd_id.clone(),
                cp_config: configs.collect(),
            }),
        }
    }
}

fn allocation_before(op: &Op) -> Result<Allocation, PortError> {
    Ok(Allocation {
        deployment: op.deployment_before()?.clone(),
        package: op.package_before()?.clone(),
        ..op.allocation()?
    })
}

async fn prepare(op: &Op) -> Output<Prepared> {
    let (vim, driver) = op.vim().await?;
    let (current, target) = (outcome::recorded(&op.instance), op.allocation_to_make()?);
    let other = allocation_before(op)?;
    let change = Convergence::update(&current, &target).coming_from(&other);
    driver.preview(&op.call(&vim), &change).await.map(Prepared)
}

/// From the record to the target.
async fn change(op: &Op) -> Output<Recorded> {
    let (target, other) = (op.allocation()?, allocation_before(op)?);
    let prepared = op.output::<Prepared>()?.map(|found| found.0);
    converge(op, (&target, &other), &prepared.unwrap_or(Value::Null)).await
}

/// From whatever was reached to the deployment before.
async fn undo(op: &Op) -> Output<Adapted> {
    let (target, other) = (allocation_before(op)?, op.allocation()?);
    let undone = converge(op, (&target, &other), &Value::Null).await;
    undone.map(Adapted)
}

async fn converge(
    op: &Op,
    (target, other): (&Allocation, &Allocation),
    preview: &Value,
) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    let current = outcome::recorded(&op.instance);
    let change = Convergence::update(&current, target).coming_from(other);
    let change = change.rolling(rolling(op)?);
    driver.converge(&op.call(&vim), &change, preview).await
}

/// The batches in which VNFCs change to another package.
fn rolling(op: &Op) -> Result<Option<Rolling>, PortError> {
    if !op.changes_package() {
        return Ok(None);
    }
    let request: Value = op.request()?;
    let requested = Rolling::requested(request["additionalParams"].as_object());
    let requested = requested.map_err(|what| PortError::new(&JOURNAL, "read the request", what))?;
    Ok(Some(requested.unwrap_or_default()))
}

/// What exists after a failed step.
async fn observe(op: &Op) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    let target = op.allocation()?;
    let (cx, handle) = (op.call(&vim), &op.instance.handle);
    let mut found = driver.observe(&cx, &target, handle).await?;
    if op.changes_package() {
        // A VNFC that is not changed yet may be of a VDU that the new package does not have.
        let old = driver.observe(&cx, &allocation_before(op)?, handle).await?;
        let now = &mut found.inventory.vnfc_resource_info;
        let mut more = old.inventory.vnfc_resource_info;
        more.retain(|vnfc| now.iter().all(|known| known.id != vnfc.id));
        now.append(&mut more);
    }
    Ok(found)
}

/// The instance after the step that changed it, or that failed to.
fn changed(op: &Op) -> Output<Option<Recorded>> {
    let replaced = op.output::<Replaced>()?.map(|replaced| replaced.0);
    let adapted = op.output::<Adapted>()?.map(|adapted| adapted.0);
    Ok(replaced.or(adapted))
}

/// The resources before the hooks at the end, or all that the operation has left so far.
pub(super) fn inventory_now(op: &Op) -> Output<Inventory> {
    Ok(changed(op)?.map_or_else(|| op.inventory(), |now| now.inventory))
}

/// The deployment in which the operation ends, with what the driver found for it.
fn reached(op: &Op, now: &Recorded) -> Result<Deployment, PortError> {
    let mut deployment = Deployment::clone(op.deployment()?);
    let prepared = op.output::<Prepared>()?.map(|found| found.0);
    deployment.resolved = match &now.resolved {
        Value::Null => prepared.unwrap_or_default(),
        resolved => resolved.clone(),
    };
    Ok(deployment)
}

/// The instance with its new resources and deployment. One that failed has the target if the change was made or can no
/// longer be undone, and else the deployment before.
pub(super) fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let Some(now) = changed(op)? else {
        let restored = op.undo_output::<Adapted>()?;
        return outcome::restored(op, restored.map(|adapted| adapted.0));
    };
    let first = inventory(&op.instance);
    let mut completion = Completion {
        resource_changes: Some(changes::with_modified(&first, &now.inventory)),
        changed_ext_connectivity: changes::ext_connectivity(&first, &now.inventory),
        ..Completion::default()
    };
    let is_made = op.is_done(ADAPT.name) || op.has_begun(REPLACE.name);
    let deployment = match state {
        Completed => reached(op, &now)?,
        Failed if is_made => reached(op, &now)?,
        Failed => Deployment::clone(op.deployment_before()?),
        FailedTemp => return Ok(completion),
        _ => return Ok(Completion::default()),
    };
    completion.instance = Some(outcome::with_deployment(op, now, &deployment)?);
    Ok(completion)
}

#[cfg(test)]
mod tests {
    use super::merge_links;
    use serde_json::{Value, json};
    use vnfm_types::ExtVirtualLinkData;

    fn links(links: Value) -> Vec<ExtVirtualLinkData> {
        serde_json::from_value(links).unwrap()
    }

    fn link(id: &str, network: &str, cps: impl Into<Value>) -> Value {
        let cps = cps.into();
        let cps: Vec<Value> = cps
            .as_object()
            .unwrap()
            .iter()
            .map(|(cpd, config)| json!({"cpdId": cpd, "cpConfig": config}))
            .collect();
        json!({"id": id, "resourceId": network, "extCps": cps})
    }

    #[test]
    fn a_change_of_links_changes_what_it_names_and_nothing_else() {
        let first = || {
            links(json!([
                link("a", "net-a", json!({"x": {"1": {}}, "y": {"1": {}}})),
                link("b", "net-b", json!({"z": {"1": {}}})),
            ]))
        };
        let port = json!({"linkPortId": "p"});
        for (change, expected) in [
            // Another network for the same link, with the same CPs.
            (
                json!([link("a", "net-c", json!({}))]),
                json!([
                    link("a", "net-c", json!({"x": {"1": {}}, "y": {"1": {}}})),
                    link("b", "net-b", json!({"z": {"1": {}}})),
                ]),
            ),
            // A CP moves to another link, and to a new one.
            (
                json!([link("b", "net-b", json!({"x": {"1": {}}}))]),
                json!([
                    link("a", "net-a", json!({"y": {"1": {}}})),
                    link("b", "net-b", json!({"z": {"1": {}}, "x": {"1": {}}})),
                ]),
            ),
            (
                json!([link("c", "net-c", json!({"z": {"1": {}}}))]),
                json!([
                    link("a", "net-a", json!({"x": {"1": {}}, "y": {"1": {}}})),
                    link("c", "net-c", json!({"z": {"1": {}}})),
                ]),
            ),
            // Another configuration, one more, and one less.
            (
                json!([link(
                    "a",
                    "net-a",
                    json!({"x": {"1": port, "2": {}}, "y": {"1": null}})
                )]),
                json!([
                    link("a", "net-a", json!({"x": {"1": port, "2": {}}})),
                    link("b", "net-b", json!({"z": {"1": {}}})),
                ]),
            ),
            // A CP moves as a whole.
            (
                json!([link("b", "net-b", json!({"x": {}}))]),
                json!([
                    link("a", "net-a", json!({"y": {"1": {}}})),
                    link("b", "net-b", json!({"z": {"1": {}}, "x": {}})),
                ]),
            ),
        ] {
            let (mut merged, change) = (first(), links(change));
            merge_links(&mut merged, &change).unwrap();
            let names = |mut all: Vec<ExtVirtualLinkData>| {
                for link in &mut all {
                    link.ext_cps.sort_by(|a, b| a.cpd_id.cmp(&b.cpd_id));
                }
                all
            };
            assert_eq!(names(merged), names(links(expected)), "{change:?}");
        }
    }

    #[test]
    fn links_and_configurations_that_do_not_exist_are_refused() {
        let first = || links(json!([link("b", "net-b", json!({"z": {"1": {}}}))]));
        let unknown = links(json!([link("b", "net-b", json!({"x": {"1": null}}))]));
        let error = merge_links(&mut first(), &unknown).unwrap_err();
        assert!(error.contains("`b` has no cpConfig `1` of `x`"), "{error}");
        let without_cps = links(json!([link("d", "net-d", json!({}))]));
        let error = merge_links(&mut first(), &without_cps).unwrap_err();
        assert!(
            error.contains("`d` is not a link of the instance"),
            "{error}"
        );
    }

    #[test]
    fn a_cp_without_configurations_stays_if_another_one_moves() {
        let mut unconfigured = links(json!([link("a", "net-a", json!({"x": {}, "y": {}}))]));
        let change = links(json!([link("b", "net-b", json!({"x": {"1": {}}}))]));
        merge_links(&mut unconfigured, &change).unwrap();
        let expected = json!([
            link("a", "net-a", json!({"y": {}})),
            link("b", "net-b", json!({"x": {"1": {}}})),
        ]);
        assert_eq!(
            unconfigured,
            links(expected),
            "a CP without configurations stays"
        );
    }
}
