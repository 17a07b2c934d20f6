//! Ten crashes in each operation on a cluster, on real hosts: every other one kills the plugin's process alone if a hook runs at
//! that moment, the others the server with it. Afterwards the cluster is as the operation should leave it, and VNF-B has served all the time.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::cluster_access::vnfcs;
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::programs::Server;
use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;
use vnfm_tests::testbed::{CLUSTER, LONG, Testbed, VNF_A};

use crate::cluster_actions::{
    HOSTS, LIMIT, PASSPHRASE, Scenario, action_request, next_version, upgrade_request,
};

const DEATHS: usize = 10;
/// The minimum number of crash points of an operation that can be repeated: twice the same one. Those that it does not reach would
/// all be at the start of the next.
const REPEATED: &[usize] = &[14; 2];
/// Likewise of one that takes seconds, and of a restore.
const SHORT: &[usize] = &[6; 2];
const RESTORE: &[usize] = &[11; 2];
/// The minimum number of crash points of the upgrade, which happens once.
const ONCE: &[usize] = &[16];

type Begin<'a> = &'a dyn Fn(&Testbed) -> String;

/// A cluster with VNF-B, by a server whose hooks run in processes. The hosts have the next minor version, whose package is in
/// `folder`.
fn begin(folder: &Path) -> Option<(Scenario, String)> {
    let (next, real) = (next_version()?, Real::find()?);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), "info", Some("process"));
    let testbed = Testbed::with(server, data, &real.clouds, 22);
    let scenario = Scenario::on(real, testbed);
    let package = scenario.offer_next_version(&next, folder);
    Some((scenario, package))
}

/// Repeats operations until ten crashes have happened. No request of VNF-B fails meanwhile.
fn crash_in(scenario: &mut Scenario, what: &str, course: &[usize], operations: &[Begin<'_>]) {
    let client = Client::start(&scenario.real, &scenario.testbed, &scenario.inside);
    let mut crashes = CrashPlan::draw_for(DEATHS, course)
        .of_hooks_too()
        .within(LIMIT);
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
    assert_eq!(failed, "", "failed requests during {what}");
    assert_intact(scenario);
}

/// Every node is ready, and VNF-B has its two pods.
fn assert_intact(scenario: &Scenario) {
    for host in HOSTS {
        scenario
            .inside
            .wait_until_ready(&host.to_lowercase(), true, LONG);
    }
    assert_eq!(scenario.inside.nodes().len(), HOSTS.len());
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

#[test]
fn ten_crashes_in_each_rotation_backup_and_restore() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut scenario, _)) = begin(folder.path()) else {
        return;
    };
    let none = json!({});
    let passphrase = json!({ "etcd_passphrase": PASSPHRASE });
    for (action, params, course) in [
        ("renew_certificates", &none, REPEATED),
        ("renew_login", &none, SHORT),
        ("rotate_ca", &none, REPEATED),
        ("backup", &passphrase, SHORT),
    ] {
        let begin = |testbed: &Testbed| act(testbed, action, params);
        crash_in(&mut scenario, action, course, &[&begin]);
    }
    crash_in(&mut scenario, "restore", RESTORE, &[&restore]);
    scenario.testbed.use_kubeconfig();
    scenario.end();
}

#[test]
fn ten_crashes_while_a_cluster_grows_and_shrinks_and_is_healed_and_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut scenario, package)) = begin(folder.path()) else {
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
    scenario.testbed.onboard(&package);
    let upgrade = |testbed: &Testbed| testbed.begin(VNF_A, "change_vnfpkg", &upgrade_request());
    crash_in(&mut scenario, "upgrade", ONCE, &[&upgrade]);
    scenario.end();
}
