//! The members of etcd on control-plane nodes, their quorum, and `etcdctl`, which runs in etcd's pod.
//!
//! A cluster with several members serves while more than half of them work: their machines are on and have not been reset. A
//! command that ends that is a violation; a power cut is not.

use super::host::{Host, Network};
use super::kubeadm::{API_SERVER, endpoint_of_host};
use super::manifests::stopped;
use super::member::Member;
use super::stdio::{Output, lines};
use crate::kubernetes::Cluster;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Network {
    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cluster has members of etcd on its control-plane nodes.
    pub(super) fn is_stacked(&self, endpoint: &str) -> bool {
        self.members().contains_key(endpoint)
    }

    /// Adds the member on this host to the cluster at `endpoint`.
    pub(super) fn add_member(&self, endpoint: &str, (name, host): (&str, &Host)) {
        let random = uuid::Uuid::new_v4().as_u64_pair().0;
        let member = Member {
            id: random,
            name: name.to_owned(),
            address: host.spec().address,
        };
        self.members()
            .entry(endpoint.to_owned())
            .or_default()
            .push(member);
        self.update_quorum(Some(&format!("the join of `{name}`")));
    }

    /// The hosts of all members of the etcd to which this host belongs; empty if it is no member.
    pub(super) fn hosts_of_members(&self, host: &Host) -> Vec<Arc<Host>> {
        let found = self.of_member(host.spec().address);
        let members = found.and_then(|(endpoint, _)| self.members().get(&endpoint).cloned());
        let members = members.unwrap_or_default();
        let is_member = |host: &&Arc<Host>| {
            let address = host.spec().address;
            members.iter().any(|member| member.address == address)
        };
        self.hosts().values().filter(is_member).cloned().collect()
    }

    fn works(&self, member: &Member) -> bool {
        let hosts: Vec<_> = self.hosts().values().cloned().collect();
        hosts.iter().any(|host| {
            let disk = host.disk();
            let runs = disk.is_file(API_SERVER) && !disk.is_file(&stopped("etcd"));
            drop(disk);
            host.spec().address == member.address && host.is_on() && runs
        })
    }

    /// The member on this host is the only one of its cluster, as after the restore of a snapshot.
    pub(super) fn keep_only_member(&self, host: &Host) {
        let address = host.spec().address;
        if let Some((endpoint, _)) = self.of_member(address)
            && let Some(members) = self.members().get_mut(&endpoint)
        {
            members.retain(|member| member.address == address);
        }
        self.update_quorum(None);
    }

    /// Makes clusters with a quorum serve, and the others not; a loss by `cause` is a violation.
    pub(super) fn update_quorum(&self, cause: Option<&str>) {
        let all = self.members().clone();
        for (endpoint, members) in all {
            let Some(cluster) = self.control_planes().get(&endpoint).cloned() else {
                continue;
            };
            let working = members.iter().filter(|member| self.works(member)).count();
            let serves = members.len() <= 1 || working > members.len() / 2;
            if let Some(cause) = cause.filter(|_| cluster.is_available() && !serves) {
                let lost = format!("etcd at `{endpoint}` lost its quorum by {cause}");
                self.books.record_violation(lost);
            }
            cluster.set_available(serves);
        }
    }

    /// The cluster of the member at this address, and whether it is the only one with a machine.
    fn of_member(&self, address: IpAddr) -> Option<(String, bool)> {
        let all = self.members().clone();
        let is_here = |member: &&Member| member.address == address;
        let (endpoint, members) = all
            .into_iter()
            .find(|(_, members)| members.iter().any(|member| is_here(&member)))?;
        let mut others = members.iter().filter(|member| !is_here(member));
        let hosts: Vec<_> = self.hosts().values().cloned().collect();
        let has_machine = |member: &Member| {
            hosts.iter().any(|host| {
                host.spec().address == member.address && host.disk().is_file(API_SERVER)
            })
        };
        Some((endpoint, !others.any(has_machine)))
    }
}

impl Host {
    /// As `kubeadm reset` does: the member leaves etcd; the last one takes the cluster with it.
    pub(super) async fn leave_control_plane(&self) {
        let Some((endpoint, is_last)) = self.lan.of_member(self.spec().address) else {
            return;
        };
        if is_last {
            return self.stop_cluster(&endpoint).await;
        }
        // Without a quorum, kubeadm cannot remove the member and goes on.
        let serves = self.lan.control_planes().get(&endpoint).cloned();
        if serves.is_some_and(|cluster| cluster.is_available())
            && let Some(members) = self.lan.members().get_mut(&endpoint)
        {
            members.retain(|member| member.address != self.spec().address);
        }
    }

    /// As a deleted machine: its member stays in etcd and does not respond.
    pub(super) async fn lose_control_plane(&self) {
        match self.lan.of_member(self.spec().address) {
            Some((endpoint, true)) => self.stop_cluster(&endpoint).await,
            Some(_) => self.lan.update_quorum(None),
            None => {}
        }
    }

    async fn stop_cluster(&self, endpoint: &str) {
        self.lan.members().remove(endpoint);
        let plane = self.lan.control_planes().remove(endpoint);
        if plane.is_some() {
            self.lan.clusters.stop(endpoint).await;
        }
    }
}

/// The names of the members in the cluster of this host, sorted.
pub(super) fn names(host: &Host) -> Vec<String> {
    let endpoint = endpoint_of_host(host).unwrap_or_default();
    let members = host.lan.members().get(&endpoint).cloned();
    let members = members.into_iter().flatten();
    let mut names: Vec<_> = members.map(|member| member.name).collect();
    names.sort();
    names
}

/// `etcdctl member list | member remove ID | endpoint health --cluster` in the pod of a member.
pub(super) fn etcdctl(host: &Host, cluster: &Cluster, pod: &str, words: &[&str]) -> Output {
    let lan = &host.lan;
    let endpoint = endpoint_of_host(host).unwrap_or_default();
    let members = lan.members().get(&endpoint).cloned().unwrap_or_default();
    let is_up = |member: &&Member| pod == format!("etcd-{}", member.name) && lan.works(member);
    if !members.iter().any(|member| is_up(&member)) {
        return Output::fail(
            1,
            format!("Error from server (NotFound): pods \"{pod}\" not found\n"),
        );
    }
    match words {
        ["member", "list"] => {
            let line = |member: &Member| {
                let (id, name, address) = (member.id, &member.name, member.address);
                format!(
                    "{id:x}, started, {name}, https://{address}:2380, {}, false\n",
                    member.client()
                )
            };
            Output::ok(lines(members.iter().map(line)))
        }
        ["member", "remove", id] => {
            let is_it = |member: &Member| format!("{:x}", member.id) == *id;
            let Some(removed) = members.iter().find(|member| is_it(member)) else {
                return Output::fail(1, "Error: etcdserver: member not found\n");
            };
            let name = &removed.name;
            if let Some(members) = lan.members().get_mut(&endpoint) {
                members.retain(|member| !is_it(member));
            }
            lan.update_quorum(Some(&format!("the removal of `{name}`")));
            Output::ok(format!(
                "Member {id} removed from cluster {}\n",
                cluster.name()
            ))
        }
        ["endpoint", "health"] => {
            let mut output = Output::default();
            for member in &members {
                let url = member.client();
                if lan.works(member) {
                    let line =
                        format!("{url} is healthy: successfully committed proposal: took = 2ms\n");
                    output.out.extend(line.into_bytes());
                } else {
                    output.code = 1;
                    // Writing to a `String` cannot fail.
                    let _ = writeln!(
                        output.err,
                        "{url} is unhealthy: failed to commit proposal: context deadline exceeded"
                    );
                }
            }
            output
        }
        other => Output::fail(
            128,
            format!("unknown command {other:?} for \"etcdctl\" (not simulated)\n"),
        ),
    }
}
