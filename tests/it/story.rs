//! The story in the simulated world, by the built programs: told to its end, and with everything that may go wrong.
//!
//! | module | what |
//! |---|---|
//! | `clients` | many at once |
//! | `crashes` | `kill -9` of the server in the middle |
//! | `joins` | a worker whose join fails, and each way on |
//! | `packages` | the seed's package, scripts of vendors, hosts without Kubernetes |
//! | `passwords` | the VIM's password changes in the middle |
//! | `refusals` | what is wrong from the beginning |
//! | `secrets` | what was planted is nowhere to be found |

mod clients;
mod crashes;
mod joins;
mod packages;
mod passwords;
mod refusals;
mod secrets;

use std::path::{Path, PathBuf};

use vnfm_tests::simulated::Simulated;
use vnfm_tests::sources;
use vnfm_tests::stage::Stage;
use vnfm_tests::story::{play, steps};

/// Longest in seconds, once the programs are built.
const LONGEST: f64 = 15.0;

fn holds(package: &str) {
    let report = play(&[], package).unwrap();
    assert_eq!(report["world"], "simulated");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
    let refused = steps(&report).iter().any(|step| step.contains("refused"));
    assert!(refused, "VNF-A was not protected while VNF-B lived on it: {report}");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds < LONGEST, "{seconds} s: {report}");
}

#[test]
fn vnf_a_from_tosca_carries_vnf_b_and_both_go_without_a_trace() {
    holds("tosca");
}

#[test]
fn vnf_a_from_base_hot_carries_vnf_b_and_both_go_without_a_trace() {
    holds("base-hot");
}

/// A simulated world with these flags, and a server that knows its cloud.
fn stage(flags: &[&str], log: &str) -> (Simulated, Stage) {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulated::start(folder.path(), flags);
    let stage = Stage::new(folder, &sim.clouds(), sim.ssh_port(), log);
    (sim, stage)
}

/// A copy of a sample; the folder's name stays.
fn copy(sample: &str, folder: &Path) -> PathBuf {
    let from = sources::root().join("vnfd-samples").join(sample);
    let to = folder.join(sample);
    copy_all(&from, &to);
    to
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
