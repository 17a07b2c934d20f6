//! Direct access to the machines and the cluster of VNF-A: its servers, and `kubectl` on the control plane over SSH, so
//! that checks do not depend on the drivers.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_core::ports::{CommandOutput, PinnedTarget, SshCommand, SshTarget};

use vnfm_outbound::Destinations;
use vnfm_ssh::{RememberedHostKeys, Ssh};

use crate::programs::until;
use crate::testbed::{LONG, Testbed, VNF_A, VNF_B};

/// A VNFC of VNF-A, with its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vnfc {
    /// Its id in the instance.
    pub id: String,
    /// Id of its VDU in the VNFD.
    pub vdu: String,
    /// The VIM's id of its server.
    pub server: String,
    /// Name of its server on the VIM.
    pub name: String,
    /// Address that is reachable from outside.
    pub address: String,
}

/// JSON pointer to the address of a connection point.
const ADDRESS: &str = "/cpProtocolInfo/0/ipOverEthernet/ipAddresses/0/addresses/0";

/// The VNFCs of VNF-A, by their servers' names.
pub fn vnfcs(testbed: &Testbed) -> BTreeMap<String, Vnfc> {
    let instance = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let all = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .unwrap()
        .clone();
    all.iter()
        .map(vnfc)
        .map(|vnfc| (vnfc.name.clone(), vnfc))
        .collect()
}

fn vnfc(info: &Value) -> Vnfc {
    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{info:#}"))
            .to_owned()
    };
    let cps = info["vnfcCpInfo"].as_array().unwrap().iter();
    let mut outside = cps.filter(|cp| text(&cp["cpdId"]).ends_with("ExternalCP"));
    let address = outside.find_map(|cp| cp.pointer(ADDRESS).map(text));
    Vnfc {
        id: text(&info["id"]),
        vdu: text(&info["vduId"]),
        server: text(&info["computeResource"]["resourceId"]),
        name: text(&info["metadata"]["name"]),
        address: address.unwrap_or_else(|| panic!("no address outside: {info:#}")),
    }
}

/// A pod, as `kubectl` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Name of the pod in its namespace.
    pub name: String,
    /// Its node; empty if unscheduled.
    pub node: String,
    /// Whether it is ready and not terminating.
    pub runs: bool,
}

/// Runs commands on the machines.
pub struct ClusterShell {
    ssh: Ssh,
    port: u16,
    master: Vnfc,
    runtime: tokio::runtime::Runtime,
}

impl std::fmt::Debug for ClusterShell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inside({})", self.master.address)
    }
}

impl ClusterShell {
    /// Connects to the current machines of VNF-A.
    pub fn connect(testbed: &Testbed) -> Self {
        let master = vnfcs(testbed)
            .into_values()
            .find(|vnfc| vnfc.vdu == "masterNode")
            .unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Self {
            ssh: Ssh::new(
                Arc::<RememberedHostKeys>::default(),
                Destinations::anywhere(),
            ),
            port: testbed.ssh_port(),
            master,
            runtime: runtime.unwrap(),
        }
    }

    fn target(&self, on: &Vnfc) -> PinnedTarget {
        let target = SshTarget::new(&on.server, &on.address, "ubuntu").port(self.port);
        target.password("secret").into()
    }

    /// Runs a command as root on one of the machines.
    pub fn run(&self, on: &Vnfc, command: &str) -> CommandOutput {
        self.run_command(on, SshCommand::new(command))
    }

    fn run_command(&self, on: &Vnfc, command: SshCommand) -> CommandOutput {
        let command = command.sudo().timeout(Duration::from_mins(1));
        self.runtime
            .block_on(self.ssh.run(&self.target(on), &command))
            .unwrap()
    }

    /// Runs `kubectl`; its output, or `None` if it fails.
    pub fn kubectl(&self, words: &str) -> Option<String> {
        let line = format!("kubectl --kubeconfig=/etc/kubernetes/admin.conf {words}");
        let output = self.run(&self.master, &line);
        (output.exit_code == 0).then_some(output.stdout)
    }

    /// Applies a manifest, and fails if the cluster refuses it.
    pub fn apply(&self, document: &Value) {
        let apply = "kubectl --kubeconfig=/etc/kubernetes/admin.conf apply -f -";
        let command = SshCommand::new(apply).stdin(document.to_string());
        let output = self.run_command(&self.master, command);
        assert_eq!(output.exit_code, 0, "{output:?}");
    }

    /// Lets a node take pods, or not.
    pub fn set_schedulable(&self, node: &str, schedulable: bool) {
        self.apply(
            &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node },
            "spec": { "unschedulable": !schedulable } }),
        );
    }

    /// Moves the two pods of VNF-B away from these nodes.
    pub fn move_b_pods_from(&self, nodes: &[&str], testbed: &Testbed) -> Vec<String> {
        for node in nodes {
            self.set_schedulable(node, false);
        }
        let namespace = b_namespace(testbed);
        for pod in self.b_pods(testbed) {
            let deleted = self.kubectl(&format!("delete pod {} -n {namespace}", pod.name));
            assert!(deleted.is_some(), "{pod:?}");
        }
        let elsewhere = self.wait_for_b_pods(testbed, 2);
        for node in nodes {
            self.set_schedulable(node, true);
        }
        elsewhere
    }

    /// Whether each node is Ready, by name.
    pub fn nodes(&self) -> BTreeMap<String, bool> {
        let nodes = self.items("get nodes -o json");
        nodes
            .iter()
            .map(|node| (text(&node["metadata"]["name"]), is_ready(node)))
            .collect()
    }

    /// The pods of VNF-B, in its namespace.
    pub fn b_pods(&self, testbed: &Testbed) -> Vec<Pod> {
        let namespace = b_namespace(testbed);
        let pods = self.items(&format!("get pods -n {namespace} -o json"));
        let mut pods: Vec<_> = pods
            .iter()
            .map(|pod| Pod {
                name: text(&pod["metadata"]["name"]),
                node: pod["spec"]["nodeName"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                runs: is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null(),
            })
            .collect();
        pods.sort_by(|a, b| a.node.cmp(&b.node));
        pods
    }

    /// Waits until this many pods of VNF-B run; their nodes.
    pub fn wait_for_b_pods(&self, testbed: &Testbed, pods: usize) -> Vec<String> {
        until("the pods of VNF-B", LONG, || {
            let running = self.b_pods(testbed).into_iter().filter(|pod| pod.runs);
            let nodes: Vec<_> = running.map(|pod| pod.node).collect();
            (nodes.len() == pods).then_some(nodes)
        })
    }

    /// Waits until this many pods of VNF-B run: exactly those in its record.
    pub fn assert_b_recorded(&self, testbed: &Testbed, pods: usize) {
        self.wait_for_b_pods(testbed, pods);
        let running = self.b_pods(testbed).into_iter().filter(|pod| pod.runs);
        let mut running: Vec<_> = running.map(|pod| pod.name).collect();
        running.sort();
        assert_eq!(testbed.recorded_b_pods(), running, "the record of VNF-B");
    }

    /// Waits until a node is Ready, or not.
    pub fn wait_until_ready(&self, node: &str, ready: bool, timeout: Duration) {
        until(&format!("`{node}` ready: {ready}"), timeout, || {
            (self.nodes().get(node) == Some(&ready)).then_some(())
        });
    }

    fn items(&self, words: &str) -> Vec<Value> {
        let output = self.kubectl(words).unwrap_or_default();
        let list: Value = serde_json::from_str(&output).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }
}

/// Name of the namespace in which VNF-B runs.
pub fn b_namespace(testbed: &Testbed) -> String {
    format!(
        "vnf-{}",
        text(&testbed.server.ctl(&["vnf", "show", VNF_B])["id"])
    )
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions
        .into_iter()
        .any(|seen| seen["type"] == "Ready" && seen["status"] == "True")
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
