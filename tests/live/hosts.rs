//! Host failures during an installation: network outage with killed SSH sessions, power failure during a join, full disk.
//! The operation continues by itself, or stops with an error and continues on retry.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vnfm_tests::programs::until;
use vnfm_tests::sources;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use vnfm_tests::real::Real;

/// The host with the fault, and another one.
const HOST: &str = "workernode-1";
const OTHER: &str = "workernode-0";
/// The command line of a join.
pub(crate) const JOIN: &str = "^kubeadm join";

/// The machine behind a server that the scenario created, from outside.
pub(crate) struct Host<'a> {
    real: &'a Real,
    name: &'a str,
}

impl<'a> Host<'a> {
    pub(crate) fn new(real: &'a Real, name: &'a str) -> Self {
        Self { real, name }
    }

    /// The hypervisor's record: `host` is its folder, which differs from the server's name if that was in use.
    fn record(&self) -> Option<Value> {
        let state = self
            .real
            .clouds
            .with_file_name("hypervisor")
            .join("servers.json");
        let known: BTreeMap<String, Value> =
            serde_json::from_slice(&std::fs::read(state).ok()?).unwrap();
        let is_host = |server: &Value| {
            let (name, id) = (
                server["name"].as_str().unwrap(),
                server["id"].as_str().unwrap(),
            );
            name.eq_ignore_ascii_case(self.name) && !self.real.had_server(name, id)
        };
        known.into_values().find(is_host)
    }

    /// Sends a command for it to the hypervisor: `power-off`, `power-on`.
    pub(crate) fn command(&self, verb: &str) {
        let script = sources::root().join("tests/stack/openstack/hypervisor.py");
        let home = self.real.clouds.parent().unwrap();
        let record = self
            .record()
            .unwrap_or_else(|| panic!("no host `{}`", self.name));
        let mut command = Command::new("python3");
        command
            .arg(script)
            .args([verb, record["id"].as_str().unwrap()]);
        let output = command.env("OPENSTACK_HOME", home).output().unwrap();
        assert!(output.status.success(), "{verb}: {output:?}");
    }

    /// Its first process; none while it is off.
    pub(crate) fn pid(&self) -> Option<String> {
        let folder = self
            .real
            .hosts
            .join(self.record()?["host"].as_str().unwrap());
        let pid = std::fs::read_to_string(folder.join("pid")).ok()?;
        Some(pid.trim().to_owned()).filter(|pid| Path::new("/proc").join(pid).exists())
    }

    /// Its root folder, as seen from this machine.
    pub(crate) fn root(&self) -> PathBuf {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("`{}` is off", self.name));
        Path::new("/proc").join(pid).join("root")
    }

    /// Runs a script on the host, alongside its own programs.
    pub(crate) fn inside(&self, script: &str) -> String {
        self.run_script_with_input(script, "")
    }

    pub(crate) fn run_script_with_input(&self, script: &str, input: &str) -> String {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("`{}` is off", self.name));
        let mut command = Command::new("nsenter");
        let script = ["-t", &pid, "-m", "-n", "-p", "-u", "sh", "-c", script];
        let output = fed(command.args(script), input);
        assert!(output.status.success(), "`{command:?}`: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether a program with this command line runs on it.
    fn is_running(&self, pattern: &str) -> bool {
        self.pid().is_some_and(|pid| {
            let mut command = Command::new("nsenter");
            let look = command
                .args(["-t", &pid, "-m", "-p", "pgrep", "-f", pattern])
                .output();
            look.unwrap().status.success()
        })
    }

    /// Waits until a program with this command line runs on it.
    fn wait_until_running(&self, pattern: &str) {
        let what = format!("`{pattern}` on `{}`", self.name);
        until(&what, LONG, || self.is_running(pattern).then_some(()));
    }

    /// Waits until a program with this command line runs on it, and stops it there.
    pub(crate) fn freeze(&self, pattern: &str) {
        self.wait_until_running(pattern);
        self.inside(&format!("pkill -STOP -f '{pattern}'"));
    }

    /// Removes its address; a process on the host, which the outage does not affect, restores it.
    fn cut_network(&self, seconds: u32) {
        self.inside(&format!(
            "ip link set eth0 down; \
             (sleep {seconds}; ip link set eth0 up; ip route replace default via 10.77.0.254) >/dev/null 2>&1 &"
        ));
    }

    fn has_network(&self) -> bool {
        self.inside("cat /sys/class/net/eth0/operstate")
            .starts_with("up")
    }

    /// Kills the SSH sessions, but not the listener; returns their number.
    fn kill_sessions(&self) -> usize {
        let kill = "for p in $(pgrep -f '^sshd: ubuntu'); do kill -9 $p && echo $p; done; true";
        self.inside(kill).lines().count()
    }
}

/// Runs a program with this input.
pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

/// A scenario in which VNF-A is being instantiated.
struct FaultyHost {
    real: Real,
    testbed: Testbed,
    op: String,
}

fn begin_op() -> Option<FaultyHost> {
    let real = Real::find()?;
    let testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    let op = testbed.instantiate(VNF_A, &request);
    Some(FaultyHost { real, testbed, op })
}

impl FaultyHost {
    fn host(&self) -> Host<'_> {
        Host::new(&self.real, HOST)
    }

    /// It completes by itself; then everything is terminated and deleted.
    fn assert_completes(&self) {
        self.testbed.wait_for_state(&self.op, "COMPLETED");
        self.testbed.assert_a_up(3);
        self.testbed.terminate_and_delete(VNF_A);
        self.testbed.finish();
        self.real.wait_until_clean();
    }

    /// It stops with these words in its error; returns the error.
    fn assert_stops(&self, words: &[&str]) -> Value {
        let end = self.testbed.wait_for_state(&self.op, "FAILED_TEMP");
        let output = ["detail", "next"].map(|member| end["error"][member].as_str().unwrap());
        let why = output.join("\n");
        println!("{why}");
        assert!(
            words.iter().all(|word| why.contains(word)),
            "{words:?} in {why}"
        );
        end
    }

    fn retry(&self) {
        let retried = self.testbed.server.run(&["op", "retry", &self.op]);
        assert_eq!(retried.code, 0, "{retried:?}");
    }
}

#[test]
fn a_network_outage_and_killed_ssh_sessions_are_survived() {
    let Some(story) = begin_op() else { return };
    let (host, other) = (story.host(), Host::new(&story.real, OTHER));
    let (mut cut, mut killed) = (None, None);
    until("both joins were disturbed", LONG, || {
        if cut.is_none() && host.is_running(JOIN) {
            host.cut_network(30);
            cut = Some(Instant::now());
        }
        let joins = other.is_running(JOIN);
        if joins {
            killed = Some(killed.unwrap_or(0) + other.kill_sessions());
        }
        (cut.is_some() && killed.is_some() && !joins).then_some(())
    });
    until("the network is back", Duration::from_mins(1), || {
        host.has_network().then_some(())
    });
    assert!(cut.unwrap().elapsed() >= Duration::from_secs(29));
    println!("{killed:?} sessions were killed");
    assert!(killed.unwrap() > 1);
    story.assert_completes();
}

#[test]
fn a_power_failure_during_a_join() {
    let Some(story) = begin_op() else { return };
    story.host().wait_until_running(JOIN);
    story.host().command("power-off");
    story.host().command("power-on");
    story.assert_stops(&[HOST, "join", "restarted"]);
    story.retry();
    story.assert_completes();
}

#[test]
fn a_full_disk_on_a_host() {
    let Some(story) = begin_op() else { return };
    // A full disk with nothing to delete: a repeated join resets the host first.
    let full = "mkdir -p /var/lib/kubelet && mount -t tmpfs -o nr_inodes=1 tmpfs /var/lib/kubelet && \
                ! touch /var/lib/kubelet/full 2>/dev/null";
    until("the host is there", LONG, || story.host().pid());
    story.host().wait_until_running("sshd");
    story.host().inside(full);
    story.assert_stops(&[HOST, "join", "no space left on device"]);
    story.host().inside("umount /var/lib/kubelet");
    story.retry();
    story.assert_completes();
}
