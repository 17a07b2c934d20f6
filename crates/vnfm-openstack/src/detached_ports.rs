//! Ports that Heat took from a server and did not give back.
//!
//! Heat detaches the ports of a server before it creates its replacement. If that fails, the next update of the stack returns to
//! the old server, which then runs without its ports, in a stack that is complete. The record from before the operation says
//! which ports a server had; those that are still in the stack, and free, are attached again.

use crate::heat::Resource;
use crate::inventory::{PORT, SERVER};
use crate::keystone_login::Cloud;
use crate::{neutron, nova};
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, PortError, VimCall};

/// Attaches the ports that recorded servers of the stack have lost; the number of them.
pub(crate) async fn attach(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    resources: &[Resource],
) -> Result<usize, PortError> {
    let ids = |kind: &str| -> BTreeSet<&str> {
        let all = resources.iter().filter(|one| one.kind == kind);
        all.map(Resource::id).collect()
    };
    let (servers, ports) = (ids(SERVER), ids(PORT));
    let current = change.current.into_iter();
    let vnfcs = current.flat_map(|current| &current.inventory.vnfc_resource_info);
    let recorded: Vec<(&str, &str)> = vnfcs
        .map(|vnfc| (vnfc.compute_resource.resource_id.as_str(), vnfc))
        .filter(|(server, _)| servers.contains(server))
        .flat_map(|(server, vnfc)| vnfc.vnfc_cp_info.iter().map(move |cp| (server, &*cp.id)))
        .filter(|(_, port)| ports.contains(port))
        .collect();
    let all: Vec<&str> = recorded.iter().map(|(_, port)| *port).collect();
    let free = neutron::free(cloud, &all).await?;
    let lost = recorded.iter().filter(|(_, port)| free.contains(*port));
    let mut attached = 0;
    for (server, port) in lost {
        let text = format!("server `{server}` has lost its port `{port}`: attaching it again");
        cx.watcher.log("warn", "openstack", &text);
        nova::attach_port(cloud, server, port).await?;
        attached += 1;
    }
    Ok(attached)
}
