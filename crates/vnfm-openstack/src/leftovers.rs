//! What programs inside an instance created on the cloud, outside of the instance's stack: a cluster's load balancers,
//! networks and volumes. They hold ports on the stack's subnets, without which Heat cannot delete these.
//!
//! ```text
//! floating IPs of load balancers ─ load balancers ─┐
//! networks of pods: router interfaces, ports ──────┼─ again until none is left ─► the stack ─► volumes
//! floating IPs, ports, security groups ────────────┘
//! ```
//! Ours is what has the instance's tag (Kuryr: `resource_tags`), or that tag as the name of its cluster
//! (cloud-provider-openstack, Cinder CSI: `--cluster-name`).
//!
//! A load balancer that a user supplied to a Service stays: cloud-provider-openstack only adds a tag, listeners and pools to it,
//! which go. So does a floating IP that a user attached to a load balancer of the cluster.

use crate::errors::LEFTOVERS;
use crate::heat::{member, stack_name};
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::retries::Waiter;
use crate::snapshots::path;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use vnfm_core::ports::{PortError, VimCall, Waited};

/// Metadata member in which Cinder CSI notes the name of its cluster.
const CSI_CLUSTER: &str = "cinder.csi.openstack.org/cluster";

/// The description of each floating IP of Kuryr, which only logs it when it cannot tag one.
const KURYR_ADDRESS: &str = "kuryr_lb";

/// A resource of Neutron, Octavia or Cinder.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Found {
    id: String,
    name: Option<String>,
    description: Option<String>,
    tags: Vec<String>,
    metadata: BTreeMap<String, String>,
    port_id: Option<String>,
    vip_port_id: Option<String>,
    device_owner: String,
    device_id: String,
    /// Of a listener or pool.
    loadbalancers: Vec<Reference>,
    /// Those of a load balancer, or those that send to a pool.
    listeners: Vec<Reference>,
}

/// How Octavia names related resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Reference {
    id: String,
}

/// With what cloud-provider-openstack begins the names of what it creates for Services, and its tags.
fn service_prefix(tag: &str) -> String {
    format!("kube_service_{tag}_")
}

impl Found {
    /// Whether the cluster `tag` created it, as its tags, name or description tell.
    fn is_of(&self, tag: &str) -> bool {
        let (name, description) = (self.name.as_deref(), self.description.as_deref());
        let prefix = service_prefix(tag);
        let suffix = format!(" cluster {tag}");
        self.tags.iter().any(|one| one == tag)
            || name.is_some_and(|name| name.starts_with(&prefix))
            || description.is_some_and(|text| text.ends_with(&suffix))
            || self.metadata.get(CSI_CLUSTER).is_some_and(|one| one == tag)
    }

    /// Whether a tag names a Service of the cluster `tag`, which uses it and need not have created it.
    fn has_service_tag(&self, tag: &str) -> bool {
        let prefix = service_prefix(tag);
        self.tags.iter().any(|one| one.starts_with(&prefix))
    }

    /// Whether it is the listener or pool of a Service of the cluster `tag`, as its tags or its name tell.
    fn is_for_service(&self, tag: &str) -> bool {
        let prefix = service_prefix(tag);
        let name = self.name.as_deref().unwrap_or_default();
        let rest = name
            .strip_prefix("listener_")
            .or_else(|| name.strip_prefix("pool_"));
        let service = rest.and_then(|rest| {
            let (index, service) = rest.split_once('_')?;
            index.parse::<u32>().is_ok().then_some(service)
        });
        self.has_service_tag(tag) || service.is_some_and(|one| one.starts_with(&prefix))
    }

    /// Whether these listeners, and no others, send to this pool.
    fn serves_only(&self, listeners: &[Self]) -> bool {
        let is_theirs = |one: &Reference| listeners.iter().any(|other| other.id == one.id);
        !self.listeners.is_empty() && self.listeners.iter().all(is_theirs)
    }

    /// Whether Kuryr created this floating IP for one of its load balancers among `balancers`.
    fn is_of_kuryr(&self, tag: &str, balancers: &[Self]) -> bool {
        let port = self.port_id.as_ref();
        let is_served = |one: &Self| {
            let is_kuryrs = one.tags.iter().any(|own| own == tag);
            is_kuryrs && port.is_some() && one.vip_port_id.as_ref() == port
        };
        self.description.as_deref() == Some(KURYR_ADDRESS) && balancers.iter().any(is_served)
    }

    /// Whether a service of the cloud has created this port, and deletes it itself.
    fn is_of_a_service(&self) -> bool {
        let owner = self.device_owner.to_ascii_lowercase();
        owner.starts_with("network:") || owner.starts_with("octavia")
    }
}

/// A collection of a service.
#[derive(Clone, Copy)]
struct Kind {
    service: Service,
    path: &'static str,
    /// Name of the list in the response.
    list: &'static str,
    /// What it is called in messages.
    name: &'static str,
}

const fn network(path: &'static str, list: &'static str, name: &'static str) -> Kind {
    Kind {
        service: Service::Network,
        path,
        list,
        name,
    }
}

const LOAD_BALANCERS: Kind = Kind {
    service: Service::LoadBalancer,
    path: "lbaas/loadbalancers",
    list: "loadbalancers",
    name: "load balancer",
};
const LISTENERS: Kind = Kind {
    path: "lbaas/listeners",
    list: "listeners",
    name: "listener",
    ..LOAD_BALANCERS
};
const POOLS: Kind = Kind {
    path: "lbaas/pools",
    list: "pools",
    name: "pool",
    ..LOAD_BALANCERS
};
const VOLUMES: Kind = Kind {
    service: Service::Volume,
    path: "volumes",
    list: "volumes",
    name: "volume",
};
const FLOATING_IPS: Kind = network("floatingips", "floatingips", "floating IP");
const NETWORKS: Kind = network("networks", "networks", "network");
const PORTS: Kind = network("ports", "ports", "port");
const GROUPS: Kind = network("security-groups", "security_groups", "security group");

/// Deletes everything but the volumes, and waits until it is gone.
///
/// # Errors
///
/// `openstack.leftovers` at the deadline, naming what is left; else with the cloud's message.
pub(crate) async fn remove(cx: &VimCall<'_>, cloud: &Cloud<'_>) -> Result<(), PortError> {
    let tag = &stack_name(&cx.ownership.instance_id);
    until_gone(cx, || remove_once(cloud, tag)).await
}

/// Deletes the volumes, which servers use until their stack is deleted, and waits until they are gone.
///
/// # Errors
///
/// As [`remove`].
pub(crate) async fn remove_volumes(cx: &VimCall<'_>, cloud: &Cloud<'_>) -> Result<(), PortError> {
    let tag = &stack_name(&cx.ownership.instance_id);
    until_gone(cx, || remove_volumes_once(cloud, tag)).await
}

/// Repeats `pass`, which deletes what it finds and names it, until it finds nothing.
async fn until_gone<Pass: Future<Output = Result<Option<String>, PortError>> + Send>(
    cx: &VimCall<'_>,
    pass: impl Fn() -> Pass + Sync,
) -> Result<(), PortError> {
    let action = "delete what programs inside the VNF created";
    let mut waiter = Waiter::new(cx, action);
    let mut last = None;
    loop {
        let attempt = async {
            Ok(match pass().await? {
                None => Waited::Done(()),
                Some(left) => Waited::NotYet(left),
            })
        };
        match waiter.attempt(attempt).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(left) => {
                if last.as_ref() != Some(&left) {
                    let text = format!("deleting what programs inside the VNF created: {left}");
                    cx.watcher.log("info", "openstack", &text);
                    last = Some(left.clone());
                }
                let paused = waiter.pause(&left).await;
                paused.map_err(|error| {
                    PortError::new(
                        &LEFTOVERS,
                        action,
                        format!("{left} is still there: {error}"),
                    )
                })?;
            }
        }
    }
}

/// Requests the deletion of what is there; returns what that was.
async fn remove_once(cloud: &Cloud<'_>, tag: &str) -> Result<Option<String>, PortError> {
    let found = all(cloud, LOAD_BALANCERS, "").await?;
    let (balancers, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.is_of(tag));
    let supplied = leave_supplied(cloud, tag, others).await?;
    let mut addresses = all(cloud, FLOATING_IPS, "").await?;
    addresses.retain(|one| one.is_of(tag) || one.is_of_kuryr(tag, &balancers));
    delete_all(cloud, FLOATING_IPS, &addresses).await?;
    delete_all(cloud, LOAD_BALANCERS, &balancers).await?;
    let networks = tagged(cloud, NETWORKS, tag).await?;
    for network in &networks {
        clear_network(cloud, &network.id).await?;
    }
    let mut ports = tagged(cloud, PORTS, tag).await?;
    ports.retain(|port| !port.is_of_a_service());
    delete_all(cloud, PORTS, &ports).await?;
    delete_all(cloud, NETWORKS, &networks).await?;
    let groups = ours(cloud, GROUPS, tag).await?;
    delete_all(cloud, GROUPS, &groups).await?;
    let left = [
        (FLOATING_IPS, &addresses),
        (LOAD_BALANCERS, &balancers),
        (NETWORKS, &networks),
        (PORTS, &ports),
        (GROUPS, &groups),
    ];
    let left = left
        .into_iter()
        .find_map(|(kind, found)| named(kind, found));
    Ok(left.or(supplied))
}

/// Removes what the cluster has on load balancers that it did not create: pools, listeners, and at last the tags by which the
/// next pass finds these. Returns what of that was there.
async fn leave_supplied(
    cloud: &Cloud<'_>,
    tag: &str,
    mut balancers: Vec<Found>,
) -> Result<Option<String>, PortError> {
    balancers.retain(|one| one.has_service_tag(tag));
    if balancers.is_empty() {
        return Ok(None);
    }
    let is_there = |part: &Found| {
        let is_one = |at: &Reference| balancers.iter().any(|one| one.id == at.id);
        part.loadbalancers.iter().any(is_one)
    };
    let mut listeners = all(cloud, LISTENERS, "").await?;
    listeners.retain(|one| is_there(one) && one.is_for_service(tag));
    let mut pools = all(cloud, POOLS, "").await?;
    pools.retain(|one| is_there(one) && (one.is_for_service(tag) || one.serves_only(&listeners)));
    // A pool with the name of the load balancer is known by its listener, which stays until then.
    for (kind, parts) in [(POOLS, &pools), (LISTENERS, &listeners)] {
        if !parts.is_empty() {
            delete_all(cloud, kind, parts).await?;
            return Ok(named(kind, parts));
        }
    }
    for one in &balancers {
        remove_service_tags(cloud, tag, one).await?;
    }
    let left = named(LOAD_BALANCERS, &balancers);
    Ok(left.map(|left| format!("the cluster's tag on {left}")))
}

/// Requests it; a load balancer that is busy is tried again by the next pass.
async fn remove_service_tags(
    cloud: &Cloud<'_>,
    tag: &str,
    balancer: &Found,
) -> Result<(), PortError> {
    let prefix = service_prefix(tag);
    let others = balancer.tags.iter();
    let others: Vec<&String> = others.filter(|one| !one.starts_with(&prefix)).collect();
    let at = format!("/{}/{}", LOAD_BALANCERS.path, encoded(&balancer.id));
    let body = json!({"loadbalancer": {"tags": others}});
    let action = format!(
        "remove the cluster's tag from load balancer `{}`",
        balancer.id
    );
    let call = Call::put_json(at, body, action).accepting(&[404, 409]);
    cloud.send(LOAD_BALANCERS.service, &call).await?;
    Ok(())
}

async fn remove_volumes_once(cloud: &Cloud<'_>, tag: &str) -> Result<Option<String>, PortError> {
    let volumes = ours(cloud, VOLUMES, tag).await?;
    delete_all(cloud, VOLUMES, &volumes).await?;
    Ok(named(VOLUMES, &volumes))
}

/// Removes the interfaces of routers and the ports of a network of pods.
async fn clear_network(cloud: &Cloud<'_>, network: &str) -> Result<(), PortError> {
    let query = format!("?network_id={}", encoded(network));
    for port in all(cloud, PORTS, &query).await? {
        let action = format!("detach port `{}`", port.id);
        let call = if port.device_owner.starts_with("network:router_interface") {
            let router = format!(
                "{}/remove_router_interface",
                path("routers", &port.device_id)
            );
            Call::put_json(router, json!({"port_id": port.id}), action)
        } else if port.is_of_a_service() {
            continue;
        } else {
            Call::delete(path("ports", &port.id), action)
        };
        cloud
            .send(Service::Network, &call.accepting(&[404, 409]))
            .await?;
    }
    Ok(())
}

async fn tagged(cloud: &Cloud<'_>, kind: Kind, tag: &str) -> Result<Vec<Found>, PortError> {
    let mut found = all(cloud, kind, &format!("?tags={}", encoded(tag))).await?;
    found.retain(|one| one.is_of(tag));
    Ok(found)
}

async fn ours(cloud: &Cloud<'_>, kind: Kind, tag: &str) -> Result<Vec<Found>, PortError> {
    let mut found = all(cloud, kind, "").await?;
    found.retain(|one| one.is_of(tag));
    Ok(found)
}

/// The resources of the project; none if the cloud does not have the service.
async fn all(cloud: &Cloud<'_>, kind: Kind, query: &str) -> Result<Vec<Found>, PortError> {
    let (session, _) = cloud.session().await?;
    if !kind.service.is_among(&session.services()) {
        return Ok(Vec::new());
    }
    let action = format!("look for each {} of the cluster", kind.name);
    let detail = if kind.service == Service::Volume {
        "/detail"
    } else {
        ""
    };
    let call = Call::get(format!("/{}{detail}{query}", kind.path), action.as_str());
    let reply = cloud.send(kind.service, &call).await?;
    member(reply, kind.list, &action)
}

/// Requests the deletion of each; one that is busy is tried again by the next pass.
async fn delete_all(cloud: &Cloud<'_>, kind: Kind, found: &[Found]) -> Result<(), PortError> {
    for one in found {
        let action = format!("delete {} `{}`", kind.name, one.id);
        let cascade = if kind.path == LOAD_BALANCERS.path {
            "?cascade=true"
        } else {
            ""
        };
        let at = format!("/{}/{}{cascade}", kind.path, encoded(&one.id));
        let busy: &[u16] = if kind.service == Service::Volume {
            &[400, 404, 409]
        } else {
            &[404, 409]
        };
        let call = Call::delete(at, action).accepting(busy);
        cloud.send(kind.service, &call).await?;
    }
    Ok(())
}

/// Names what was found, for messages.
fn named(kind: Kind, found: &[Found]) -> Option<String> {
    let first = found.first()?;
    let name = first.name.as_deref().filter(|name| !name.is_empty());
    let name = name.unwrap_or(&first.id);
    Some(match found.len() {
        1 => format!("{} `{name}`", kind.name),
        count => format!("{} `{name}` and {} more", kind.name, count - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::Found;
    use serde_json::{Value, from_value, json};

    #[test]
    fn what_the_cluster_created_is_found_by_tag_name_description_or_metadata() {
        let is_ours = |found| from_value::<Found>(found).unwrap().is_of("vnf-1");
        assert!(is_ours(json!({"id": "a", "tags": ["vnf-1"]})));
        assert!(is_ours(
            json!({"id": "a", "name": "kube_service_vnf-1_default_web"})
        ));
        let text = "Floating IP for Kubernetes external service default/web from cluster vnf-1";
        assert!(is_ours(json!({"id": "a", "description": text})));
        let metadata = json!({"cinder.csi.openstack.org/cluster": "vnf-1"});
        assert!(is_ours(json!({"id": "a", "metadata": metadata})));
        for other in [
            json!({"id": "a", "name": "kube_service_vnf-12_default_web"}),
            json!({"id": "a", "tags": ["vnf-12"], "name": null, "description": "of cluster vnf-12"}),
            json!({"id": "vnf-1", "name": "vnf-1"}),
            json!({"id": "a", "name": "mine", "tags": ["kube_service_vnf-1_default_web"]}),
        ] {
            assert!(!is_ours(other.clone()), "{other}");
        }
    }

    #[test]
    fn a_listener_or_pool_of_a_service_is_known_by_tag_name_or_listener() {
        let found = |found| from_value::<Found>(found).unwrap();
        let is_ours = |one| found(one).is_for_service("vnf-1");
        let service = "kube_service_vnf-1_default_web";
        assert!(is_ours(json!({"id": "a", "name": "x", "tags": [service]})));
        for kind in ["listener", "pool"] {
            assert!(is_ours(json!({"name": format!("{kind}_10_{service}")})));
            assert!(!is_ours(
                json!({"name": format!("{kind}_0_kube_service_vnf-12_a_b")})
            ));
            assert!(!is_ours(json!({"name": format!("{kind}_{service}")})));
        }
        let ours = [found(json!({"id": "a", "tags": [service]}))];
        let pool = |listeners: Value| {
            found(json!({"id": "p", "name": "pool_0_mine", "listeners": listeners}))
        };
        assert!(pool(json!([{"id": "a"}])).serves_only(&ours));
        assert!(!pool(json!([{"id": "a"}, {"id": "b"}])).serves_only(&ours));
        assert!(!pool(json!([])).serves_only(&ours));
    }

    #[test]
    fn a_floating_ip_of_kuryr_is_known_without_its_tag_but_not_one_of_a_user() {
        let found = |found| from_value::<Found>(found).unwrap();
        let kuryrs = [found(
            json!({"id": "a", "tags": ["vnf-1"], "vip_port_id": "p"}),
        )];
        let address = |text: &str, port: Value| {
            found(json!({"id": "f", "description": text, "port_id": port}))
        };
        assert!(address("kuryr_lb", json!("p")).is_of_kuryr("vnf-1", &kuryrs));
        assert!(!address("", json!("p")).is_of_kuryr("vnf-1", &kuryrs));
        assert!(!address("kuryr_lb", json!("q")).is_of_kuryr("vnf-1", &kuryrs));
        assert!(!address("kuryr_lb", json!(null)).is_of_kuryr("vnf-1", &kuryrs));
    }
}
