//! The connection to an existing cluster, and which node belongs to which server.
//!
//! They are matched by address, because servers of a group may share a name.

use crate::api::{Api, ClusterNode};
use crate::installer::{Installer, read_ca};
use crate::machine::Machine;
use crate::plan::{Node, Plan};
use vnfm_plugin_sdk::prelude::*;

/// Connects to the API server, and names the workers of `plan` as their nodes; `None` if no cluster was ever installed.
///
/// # Errors
///
/// If the control-plane node or the API server does not respond.
pub(crate) async fn connect<'a>(
    cx: &'a HookContext,
    plan: &mut Plan,
) -> Result<Option<Api<'a>>, DriverError> {
    let master = Machine::new(cx, plan, plan.first_control_plane());
    master.reach_known().await?;
    if !master.facts().await?.is("admin") {
        cx.warn(&format!(
            "`{}` has no cluster",
            plan.first_control_plane().name
        ));
        return Ok(None);
    }
    let ca = read_ca(&master).await?;
    let token = Secret::new(Installer::new(cx, plan).credentials(&master).await?);
    let api = Api {
        cx,
        url: plan.url(),
        ca,
        token,
        instance: plan.instance.clone(),
    };
    assign_names(plan, &api.nodes().await?);
    Ok(Some(api))
}

/// The node of a server.
pub(crate) fn find_node<'a>(server: &Node, nodes: &'a [ClusterNode]) -> Option<&'a ClusterNode> {
    let is_it = |node: &&ClusterNode| {
        node.has_address(&server.address) || node.has_address(&server.ssh.address)
    };
    nodes.iter().find(is_it)
}

/// Workers with a node get the node's name; the others get names that no node has.
fn assign_names(plan: &mut Plan, nodes: &[ClusterNode]) {
    for worker in &mut plan.workers {
        if let Some(node) = find_node(worker, nodes) {
            node.name().clone_into(&mut worker.name);
        } else if nodes.iter().any(|node| node.name() == worker.name) {
            worker.name = worker.unique_name();
        }
    }
}

/// The names of these nodes, for messages.
pub(crate) fn names<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let names = nodes.into_iter().map(|node| format!("`{}`", node.name));
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        "no node".to_owned()
    } else {
        names.join(", ")
    }
}
