//! The members of etcd on the control-plane nodes: who they are, who responds, and the removal of one.
//!
//! A member that is off still counts: of three members two must respond, so a lost one is removed before its successor is
//! added. `etcdctl` runs in etcd's own pod on a control-plane node that responds. With an external etcd, there are no members to
//! look after.

use crate::cluster::names;
use crate::installer::Installer;
use crate::kubectl::KUBECTL;
use crate::machine::Machine;
use crate::plan::Node;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use vnfm_plugin_sdk::Object;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "etcd";
/// How long etcd may take to respond, for example while its pod is not yet listed or it elects a leader.
const TIMEOUT: Duration = Duration::from_mins(1);
const INTERVAL: Duration = Duration::from_millis(500);

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its id in hexadecimal digits.
    id: String,
    /// The name of its node; empty until it has started.
    name: String,
    /// URLs for the other members.
    peers: String,
    /// URLs for clients; empty until it has started.
    clients: String,
    /// Whether it still catches up, and has no vote.
    is_learner: bool,
}

impl Member {
    /// Parses a line of `etcdctl member list`: id, state, name, peer URLs, client URLs, whether it is a learner.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split(", ").map(str::trim).collect();
        let [id, _, name, peers, clients, learner] = fields.as_slice() else {
            return None;
        };
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            peers: (*peers).to_owned(),
            clients: (*clients).to_owned(),
            is_learner: *learner == "true",
        })
    }

    /// Whether it is the one on this node, or on a predecessor with the same name or address.
    fn is_on(&self, node: &Node) -> bool {
        self.has(&node.name, &node.address)
    }

    fn responds(&self, healthy: &BTreeSet<String>) -> bool {
        self.clients.split(',').any(|url| healthy.contains(url))
    }

    fn has(&self, name: &str, address: &str) -> bool {
        let urls = self.peers.split(',');
        let mut hosts = urls.filter_map(|url| Some(url.split_once("://")?.1.rsplit_once(':')?.0));
        self.name == name || hosts.any(|host| host.trim_matches(['[', ']']) == address)
    }
}

/// Whether etcd works if these many of its members respond.
pub(crate) fn is_quorum(responding: usize, members: usize) -> bool {
    responding > members / 2
}

/// Refuses to take these nodes out of etcd together if the others would have no quorum: among all members if they are
/// replaced, as a successor may fail to join, else among those that stay.
///
/// # Errors
///
/// `quorum-at-risk`, with the members that do not respond.
pub(crate) async fn check_leaving(
    host: &Machine<'_>,
    leaving: &[&Node],
    are_replaced: bool,
) -> Result<(), DriverError> {
    if host.plan.external_etcd.is_some() {
        return Ok(());
    }
    let members = list(host).await?;
    let healthy = healthy(host).await?;
    let stays = |member: &&Member| leaving.iter().all(|node| !member.is_on(node));
    let responds = |member: &&Member| member.responds(&healthy);
    let staying: Vec<_> = members.iter().filter(stays).collect();
    let working = staying.iter().filter(|member| responds(member)).count();
    let size = if are_replaced {
        members.len()
    } else {
        staying.len()
    };
    if is_quorum(working, size) {
        return Ok(());
    }
    let silent = staying.iter().filter(|member| !responds(member));
    let silent: Vec<_> = silent.map(|member| format!("`{}`", member.name)).collect();
    let silent = if silent.is_empty() {
        String::new()
    } else {
        format!(" ({} do not respond)", silent.join(", "))
    };
    let detail = format!(
        "etcd needs {} of {size} members, but {working} would remain{silent}: heal one control-plane node at a time, first \
         one that does not respond",
        size / 2 + 1,
    );
    Err(DriverError::new("quorum-at-risk", detail).phase("preflight"))
}

/// Adds to `effects` the members of etcd by the names of their nodes, each `healthy`, a `learner` that still catches up, or
/// `not responding`; nothing for an etcd that is not the VNF's.
///
/// # Errors
///
/// If etcd does not respond.
pub(crate) async fn show(host: &Machine<'_>, effects: Effects) -> Result<Effects, DriverError> {
    if host.plan.external_etcd.is_some() || host.plan.script().is_some() {
        return Ok(effects);
    }
    let members = list(host).await?;
    let healthy = healthy(host).await?;
    let shown = members.into_iter().map(|member| {
        let state = match (member.responds(&healthy), member.is_learner) {
            (false, _) => "not responding",
            (true, true) => "learner",
            (true, false) => "healthy",
        };
        let name = if member.name.is_empty() {
            member.id
        } else {
            member.name
        };
        (name, Value::from(state))
    });
    Ok(effects.metadata("etcdMembers", shown.collect::<Object>()))
}

/// Removes the member on the node of this name or address, if there is one.
///
/// # Errors
///
/// If etcd does not respond, or refuses the removal.
pub(crate) async fn remove(
    host: &Machine<'_>,
    (name, address): (&str, &str),
) -> Result<(), DriverError> {
    if host.plan.external_etcd.is_some() {
        return Ok(());
    }
    let members = list(host).await?;
    for member in members.iter().filter(|member| member.has(name, address)) {
        host.cx
            .info(&format!("removing etcd member {} of `{name}`", member.id));
        let line = format!("member remove {}", member.id);
        etcdctl(host, &line, &format!("the removal of `{name}` from etcd")).await?;
    }
    Ok(())
}

async fn list(host: &Machine<'_>) -> Result<Vec<Member>, DriverError> {
    let listed = etcdctl(host, "member list", "the members of etcd").await?;
    let members: Vec<_> = listed.lines().filter_map(Member::parse).collect();
    if members.is_empty() {
        let detail = "`etcdctl member list` printed no member";
        return Err(host.refusal("etcd-failed", PHASE, detail).retryable());
    }
    Ok(members)
}

/// The client URLs of the members that respond.
async fn healthy(host: &Machine<'_>) -> Result<BTreeSet<String>, DriverError> {
    let line = command(host, "endpoint health --cluster");
    let reason = "the health of etcd's members";
    // The exit code is not 0 if one does not respond; then the reports tell which.
    let output = repeated(host, &line, (reason, is_health_report)).await?;
    let printed = printed(&output);
    let healthy = printed
        .lines()
        .filter_map(|line| line.split_once(" is healthy"));
    Ok(healthy
        .map(|(url, _)| url.trim().trim_matches('"').to_owned())
        .collect())
}

/// Whether etcdctl has reported on members: without an API server or a pod, kubectl prints something else.
fn is_health_report(output: &Output) -> bool {
    output.ok() || printed(output).contains(" is unhealthy")
}

fn printed(output: &Output) -> String {
    format!("{}\n{}", output.stdout, output.stderr)
}

/// Runs `etcdctl` until it succeeds.
async fn etcdctl(host: &Machine<'_>, words: &str, reason: &str) -> Result<String, DriverError> {
    let output = repeated(host, &command(host, words), (reason, Output::ok)).await?;
    Ok(output.stdout)
}

/// Runs a command until its output is what is needed.
async fn repeated(
    host: &Machine<'_>,
    line: &str,
    (reason, is_enough): (&str, fn(&Output) -> bool),
) -> Result<Output, DriverError> {
    let began = Instant::now();
    loop {
        let output = host.try_run(PHASE, line, Secret::default()).await?;
        if is_enough(&output) {
            return Ok(output);
        }
        if began.elapsed() >= TIMEOUT {
            return Err(host.failure(PHASE, output.exit_code, &output.stderr));
        }
        host.cx.pause(reason, INTERVAL).await?;
    }
}

fn command(host: &Machine<'_>, words: &str) -> String {
    let pki = "/etc/kubernetes/pki/etcd";
    format!(
        "{KUBECTL} -n kube-system exec etcd-{} -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert={pki}/ca.crt \
         --cert={pki}/healthcheck-client.crt --key={pki}/healthcheck-client.key {words}",
        host.node.name
    )
}

/// Waits until the member on this node works, so that the next one may join.
///
/// # Errors
///
/// If a member does not respond in time.
pub(crate) async fn wait_until_healthy(
    installer: &Installer<'_>,
    host: &Machine<'_>,
    node: &Node,
) -> Result<(), DriverError> {
    if host.plan.external_etcd.is_some() {
        return Ok(());
    }
    let what = format!("etcd on `{}`", node.name);
    let works = || async {
        let members = list(host).await?;
        let healthy = healthy(host).await?;
        let mut on_node = members.iter().filter(|member| member.is_on(node));
        Ok(on_node
            .any(|member| member.responds(&healthy))
            .then_some(()))
    };
    installer
        .cx
        .wait_until(&what, INTERVAL, TIMEOUT, works)
        .await
}

/// Whether the cluster's API server is Ready, and so etcd has a quorum.
///
/// # Errors
///
/// If no command can be run on the host.
pub(crate) async fn serve(host: &Machine<'_>) -> Result<bool, DriverError> {
    let line = format!("{KUBECTL} get --raw /readyz --request-timeout=10s");
    let ready = host.try_run(PHASE, &line, Secret::default()).await?;
    Ok(ready.ok())
}

/// Refuses to go on if so few control-plane hosts respond that etcd cannot work.
///
/// # Errors
///
/// `quorum-lost`, with the ways forward.
pub(crate) fn check_hosts(working: usize, silent: &[&Node]) -> Result<(), DriverError> {
    if is_quorum(working, working + silent.len()) {
        return Ok(());
    }
    let detail = format!(
        "{} do not respond, so that etcd has no quorum: power them on, or restore a snapshot of etcd and heal them then; without \
         a snapshot, heal all control-plane nodes with `accept_cluster_loss: true`, which reinstalls the cluster",
        names(silent.iter().copied()),
    );
    Err(DriverError::new("quorum-lost", detail).phase("preflight"))
}

/// Refuses to replace these many control-plane nodes together if the others would have no quorum.
///
/// # Errors
///
/// `quorum-at-risk`.
pub(crate) fn check_number(replaced: usize, all: usize) -> Result<(), DriverError> {
    if is_quorum(all - replaced.min(all), all) {
        return Ok(());
    }
    let detail = format!(
        "etcd has {all} members and needs {} of them, so {replaced} cannot be replaced together: heal one control-plane node \
         at a time",
        all / 2 + 1
    );
    Err(DriverError::new("quorum-at-risk", detail).phase("preflight"))
}

#[cfg(test)]
mod tests {
    use super::{Member, is_quorum};
    use crate::plan::Node;
    use std::collections::BTreeMap;
    use vnfm_plugin_sdk::SshTarget;

    fn node(name: &str, address: &str) -> Node {
        Node {
            vnfc: "v".into(),
            vdu: "master".into(),
            name: name.into(),
            ssh: SshTarget::new(name, address, "ubuntu"),
            address: address.into(),
            labels: BTreeMap::new(),
            taints: None,
        }
    }

    #[test]
    fn members_are_parsed_and_found_by_name_or_address() {
        let text = "8e9e05c52164694d, started, m1, https://10.0.0.1:2380, https://10.0.0.1:2379, false\n\
                    8211f1d0f64f3269, unstarted, , https://[fd00::2]:2380, , true\nError: something\n";
        let members: Vec<_> = text.lines().filter_map(Member::parse).collect();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0].id, "8e9e05c52164694d");
        assert!(members[0].is_on(&node("m1", "10.0.0.9")), "by name");
        assert!(members[0].is_on(&node("m1-new", "10.0.0.1")), "by address");
        assert!(!members[0].is_on(&node("m2", "10.0.0.10")));
        assert!(
            members[1].is_on(&node("m2", "fd00::2")),
            "one that has not started"
        );
        assert!(!members[1].is_on(&node("m3", "fd00::22")));
    }

    #[test]
    fn etcd_works_with_more_than_half_of_its_members() {
        let table = [
            (1, 1, true),
            (1, 2, false),
            (1, 3, false),
            (2, 3, true),
            (2, 4, false),
            (2, 5, false),
            (3, 5, true),
            (0, 1, false),
        ];
        for (responding, members, expected) in table {
            assert_eq!(
                is_quorum(responding, members),
                expected,
                "{responding} of {members}"
            );
        }
    }
}
