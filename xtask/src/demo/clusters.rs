//! The story `clusters`: VNF-A builds a highly available cluster on real hosts, and VNF-B serves on it all the time, while the
//! cluster grows and shrinks, loses a control-plane node, gets new certificates and its data of before, and is upgraded.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::availability::{self, Requests};
use super::ctl::text;
use super::instances::{SAMPLE_B, Scenario, VNF_A, VNF_B};
use super::machines::{Client, Machines};
use super::releases::{self, NextRelease};
use crate::interrupt;

const SAMPLE_A: &str = "vnf-a-ha-cluster";
/// The cluster's address: one of the provider network outside its allocation pool.
pub(crate) const ADDRESS: &str = "10.77.0.252";
const CONTROL_PLANES: [&str; 3] = ["masterNode-0", "masterNode-1", "masterNode-2"];
const WORKERS: [&str; 2] = ["workerNode-0", "workerNode-1"];
/// How long the API server may be unavailable after a power cut.
const MAX_OUTAGE: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";
const PASSPHRASE: &str = "a passphrase for the demo";

/// Runs all steps, from the packages to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(scenario: &mut Scenario<'_>) -> Result<()> {
    let folder = scenario.folder.to_owned();
    let next = scenario
        .stage
        .step("make the next minor version of Kubernetes", |_| {
            NextRelease::make(SAMPLE_A, &folder)
        })?;
    let with_budget = releases::with_budget(SAMPLE_B, &folder)?;
    let packages = [
        scenario.onboard(SAMPLE_A)?,
        scenario.onboard_folder("vnf-b-cnf, one pod always runs", &with_budget)?,
        scenario.onboard_folder("vnf-a-ha-cluster, the next release", &next.package)?,
    ];
    scenario.register_cloud()?;
    let cluster = scenario.bring_up_cluster(SAMPLE_A, &packages[0])?;
    scenario.bring_up_b(&packages[1], &cluster)?;
    let machines = Machines::find();
    let client = Client::start(&machines, WORKERS[0], &service_address(scenario)?)?;
    change(scenario, &machines, &next)?;
    let label = "the client of VNF-B has seen no failure";
    scenario.stage.step(label, |progress| {
        progress.show(&client.end()?);
        Ok(())
    })?;
    scenario.bring_down(VNF_B, "terminate VNF-B")?;
    scenario.bring_down(VNF_A, "terminate VNF-A")?;
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    scenario.clear(&packages, &cluster)?;
    scenario.check_that_nothing_is_left()
}

/// Everything that happens to the cluster while VNF-B serves.
fn change(scenario: &mut Scenario<'_>, machines: &Machines, next: &NextRelease) -> Result<()> {
    let workers = ["vnf", "scale", VNF_A, "--aspect", "workers", "--steps", "2"];
    for (label, way) in [
        ("scale to four workers", "--out"),
        ("scale to two workers", "--in"),
    ] {
        run(scenario, label, &[&workers[..], &[way]].concat())?;
    }
    let lost = cut_power(scenario, machines)?;
    heal(scenario, lost)?;
    for what in ["certificates", "ca", "login"] {
        rotate(scenario, what)?;
    }
    check(scenario)?;
    back_up_and_restore(scenario, machines)?;
    upgrade(scenario, machines, next)
}

/// Replaces certificates or login, while the API server serves at the cluster's address all the time.
fn rotate(scenario: &mut Scenario<'_>, what: &str) -> Result<()> {
    let ctl = scenario.ctl;
    let label = format!("rotate the {what}");
    scenario.stage.step(&label, |progress| {
        let requests = Requests::start(&endpoint());
        let words = ["cluster", "rotate", what, VNF_A, "--watch"];
        ctl.watch(progress, &words)?;
        progress.show(&requests.end()?);
        Ok(())
    })
}

/// Address and port of the API server.
fn endpoint() -> String {
    format!("{ADDRESS}:16443")
}

/// Checks the cluster, which is the only one, and whose members of etcd are all healthy.
fn check(scenario: &mut Scenario<'_>) -> Result<()> {
    run(scenario, "check the cluster", &["cluster", "check", VNF_A])?;
    let ctl = scenario.ctl;
    scenario
        .stage
        .step("list and show the cluster", |progress| {
            let all = ctl.json(&["cluster", "list"])?;
            let all = all.as_array().map_or(0, Vec::len);
            ensure!(all == 1, "there are {all} clusters");
            let shown = ctl.json(&["cluster", "show", VNF_A])?;
            let members = &shown["metadata"]["etcdMembers"];
            progress.show(&format!("etcd: {members}"));
            let healthy = members.as_object().into_iter().flatten();
            let healthy = healthy.filter(|(_, state)| **state == "healthy").count();
            ensure!(
                healthy == CONTROL_PLANES.len(),
                "{healthy} members of etcd are healthy"
            );
            Ok(())
        })
}

/// Runs a command that begins an operation, to its end.
fn run(scenario: &mut Scenario<'_>, label: &str, words: &[&str]) -> Result<()> {
    let ctl = scenario.ctl;
    let words = [words, &["--watch"]].concat();
    scenario
        .stage
        .step(label, |progress| ctl.watch(progress, &words))
}

/// The address of VNF-B's Service in the cluster.
fn service_address(scenario: &Scenario<'_>) -> Result<String> {
    let instance = scenario.ctl.json(&["vnf", "show", VNF_B])?;
    let cps = instance["instantiatedVnfInfo"]["extCpInfo"].as_array();
    let path = "/cpProtocolInfo/0/ipOverEthernet/ipAddresses/0/addresses/0";
    let mut addresses = cps.into_iter().flatten().filter_map(|cp| cp.pointer(path));
    let first = addresses.next().and_then(Value::as_str);
    first
        .map(str::to_owned)
        .context("the record of VNF-B has no address of its Service")
}

/// Powers off the host that has the cluster's address, and waits until another one serves; the name of the host.
fn cut_power(scenario: &mut Scenario<'_>, machines: &Machines) -> Result<&'static str> {
    let label = "power cut of the control plane with the cluster's address: served again";
    scenario.stage.step(label, |progress| {
        let mut owner = None;
        for name in CONTROL_PLANES {
            let shown = machines.inside(name, &format!("ip -o addr show to {ADDRESS}"))?;
            owner = owner.or((!shown.trim().is_empty()).then_some(name));
        }
        let owner = owner.context("no control-plane node has the cluster's address")?;
        let cut = Instant::now();
        machines.power_off(owner)?;
        while !availability::is_ready(&endpoint(), "1")? {
            ensure!(
                cut.elapsed() < MAX_OUTAGE,
                "the API server is not served {MAX_OUTAGE:?} after the power cut of `{owner}`"
            );
            interrupt::pause(POLL_INTERVAL)?;
        }
        let seconds = cut.elapsed().as_secs_f64();
        progress.show(&format!("`{owner}` is off; served after {seconds:.1} s"));
        Ok(owner)
    })
}

/// Heals the VNFC on this host.
fn heal(scenario: &mut Scenario<'_>, host: &str) -> Result<()> {
    let instance = scenario.ctl.json(&["vnf", "show", VNF_A])?;
    let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].as_array();
    let is_lost = |vnfc: &&Value| {
        let name = vnfc["metadata"]["name"].as_str();
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    };
    let lost = vnfcs.into_iter().flatten().find(is_lost);
    let id = text(
        lost.with_context(|| format!("VNF-A has no VNFC `{host}`"))?,
        "id",
    )?
    .to_owned();
    let label = format!("heal {host}");
    run(scenario, &label, &["vnf", "heal", VNF_A, "--vnfc", &id])
}

/// Takes a snapshot of etcd and restores it. etcd has one member afterwards: the other control-plane nodes are healed.
fn back_up_and_restore(scenario: &mut Scenario<'_>, machines: &Machines) -> Result<()> {
    let (ctl, folder) = (scenario.ctl, scenario.folder);
    let secret = folder.join("passphrase");
    std::fs::write(&secret, PASSPHRASE).context("cannot write the passphrase")?;
    note(machines, CONTROL_PLANES[0], "before the backup")?;
    scenario.stage.step("back up etcd", |progress| {
        let words = ["cluster", "backup", VNF_A, "--watch"];
        ctl.watch_with_input(progress, &words, &secret)
    })?;
    note(machines, CONTROL_PLANES[0], "after the backup")?;
    let instance = ctl.json(&["vnf", "show", VNF_A])?;
    let (first, snapshot) = newest_snapshot(&instance["metadata"]["etcdSnapshots"])?;
    scenario
        .stage
        .step("restore the snapshot of etcd", |progress| {
            let words = [
                "cluster",
                "restore",
                VNF_A,
                "--snapshot",
                &snapshot,
                "--watch",
            ];
            ctl.watch_with_input(progress, &words, &secret)
        })?;
    for host in CONTROL_PLANES {
        if !host.eq_ignore_ascii_case(&first) {
            heal(scenario, host)?;
        }
    }
    let script = format!("{KUBECTL} get configmap demo-note -o jsonpath='{{.data.text}}'");
    let found = machines.inside(&first, &script)?;
    ensure!(
        found.trim() == "before the backup",
        "the restored cluster has the text `{}`",
        found.trim()
    );
    let pods = format!("{KUBECTL} -n kube-system get pods -l component=etcd -o name");
    let members = machines.inside(&first, &pods)?.lines().count();
    ensure!(
        members == CONTROL_PLANES.len(),
        "etcd has {members} members after the heals"
    );
    Ok(())
}

/// Writes a text to the cluster, which a restore must bring back or take away.
fn note(machines: &Machines, host: &str, text: &str) -> Result<()> {
    let script = format!(
        "{KUBECTL} create configmap demo-note --from-literal=text='{text}' --dry-run=client -o yaml | {KUBECTL} apply -f -"
    );
    machines.inside(host, &script).map(drop)
}

/// The first control-plane node, and the newest snapshot on it.
fn newest_snapshot(snapshots: &Value) -> Result<(String, String)> {
    let by_node = snapshots.as_object().into_iter().flatten();
    let mut found = by_node.filter_map(|(node, all)| {
        let newest = all.as_object()?.keys().max()?;
        Some((node.clone(), newest.clone()))
    });
    found.next().context("VNF-A names no snapshot of etcd")
}

/// Changes VNF-A to the next release, node by node.
fn upgrade(scenario: &mut Scenario<'_>, machines: &Machines, next: &NextRelease) -> Result<()> {
    let label = "give the hosts the images of the next minor version";
    scenario.stage.step(label, |_| {
        CONTROL_PLANES
            .iter()
            .map(|name| (name, "images"))
            .chain(WORKERS.iter().map(|name| (name, "images/worker")))
            .try_for_each(|(name, images)| machines.import(name, &next.assets.join(images)))
    })?;
    let request = json!({
        "vnfdId": next.vnfd_id,
        "additionalParams": { "parallel_upgrades": 1, "drain_timeout_seconds": 300 },
    });
    let file: PathBuf = write_request(scenario.folder, &request)?;
    let file = file.to_string_lossy().into_owned();
    let label = format!("upgrade Kubernetes to {}", next.version);
    let words = ["vnf", "change_vnfpkg", VNF_A, "--request", &file];
    run(scenario, &label, &words)?;
    let instance = scenario.ctl.json(&["vnf", "show", VNF_A])?;
    let version = &instance["metadata"]["kubernetesVersion"];
    ensure!(
        *version == next.version.as_str(),
        "the cluster has Kubernetes {version} after the upgrade"
    );
    check_versions(machines, &next.version)
}

/// Checks the version of every kubelet, of every component of the control plane, and of kube-proxy.
fn check_versions(machines: &Machines, version: &str) -> Result<()> {
    let ask = |what: &str| machines.inside(CONTROL_PLANES[0], &format!("{KUBECTL} {what}"));
    let kubelets = ask("get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'")?;
    let count = CONTROL_PLANES.len() + WORKERS.len();
    let is_new = |one: &str| one == version;
    ensure!(
        kubelets
            .split_whitespace()
            .filter(|one| is_new(one))
            .count()
            == count,
        "not all kubelets have {version}: {kubelets}"
    );
    let images = "jsonpath='{.items[*].spec.containers[*].image}'";
    for component in [
        "component=kube-apiserver",
        "component=kube-controller-manager",
        "component=kube-scheduler",
        "k8s-app=kube-proxy",
    ] {
        let shown = ask(&format!(
            "-n kube-system get pods -l {component} -o {images}"
        ))?;
        let mut shown = shown.split_whitespace();
        ensure!(
            shown.clone().next().is_some()
                && shown.all(|image| image.ends_with(&format!(":{version}"))),
            "not all pods with `{component}` have {version}"
        );
    }
    Ok(())
}

fn write_request(folder: &Path, request: &Value) -> Result<PathBuf> {
    let file = folder.join("change_vnfpkg.json");
    std::fs::write(&file, request.to_string())
        .with_context(|| format!("cannot write `{}`", file.display()))?;
    Ok(file)
}
