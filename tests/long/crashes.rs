//! Ten crashes of the server in each operation there and back, on real OpenStack and on real Kubernetes: afterwards record and
//! neighbour agree, what should stay has stayed, and nothing is left behind.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use vnfm_tests::cloud::Cloud;
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::real::Real;
use vnfm_tests::scaling::{LEVELS, instantiate_levels};
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{Testbed, VIM, VNF_A, VNF_B};
use vnfm_tests::upgrades::{ROLLING, begin, instantiate_rolling, shown, vnfcs};

const DEATHS: usize = 10;
/// The minimum number of crash points of each operation: twice there and back.
const COURSE: [usize; 4] = [7; 4];

/// Name and sample of the instance that changes its flavour.
const FLAVOURS: &str = "vnf-flavours";

/// Creates and instantiates `vnf-flavours` on the cloud.
fn instantiate_flavours(testbed: &Testbed) {
    let package = testbed.onboard(FLAVOURS);
    let words = ["vnf", "create", "--package", &package, "--name", FLAVOURS];
    testbed.server.ctl(&words);
    let vim = testbed.server.ctl(&["vim", "show", VIM])["id"].clone();
    let request = testbed.request(FLAVOURS, vim.as_str().unwrap());
    testbed.wait_for_state(&testbed.instantiate(FLAVOURS, &request), "COMPLETED");
}

/// A request of the sample `vnf-flavours` that names this external network.
fn flavour_request(name: &str, network: &str) -> Value {
    let path = root().join(format!("vnfd-samples/{FLAVOURS}/requests/{name}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text.replace("@NETWORK_ID@", network)).unwrap()
}

/// Requests a scaling; the operation.
fn scale(testbed: &Testbed, words: &[&str]) -> String {
    let begun = testbed.server.ctl(&[&["vnf", "scale"], words].concat());
    begun["vnfLcmOpOccId"].as_str().unwrap().to_owned()
}

/// The resources of an instance's VNFCs.
fn recorded(testbed: &Testbed, vnf: &str) -> BTreeSet<String> {
    let info = shown(testbed, vnf)["instantiatedVnfInfo"].clone();
    let all = info["vnfcResourceInfo"].as_array().unwrap().iter();
    let id = |vnfc: &Value| {
        vnfc["computeResource"]["resourceId"]
            .as_str()
            .map(str::to_owned)
    };
    all.filter_map(id).collect()
}

/// The servers that Nova has of ours.
fn servers(cloud: &Cloud) -> BTreeSet<String> {
    let all = cloud.list("compute", "/servers/detail", "servers");
    let ours = all
        .iter()
        .filter(|one| one["metadata"]["vnfm_vdu"].is_string());
    ours.filter_map(|one| one["id"].as_str().map(str::to_owned))
        .collect()
}

/// Changes an instance there and back until the server has died ten times. After each change `agrees` compares the record with
/// the neighbour.
fn crash_there_and_back(
    testbed: &mut Testbed,
    vnf: &str,
    [there, back]: [&dyn Fn(&Testbed) -> String; 2],
    agrees: impl Fn(&Testbed),
) {
    let mut crashes = CrashPlan::draw_for(DEATHS, &COURSE);
    let first = vnfcs(&shown(testbed, vnf)).len();
    while !crashes.is_over() {
        crashes.run_operation(testbed, there);
        agrees(testbed);
        crashes.run_operation(testbed, back);
        agrees(testbed);
        assert_eq!(vnfcs(&shown(testbed, vnf)).len(), first);
    }
    let crashed_at = crashes.crashed_at.join("\n");
    println!("{} retries; died at\n{crashed_at}", crashes.retried);
    assert_eq!(crashes.crashed_at.len(), DEATHS);
}

#[test]
fn ten_crashes_while_servers_are_added_and_removed() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    instantiate_levels(&testbed);
    let cloud = real.cloud();
    let first = recorded(&testbed, LEVELS);
    crash_there_and_back(
        &mut testbed,
        LEVELS,
        [
            &|testbed| scale(testbed, &[LEVELS, "--aspect", "clients", "--out"]),
            &|testbed| scale(testbed, &[LEVELS, "--aspect", "clients", "--in"]),
        ],
        |testbed| {
            let now = recorded(testbed, LEVELS);
            assert_eq!(now, servers(&cloud));
            assert!(now.is_superset(&first), "a server that should stay is gone");
        },
    );
    testbed.terminate_and_delete(LEVELS);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn ten_crashes_while_four_servers_change_their_package() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    let vim = testbed.server.ctl(&["vim", "show", VIM])["id"].clone();
    instantiate_rolling(&testbed, vim.as_str().unwrap());
    let cloud = real.cloud();
    let first = recorded(&testbed, ROLLING);
    crash_there_and_back(
        &mut testbed,
        ROLLING,
        [
            &|testbed| begin(testbed, ROLLING, "vnf-rolling-1"),
            &|testbed| begin(testbed, ROLLING, "vnf-rolling-2"),
        ],
        |testbed| {
            assert_eq!(
                recorded(testbed, ROLLING),
                first,
                "servers are rebuilt in place"
            );
            assert_eq!(servers(&cloud), first);
        },
    );
    testbed.terminate_and_delete(ROLLING);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn ten_crashes_while_servers_stop_and_start() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    instantiate_levels(&testbed);
    let cloud = real.cloud();
    let first = recorded(&testbed, LEVELS);
    let operate = |testbed: &Testbed, word: &str| {
        let begun = testbed.server.ctl(&["vnf", "operate", LEVELS, word]);
        begun["vnfLcmOpOccId"].as_str().unwrap().to_owned()
    };
    crash_there_and_back(
        &mut testbed,
        LEVELS,
        [&|testbed| operate(testbed, "--stop"), &|testbed| {
            operate(testbed, "--start")
        }],
        |_| assert_eq!(servers(&cloud), first),
    );
    testbed.terminate_and_delete(LEVELS);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn ten_crashes_while_a_vnf_changes_its_flavour_and_ten_while_it_changes_its_network() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    let cloud = real.cloud();
    instantiate_flavours(&testbed);
    let task = |testbed: &Testbed, task: &str, request: &str, network: &str| {
        testbed.begin(FLAVOURS, task, &flavour_request(request, network))
    };
    let [home, other] = ["provider", "nfv-net"].map(|name| cloud.network_named(name));
    crash_there_and_back(
        &mut testbed,
        FLAVOURS,
        [
            &|testbed| task(testbed, "change_flavour", "change_flavour", &home),
            &|testbed| task(testbed, "change_flavour", "change_flavour_back", &home),
        ],
        |testbed| assert_eq!(recorded(testbed, FLAVOURS), servers(&cloud)),
    );
    let first = servers(&cloud);
    crash_there_and_back(
        &mut testbed,
        FLAVOURS,
        [&other, &home]
            .map(|network| {
                move |testbed: &Testbed| {
                    task(testbed, "change_ext_conn", "change_ext_conn", network)
                }
            })
            .each_ref()
            .map(|one| one as &dyn Fn(&Testbed) -> String),
        |testbed| {
            assert_eq!(recorded(testbed, FLAVOURS), first);
            assert_eq!(servers(&cloud), first);
        },
    );
    testbed.terminate_and_delete(FLAVOURS);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn ten_crashes_while_a_state_is_stored_and_returned_to() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    let cloud = real.cloud();
    instantiate_flavours(&testbed);
    let first = servers(&cloud);
    let snapshots = RefCell::new(Vec::new());
    let body = |snapshot: &str| json!({"vnfSnapshotInfoId": snapshot});
    crash_there_and_back(
        &mut testbed,
        FLAVOURS,
        [
            &|testbed| {
                let created = testbed.server.ctl(&["snapshot", "create"]);
                let id = created["id"].as_str().unwrap().to_owned();
                let op = testbed.begin(FLAVOURS, "create_snapshot", &body(&id));
                snapshots.borrow_mut().push(id);
                op
            },
            &|testbed| {
                let newest = body(snapshots.borrow().last().unwrap());
                testbed.begin(FLAVOURS, "revert_to_snapshot", &newest)
            },
        ],
        |testbed| {
            assert_eq!(recorded(testbed, FLAVOURS), first);
            assert_eq!(servers(&cloud), first, "servers are rebuilt in place");
        },
    );
    for snapshot in snapshots.take() {
        testbed.server.ctl(&["snapshot", "delete", &snapshot]);
    }
    testbed.terminate_and_delete(FLAVOURS);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn ten_crashes_while_vnf_b_scales_and_ten_while_it_changes_its_package() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.onboard("vnf-b-cnf-2");
    let inside = ClusterShell::connect(&testbed);
    let agrees = |testbed: &Testbed| {
        let pods = vnfcs(&shown(testbed, VNF_B)).len();
        inside.assert_b_recorded(testbed, pods);
    };
    crash_there_and_back(
        &mut testbed,
        VNF_B,
        [
            &|testbed| scale(testbed, &[VNF_B, "--aspect", "web", "--out"]),
            &|testbed| scale(testbed, &[VNF_B, "--aspect", "web", "--in"]),
        ],
        agrees,
    );
    crash_there_and_back(
        &mut testbed,
        VNF_B,
        [&|testbed| begin(testbed, VNF_B, "vnf-b-cnf"), &|testbed| {
            begin(testbed, VNF_B, "vnf-b-cnf-2")
        }],
        agrees,
    );
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}
