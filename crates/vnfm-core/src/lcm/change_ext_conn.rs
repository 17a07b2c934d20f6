//! Change the external connectivity of a VNF (SOL003 5.4.11): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/change_ext_conn
//!    │  target: the links of the instance with those of the request, refused if the VIM cannot connect VNFCs to others;
//!    │  then one transaction: occurrence in STARTING, the instance's one active operation   202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! The request names what changes: ports and links that it does not name stay as they are. A VNFC keeps its id. A rollback
//! reconnects it as it was; a dynamic address may be another then.
//!
//! | step                               | state      | does                                             | undo             |
//! |------------------------------------|------------|--------------------------------------------------|------------------|
//! | grant                              | STARTING   | asks the NFVO, if there is one                   | —                |
//! | prepare                            | STARTING   | logs in, looks up networks and ports             | —                |
//! | change_external_connectivity_start | PROCESSING | vendor hook: learns the links before and after   | its undo, if any |
//! | adapt                              | PROCESSING | connects CPs to other links, ports or addresses  | reconnects them  |
//! | change_external_connectivity_end   | PROCESSING | vendor hook: configures the VNF                  | its undo, if any |
//! | register_vims                      | PROCESSING | updates the VIMs of the instance in the registry | unregisters new ones |

use super::operation::{
    Body, GrantDecides, GrantNeeds, GrantRule, Operation, Requested, Requires, Target,
};
use super::resize;
use super::retarget;
use super::step::{Output, Step};
use super::support::Support;
use super::{Op, grant_request};
use crate::deployment::Deployment;
use crate::json::to_json_or_log;
use crate::ports::{HookConnectivity, HookRequest, PortError};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_types::{
    ChangeExtVnfConnectivityRequest, ExtVirtualLinkData, LcmOperationType, ResourceType,
    VnfExtCpConfig,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ChangeExtConn,
    task: Some("change_ext_conn"),
    interface_operation: "change_external_connectivity",
    body: Body::new::<ChangeExtVnfConnectivityRequest>("ChangeExtVnfConnectivityRequest"),
    requires: Requires::Instantiated,
    support: Support::Vim(|driver| {
        let missing = !driver.changes_ext_connectivity();
        missing.then_some("do not connect VNFCs to external virtual links")
    }),
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: grant_needs,
        decides: GrantDecides::Parameters,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request,
    steps: STEPS,
    finish: retarget::finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    retarget::PREPARE,
    Step::hook(
        "change_external_connectivity_start",
        |op| Ok(op.inventory()),
    ),
    retarget::ADAPT,
    Step::hook("change_external_connectivity_end", retarget::inventory_now),
    resize::REGISTER_VIMS,
];

/// The instance with the links of the request.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ChangeExtVnfConnectivityRequest = requested.request()?;
    let mut target = requested.unchanged();
    let mut deployment = target.deployment.as_deref().cloned().unwrap_or_default();
    let bad = |what: String| Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what);
    if request.ext_virtual_links.is_empty() {
        return Err(bad("extVirtualLinks names no link".to_owned()));
    }
    retarget::check_same_vim(requested, &request.vim_connection_info).await?;
    let links = &mut deployment.ext_virtual_links;
    retarget::merge_links(links, &request.ext_virtual_links).map_err(bad)?;
    retarget::merge_layout(requested, &mut deployment, &request.additional_params);
    target.deployment = Some(retarget::check(requested, deployment).await?);
    Ok(target)
}

/// A configured CP: link, network, CPD, key and configuration.
type Bound<'a> = (&'a str, &'a str, &'a str, &'a str, &'a VnfExtCpConfig);

fn bound(links: &[ExtVirtualLinkData]) -> Vec<Bound<'_>> {
    let mut all = Vec::new();
    for link in links {
        for data in &link.ext_cps {
            for (key, config) in &data.cp_config {
                let Some(config) = config else { continue };
                let (cpd, network) = (data.cpd_id.as_str(), link.resource_id.as_str());
                all.push((link.id.as_str(), network, cpd, key.as_str(), config));
            }
        }
    }
    all
}

/// The CPDs whose connection changes.
fn changed_cpds(op: &Op) -> Result<BTreeSet<String>, PortError> {
    let (before, target) = (op.deployment_before()?, op.deployment()?);
    let (before, target) = (
        bound(&before.ext_virtual_links),
        bound(&target.ext_virtual_links),
    );
    let only_in = |one: &[Bound<'_>], other: &[Bound<'_>]| {
        let changed = one.iter().filter(|cp| !other.contains(cp));
        changed
            .map(|(_, _, cpd, ..)| (*cpd).to_owned())
            .collect::<BTreeSet<_>>()
    };
    Ok(&only_in(&before, &target) | &only_in(&target, &before))
}

/// The ports of changed CPs: those that exist are removed, and those that the VNFM creates instead are added.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let changed = changed_cpds(op)?;
    let target = op.deployment()?;
    let is_existing = |cpd: &str| {
        let configs = bound(&target.ext_virtual_links).into_iter();
        let mut of_cpd = configs.filter(|(_, _, of, ..)| *of == cpd);
        of_cpd.any(|(.., config)| config.link_port_id.is_some())
    };
    let flavour = op.flavour()?;
    let mut add_resources = grant_request::flavour_resources(flavour, target);
    add_resources.retain(|one| {
        let cpd = one.resource_template_id.as_str();
        one.type_ == ResourceType::Linkport && changed.contains(cpd) && !is_existing(cpd)
    });
    let all = op.inventory();
    let mut needs = grant_request::everything_removed(&all);
    needs.remove_resources.retain(|one| {
        one.type_ == ResourceType::Linkport && changed.contains(&one.resource_template_id)
    });
    let connects = |vdu: &str| {
        let cps = flavour.cps_of(vdu);
        cps.iter().any(|cp| changed.contains(&cp.name))
    };
    let vnfcs = all.vnfc_resource_info.iter();
    let vnfcs = vnfcs.filter(|vnfc| connects(&vnfc.vdu_id));
    Ok(GrantNeeds {
        add_resources,
        update_resources: vnfcs.map(grant_request::compute).collect(),
        ..needs
    })
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let links = |deployment: &Deployment| {
        let all = to_json_or_log("extVirtualLinks", &deployment.ext_virtual_links);
        match all {
            Some(Value::Array(links)) => links,
            _ => Vec::new(),
        }
    };
    let mut connectivity = HookConnectivity::default();
    connectivity.ext_virtual_links_before = links(op.deployment_before()?);
    connectivity.ext_virtual_links = links(op.deployment()?);
    connectivity.changed_cpds = changed_cpds(op)?.into_iter().collect();
    hook.change_external_connectivity = Some(connectivity);
    Ok(())
}
