//! The building blocks of scenarios, on any cloud: packages, VIM, VNF-A, VNF-B, and their removal.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cloud::Cloud;
use crate::programs::Server;
use crate::sources;

/// The name of the cloud's VIM.
pub const VIM: &str = "cloud";
/// The VNF that provides a cluster.
pub const VNF_A: &str = "vnf-a";
/// The VNF that runs on the cluster.
pub const VNF_B: &str = "vnf-b";
/// The cluster of VNF-A, as a VIM.
pub const CLUSTER: &str = "cluster";
/// Limit for an operation, simulated or real.
pub const LONG: Duration = Duration::from_mins(4);

/// A server with a registered cloud.
#[derive(Debug)]
pub struct Testbed {
    /// The server that is tested.
    pub server: Server,
    cloud: PathBuf,
    ssh_port: u64,
    folder: TempDir,
}

impl Testbed {
    /// Starts a server and registers the cloud of this clouds.yaml.
    pub fn new(folder: TempDir, clouds: &Path, ssh_port: u64, log: &str) -> Self {
        let server = Server::start(folder.path(), log);
        Self::with(server, folder, clouds, ssh_port)
    }

    /// As [`Self::new`], for a server that already runs in this folder.
    pub fn with(server: Server, folder: TempDir, clouds: &Path, ssh_port: u64) -> Self {
        let file = clouds.to_string_lossy();
        server.ctl(&[
            "vim",
            "register",
            "--name",
            VIM,
            "--config-file",
            &file,
            "--cloud",
            "nfv",
        ]);
        Self {
            server,
            cloud: clouds.to_owned(),
            ssh_port,
            folder,
        }
    }

    /// Starts a server with the cluster of this kubeconfig as its VIM, and no cloud. Its configuration is
    /// `server.yaml` in `folder`.
    pub fn on_cluster(folder: TempDir, kubeconfig: &Path) -> Self {
        let server = Server::start(folder.path(), "info");
        let file = kubeconfig.to_string_lossy();
        server.ctl(&["vim", "register", "--name", VIM, "--config-file", &file]);
        Self {
            server,
            cloud: PathBuf::new(),
            ssh_port: 22,
            folder,
        }
    }

    /// As [`Self::on_cluster`], for a server that already runs in this folder and has its VIM.
    pub fn on_registered(folder: TempDir, server: Server) -> Self {
        Self {
            server,
            cloud: PathBuf::new(),
            ssh_port: 22,
            folder,
        }
    }

    /// The port of the machines' SSH servers.
    pub fn ssh_port(&self) -> u16 {
        u16::try_from(self.ssh_port).unwrap()
    }

    /// Begins to heal these VNFCs of VNF-A, or all of it; the operation id.
    pub fn heal(&self, vnfcs: &[&str], params: &[&str]) -> String {
        let mut words = vec!["vnf", "heal", VNF_A];
        words.extend(vnfcs.iter().flat_map(|vnfc| ["--vnfc", vnfc]));
        words.extend(params.iter().flat_map(|param| ["--param", param]));
        text(&self.server.ctl(&words)["vnfLcmOpOccId"])
    }

    /// Begins to scale VNF-A to this level; the operation id.
    pub fn scale_to_level(&self, level: &str, params: &[&str]) -> String {
        let mut words = vec!["vnf", "scale_to_level", VNF_A, "--level", level];
        words.extend(params.iter().flat_map(|param| ["--param", param]));
        text(&self.server.ctl(&words)["vnfLcmOpOccId"])
    }

    /// Begins to scale the workers of VNF-A by `steps`, `--out` or `--in`; the operation id.
    pub fn scale_workers(&self, way: &str, steps: u32) -> String {
        let steps = steps.to_string();
        let scale = ["vnf", "scale", VNF_A, "--aspect", "workers"];
        let words = [&scale[..], &["--steps", &steps, way]].concat();
        text(&self.server.ctl(&words)["vnfLcmOpOccId"])
    }

    /// The pods in the record of VNF-B, sorted.
    pub fn recorded_b_pods(&self) -> Vec<String> {
        let instance = self.server.ctl(&["vnf", "show", VNF_B]);
        let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
            .as_array()
            .unwrap();
        let ids = vnfcs
            .iter()
            .map(|vnfc| text(&vnfc["computeResource"]["resourceId"]));
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        ids
    }

    /// Onboards a sample, or a package in any folder.
    pub fn onboard(&self, sample: &str) -> String {
        let folder = sources::root().join("vnfd-samples").join(sample);
        let package = self
            .server
            .ctl(&["package", "onboard", &folder.to_string_lossy()]);
        package["id"].as_str().unwrap().to_owned()
    }

    /// The request of a sample, with its placeholders filled in.
    pub fn request(&self, sample: &str, vim: &str) -> Value {
        let file = sources::root()
            .join("vnfd-samples")
            .join(sample)
            .join("requests/instantiate.json");
        let text = std::fs::read_to_string(file).unwrap();
        let mut values = vec![
            ("\"@VIM_ID@\"", json!(vim)),
            ("\"@CLUSTER_NAME@\"", json!(CLUSTER)),
        ];
        values.push(("\"@SSH_PORT@\"", json!(self.ssh_port)));
        values.push(("\"@SSH_USER@\"", json!("ubuntu")));
        values.push(("\"@SSH_PASSWORD@\"", json!("secret")));
        if text.contains("@NETWORK_ID@") {
            values.push((
                "\"@NETWORK_ID@\"",
                json!(Cloud::login(&self.cloud).network()),
            ));
        }
        if text.contains("@SUBNET_ID@") {
            values.push(("\"@SUBNET_ID@\"", json!(Cloud::login(&self.cloud).subnet())));
        }
        let filled = values.iter().fold(text, |text, (name, value)| {
            text.replace(name, &value.to_string())
        });
        serde_json::from_str(&filled).unwrap()
    }

    /// Requests a task of a VNF with this body; the id of the operation.
    pub fn begin(&self, vnf: &str, task: &str, body: &Value) -> String {
        if task == "operate" {
            return self.start(vnf, &body["additionalParams"]);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), body.to_string()).unwrap();
        let path = file.path().to_str().unwrap();
        let accepted = self.server.ctl(&["vnf", task, vnf, "--request", path]);
        accepted["vnfLcmOpOccId"].as_str().unwrap().to_owned()
    }

    /// Begins an `operate` to STARTED, whose command takes its parameters one by one; the operation id.
    fn start(&self, vnf: &str, params: &Value) -> String {
        let params = params.as_object().unwrap().iter();
        let params: Vec<_> = params
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut args = vec!["vnf", "operate", vnf, "--start"];
        args.extend(params.iter().flat_map(|param| ["--param", param]));
        text(&self.server.ctl(&args)["vnfLcmOpOccId"])
    }

    /// Creates VNF-A from this package; its id and request.
    pub fn create_a(&self, sample: &str) -> (String, Value) {
        self.create_a_from(&self.onboard(sample), sample)
    }

    /// The same, from a package that was onboarded with this id.
    pub fn create_a_from(&self, package: &str, sample: &str) -> (String, Value) {
        let created = self
            .server
            .ctl(&["vnf", "create", "--package", package, "--name", VNF_A]);
        let vim = self.server.ctl(&["vim", "show", VIM]);
        (
            text(&created["id"]),
            self.request(&sample_of(sample), &text(&vim["id"])),
        )
    }

    /// Begins an instantiation; the operation id.
    pub fn instantiate(&self, name: &str, request: &Value) -> String {
        let file = self.folder.path().join(format!("{name}.json"));
        std::fs::write(&file, request.to_string()).unwrap();
        let file = file.to_string_lossy();
        let begin_op = self
            .server
            .ctl(&["vnf", "instantiate", name, "--request", &file]);
        text(&begin_op["vnfLcmOpOccId"])
    }

    /// Waits until an operation ends, which must be in this state; its progress.
    pub fn wait_for_state(&self, op: &str, state: &str) -> Value {
        let end = self.server.ended(op, LONG);
        assert_eq!(end["operationState"], state, "{end:#}");
        end
    }

    /// The error contains all of `says` and a next step, in the response and in `op explain`.
    pub fn assert_explains(&self, op: &str, error: &Value, expected: &[&str]) {
        let next = error["next"].as_str().unwrap_or_default();
        assert!(!next.is_empty() && error["step"].is_string(), "{error:#}");
        let detail = format!("{}\n{next}", error["detail"].as_str().unwrap());
        let explained = self.server.run(&["op", "explain", op]).stdout;
        for part in expected {
            assert!(detail.contains(part), "no `{part}` in {detail}");
            assert!(explained.contains(part), "no `{part}` in {explained}");
        }
    }

    /// VNF-A is complete: every VNFC exists, and its cluster is registered as a VIM; the VIM's id.
    pub fn assert_a_up(&self, nodes: usize) -> String {
        let instance = self.server.ctl(&["vnf", "show", VNF_A]);
        let info = &instance["instantiatedVnfInfo"];
        assert_eq!(
            info["vnfcResourceInfo"].as_array().unwrap().len(),
            nodes,
            "{info:#}"
        );
        let vim = self.server.ctl(&["vim", "show", CLUSTER]);
        let id = text(&vim["id"]);
        let connections = instance["vimConnectionInfo"].as_object().unwrap();
        assert!(
            connections
                .values()
                .any(|known| known["vimId"] == id.as_str()),
            "{instance:#}"
        );
        self.server.ctl(&["vim", "check", CLUSTER]);
        id
    }

    /// Issues a kubeconfig for VNF-A's cluster, with which the cluster can be used, for half an hour; the token.
    pub fn use_kubeconfig(&self) -> String {
        let words = ["cluster", "kubeconfig", VNF_A, "--expires", "30m"];
        let issued = self
            .server
            .ctl(&[&words[..], &["--reason", "a look"]].concat());
        let expires: jiff::Timestamp = text(&issued["expiresAt"]).parse().unwrap();
        let left = expires.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((1700..=1801).contains(&left), "{left} s");
        let config: Value = serde_json::from_str(&text(&issued["kubeconfig"])).unwrap();
        let file = self.folder.path().join("issued.kubeconfig");
        std::fs::write(&file, config.to_string()).unwrap();
        let path = file.to_str().unwrap();
        self.server
            .ctl(&["vim", "register", "--name", "mine", "--config-file", path]);
        self.server.ctl(&["vim", "check", "mine"]);
        self.server.ctl(&["vim", "delete", "mine"]);
        text(&config["users"][0]["user"]["token"])
    }

    /// Instantiates VNF-B on VNF-A's cluster, after which VNF-A cannot be terminated.
    pub fn instantiate_b(&self, cluster: &str) {
        self.instantiate_b_from("vnf-b-cnf", cluster);
    }

    /// The same, from another package.
    pub fn instantiate_b_from(&self, package: &str, cluster: &str) {
        let request = self.create_b(package, cluster);
        self.wait_for_state(&self.instantiate(VNF_B, &request), "COMPLETED");
        self.assert_b_up();
    }

    /// Creates VNF-B from this package; its request.
    pub fn create_b(&self, package: &str, cluster: &str) -> Value {
        self.create_b_from(&self.onboard(package), cluster)
    }

    /// The same, from a package that was onboarded with this id.
    pub fn create_b_from(&self, package: &str, cluster: &str) -> Value {
        self.server
            .ctl(&["vnf", "create", "--package", package, "--name", VNF_B]);
        self.request("vnf-b-cnf", cluster)
    }

    /// VNF-B is complete, and VNF-A cannot be terminated.
    pub fn assert_b_up(&self) {
        let instance = self.server.ctl(&["vnf", "show", VNF_B]);
        let pods = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
            .as_array()
            .unwrap();
        assert_eq!(pods.len(), 2, "{instance:#}");
        let id = instance["id"].as_str().unwrap();
        let why = self.server.refused(&["vnf", "terminate", VNF_A]);
        assert!(why.contains(VNF_B) && why.contains(id), "{why}");
        let a = self.server.ctl(&["vnf", "show", VNF_A]);
        let path = format!(
            "/vnflcm/v2/vnf_instances/{}/terminate",
            a["id"].as_str().unwrap()
        );
        let forceful = r#"{"terminationType": "FORCEFUL"}"#;
        let (status, problem) = self.server.http("POST", &path, forceful);
        assert_eq!(status, 409, "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains(id),
            "{problem}"
        );
    }

    /// Begins to terminate an instance; the operation id.
    pub fn terminate(&self, name: &str) -> String {
        text(&self.server.ctl(&["vnf", "terminate", name])["vnfLcmOpOccId"])
    }

    /// Begins to terminate VNF-A after what runs on its cluster; the operation id.
    pub fn terminate_with_dependants(&self) -> String {
        let terminate = ["vnf", "terminate", VNF_A, "--cascade"];
        text(&self.server.ctl(&terminate)["vnfLcmOpOccId"])
    }

    /// Deletes VNF-B and VNF-A, both of which a cascade has terminated.
    pub fn delete_both(&self) {
        for name in [VNF_B, VNF_A] {
            self.server.ctl(&["vnf", "delete", name]);
        }
    }

    /// Terminates and deletes an instance.
    pub fn terminate_and_delete(&self, name: &str) {
        self.wait_for_state(&self.terminate(name), "COMPLETED");
        self.server.ctl(&["vnf", "delete", name]);
    }

    /// Asserts that no record and no orphan is left, and deletes the packages and the VIM.
    pub fn finish(&self) {
        let orphans = self.server.ctl(&["orphans"]);
        assert_eq!(orphans, json!([]), "orphans");
        let vims = self.server.ctl(&["vim", "list"]);
        assert_eq!(vims.as_array().unwrap().len(), 1, "{vims:#}");
        self.delete_packages();
        self.server.ctl(&["vim", "delete", VIM]);
        assert_eq!(self.server.ctl(&["vnf", "list"]), json!([]));
    }

    /// Deletes every package of the server.
    pub fn delete_packages(&self) {
        for package in self.server.ctl(&["package", "list"]).as_array().unwrap() {
            self.server
                .ctl(&["package", "delete", &text(&package["id"])]);
        }
    }
}

/// The sample of a package; a modified copy has its folder name.
fn sample_of(package: &str) -> String {
    Path::new(package)
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
