//! The server looked after: told to stop in the middle, restored from an older backup, run into a full disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::live;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{LONG, Stage, VIM, VNF_A};

use super::stage;

const SAMPLE: &str = "vnf-a-k8s-cluster";
/// What an operator grants a server that is told to stop.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn sigterm_finishes_the_running_step_and_the_next_start_resumes() {
    let (sim, mut stage) = stage(&["--server-build", "1500"], "info");
    let (_, request) = stage.create_a(SAMPLE);
    let op = stage.instantiate(VNF_A, &request);
    until("the stack's creation", LONG, || {
        let calls = sim.calls("heat.stack_create", "");
        calls.iter().any(|call| call["status"] == 201).then_some(())
    });
    let (status, took) = stage.server.terminate();
    let stopped = jiff::Timestamp::now();
    assert!(status.success(), "{status}");
    assert!(took < GRACE, "{took:?}");
    let commands = sim.calls("host.exec", "");
    assert!(
        commands.is_empty(),
        "a further step was begun: {commands:#?}"
    );
    stage.server.begin();
    stage.ends_as(&op, "COMPLETED");
    let progress = stage.server.get(&format!("/vnfm/v1/op_occs/{op}/progress"));
    let log = stage.server.ctl(&["op", "log", &op]);
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
    stage.a_is_up(3);
    sim.is_lawful();
}

#[test]
fn a_long_step_does_not_delay_shutdown() {
    let (sim, mut stage) = stage(&[], "info");
    let (_, request) = stage.create_a(SAMPLE);
    sim.arm(
        &json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 12_000}}),
    );
    let op = stage.instantiate(VNF_A, &request);
    until("the init", LONG, || (sim.seen() > 0).then_some(()));
    let (status, took) = stage.server.terminate();
    assert!(status.success(), "{status}");
    assert!(took < GRACE, "{took:?}");
    sim.disarm();
    stage.server.begin();
    stage.ends_as(&op, "COMPLETED");
    assert_eq!(sim.hosts_that_ran("kubeadm init").len(), 1);
    stage.a_is_up(3);
}

/// Another VNF-A, with a cluster of its own name; its id and the operation that instantiates it.
fn begin(stage: &Stage, package: &str, name: &str) -> (String, String) {
    let made = stage
        .server
        .ctl(&["vnf", "create", "--package", package, "--name", name]);
    let vim = stage.server.ctl(&["vim", "show", VIM]);
    let request = stage
        .request(SAMPLE, vim["id"].as_str().unwrap())
        .to_string();
    let request = request.replace("\"cluster\"", &format!("\"cluster-{name}\""));
    let op = stage.instantiate(name, &serde_json::from_str(&request).unwrap());
    (made["id"].as_str().unwrap().to_owned(), op)
}

fn up(stage: &Stage, package: &str, name: &str) -> String {
    let (id, op) = begin(stage, package, name);
    stage.ends_as(&op, "COMPLETED");
    id
}

fn down(stage: &Stage, name: &str) {
    let begun = stage.server.ctl(&["vnf", "terminate", name]);
    stage.ends_as(begun["vnfLcmOpOccId"].as_str().unwrap(), "COMPLETED");
}

/// What the comparison says of an instance.
fn found<'a>(comparison: &'a Value, id: &str) -> &'a Value {
    let instances = comparison["instances"].as_array().unwrap();
    &instances
        .iter()
        .find(|instance| instance["vnfInstanceId"] == id)
        .unwrap()["found"]
}

fn deleted_stacks(sim: &Simulated, instance: &str) -> usize {
    sim.calls("heat.stack_delete", instance).len()
}

#[test]
fn restoring_an_older_backup_duplicates_and_deletes_nothing() {
    let (sim, mut stage) = stage(&[], "info");
    let package = stage.onboard(SAMPLE);
    let early = up(&stage, &package, "early");
    let gone = up(&stage, &package, "gone");
    sim.arm(
        &json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3_000}}),
    );
    let (middle, op) = begin(&stage, &package, "middle");
    until("the init of the one in the middle", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    let file = stage.server.folder().join("a.backup");
    let file = file.to_str().unwrap();
    stage.server.ctl(&["backup", file]);
    stage.ends_as(&op, "COMPLETED");
    sim.disarm();
    let late = up(&stage, &package, "late");
    down(&stage, "gone");
    let made = sim.calls("heat.stack_create", "").len();
    stage.server.kill();

    let restored = stage.server.instead(&["restore", file]);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(restored.data.contains("with 1 packages"), "{restored:?}");
    stage.server.begin();
    assert_eq!(stage.server.get("/vnfm/v1/health")["status"], "recovery");
    let known = stage.server.ctl(&["vnf", "list"]);
    assert_eq!(known.as_array().unwrap().len(), 3, "reads answer");
    let vnfs = "/vnflcm/v2/vnf_instances";
    let (status, problem) = stage.server.http("POST", vnfs, r#"{"vnfdId": "any"}"#);
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

    let comparison = stage.server.ctl(&["recovery", "show"]);
    assert_eq!(comparison["recovering"], true);
    assert_eq!(found(&comparison, &early), "AS_RECORDED");
    assert_eq!(found(&comparison, &gone), "MISSING");
    assert_eq!(found(&comparison, &middle), "AS_RECORDED");
    assert_eq!(
        comparison["inFlight"][0]["vnfLcmOpOccId"],
        op.as_str(),
        "{comparison:#}"
    );
    let orphans = comparison["orphans"].as_array().unwrap();
    let of_late = |orphan: &Value| orphan["vnfInstanceId"] == late.as_str();
    assert!(
        !orphans.is_empty() && orphans.iter().all(of_late),
        "{comparison:#}"
    );
    let shown = stage.server.run(&["recovery", "show"]);
    assert!(
        shown
            .words
            .contains(&format!("missing: nothing is left of VNF {gone}")),
        "{shown:?}"
    );
    assert!(
        shown.words.contains("orphan: ") && shown.words.contains(&op),
        "{shown:?}"
    );

    // The cluster of the VNF that is gone does not answer.
    let why = stage.server.refused(&["recovery", "confirm"]);
    assert!(why.contains("cluster-gone"), "{why}");
    stage.server.ctl(&["recovery", "confirm", "--force"]);
    stage.ends_as(&op, "COMPLETED");
    assert_eq!(stage.server.get("/vnfm/v1/health")["status"], "ok");
    down(&stage, "early");
    down(&stage, "gone");
    assert_eq!(
        sim.calls("heat.stack_create", "").len(),
        made,
        "nothing is doubled"
    );
    assert_eq!(
        (deleted_stacks(&sim, &late), deleted_stacks(&sim, &middle)),
        (0, 0)
    );
    let orphans = stage.server.ctl(&["orphans"]);
    assert!(
        orphans.as_array().unwrap().iter().any(of_late),
        "{orphans:#}"
    );
    sim.is_lawful();
}

/// A small filesystem in memory, mounted at a folder for as long as this lives.
struct Disk(PathBuf);

impl Disk {
    /// Needs root.
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

    /// Leaves so much room, and no more; others may write meanwhile.
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
        // It ends with an error where the disk is full: that is what is wanted.
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
    let sim = Simulated::start(folder.path(), &[]);
    let stage = Stage::new(folder, &sim.clouds(), sim.ssh_port(), "info");
    let (_, request) = stage.create_a(SAMPLE);
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 15_000}});
    sim.arm(&slow);
    let op = stage.instantiate(VNF_A, &request);
    until("the init", LONG, || (sim.seen() > 0).then_some(()));

    disk.leave(20_000);
    let vnfs = "/vnflcm/v2/vnf_instances";
    let (status, problem) = stage.server.http("POST", vnfs, r#"{"vnfdId": "any"}"#);
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
    stage.server.ctl(&["vnf", "list"]);
    stage.server.ctl(&["prune", "--dry-run"]);

    disk.leave(0);
    until("a write that does not fit", LONG, || {
        stage.server.logged().contains("disk is full").then_some(())
    });
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    assert_eq!(
        stage.server.get(&path)["operationState"],
        "PROCESSING",
        "nothing is given up"
    );
    disk.make_room();
    stage.ends_as(&op, "COMPLETED");
    assert_eq!(sim.hosts_that_ran("kubeadm init").len(), 1);
    assert_eq!(sim.touched_stacks(), 1);
    stage.a_is_up(3);
    stage.bring_down(VNF_A);
    sim.is_clean();
}
