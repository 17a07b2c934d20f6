//! VNF-B, which runs on the cluster: a Deployment with a pod on each worker.

use crate::lab::Lab;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{Effects, HookDependent, PortError};

pub(crate) const B: &str = "vnf-b-id";

impl Lab {
    /// A lab with a cluster, and on it a Deployment of VNF-B with a pod on each worker.
    pub(crate) async fn with_vnf_b() -> (Self, Effects) {
        let lab = Self::new().await;
        let effects = lab.install().await.unwrap();
        lab.deploy_b().await;
        (lab, effects)
    }

    /// Deploys VNF-B with a pod on each worker.
    pub(crate) async fn deploy_b(&self) {
        let labels = json!({ "app": "web", "vnfm.dev/instance": B });
        let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "labels": labels },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
                "metadata": { "labels": labels }, "spec": {
                    "containers": [{ "name": "web", "image": "localhost/web:1" }],
                    "volumes": [{ "name": "scratch", "emptyDir": {} }] } } } });
        self.apply(&deployment);
        self.wait_for_pods_of_b(2).await;
    }

    pub(crate) fn apply(&self, document: &Value) {
        self.cluster().apply(&document.to_string()).unwrap();
    }

    /// Creates a disruption budget that allows no eviction of VNF-B's two pods.
    pub(crate) fn create_budget(&self) {
        self.apply(
            &json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web-stays", "namespace": "default" },
            "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } } }),
        );
    }

    /// The nodes of VNF-B's ready pods, sorted.
    pub(crate) fn nodes_of_b(&self) -> Vec<String> {
        let pods = self
            .cluster()
            .object("/api/v1/namespaces/default/pods")
            .unwrap();
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["metadata"]["labels"]["app"] == "web"
                && conditions
                    .into_iter()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let ready = pods["items"].as_array().unwrap().iter().filter(ready);
        let mut nodes: Vec<_> = ready
            .map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned())
            .collect();
        nodes.sort();
        nodes
    }

    pub(crate) async fn wait_for_pods_of_b(&self, pods: usize) {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        let all = async {
            while self.nodes_of_b().len() < pods {
                pace.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all)
            .await
            .expect("the pods run");
    }

    pub(crate) async fn wait_until_ready(&self, node: &str) {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        let ready = async {
            while !self.cluster().node_ready(node) {
                pace.tick().await;
            }
        };
        let ready = tokio::time::timeout(Duration::from_secs(20), ready);
        ready.await.expect("the node is Ready");
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.cluster().object(&format!("/api/v1/nodes/{name}"))
    }

    /// Runs a hook of a heal of these servers.
    pub(crate) async fn heal(
        &self,
        hook: &str,
        params: Value,
        names: &[&str],
    ) -> Result<Effects, PortError> {
        let mut request = self.heal_request(hook, &params, names);
        request.dependents = vec![b()];
        self.run(request, None).await.unwrap()
    }

    /// Runs the undo handler of `heal_start`.
    pub(crate) async fn undo(&self, names: &[&str]) -> Result<Effects, PortError> {
        let mut request = self.heal_request("heal_start", &json!({}), names);
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    /// Replaces the servers and runs `heal_end`.
    pub(crate) async fn finish(&self, names: &[&str]) -> Effects {
        self.replace(names).await;
        self.heal("heal_end", json!({}), names).await.unwrap()
    }

    /// Runs a hook of a scaling from some number of workers to another; VNF-B depends on the cluster.
    pub(crate) async fn scale(
        &self,
        hook: &str,
        params: Value,
        size: (usize, usize),
    ) -> Result<Effects, PortError> {
        let mut request = self.scale_request(hook, &params, size);
        request.dependents = vec![b()];
        self.run(request, None).await.unwrap()
    }

    /// Runs the undo handler of a hook of a scaling.
    pub(crate) async fn undo_scale(
        &self,
        hook: &str,
        size: (usize, usize),
    ) -> Result<Effects, PortError> {
        let mut request = self.scale_request(hook, &json!({}), size);
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    /// A lab with four workers, and VNF-B on two of those that a scaling to two removes.
    pub(crate) async fn with_four_workers() -> Self {
        let (lab, _) = Self::with_vnf_b().await;
        lab.boot_added().await;
        lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
        for node in ["w1", "w2"] {
            lab.set_unschedulable(node, &json!(true));
        }
        lab.evict_b().await;
        assert_eq!(lab.nodes_of_b(), ["w3", "w4"]);
        for node in ["w1", "w2"] {
            lab.set_unschedulable(node, &Value::Null);
        }
        lab
    }

    fn set_unschedulable(&self, node: &str, value: &Value) {
        let path = format!("/api/v1/nodes/{node}");
        let change = json!({ "spec": { "unschedulable": value } });
        assert!(self.cluster().merge(&path, &change));
    }

    /// Deletes VNF-B's pods and waits for their successors.
    async fn evict_b(&self) {
        let pods = self.cluster().object("/api/v1/namespaces/default/pods");
        for pod in pods.unwrap()["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/default/pods/{name}");
            assert!(self.cluster().delete(&path));
        }
        self.wait_for_pods_of_b(2).await;
    }

    /// The names of the cluster's Ready nodes that take pods.
    pub(crate) fn usable_nodes(&self) -> Vec<String> {
        let nodes = self.cluster().object("/api/v1/nodes").unwrap();
        let nodes = nodes["items"].as_array().unwrap().iter();
        let takes_pods = nodes.filter(|node| node["spec"]["unschedulable"].is_null());
        let mut names: Vec<_> = takes_pods
            .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
            .filter(|name| self.cluster().node_ready(name))
            .collect();
        names.sort();
        names
    }

    /// Checks that exactly these nodes exist and take pods, that no bootstrap token is left, and that the simulation saw
    /// no violation.
    pub(crate) fn assert_scaled(&self, nodes: &[&str]) {
        assert_eq!(self.usable_nodes(), nodes);
        let all = self.cluster().object("/api/v1/nodes").unwrap();
        assert_eq!(
            all["items"].as_array().unwrap().len(),
            nodes.len(),
            "{all:#}"
        );
        let secrets = self
            .cluster()
            .object("/api/v1/namespaces/kube-system/secrets");
        let secrets = secrets.unwrap().to_string();
        assert!(
            !secrets.contains("bootstrap-token-"),
            "a bootstrap token is left"
        );
        assert_eq!(self.books.violations(), [""; 0]);
    }

    /// As [`Lab::assert_complete`]; also checks that no bootstrap token is left.
    pub(crate) fn healed(&self, end: &Effects) {
        self.assert_complete(end);
        let secrets = self
            .cluster()
            .object("/api/v1/namespaces/kube-system/secrets")
            .unwrap();
        assert!(
            !secrets.to_string().contains("bootstrap-token-"),
            "a bootstrap token is left"
        );
    }

    /// Checks that the cluster is complete, and that the simulation saw no violation.
    fn assert_complete(&self, end: &Effects) {
        for node in ["m1", "w1", "w2"] {
            assert!(self.cluster().node_ready(node), "{node} is not ready");
            assert!(
                self.node(node).unwrap()["spec"]["unschedulable"].is_null(),
                "{node}"
            );
        }
        assert!(end.register_vims.is_empty(), "the VIM stays as it is");
        assert!(
            self.books.violations().is_empty(),
            "{:?}",
            self.books.violations()
        );
    }
}

pub(crate) fn b() -> HookDependent {
    HookDependent::new(B, Some("vnf-b".into()))
}
