//! The story in the simulated world, by the built programs: told to its end, and with everything that may go wrong.
//!
//! | module | what |
//! |---|---|
//! | `concurrent_clients` | many at once |
//! | `cluster_heal` | VNF-A is healed under VNF-B |
//! | `containers` | what keeps containers from running or from going |
//! | `crashes` | `kill -9` of the server in the middle |
//! | `new_package` | what `vnfmctl new vnfd` makes |
//! | `grants` | an NFVO that grants, rejects, waits, fails and is silent |
//! | `heal_containers` | a VNF of containers healed; what its cluster refuses |
//! | `heal_servers` | servers of a VNF without hooks are replaced |
//! | `heat` | each way in which Heat goes wrong, as an operator sees it |
//! | `join_failures` | a worker whose join fails, and each way on |
//! | `packages` | the seed's package, scripts of vendors, hosts without Kubernetes |
//! | `password_change` | the VIM's password changes in the middle |
//! | `hook_processes` | the plugin's hooks in processes of their own |
//! | `refusals` | what is wrong from the beginning |
//! | `maintenance` | SIGTERM, an older backup, a full disk |
//! | `samples` | the samples that have no story of their own come and go |
//! | `scripts` | hooks that are scripts of the package |
//! | `secrets` | what was planted is nowhere to be found |
//! | `nfvo_packages` | a VNF whose package is fetched from the NFVO |
//! | `traces` | the spans that a collector gets |
//! | `vim_limits` | many operations on one Heat, so many at a time |
//! | `ssh` | each way in which SSH fails in the middle |

mod cluster_heal;
mod concurrent_clients;
mod containers;
mod crashes;
mod grants;
mod heal_containers;
mod heal_servers;
mod heat;
mod hook_processes;
mod join_failures;
mod maintenance;
mod new_package;
mod nfvo_packages;
mod packages;
mod password_change;
mod refusals;
mod samples;
mod scripts;
mod secrets;
mod ssh;
mod traces;
mod vim_limits;

use std::path::Path;

use vnfm_tests::demo::{demo_report, processes_of, run_demo, steps};
use vnfm_tests::programs::{program, until};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::copy;
use vnfm_tests::testbed::{LONG, Testbed};

fn assert_demo_passes(package: &str) {
    let report = demo_report(&[], package).unwrap();
    assert_eq!(report["world"], "simulated");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
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
        "the story broke off; the reason is above",
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
    assert!(run(line("end it: ")).status.success());
    until("both have ended", LONG, || {
        processes_of(&own).is_empty().then_some(())
    });
    assert_eq!(
        std::fs::read_dir(&own).unwrap().count(),
        0,
        "a temporary folder is left"
    );
}

/// A simulated world with these flags, and a server that knows its cloud.
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

/// The same in a world with these flags.
fn testbed_in(flags: &[&str], configuration: &str) -> (Simulator, Testbed) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.yaml"), configuration).unwrap();
    let sim = Simulator::start(folder.path(), flags);
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), "info");
    (sim, testbed)
}

/// A copy of a sample of VNF-A that names no hooks: servers and nothing on them.
fn package_without_hooks(sample: &str, folder: &Path) -> String {
    let package = copy(sample, folder);
    let vnfd = package.join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let (head, rest) = text.split_once("      interfaces:\n").unwrap();
    let (_, tail) = rest.split_once("      artifacts:\n").unwrap();
    std::fs::write(&vnfd, format!("{head}      artifacts:\n{tail}")).unwrap();
    package.to_string_lossy().into_owned()
}
