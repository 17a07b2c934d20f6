//! Whether hosts that are to become nodes belong to another cluster.
//!
//! The runner writes the VNF instance to the disk of a host before the first step that makes it a node. A host that has parts of
//! a cluster without being this instance's is not touched: a reset would take a node, or a whole cluster, from somebody else.
//! Virtual machines are new; a bare host may not have been wiped, or may be listed in two inventories.

use crate::installer::{PARALLEL_HOSTS, first_failure};
use crate::machine::Machine;
use crate::plan::{Node, Plan};
use vnfm_plugin_sdk::prelude::*;

/// Refuses hosts with parts of a cluster that is not this instance's. The hosts respond.
///
/// # Errors
///
/// `other-cluster`, for the first such host.
pub(crate) async fn check<'a>(
    cx: &HookContext,
    plan: &Plan,
    nodes: impl Iterator<Item = &'a Node>,
) -> Result<(), DriverError> {
    let checks = nodes.map(|node| async move {
        let host = Machine::new(cx, plan, node);
        let facts = host.facts().await?;
        if !facts.has_parts_of_cluster() || facts.owner() == plan.instance {
            return Ok(());
        }
        let detail = "it is a node of another cluster, or was one: wipe the host, or give the VNF another one, then retry";
        Err(host.refusal("other-cluster", "preflight", detail))
    });
    first_failure(join_all_limited(PARALLEL_HOSTS, checks).await)
}
