//! Scenarios with the built programs in the simulated world: the demo, and everything that may go wrong.
//!
//! | module | what |
//! |---|---|
//! | `bundles` | a site without internet access installs everything from one file |
//! | `concurrent_clients` | many HTTP clients at once |
//! | `cloud_integration` | a cluster with a login to its cloud |
//! | `cluster_backups` | snapshots of etcd by schedule, stored with the server |
//! | `cluster_heal` | VNF-A is healed under VNF-B |
//! | `cluster_scale` | VNF-A is scaled under VNF-B |
//! | `containers` | failures of containers, and of their removal |
//! | `crashes` | `kill -9` of the server during operations |
//! | `new_package` | packages created by `vnfmctl new vnfd` |
//! | `grants` | an NFVO that grants, rejects, delays, fails or does not respond |
//! | `heal_containers` | healing a VNF of containers; refusals of its cluster |
//! | `follow` | records follow pods that change outside of operations |
//! | `flavours` | a VNF of servers changes its flavour and its external links, there and back |
//! | `operate` | VNFs of servers and of containers are stopped and started |
//! | `heal_servers` | healing servers of a VNF without hooks |
//! | `heat` | failures of Heat, as operators see them |
//! | `join_failures` | a worker that cannot join; retry, rollback and fail |
//! | `packages` | the reference package, vendor scripts, hosts without Kubernetes |
//! | `password_change` | the VIM's password changes during an operation |
//! | `hook_processes` | hooks that run in separate processes |
//! | `refusals` | invalid requests and packages |
//! | `maintenance` | SIGTERM, an older backup, a full disk |
//! | `samples` | the other samples |
//! | `scaling` | servers and pods are added and removed |
//! | `scripts` | hooks that are package scripts |
//! | `secrets` | planted secrets leak nowhere |
//! | `nfvo_packages` | packages fetched from the NFVO |
//! | `traces` | spans sent to a collector |
//! | `upgrades` | VNFs of servers and of containers change their package, there and back |
//! | `vim_limits` | limits of calls and operations per VIM |
//! | `ssh` | failures of SSH during an operation |

mod bundles;
mod cloud_integration;
mod cluster_addons;
mod cluster_backups;
mod cluster_heal;
mod cluster_scale;
mod cluster_upgrade;
mod concurrent_clients;
mod containers;
mod crashes;
mod flavours;
mod follow;
mod grants;
mod heal_containers;
mod heal_servers;
mod heat;
mod hook_processes;
mod join_failures;
mod maintenance;
mod networks;
mod new_package;
mod nfvo_packages;
mod node_software;
mod operate;
mod packages;
mod password_change;
mod refusals;
mod samples;
mod scaling;
mod scripts;
mod secrets;
mod ssh;
mod tosca_only;
mod traces;
mod upgrades;
mod vim_limits;

use std::path::Path;

use vnfm_tests::demo::{demo_report, processes_of, run_demo, steps};
use vnfm_tests::programs::{program, until};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::copy;
use vnfm_tests::testbed::{LONG, Testbed};

fn assert_demo_passes(package: &str) {
    let report = passed_demo(&[], package);
    let refused = steps(&report).iter().any(|step| step.contains("refused"));
    assert!(
        refused,
        "VNF-A was not protected while VNF-B lived on it: {report}"
    );
    assert!(
        report["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0),
        "{report}"
    );
}

#[test]
fn vnf_b_runs_on_vnf_a_from_tosca_and_both_are_removed_completely() {
    assert_demo_passes("tosca");
}

#[test]
fn vnf_b_runs_on_vnf_a_from_base_hot_and_both_are_removed_completely() {
    assert_demo_passes("base-hot");
}

/// The report of a simulated demo that passed and left nothing.
fn passed_demo(options: &[&str], package: &str) -> serde_json::Value {
    let report = demo_report(options, package).unwrap();
    assert_eq!(report["world"], "simulated");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
    report
}

#[test]
fn a_cluster_grows_and_shrinks_and_its_growth_is_timed() {
    let report = passed_demo(&["--story", "workers"], "tosca");
    let steps = report["steps"].as_array().unwrap();
    let growth = steps
        .iter()
        .find(|step| step["step"] == "scale VNF-A to four workers");
    assert!(growth.unwrap()["seconds"].is_number(), "{report:#}");
}

#[test]
fn every_operation_is_played_there_and_back() {
    let report = passed_demo(&["--story", "operations"], "tosca");
    assert_eq!(report["story"], "operations");
    let steps = steps(&report);
    for operation in vnfm_core::lcm::OPERATIONS {
        let task = operation.task.unwrap_or("modify");
        let played = steps.iter().filter(|step| !step.contains("refused"));
        let played = played.filter(|step| step.split(' ').next() == Some(task));
        let count = played.count();
        assert!(count > 0, "the story does not play `{task}`: {steps:#?}");
    }
    let refused = steps.iter().filter(|step| step.ends_with(": refused"));
    assert!(refused.count() >= 2, "{steps:#?}");
}

#[test]
fn ctrl_c_during_the_demo_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("tmp");
    std::fs::create_dir(&own).unwrap();
    let demo = run_demo(&[], &own, Some("PROCESSING instantiate_end")).unwrap();
    assert!(
        !demo.success && demo.output.contains("interrupted"),
        "{}",
        demo.output
    );
    for part in [
        "cleaning up",
        "clean up vnf-a",
        "the demo failed; the error is above",
    ] {
        assert!(
            demo.output.contains(part),
            "no `{part}` in\n{}",
            demo.output
        );
    }
    assert!(!demo.output.contains("left behind:"), "{}", demo.output);
    assert_eq!(processes_of(&own), [""; 0]);
    assert_eq!(
        std::fs::read_dir(&own).unwrap().count(),
        0,
        "a temporary folder is left"
    );
}

#[test]
fn demo_keep_leaves_a_usable_environment_and_prints_how_to_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("tmp");
    std::fs::create_dir(&own).unwrap();
    let demo = run_demo(&["--keep"], &own, None).unwrap();
    assert!(demo.success, "{}", demo.output);
    let line = |word: &str| {
        let mut lines = demo.output.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(word))
            .unwrap_or_else(|| panic!("{}", demo.output))
    };
    let run = |words: &str| {
        let path = program("vnfmctl").parent().unwrap().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &format!("PATH={}:$PATH; {words}", path.display())])
            .output()
            .unwrap()
    };
    let listed = run(line("try: "));
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("COMPLETED"),
        "{listed:?}"
    );
    assert_eq!(processes_of(&own).len(), 2, "server and world run on");
    assert!(run(line("to stop: ")).status.success());
    until("both have ended", LONG, || {
        processes_of(&own).is_empty().then_some(())
    });
    assert_eq!(
        std::fs::read_dir(&own).unwrap().count(),
        0,
        "a temporary folder is left"
    );
}

/// A simulated world with these flags, and a server with its cloud registered.
fn testbed(flags: &[&str], log: &str) -> (Simulator, Testbed) {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulator::start(folder.path(), flags);
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), log);
    (sim, testbed)
}

/// The same with the server's own configuration.
fn testbed_with(configuration: &str) -> (Simulator, Testbed) {
    testbed_in(&[], configuration)
}

/// The same, with flags for the world.
fn testbed_in(flags: &[&str], configuration: &str) -> (Simulator, Testbed) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.yaml"), configuration).unwrap();
    let sim = Simulator::start(folder.path(), flags);
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), "info");
    (sim, testbed)
}

/// A copy of a sample of VNF-A without hooks.
fn package_without_hooks(sample: &str, folder: &Path) -> String {
    let package = copy(sample, folder);
    let vnfd = package.join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let (head, rest) = text.split_once("      interfaces:\n").unwrap();
    let (_, tail) = rest.split_once("      artifacts:\n").unwrap();
    std::fs::write(&vnfd, format!("{head}      artifacts:\n{tail}")).unwrap();
    package.to_string_lossy().into_owned()
}
