//! Third-party packages: the seed's own, vendors' scripts, and hosts without Kubernetes.

use std::path::Path;

use serde_json::json;
use vnfm_tests::testbed::{VNF_A, VNF_B};

use super::{copy, testbed};

/// The first lines of every script here; a simulated host's shell supports nothing else.
const SCRIPT: &str = "#!/bin/sh
cat $1 > /root/parameters
";

/// A copy of the sample with a vendor's script, replaced by this script.
fn with_script(script: &str, folder: &Path) -> String {
    let copy = copy("vnf-a-vendor-script", folder);
    std::fs::write(copy.join("Scripts/install_k8s_cluster.sh"), script).unwrap();
    copy.to_string_lossy().into_owned()
}

#[test]
fn vnf_b_runs_on_the_reference_package() {
    let (sim, testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a("vnf-a-seed");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(2);
    testbed.instantiate_b(&cluster);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_vendor_script_that_fails_or_prints_garbage_is_reported_with_its_output() {
    let cases = [
        ("echo nonsense", "script-answer", "it is not JSON"),
        (
            "echo '{\"server\": \"https://10.0.0.1:6443\", '",
            "script-answer",
            "it is truncated",
        ),
        (
            "echo '{\"bearer_token\": \"t\"}'",
            "script-answer",
            "a member is missing",
        ),
        (
            "echo 'no space left' >&2; exit 7",
            "script-failed",
            "exit code 7: no space left",
        ),
    ];
    for (script, code, words) in cases {
        let (sim, testbed) = testbed(&[], "info");
        let folder = tempfile::tempdir().unwrap();
        let package = with_script(&format!("{SCRIPT}{script}\n"), folder.path());
        let (_, request) = testbed.create_a(&package);
        let op = testbed.instantiate(VNF_A, &request);
        let end = testbed.wait_for_state(&op, "FAILED_TEMP");
        assert_eq!(end["error"]["code"], code, "{end:#}");
        let detail = end["error"]["detail"].as_str().unwrap();
        assert!(
            detail.contains(words) && detail.contains("masternode"),
            "{detail}"
        );
        let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
        assert_eq!(rolled.code, 0, "{rolled:?}");
        sim.assert_clean();
    }
}

/// Lets every host boot without the programs of Kubernetes.
fn bare() -> serde_json::Value {
    json!({"call": "host.packages", "times": 9, "fault": {"exit": 1}})
}

#[test]
fn missing_host_packages_without_a_repository_are_reported_with_a_remedy() {
    let (sim, testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    sim.arm(&bare());
    let op = testbed.instantiate(VNF_A, &request);
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    assert_eq!(end["error"]["code"], "packages-missing", "{end:#}");
    let detail = end["error"]["detail"].as_str().unwrap();
    for part in ["kubeadm", "no repository", "Debian archives", "`packages`"] {
        assert!(detail.contains(part), "no `{part}` in {detail}");
    }
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    sim.assert_clean();
}

#[test]
fn missing_host_packages_are_installed_from_the_repository_or_the_vnf_package() {
    for has_repository in [true, false] {
        let (sim, testbed) = testbed(&[], "info");
        let folder = tempfile::tempdir().unwrap();
        let package = copy("vnf-a-k8s-cluster", folder.path());
        if !has_repository {
            let archives = package.join("Files/kubernetes/packages");
            std::fs::create_dir_all(&archives).unwrap();
            for name in ["containerd", "kubeadm", "kubectl", "kubelet"] {
                std::fs::write(archives.join(format!("{name}_1.36.2_amd64.deb")), name).unwrap();
            }
        }
        let (_, request) = testbed.create_a(&package.to_string_lossy());
        sim.arm(&bare());
        if has_repository {
            sim.arm(&json!({"call": "host.repository", "times": 9, "fault": {"exit": 1}}));
        }
        testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
        let installer = if has_repository {
            "apt-get install"
        } else {
            "dpkg -i"
        };
        assert_eq!(sim.hosts_that_ran(installer).len(), 3, "{installer}");
        testbed.assert_a_up(3);
        testbed.terminate_and_delete(VNF_A);
        sim.assert_clean();
    }
}
