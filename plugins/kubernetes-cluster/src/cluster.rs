//! The connection to an existing cluster, and which node belongs to which server.
//!
//! They are matched by address, because servers of a group may share a name.

use crate::api::{Api, ClusterNode};
use crate::installer::{Installer, read_ca};
use crate::machine::Machine;
use crate::members;
use crate::plan::{Node, Plan};
use futures::future::join_all;
use vnfm_plugin_sdk::prelude::*;

/// Connects to the API server, and names the nodes of `plan` as the cluster does; `None` if no cluster was ever installed.
///
/// # Errors
///
/// If no control-plane node or the API server responds.
pub(crate) async fn connect<'a>(
    cx: &'a HookContext,
    plan: &mut Plan,
) -> Result<Option<Api<'a>>, DriverError> {
    connect_apart_from(cx, plan, &[]).await
}

/// Like [`connect`], while these VNFCs join or leave the cluster: commands do not run on them, and they may be off.
///
/// # Errors
///
/// `quorum-lost` if so few control-plane nodes respond that the API server cannot.
pub(crate) async fn connect_apart_from<'a>(
    cx: &'a HookContext,
    plan: &mut Plan,
    apart: &[Vnfc],
) -> Result<Option<Api<'a>>, DriverError> {
    let Some(index) = find_control_plane(cx, plan, apart).await? else {
        let names = names(&plan.control_planes);
        cx.warn(&format!("there is no cluster on {names}"));
        return Ok(None);
    };
    plan.set_responding(index);
    let master = Machine::new(cx, plan, plan.responding_control_plane());
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

/// The index of the first control-plane node that responds and has a cluster.
async fn find_control_plane(
    cx: &HookContext,
    plan: &Plan,
    apart: &[Vnfc],
) -> Result<Option<usize>, DriverError> {
    let hosts: Vec<_> = plan
        .control_planes
        .iter()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let [_, _, ..] = hosts.as_slice() else {
        for host in &hosts {
            host.reach_known().await?;
            if host.facts().await?.has_control_plane() {
                return Ok(Some(0));
            }
        }
        return Ok(None);
    };
    let is_apart = |host: &&Machine<'_>| apart.iter().any(|vnfc| vnfc.id == host.node.vnfc);
    let (leaving, staying): (Vec<_>, Vec<_>) = hosts.iter().partition(is_apart);
    let mut seen = control_planes(&staying).await?;
    let found = seen.working.first().copied();
    if !members::is_quorum(seen.working.len(), hosts.len()) {
        // They count as long as they work. They are asked only now, because a host that is off takes its time.
        seen.working.extend(control_planes(&leaving).await?.working);
        let found = found.map(|node| Machine::new(cx, plan, node));
        check_quorum(&seen, found.as_ref()).await?;
    }
    let index = |found: &Node| {
        plan.control_planes
            .iter()
            .position(|node| node.vnfc == found.vnfc)
    };
    Ok(found.and_then(index))
}

/// The control-plane nodes among these hosts.
struct ControlPlanes<'a> {
    /// Those that have a cluster.
    working: Vec<&'a Node>,
    /// Those that do not respond.
    silent: Vec<&'a Node>,
}

async fn control_planes<'a>(hosts: &[&Machine<'a>]) -> Result<ControlPlanes<'a>, DriverError> {
    let responses = join_all(hosts.iter().map(|host| host.answers())).await;
    let (mut working, mut silent) = (Vec::new(), Vec::new());
    for (host, responds) in hosts.iter().zip(responses) {
        if !responds {
            silent.push(host.node);
            continue;
        }
        host.reach_known().await?;
        if host.facts().await?.has_control_plane() {
            working.push(host.node);
        }
    }
    Ok(ControlPlanes { working, silent })
}

/// Refuses to go on without a quorum of etcd, or if it is among the nodes that join or leave. `found` is a node that stays.
async fn check_quorum(
    seen: &ControlPlanes<'_>,
    found: Option<&Machine<'_>>,
) -> Result<(), DriverError> {
    let is_cluster = !seen.working.is_empty() || !seen.silent.is_empty();
    let has_members = found.is_none_or(|host| host.plan.external_etcd.is_none());
    if is_cluster
        && has_members
        && let Err(lost) = members::check_hosts(seen.working.len(), &seen.silent)
    {
        // After the restore of a snapshot, etcd has fewer members than the control plane has nodes.
        let serves = match found {
            Some(host) => members::serve(host).await?,
            None => false,
        };
        return if serves { Ok(()) } else { Err(lost) };
    }
    if found.is_none() && !seen.working.is_empty() {
        let detail = format!(
            "the control plane works on {} alone: heal the other control-plane nodes first, one after the other",
            names(seen.working.iter().copied())
        );
        return Err(DriverError::new("quorum-at-risk", detail).phase("preflight"));
    }
    Ok(())
}

/// Refuses to install a cluster on control-plane hosts that have parts of one: what is on it would be lost.
///
/// # Errors
///
/// `cluster-damaged`.
pub(crate) async fn check_no_remains(cx: &HookContext, plan: &Plan) -> Result<(), DriverError> {
    for node in &plan.control_planes {
        let host = Machine::new(cx, plan, node);
        if !host.answers().await {
            continue;
        }
        host.reach_known().await?;
        if host.facts().await?.has_traces() {
            let detail = "it has parts of a cluster, but no way to its API server: bring back `/etc/kubernetes/admin.conf` or \
                          restore a snapshot of etcd; to install the cluster again, and lose what is on it, heal all control-plane \
                          nodes with `accept_cluster_loss: true`";
            return Err(host.refusal("cluster-damaged", "preflight", detail));
        }
    }
    Ok(())
}

/// The node of a server.
pub(crate) fn find_node<'a>(server: &Node, nodes: &'a [ClusterNode]) -> Option<&'a ClusterNode> {
    let is_it = |node: &&ClusterNode| {
        node.has_address(&server.address) || node.has_address(&server.ssh.address)
    };
    nodes.iter().find(is_it)
}

/// Servers with a node get the node's name; the others get names that no node has.
fn assign_names(plan: &mut Plan, nodes: &[ClusterNode]) {
    for server in plan.control_planes.iter_mut().chain(&mut plan.workers) {
        if let Some(node) = find_node(server, nodes) {
            node.name().clone_into(&mut server.name);
        } else if nodes.iter().any(|node| node.name() == server.name) {
            server.name = server.unique_name();
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
