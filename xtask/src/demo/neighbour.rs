//! What the neighbours report about an instance: OpenStack by its own API, the cluster by [`Kubectl`].
//!
//! The facts have the wording of those in the record, so that a difference is a line that only one side has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vnfm_types::VnfInstance;

use super::cloud::Cloud;
use super::kubectl::Kubectl;
use super::record;
use crate::interrupt;

/// Interval and number of polls until both agree: pods end some time after their deletion.
const POLLS: (Duration, u32) = (Duration::from_millis(250), 240);

/// What plans of servers list in addition to the resources of the stack.
const NOT_OF_STACKS: &[&str] = &["VnfInstance", "OS::Glance::Image", "OS::Cinder::Snapshot"];

/// What an instance consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Servers of a stack.
    Servers,
    /// Servers of a stack that are the nodes of the cluster.
    Nodes,
    /// Pods on the cluster.
    Pods,
}

impl Kind {
    /// Whether [`Reported::resources`] has resources of this type.
    pub(crate) fn reports(self, resource_type: &str) -> bool {
        match self {
            Self::Servers | Self::Nodes => !NOT_OF_STACKS.contains(&resource_type),
            Self::Pods => resource_type == "Pod",
        }
    }

    /// The neighbour, as an error calls it.
    fn neighbour(self) -> &'static str {
        match self {
            Self::Servers => "OpenStack",
            Self::Nodes => "OpenStack and the cluster",
            Self::Pods => "the cluster",
        }
    }
}

/// Ids of resources, by type and name as in a plan: `OS::Nova::Server web-0`.
pub(crate) type Resources = BTreeMap<String, String>;

/// What a neighbour reports about one instance.
#[derive(Default)]
pub(crate) struct Reported {
    facts: BTreeSet<String>,
    pub(crate) resources: Resources,
}

/// The neighbours of a story: VNF-A's cluster exists once VNF-A is up; the story `charts` has no cloud.
pub(crate) struct Neighbours<'a> {
    pub(crate) cloud: Option<Cloud>,
    pub(crate) cluster: Option<Kubectl<'a>>,
}

impl Neighbours<'_> {
    /// Waits until the neighbour reports what the record says; returns what it reports.
    ///
    /// # Errors
    /// If they differ for too long; the error names what only one side has.
    pub(crate) fn agree(&self, instance: &VnfInstance, kind: Kind) -> Result<Reported> {
        let mut expected = record::facts(instance);
        if kind == Kind::Nodes {
            expected.insert(node_count(record::vnfcs(instance).len()));
        }
        let mut reported = self.report(instance, kind)?;
        for _ in 0..POLLS.1 {
            if reported.facts == expected {
                return Ok(reported);
            }
            interrupt::pause(POLLS.0)?;
            reported = self.report(instance, kind)?;
        }
        difference(&expected, &reported.facts, kind.neighbour())?;
        Ok(reported)
    }

    fn report(&self, instance: &VnfInstance, kind: Kind) -> Result<Reported> {
        if kind == Kind::Pods {
            return self.pods(&format!("vnf-{}", instance.id));
        }
        let mut reported = self.stack(&format!("vnf-{}", instance.id))?;
        if kind == Kind::Nodes {
            let nodes = self.cluster()?.nodes()?;
            reported.facts.insert(node_count(nodes.len()));
        }
        Ok(reported)
    }

    /// One line about an instance, with the names of its networks.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn summary(&self, instance: &VnfInstance) -> Result<String> {
        let networks = self.cloud.as_ref().map(Cloud::networks).transpose()?;
        Ok(record::summary(instance, &networks.unwrap_or_default()))
    }

    /// The cloud, which all stories with servers have.
    ///
    /// # Errors
    /// If the story has none.
    pub(crate) fn cloud(&self) -> Result<&Cloud> {
        self.cloud.as_ref().context("this story has no cloud")
    }

    fn cluster(&self) -> Result<&Kubectl<'_>> {
        self.cluster.as_ref().context("no cluster exists yet")
    }

    fn pods(&self, namespace: &str) -> Result<Reported> {
        let pods = self.cluster()?.pods(namespace)?;
        Ok(Reported {
            facts: pods.iter().map(|name| format!("pod {name}")).collect(),
            resources: pods
                .into_iter()
                .map(|name| (format!("Pod {name}"), name))
                .collect(),
        })
    }

    fn stack(&self, name: &str) -> Result<Reported> {
        let mut reported = Reported::default();
        let mut servers = BTreeSet::new();
        for one in self.cloud()?.stack_resources(name)? {
            let word = |member: &str| one[member].as_str().unwrap_or_default().to_owned();
            let (kind, id) = (word("resource_type"), word("physical_resource_id"));
            if id.is_empty() {
                continue;
            }
            match kind.as_str() {
                "OS::Nova::Server" => _ = servers.insert(id.clone()),
                "OS::Neutron::Net" => _ = reported.facts.insert(format!("network {id}")),
                "OS::Cinder::Volume" => _ = reported.facts.insert(format!("volume {id}")),
                _ => {}
            }
            let parent = Some(word("parent_resource")).filter(|parent| !parent.is_empty());
            let parent = parent
                .map(|parent| format!("{parent}/"))
                .unwrap_or_default();
            let key = format!("{kind} {parent}{}", word("resource_name"));
            reported.resources.insert(key, id);
        }
        reported.facts.extend(self.servers(&servers)?);
        reported.facts.extend(self.ports(&servers)?);
        Ok(reported)
    }

    fn servers(&self, of_stack: &BTreeSet<String>) -> Result<Vec<String>> {
        let all = self
            .cloud()?
            .list("compute", "/servers/detail", "servers")?;
        let fact = |server: &Value| {
            let id = server["id"].as_str().filter(|id| of_stack.contains(*id))?;
            Some(format!("server {id} {}", server["status"].as_str()?))
        };
        Ok(all.iter().filter_map(fact).collect())
    }

    fn ports(&self, servers: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut facts = Vec::new();
        for port in self.cloud()?.list("network", "/v2.0/ports", "ports")? {
            let word = |member: &str| port[member].as_str().unwrap_or_default();
            let server = word("device_id");
            if !servers.contains(server) {
                continue;
            }
            facts.push(format!("port {} on {}", word("id"), word("network_id")));
            let addresses = port["fixed_ips"].as_array().into_iter().flatten();
            let addresses = addresses.filter_map(|one| one["ip_address"].as_str());
            facts.extend(addresses.map(|address| format!("address {address} of server {server}")));
        }
        Ok(facts)
    }
}

/// The fact that a cluster has this many nodes; their names need not be those of the servers.
fn node_count(nodes: usize) -> String {
    format!("{nodes} nodes")
}

/// Fails if the record and the neighbour differ.
fn difference(record: &BTreeSet<String>, reported: &BTreeSet<String>, of: &str) -> Result<()> {
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        let lines: Vec<_> = one.difference(other).cloned().collect();
        if lines.is_empty() {
            "nothing".to_owned()
        } else {
            lines.join(", ")
        }
    };
    ensure!(
        record == reported,
        "record and neighbour differ: only in the record: {}; only in {of}: {}",
        only(record, reported),
        only(reported, record)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_both_sides() {
        let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let (record, reported) = (
            set(&["server 1 ACTIVE", "network 2"]),
            set(&["server 1 SHUTOFF", "network 2"]),
        );
        let error = difference(&record, &reported, "OpenStack").unwrap_err();
        assert_eq!(
            error.to_string(),
            "record and neighbour differ: only in the record: server 1 ACTIVE; only in OpenStack: server 1 SHUTOFF"
        );
        difference(&record, &record, "OpenStack").unwrap();
    }
}
