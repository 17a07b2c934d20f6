//! Two groups of workers: the second has a VDU, labels and a taint of its own, through scaling, heal and upgrade.

use crate::lab::{Lab, NEW as SUCCESSOR};
use crate::upgrade::NEW;
use crate::workload::b;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm_core::ports::{Effects, HookHeal, HookRequest, HookScale};

const GROUP: (&str, &str) = ("example.com/group", "storage");
/// A label that no request names.
const RACK: (&str, &str) = ("example.com/rack", "7");
/// Hosts with the last byte of their address: the control plane, a worker of each group, and one to come.
const HOSTS: [(u8, &str); 4] = [(1, "m1"), (2, "w1"), (3, "s1"), (4, "s2")];

impl Lab {
    /// A lab with a control-plane node and a worker of each group.
    async fn with_groups() -> Self {
        let lab = Self::empty().await;
        for (last, name) in HOSTS {
            lab.boot((last, name), name).await;
        }
        lab.run_groups(lab.of_groups("instantiate_end", 1)).await;
        lab
    }

    /// A request for a hook with this many workers in the second group.
    fn of_groups(&self, hook: &str, second: usize) -> HookRequest {
        let mut params = self.params();
        let installation = &mut params["k8s_cluster_installation_param"];
        installation["worker_node"]["labels"] = json!({ GROUP.0: "general" });
        installation["worker_groups"] = json!([{ "vdu_id": "storageNode", "ssh_cp_name": "storageCP",
            "labels": { GROUP.0: GROUP.1 },
            "taints": [{ "key": GROUP.0, "value": GROUP.1, "effect": "NoSchedule" }] }]);
        let mut request = self.request(hook, &params);
        let vnfcs: Vec<_> = self
            .vnfcs_of_groups(&[])
            .into_iter()
            .take(2 + second)
            .collect();
        request.inventory.vnfc_resource_info = serde_json::from_value(json!(vnfcs)).unwrap();
        request.instance.vdus = ["masterNode", "workerNode", "storageNode"]
            .map(Into::into)
            .to_vec();
        request.dependents = vec![b()];
        request
    }

    fn vnfcs_of_groups(&self, replaced: &[&str]) -> Vec<Value> {
        let all = HOSTS.map(|(last, name)| {
            let (vdu, cp) = match &name[..1] {
                "m" => ("masterNode", "masterCP"),
                "w" => ("workerNode", "workerCP"),
                _ => ("storageNode", "storageCP"),
            };
            self.vnfc((last, name, vdu, cp), replaced)
        });
        all.to_vec()
    }

    async fn run_groups(&self, request: HookRequest) -> Effects {
        self.run(request, None).await.unwrap().unwrap()
    }

    /// Runs both hooks of a scaling of the second group.
    async fn scale_second(&self, (before, after): (usize, usize)) {
        let second = self.vnfcs_of_groups(&[]).split_off(3);
        let second = || serde_json::from_value(json!(second)).unwrap();
        for (hook, now) in [("scale_start", before), ("scale_end", after)] {
            let mut request = self.of_groups(hook, now);
            let mut scale = HookScale::default();
            if after > before {
                scale.vnfcs_to_add = BTreeMap::from([("storageNode".into(), 1)]);
                scale.vnfcs_added = if now == after { second() } else { vec![] };
            } else {
                scale.vnfcs_to_remove = second();
            }
            request.scale = Some(scale);
            self.run_groups(request).await;
        }
    }

    /// Checks a node of the second group, and that the first group has neither its label nor its taint.
    fn assert_groups(&self, second: &[&str]) {
        for name in second {
            let node = self.node(name).unwrap();
            assert_eq!(node["metadata"]["labels"][GROUP.0], GROUP.1, "{node:#}");
            let taint = &node["spec"]["taints"][0];
            assert_eq!(
                (&taint["key"], &taint["value"], &taint["effect"]),
                (&json!(GROUP.0), &json!(GROUP.1), &json!("NoSchedule"))
            );
        }
        let worker = self.node("w1").unwrap();
        assert_eq!(worker["metadata"]["labels"][GROUP.0], "general");
        assert!(worker["spec"]["taints"].is_null(), "{worker:#}");
        assert_eq!(self.books.violations(), [""; 0]);
    }

    /// How often a program was started on the worker of the first group.
    fn calls_on_first(&self) -> usize {
        self.count("w1", "")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_group_scales_and_the_first_is_not_touched() {
    let lab = Lab::with_groups().await;
    lab.assert_groups(&["s1"]);
    let before = lab.calls_on_first();
    lab.scale_second((1, 2)).await;
    lab.assert_scaled(&["m1", "s1", "s2", "w1"]);
    lab.assert_groups(&["s1", "s2"]);
    lab.scale_second((2, 1)).await;
    lab.assert_scaled(&["m1", "s1", "w1"]);
    assert_eq!(lab.count("s2", "kubeadm reset"), 1);
    lab.assert_groups(&["s1"]);
    assert_eq!(lab.calls_on_first(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_belongs_to_its_group() {
    let lab = Lab::with_groups().await;
    let labels = json!({ "metadata": { "labels": { RACK.0: RACK.1 } } });
    assert!(lab.cluster().merge("/api/v1/nodes/s1", &labels));
    let before = lab.calls_on_first();
    for hook in ["heal_start", "heal_end"] {
        let mut request = lab.of_groups(hook, 1);
        if hook == "heal_end" {
            lab.hosts.destroy("server-s1").await;
            lab.boot((3, "s1"), &format!("s1{SUCCESSOR}")).await;
            let vnfcs: Vec<_> = lab.vnfcs_of_groups(&["s1"]).into_iter().take(3).collect();
            request.inventory.vnfc_resource_info = serde_json::from_value(json!(vnfcs)).unwrap();
        }
        let mut heal = HookHeal::default();
        heal.vnfcs = serde_json::from_value(json!([lab.vnfcs_of_groups(&[])[2]])).unwrap();
        request.heal = Some(heal);
        lab.run_groups(request).await;
    }
    lab.assert_scaled(&["m1", "s1", "w1"]);
    lab.assert_groups(&["s1"]);
    let node = lab.node("s1").unwrap();
    assert_eq!(node["metadata"]["labels"][RACK.0], RACK.1, "{node:#}");
    assert_eq!(lab.calls_on_first(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_goes_through_both_groups() {
    let mut lab = Lab::with_groups().await;
    lab.add_archives();
    lab.run_groups(lab.of_groups("change_current_package_end", 1))
        .await;
    for name in ["m1", "w1", "s1"] {
        let node = lab.node(name).unwrap();
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], NEW, "{name}");
    }
    lab.assert_scaled(&["m1", "s1", "w1"]);
    lab.assert_groups(&["s1"]);
    assert_eq!(lab.count("s1", "kubeadm upgrade node"), 1);
}
