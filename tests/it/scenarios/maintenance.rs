//! Maintenance of the server: shutdown during an operation, restoring an older backup, a full disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::live;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VIM, VNF_A};

use super::testbed;

const SAMPLE: &str = "vnf-a-k8s-cluster";
/// How long an operator waits for a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

#[test]
fn sigterm_finishes_the_running_step_and_the_next_start_resumes() {
    let (sim, mut testbed) = testbed(&["--server-build", "1500"], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    let op = testbed.instantiate(VNF_A, &request);
    until("the stack's creation", LONG, || {
        let calls = sim.calls("heat.stack_create", "");
        calls.iter().any(|call| call["status"] == 201).then_some(())
    });
    let (status, took) = testbed.server.terminate();
    let stopped = jiff::Timestamp::now();
    assert!(status.success(), "{status}");
    assert!(took < SHUTDOWN_GRACE, "{took:?}");
    let commands = sim.calls("host.exec", "");
    assert!(
        commands.is_empty(),
        "a further step was begun: {commands:#?}"
    );
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    let progress = testbed
        .server
        .get(&format!("/vnfm/v1/op_occs/{op}/progress"));
    let log = testbed.server.ctl(&["op", "log", &op]);
    let began = |step: &str| {
        let lines = log.as_array().unwrap().iter();
        lines
            .filter(|line| line["source"] == step && line["text"] == "done")
            .count()
    };
    assert_eq!(began("allocate"), 1, "{log:#}");
    let steps = progress["steps"].as_array().unwrap();
    let allocated = steps
        .iter()
        .find(|step| step["name"] == "allocate")
        .unwrap();
    let ended: jiff::Timestamp = allocated["endedAt"].as_str().unwrap().parse().unwrap();
    assert!(
        ended < stopped,
        "the step that ran was not in the journal: {progress:#}"
    );
    assert_eq!(sim.touched_stacks(), 1);
    testbed.assert_a_up(3);
    sim.assert_no_violations();
}

#[test]
fn a_long_step_does_not_delay_shutdown() {
    let (sim, mut testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    sim.arm(
        &json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 12_000}}),
    );
    let op = testbed.instantiate(VNF_A, &request);
    until("the init", LONG, || (sim.seen() > 0).then_some(()));
    let (status, took) = testbed.server.terminate();
    assert!(status.success(), "{status}");
    assert!(took < SHUTDOWN_GRACE, "{took:?}");
    sim.disarm();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(sim.hosts_that_ran("kubeadm init").len(), 1);
    testbed.assert_a_up(3);
}

/// Creates and instantiates another VNF-A, with a different cluster name; returns its id and the operation.
fn begin(testbed: &Testbed, package: &str, name: &str) -> (String, String) {
    let created = testbed
        .server
        .ctl(&["vnf", "create", "--package", package, "--name", name]);
    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    let request = testbed
        .request(SAMPLE, vim["id"].as_str().unwrap())
        .to_string();
    let request = request.replace("\"cluster\"", &format!("\"cluster-{name}\""));
    let op = testbed.instantiate(name, &serde_json::from_str(&request).unwrap());
    (created["id"].as_str().unwrap().to_owned(), op)
}

fn up(testbed: &Testbed, package: &str, name: &str) -> String {
    let (id, op) = begin(testbed, package, name);
    testbed.wait_for_state(&op, "COMPLETED");
    id
}

fn down(testbed: &Testbed, name: &str) {
    let begin_op = testbed.server.ctl(&["vnf", "terminate", name]);
    testbed.wait_for_state(begin_op["vnfLcmOpOccId"].as_str().unwrap(), "COMPLETED");
}

/// The comparison's result for an instance.
fn found<'a>(comparison: &'a Value, id: &str) -> &'a Value {
    let instances = comparison["instances"].as_array().unwrap();
    &instances
        .iter()
        .find(|instance| instance["vnfInstanceId"] == id)
        .unwrap()["found"]
}

fn deleted_stacks(sim: &Simulator, instance: &str) -> usize {
    sim.calls("heat.stack_delete", instance).len()
}

/// In recovery three VNFs can be listed, and creating one is refused.
fn assert_serves_reads_only(testbed: &Testbed) {
    assert_eq!(testbed.server.get("/vnfm/v1/health")["status"], "recovery");
    let known = testbed.server.ctl(&["vnf", "list"]);
    assert_eq!(known.as_array().unwrap().len(), 3, "reads answer");
    let vnfs = "/vnflcm/v2/vnf_instances";
    let (status, problem) = testbed.server.http("POST", vnfs, r#"{"vnfdId": "any"}"#);
    assert_eq!(
        (status, &problem["code"]),
        (503, &json!("server.recovery")),
        "{problem}"
    );
    assert!(
        problem["next"]
            .as_str()
            .unwrap()
            .contains("vnfmctl recovery show"),
        "{problem}"
    );
}

fn assert_recovery_shows(testbed: &Testbed, missing: &str, orphan_of: &str) {
    let recovery = testbed.server.run(&["recovery", "show"]);
    assert!(
        recovery
            .stderr
            .contains(&format!("missing: no resources found of VNF {missing}")),
        "{recovery:?}"
    );
    assert!(
        recovery.stderr.contains("orphan: ") && recovery.stderr.contains(orphan_of),
        "{recovery:?}"
    );
}

#[test]
fn restoring_an_older_backup_duplicates_and_deletes_nothing() {
    let (sim, mut testbed) = testbed(&[], "info");
    let package = testbed.onboard(SAMPLE);
    let early = up(&testbed, &package, "early");
    let deleted = up(&testbed, &package, "gone");
    sim.arm(
        &json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3_000}}),
    );
    let (middle, op) = begin(&testbed, &package, "middle");
    until("the init of the one in the middle", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    let file = testbed.server.folder().join("a.backup");
    let file = file.to_str().unwrap();
    testbed.server.ctl(&["backup", file]);
    testbed.wait_for_state(&op, "COMPLETED");
    sim.disarm();
    let late = up(&testbed, &package, "late");
    down(&testbed, "gone");
    let created = sim.calls("heat.stack_create", "").len();
    testbed.server.kill();

    let restored = testbed.server.run_server_command(&["restore", file]);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(restored.stdout.contains("with 1 packages"), "{restored:?}");
    testbed.server.begin();
    assert_serves_reads_only(&testbed);

    let comparison = testbed.server.ctl(&["recovery", "show"]);
    assert_eq!(comparison["recovering"], true);
    let states = [&early, &deleted, &middle].map(|id| found(&comparison, id));
    assert_eq!(states, ["AS_RECORDED", "MISSING", "AS_RECORDED"]);
    let in_flight = &comparison["inFlight"][0]["vnfLcmOpOccId"];
    assert_eq!(*in_flight, op.as_str(), "{comparison:#}");
    let orphans = comparison["orphans"].as_array().unwrap();
    let of_late = |orphan: &Value| orphan["vnfInstanceId"] == late.as_str();
    assert!(
        !orphans.is_empty() && orphans.iter().all(of_late),
        "{comparison:#}"
    );
    assert_recovery_shows(&testbed, &deleted, &op);

    // The cluster of the terminated VNF does not respond.
    let why = testbed.server.refused(&["recovery", "confirm"]);
    assert!(why.contains("cluster-gone"), "{why}");
    testbed.server.ctl(&["recovery", "confirm", "--force"]);
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(testbed.server.get("/vnfm/v1/health")["status"], "ok");
    down(&testbed, "early");
    down(&testbed, "gone");
    assert_eq!(
        sim.calls("heat.stack_create", "").len(),
        created,
        "nothing is doubled"
    );
    assert_eq!(
        (deleted_stacks(&sim, &late), deleted_stacks(&sim, &middle)),
        (0, 0)
    );
    let orphans = testbed.server.ctl(&["orphans"]);
    assert!(
        orphans.as_array().unwrap().iter().any(of_late),
        "{orphans:#}"
    );
    sim.assert_no_violations();
}

/// A small filesystem in memory, unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    /// Mounts a small file system; needs root.
    fn mount(at: &Path, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let size = format!("size={megabytes}m,mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                live::skip(&format!(
                    "cannot mount a small disk: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
                None
            }
            Err(error) => {
                live::skip(&format!("cannot mount a small disk: {error}"));
                None
            }
        }
    }

    /// Fills the disk except for this much space; others may write meanwhile.
    fn leave(&self, kilobytes: u64) {
        let df = Command::new("df")
            .args(["-k", "--output=avail"])
            .arg(&self.0)
            .output()
            .unwrap();
        let free = String::from_utf8(df.stdout).unwrap();
        let free: u64 = free.lines().last().unwrap().trim().parse().unwrap();
        let wanted = if kilobytes == 0 {
            u64::MAX
        } else {
            (free - kilobytes) * 1_024
        };
        let filler = self.0.join("filler");
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(filler)
            .unwrap();
        // It fails when the disk is full, as intended.
        let _ = std::io::copy(&mut std::io::repeat(0).take(wanted), &mut filler);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status(); // nothing can be done about it here
    }
}

#[test]
fn a_full_disk_refuses_new_requests_and_running_operations_resume_with_free_space() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&folder.path().join("data"), 400) else {
        return;
    };
    let sim = Simulator::start(folder.path(), &[]);
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), "info");
    let (_, request) = testbed.create_a(SAMPLE);
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 15_000}});
    sim.arm(&slow);
    let op = testbed.instantiate(VNF_A, &request);
    until("the init", LONG, || (sim.seen() > 0).then_some(()));

    disk.leave(20_000);
    let vnfs = "/vnflcm/v2/vnf_instances";
    let (status, problem) = testbed.server.http("POST", vnfs, r#"{"vnfdId": "any"}"#);
    assert_eq!(
        (status, &problem["code"]),
        (507, &json!("server.low-disk")),
        "{problem}"
    );
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("vnfmctl prune"),
        "{problem}"
    );
    testbed.server.ctl(&["vnf", "list"]);
    testbed.server.ctl(&["prune", "--dry-run"]);

    disk.leave(0);
    until("a write that does not fit", LONG, || {
        testbed
            .server
            .logged()
            .contains("disk is full")
            .then_some(())
    });
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    assert_eq!(
        testbed.server.get(&path)["operationState"],
        "PROCESSING",
        "nothing is given up"
    );
    disk.make_room();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(sim.hosts_that_ran("kubeadm init").len(), 1);
    assert_eq!(sim.touched_stacks(), 1);
    testbed.assert_a_up(3);
    testbed.terminate_and_delete(VNF_A);
    sim.assert_clean();
}
