//! Host failures during an installation: network outage with killed SSH sessions, power failure during a join, full disk.
//! The operation continues by itself, or stops with an error and continues on retry.

use std::time::{Duration, Instant};

use serde_json::Value;
use vnfm_tests::host::Host;
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use vnfm_tests::real::Real;

/// The host with the fault, and another one.
const HOST: &str = "workernode-1";
const OTHER: &str = "workernode-0";
/// The command line of a join.
const JOIN: &str = "^kubeadm join";

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
