//! The sample with a chart by Helm 3 and Helm 4, with a server that is killed once in each operation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::live::neighbour;
use vnfm_tests::programs::{Server, until};
use vnfm_tests::sources::root;

const TIMEOUT: Duration = Duration::from_mins(2);
const NAME: &str = "web";

/// A server with one helm program, and direct access to the cluster.
struct Scenario {
    server: Server,
    folder: tempfile::TempDir,
    helm: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Scenario {
    fn begin(helm: &Path, kubectl: PathBuf, kubeconfig: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = json!({"limits": {"lease_seconds": 2}, "helm": {"binary": helm, "sha256": sha256(helm)}});
        std::fs::write(folder.path().join("server.yaml"), settings.to_string()).unwrap();
        let server = Server::start(folder.path(), "debug");
        let file = kubeconfig.to_string_lossy().into_owned();
        server.ctl(&[
            "vim",
            "register",
            "--name",
            "containers",
            "--config-file",
            &file,
        ]);
        Self {
            server,
            folder,
            helm: helm.to_owned(),
            kubectl,
            kubeconfig,
        }
    }

    /// Begins an operation on the instance, kills the server while it runs, and waits until it is completed.
    fn run(&mut self, words: &[&str]) {
        let begun = self.server.ctl(&[&["vnf"], words].concat());
        let op = begun["vnfLcmOpOccId"].as_str().unwrap().to_owned();
        let path = format!("/vnfm/v1/op_occs/{op}/progress");
        until(&format!("{words:?} to run"), TIMEOUT, || {
            let now = self.server.get(&path);
            (now["operationState"] != "STARTING").then_some(())
        });
        self.server.kill();
        self.server.begin();
        let end = self.server.ended(&op, TIMEOUT);
        assert_eq!(end["operationState"], "COMPLETED", "{words:?}: {end:#}");
    }

    fn output(&self, program: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.output(&self.kubectl, arguments)
    }

    /// Status of the release as helm lists it.
    fn release(&self, namespace: &str) -> Value {
        let listed = self.output(
            &self.helm,
            &["list", "--output", "json", "--namespace", namespace],
        );
        serde_json::from_str::<Value>(&listed).unwrap()[0].take()
    }

    fn vnfcs(&self) -> usize {
        let instance = self.server.ctl(&["vnf", "show", NAME]);
        let info = &instance["instantiatedVnfInfo"]["vnfcResourceInfo"];
        info.as_array().map_or(0, Vec::len)
    }
}

fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    message.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_chart_is_installed_scaled_and_uninstalled_although_the_server_is_killed() {
    let (Some(kubeconfig), Some(assets)) = (
        neighbour("VNFM_LIVE_KUBECONFIG"),
        neighbour("VNFM_LIVE_ASSETS"),
    ) else {
        return;
    };
    for helm in ["helm", "helm4"] {
        let mut scenario = Scenario::begin(
            &assets.join(helm),
            assets.join("kubectl"),
            kubeconfig.clone(),
        );
        let sample = root().join("vnfd-samples/cnf-chart");
        let package = scenario
            .server
            .ctl(&["package", "onboard", &sample.to_string_lossy()]);
        let package = package["id"].as_str().unwrap();
        let created = scenario
            .server
            .ctl(&["vnf", "create", "--package", package, "--name", NAME]);
        let namespace = format!("vnf-{}", created["id"].as_str().unwrap());
        let vim = scenario.server.ctl(&["vim", "show", "containers"]);
        let request = std::fs::read_to_string(sample.join("requests/instantiate.json")).unwrap();
        let request = request.replace("\"@VIM_ID@\"", &vim["id"].to_string());
        let file = scenario.folder.path().join("request.json");
        std::fs::write(&file, request).unwrap();
        scenario.run(&["instantiate", NAME, "--request", &file.to_string_lossy()]);
        assert_eq!(scenario.vnfcs(), 2);
        assert_eq!(scenario.release(&namespace)["status"], "deployed");
        let page = scenario.kubectl(&["get", "configmap", "page", "-n", &namespace, "-o", "json"]);
        assert!(page.contains("hello from the request"), "{page}");

        scenario.run(&["scale", NAME, "--aspect", "web", "--out"]);
        assert_eq!(scenario.vnfcs(), 3);
        assert_eq!(scenario.release(&namespace)["status"], "deployed");

        scenario.run(&["terminate", NAME]);
        let left = scenario.kubectl(&["get", "namespace", &namespace, "--ignore-not-found"]);
        assert_eq!(
            left, "",
            "the namespace is gone, with the Secrets of the release"
        );
        scenario.server.ctl(&["vnf", "delete", NAME]);
        scenario.server.ctl(&["vim", "delete", "containers"]);
    }
}
