//! The real control plane for charts, and what `helm` and `kubectl` themselves report about it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::live::neighbour;

/// Names of the helm programs of both generations.
pub const GENERATIONS: [&str; 2] = ["helm", "helm4"];

/// A cluster, and one helm program for it.
#[derive(Debug)]
pub struct HelmCluster {
    /// Path of the kubeconfig with the login.
    pub kubeconfig: PathBuf,
    helm: PathBuf,
    kubectl: PathBuf,
}

impl HelmCluster {
    /// With this helm program; `None`, with a message, if a system is missing.
    pub fn find(helm: &str) -> Option<Self> {
        Self::with_kubeconfig(helm, neighbour("VNFM_LIVE_KUBECONFIG")?)
    }

    /// The same for another cluster, whose kubeconfig may be written later.
    pub fn with_kubeconfig(helm: &str, kubeconfig: PathBuf) -> Option<Self> {
        let programs = neighbour("VNFM_LIVE_ASSETS")?;
        Some(Self {
            kubeconfig,
            helm: programs.join(helm),
            kubectl: programs.join("kubectl"),
        })
    }

    /// Writes the configuration of a server that uses this helm, with short leases and steps.
    pub fn configure(&self, folder: &Path) {
        let output = Command::new("sha256sum").arg(&self.helm).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let hash = printed.split_whitespace().next().unwrap();
        let limits = json!({"lease_seconds": 2, "step_seconds": 240});
        let settings = json!({"limits": limits, "helm": {"binary": self.helm, "sha256": hash}});
        std::fs::write(folder.join("server.yaml"), settings.to_string()).unwrap();
    }

    /// The output of a `kubectl` command that must succeed.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.output(&self.kubectl, arguments)
    }

    /// A `kubectl` command that the test runs itself.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Name, chart and status of each release in a namespace, such as `web web-1.0.0 deployed`.
    pub fn releases(&self, namespace: &str) -> Vec<String> {
        let mut arguments = vec!["list", "--output", "json", "--namespace", namespace];
        if self.helm.ends_with(GENERATIONS[0]) {
            arguments.push("--all"); // Helm 4 lists all by default
        }
        let listed: Value = serde_json::from_str(&self.output(&self.helm, &arguments)).unwrap();
        let row = |one: &Value| {
            let words = ["name", "chart", "status"].map(|member| one[member].as_str().unwrap());
            words.join(" ")
        };
        listed.as_array().unwrap().iter().map(row).collect()
    }

    /// The statuses of all revisions in a namespace.
    pub fn revisions(&self, namespace: &str) -> Vec<String> {
        let get = ["get", "secrets", "--selector", "owner=helm"];
        let mut secrets = self.items(&get, namespace);
        let statuses = secrets.iter_mut();
        let status = |secret: &mut Value| secret["metadata"]["labels"]["status"].take();
        let statuses = statuses.map(status);
        statuses
            .map(|status| status.as_str().unwrap().to_owned())
            .collect()
    }

    /// Names of the pods of `app=web` that are not about to end.
    pub fn web_pods(&self, namespace: &str) -> BTreeSet<String> {
        let pods = self.items(&["get", "pods", "--selector", "app=web"], namespace);
        let stay = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        stay.map(name).collect()
    }

    /// Names of the pods in a namespace that run, and whether all of them are Ready.
    pub fn running_pods(&self, namespace: &str) -> (BTreeSet<String>, bool) {
        let mut pods = self.items(&["get", "pods"], namespace);
        pods.retain(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] != "Succeeded"
        });
        let is_ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|seen| seen["type"] == "Ready" && seen["status"] == "True")
        };
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        (pods.iter().map(name).collect(), pods.iter().all(is_ready))
    }

    /// The phases of the claims in a namespace.
    pub fn claims(&self, namespace: &str) -> Vec<String> {
        let claims = self.items(&["get", "persistentvolumeclaims"], namespace);
        let phase = |claim: &Value| claim["status"]["phase"].as_str().unwrap().to_owned();
        claims.iter().map(phase).collect()
    }

    /// Everything outside of namespaces that a VNF can leave, as `kind/name`.
    pub fn cluster_objects(&self) -> BTreeSet<String> {
        let kinds = "namespaces,persistentvolumes,storageclasses,customresourcedefinitions,\
                     clusterroles,clusterrolebindings,apiservices";
        let names = self.kubectl(&["get", kinds, "--output", "name"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Everything in a namespace that users see, as `kind/name`.
    pub fn contents(&self, namespace: &str) -> BTreeSet<String> {
        let kinds = "all,configmaps,secrets,serviceaccounts,persistentvolumeclaims";
        let arguments = ["get", kinds, "--namespace", namespace, "--output", "name"];
        self.kubectl(&arguments)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn items(&self, words: &[&str], namespace: &str) -> Vec<Value> {
        let arguments = [words, &["--namespace", namespace, "--output", "json"]].concat();
        let mut list: Value = serde_json::from_str(&self.kubectl(&arguments)).unwrap();
        let Value::Array(items) = list["items"].take() else {
            panic!("no list: {list:#}");
        };
        items
    }

    fn output(&self, program: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let command = command.args(arguments).env("KUBECONFIG", &self.kubeconfig);
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }
}
