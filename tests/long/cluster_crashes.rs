//! Ten crashes in each operation on a cluster, on real hosts, with one control-plane node and with three: every other one kills the plugin's process alone if a hook runs at
//! that moment, the others the server with it. Afterwards the cluster is as the operation should leave it, and VNF-B has served all the time.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::programs::Server;
use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{CLUSTER, LONG, Testbed, VNF_A};

use crate::cluster_actions::{
    PASSPHRASE, Scenario, action_request, next_release, next_release_request, next_version,
    upgrade_request,
};
use crate::control_planes::{self, SAMPLE};

/// The hosts of three control-plane nodes and two workers.
const FIVE: [&str; 5] = [
    "masterNode-0",
    "masterNode-1",
    "masterNode-2",
    "workernode-0",
    "workernode-1",
];
/// A host that no operation replaces.
const CLIENT: &str = "workernode-0";
const DEATHS: usize = 10;
/// Every other point kills the hook's process, if one runs at that moment.
const LEAST_OF_HOOKS: usize = 1;
/// How long an operation with crashes may take.
const CRASHED: Duration = Duration::from_mins(40);
/// The minimum number of crash points of an operation that can be repeated: twice the same one. Those that it does not reach would
/// all be at the start of the next.
const REPEATED: &[usize] = &[14; 2];
/// Likewise of one that takes seconds, and of a restore.
const SHORT: &[usize] = &[6; 2];
const RESTORE: &[usize] = &[11; 2];
/// Likewise of a restore and the heals of two control-plane nodes.
const RESTORE_AND_HEALS: &[usize] = &[11, 10, 10];
/// The minimum number of crash points of the upgrade, which happens once.
const ONCE: &[usize] = &[16];

type Begin<'a> = &'a dyn Fn(&Testbed) -> String;

/// A cluster with VNF-B, by a server whose hooks run in processes, and what `next.sh` makes.
fn begin() -> Option<(Scenario, PathBuf)> {
    let (next, real) = (next_version()?, Real::find()?);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), "info", Some("process"));
    let testbed = Testbed::with(server, data, &real.clouds, 22);
    Some((Scenario::on(real, testbed), next))
}

/// A cluster with three control-plane nodes and VNF-B, and what `next.sh` makes.
fn begin_three() -> Option<(Scenario, PathBuf)> {
    let (next, real) = (next_version()?, Real::find()?);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), "info", Some("process"));
    let testbed = Testbed::with(server, data, &real.clouds, 22);
    let cluster = control_planes::begin_a(&testbed, |_| {});
    let sources = tempfile::tempdir().unwrap();
    // Both pods may be on one worker when it is drained.
    testbed.instantiate_b_from(&b_with_budget(sources.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);
    let scenario = Scenario {
        hosts: &FIVE,
        real,
        testbed,
        inside,
    };
    Some((scenario, next))
}

/// Repeats operations until ten crashes have happened. No request of VNF-B fails meanwhile.
fn crash_in(scenario: &mut Scenario, what: &str, course: &[usize], operations: &[Begin<'_>]) {
    let on = (&scenario.real, &scenario.testbed);
    let client = Client::start_on(CLIENT, on, &scenario.inside);
    let mut crashes = CrashPlan::draw_for(DEATHS, course)
        .of_hooks_too()
        .within(CRASHED);
    while !crashes.is_over() {
        for begin in operations {
            crashes.run_operation(&mut scenario.testbed, *begin);
            scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
        }
    }
    let (served, failed) = client.end();
    let (retries, points) = (crashes.retried, crashes.crashed_at.join("\n"));
    println!("{what}: {served} requests of VNF-B served, {retries} retries; killed at\n{points}");
    assert_eq!(crashes.crashed_at.len(), DEATHS);
    let of_hooks = crashes
        .crashed_at
        .iter()
        .filter(|at| at.starts_with("hook"));
    assert!(of_hooks.count() >= LEAST_OF_HOOKS, "{points}");
    assert_eq!(failed, "", "failed requests during {what}");
    assert_intact(scenario);
}

/// Every node is ready, and VNF-B has its two pods.
fn assert_intact(scenario: &Scenario) {
    for host in scenario.hosts {
        scenario
            .inside
            .wait_until_ready(&host.to_lowercase(), true, LONG);
    }
    assert_eq!(scenario.inside.nodes().len(), scenario.hosts.len());
    scenario.inside.assert_b_recorded(&scenario.testbed, 2);
}

/// Begins an action on the cluster.
fn act(testbed: &Testbed, action: &str, params: &Value) -> String {
    testbed.begin(VNF_A, "operate", &action_request(action, params))
}

/// Begins to restore the newest snapshot of etcd.
fn restore(testbed: &Testbed) -> String {
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let by_node = shown["metadata"]["etcdSnapshots"].as_object().unwrap();
    let snapshots = by_node.values().next().unwrap().as_object().unwrap();
    let newest = snapshots.keys().max().unwrap();
    let params = json!({ "etcd_passphrase": PASSPHRASE, "etcd_snapshot": newest });
    act(testbed, "restore", &params)
}

/// Crashes in each rotation and in backups.
fn crash_in_actions(scenario: &mut Scenario) {
    let none = json!({});
    let passphrase = json!({ "etcd_passphrase": PASSPHRASE });
    for (action, params, course) in [
        ("renew_certificates", &none, REPEATED),
        ("renew_login", &none, SHORT),
        ("rotate_ca", &none, REPEATED),
        ("backup", &passphrase, SHORT),
    ] {
        let begin = |testbed: &Testbed| act(testbed, action, params);
        crash_in(scenario, action, course, &[&begin]);
    }
}

#[test]
fn ten_crashes_in_each_rotation_backup_and_restore() {
    let Some((mut scenario, _)) = begin() else {
        return;
    };
    crash_in_actions(&mut scenario);
    crash_in(&mut scenario, "restore", RESTORE, &[&restore]);
    scenario.testbed.use_kubeconfig();
    scenario.end();
}

#[test]
fn ten_crashes_while_a_cluster_grows_and_shrinks_and_is_healed_and_upgraded() {
    let Some((mut scenario, next)) = begin() else {
        return;
    };
    let out = |testbed: &Testbed| testbed.scale_workers("--out", 1);
    let back = |testbed: &Testbed| testbed.scale_workers("--in", 1);
    crash_in(&mut scenario, "scale", REPEATED, &[&out, &back]);
    let heal = |testbed: &Testbed| {
        let lost = &vnfcs(testbed)["workerNode-1"];
        testbed.heal(&[&lost.id], &[])
    };
    crash_in(&mut scenario, "heal", REPEATED, &[&heal]);
    let folder = tempfile::tempdir().unwrap();
    // Not earlier: a heal replaces a host, with all that it had.
    let package = scenario.offer_next_version(&next, folder.path());
    scenario.testbed.onboard(&package);
    let upgrade = |testbed: &Testbed| testbed.begin(VNF_A, "change_vnfpkg", &upgrade_request());
    crash_in(&mut scenario, "upgrade", ONCE, &[&upgrade]);
    scenario.end();
}

/// Begins to heal this control-plane node.
fn heal_control_plane(testbed: &Testbed, name: &str) -> String {
    testbed.heal(&[&vnfcs(testbed)[name].id], &[])
}

#[test]
fn ten_crashes_while_a_control_plane_of_three_is_healed_and_all_are_upgraded() {
    let Some((mut scenario, next)) = begin_three() else {
        return;
    };
    let heal = |testbed: &Testbed| heal_control_plane(testbed, FIVE[1]);
    crash_in(&mut scenario, "heal", REPEATED, &[&heal]);
    let folder = tempfile::tempdir().unwrap();
    scenario
        .testbed
        .onboard(&next_release(SAMPLE, &next, folder.path()));
    for host in FIVE {
        scenario.give_images(host, &next);
    }
    let request = next_release_request();
    let upgrade = |testbed: &Testbed| testbed.begin(VNF_A, "change_vnfpkg", &request);
    crash_in(&mut scenario, "upgrade", ONCE, &[&upgrade]);
    scenario.end();
}

#[test]
fn ten_crashes_in_each_rotation_backup_and_restore_of_three_control_planes() {
    let Some((mut scenario, _)) = begin_three() else {
        return;
    };
    crash_in_actions(&mut scenario);
    let first = |testbed: &Testbed| heal_control_plane(testbed, FIVE[1]);
    let second = |testbed: &Testbed| heal_control_plane(testbed, FIVE[2]);
    let all: [Begin<'_>; 3] = [&restore, &first, &second];
    crash_in(&mut scenario, "restore", RESTORE_AND_HEALS, &all);
    scenario.testbed.use_kubeconfig();
    scenario.end();
}
