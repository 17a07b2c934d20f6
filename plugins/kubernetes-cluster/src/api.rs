//! The parts of the Kubernetes API that healing and scaling need: nodes, their pods, evictions.
//!
//! Calls go through the host service `http`, with the VIM's address and token, so the API is reachable wherever the VIM
//! is. Unlike `kubectl drain`, which only prints text, the API returns a status and a cause for each eviction. Calls are
//! repeated for a while if there is no response; any response counts.

use crate::api_responses::{is_last_refusal, is_transient, unexpected_response};
use serde_json::{Map, Value, json};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{ErrorKind, HttpRequest};

/// How often in a row a call may fail, and the interval between attempts.
pub(crate) const MAX_FAILURES: u32 = 40;
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one call to the API server.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The standard taint of a node that is off; lets controllers delete its pods and detach its volumes.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The annotation of nodes that we have cordoned, to tell them from those that a user has.
const CORDONED_BY: &str = "vnfm.dev/cordoned-by";
/// The label with a pod's VNF instance.
const INSTANCE: &str = "vnfm.dev/instance";
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A client of the API server.
pub(crate) struct Api<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) url: String,
    pub(crate) ca: String,
    pub(crate) token: Secret,
    /// Id of the VNF instance, for the cordon annotation.
    pub(crate) instance: String,
}

/// A response of the API server.
pub(crate) struct Response {
    pub(crate) status: u16,
    body: Value,
}

impl Response {
    /// Its message, with the causes.
    pub(crate) fn reason(&self) -> String {
        let message = self.body["message"]
            .as_str()
            .unwrap_or("it gave no reason")
            .trim();
        let causes = self
            .body
            .pointer("/details/causes")
            .and_then(Value::as_array);
        let causes = causes
            .into_iter()
            .flatten()
            .filter_map(|cause| cause["message"].as_str());
        let causes: Vec<_> = causes.filter(|cause| !message.contains(cause)).collect();
        if causes.is_empty() {
            return message.to_owned();
        }
        format!("{} ({})", message.trim_end_matches('.'), causes.join("; "))
    }
}

/// The result of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The API server accepted it: the pod is terminating.
    Accepted,
    /// The pod does not exist.
    Missing,
    /// A disruption budget forbids it for now; the reason.
    Blocked(String),
}

/// A node, as the API returns it.
#[derive(Debug, Clone)]
pub(crate) struct ClusterNode(Value);

impl ClusterNode {
    pub(crate) fn name(&self) -> &str {
        self.0
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .unwrap_or(&NONE)
    }

    pub(crate) fn has_address(&self, address: &str) -> bool {
        let addresses = self
            .0
            .pointer("/status/addresses")
            .and_then(Value::as_array);
        addresses
            .into_iter()
            .flatten()
            .any(|known| known["address"] == address)
    }

    /// The version that its kubelet reports; empty if it has not reported yet.
    pub(crate) fn kubelet_version(&self) -> &str {
        let version = self.0.pointer("/status/nodeInfo/kubeletVersion");
        version.and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether its kubelet has stopped reporting.
    pub(crate) fn is_silent(&self) -> bool {
        has(&self.0, "Ready", "Unknown")
    }

    /// Whether its kubelet reports that it takes pods.
    pub(crate) fn is_ready(&self) -> bool {
        has(&self.0, "Ready", "True")
    }

    fn takes_pods(&self) -> bool {
        self.0.pointer("/spec/unschedulable") != Some(&Value::Bool(true))
    }

    /// Whether we have cordoned it.
    pub(crate) fn is_ours(&self) -> bool {
        !self.0["metadata"]["annotations"][CORDONED_BY].is_null()
    }

    fn taints(&self) -> Vec<Value> {
        self.0
            .pointer("/spec/taints")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    }

    fn is_out_of_service(&self) -> bool {
        self.taints()
            .iter()
            .any(|taint| taint["key"] == OUT_OF_SERVICE)
    }
}

/// A pod, as the API returns it.
#[derive(Debug, Clone)]
pub(crate) struct Pod(Value);

impl Pod {
    /// Name for messages, in the form `NAMESPACE/NAME`.
    pub(crate) fn name(&self) -> String {
        let at = |name: &str| {
            self.0["metadata"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        format!("{}/{}", at("namespace"), at("name"))
    }

    fn path(&self) -> String {
        let name = self.name();
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    }

    /// Whether a drain leaves it on the node: a daemon's, a static one, or one that has ended.
    pub(crate) fn survives_drain(&self) -> bool {
        let mirror = &self.0["metadata"]["annotations"]["kubernetes.io/config.mirror"];
        self.controller() == Some("DaemonSet") || !mirror.is_null() || self.has_ended()
    }

    fn has_ended(&self) -> bool {
        matches!(
            self.0["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        )
    }

    /// Whether no controller would recreate it.
    pub(crate) fn is_bare(&self) -> bool {
        self.controller().is_none()
    }

    fn controller(&self) -> Option<&str> {
        let owners = self.0["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["controller"] == true)?["kind"].as_str()
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Whether it has an `emptyDir` volume.
    pub(crate) fn has_local_data(&self) -> bool {
        let volumes = self.0.pointer("/spec/volumes").and_then(Value::as_array);
        volumes
            .into_iter()
            .flatten()
            .any(|volume| !volume["emptyDir"].is_null())
    }

    /// Whether it is ready or has completed.
    pub(crate) fn is_ready_or_done(&self) -> bool {
        self.has_ended() || has(&self.0, "Ready", "True")
    }

    /// Whether it is not scheduled to a node.
    pub(crate) fn is_unscheduled(&self) -> bool {
        self.is_on("")
    }

    /// Whether it is scheduled to this node.
    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.0["spec"]["nodeName"].as_str().unwrap_or_default() == node
    }

    /// Why it is not ready: the message or reason in its status.
    pub(crate) fn problem(&self) -> String {
        let statuses = self
            .0
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array);
        let waiting = statuses
            .into_iter()
            .flatten()
            .map(|status| &status["state"]["waiting"]);
        let scheduling = self
            .0
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let failing = scheduling
            .into_iter()
            .flatten()
            .filter(|seen| seen["status"] == "False");
        let mut messages = waiting.chain(failing).filter_map(|seen| {
            let reason = seen["message"]
                .as_str()
                .or_else(|| seen["reason"].as_str())?;
            Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty())
        });
        let phase = self.0["status"]["phase"].as_str().unwrap_or("Pending");
        messages.next().unwrap_or_else(|| format!("it is {phase}"))
    }
}

fn has(object: &Value, condition: &str, status: &str) -> bool {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|seen| seen["type"] == condition && seen["status"] == status)
}

impl Api<'_> {
    pub(crate) async fn nodes(&self) -> Result<Vec<ClusterNode>, DriverError> {
        Ok(self
            .list("/api/v1/nodes")
            .await?
            .into_iter()
            .map(ClusterNode)
            .collect())
    }

    /// The node of this name, if it exists.
    pub(crate) async fn node(&self, name: &str) -> Result<Option<ClusterNode>, DriverError> {
        Ok(self.find(&node_path(name)).await?.map(ClusterNode))
    }

    pub(crate) async fn pods_on(&self, node: &str) -> Result<Vec<Pod>, DriverError> {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        Ok(self.list(&path).await?.into_iter().map(Pod).collect())
    }

    pub(crate) async fn pods_of(&self, instances: &[String]) -> Result<Vec<Pod>, DriverError> {
        let path = format!(
            "/api/v1/pods?labelSelector={INSTANCE}%20in%20%28{}%29",
            instances.join("%2C")
        );
        Ok(self.list(&path).await?.into_iter().map(Pod).collect())
    }

    /// Makes the node unschedulable; its pods keep running.
    pub(crate) async fn cordon(&self, node: &ClusterNode) -> Result<(), DriverError> {
        if !node.takes_pods() {
            return Ok(());
        }
        let change = json!({
            "metadata": { "annotations": { CORDONED_BY: self.instance } },
            "spec": { "unschedulable": true },
        });
        self.change(node, change).await
    }

    /// Makes the node schedulable again, unless a user has cordoned it.
    pub(crate) async fn uncordon(&self, node: &ClusterNode) -> Result<(), DriverError> {
        if !node.is_ours() {
            return Ok(());
        }
        let mut change = json!({
            "metadata": { "annotations": { CORDONED_BY: null } },
            "spec": { "unschedulable": null },
        });
        if node.is_out_of_service() {
            let mut taints = node.taints();
            taints.retain(|taint| taint["key"] != OUT_OF_SERVICE);
            change["spec"]["taints"] = taints.into();
        }
        self.change(node, change).await
    }

    /// As [`Api::uncordon`], by name; does nothing if there is no such node.
    pub(crate) async fn uncordon_by_name(&self, name: &str) -> Result<(), DriverError> {
        match self.node(name).await? {
            Some(node) => self.uncordon(&node).await,
            None => Ok(()),
        }
    }

    /// Taints the node as out of service: its pods are recreated elsewhere, its volumes detached.
    pub(crate) async fn out_of_service(&self, node: &ClusterNode) -> Result<(), DriverError> {
        if node.is_out_of_service() {
            return Ok(());
        }
        let mut taints = node.taints();
        taints
            .push(json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" }));
        // Others may write taints too: the resource version makes the change fail if they did.
        let version = &node.0["metadata"]["resourceVersion"];
        let mut change = json!({
            "metadata": { "resourceVersion": version },
            "spec": { "taints": taints, "unschedulable": true },
        });
        if node.takes_pods() {
            change["metadata"]["annotations"] = json!({ CORDONED_BY: self.instance });
        }
        self.change(node, change).await
    }

    /// Deletes the node from the cluster.
    pub(crate) async fn delete_node(&self, name: &str) -> Result<(), DriverError> {
        let path = node_path(name);
        let response = self.send("DELETE", &path, None).await?;
        match response.status {
            200..=299 | 404 => Ok(()),
            _ => Err(unexpected_response("delete", &path, &response)),
        }
    }

    /// Evicts a pod, if its disruption budgets allow.
    pub(crate) async fn evict(&self, pod: &Pod) -> Result<Eviction, DriverError> {
        let name = pod.name();
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
        });
        let path = format!("{}/eviction", pod.path());
        let response = self
            .send("POST", &path, Some(("application/json", body)))
            .await?;
        match response.status {
            200..=299 => Ok(Eviction::Accepted),
            404 => Ok(Eviction::Missing),
            // 500: several budgets cover it; 409: it has just changed.
            409 | 429 | 500 => Ok(Eviction::Blocked(response.reason())),
            _ => Err(unexpected_response("evict", &path, &response)),
        }
    }

    /// Deletes a pod, regardless of its disruption budgets.
    pub(crate) async fn delete_pod(&self, pod: &Pod) -> Result<(), DriverError> {
        let path = pod.path();
        let response = self.send("DELETE", &path, None).await?;
        match response.status {
            200..=299 | 404 => Ok(()),
            _ => Err(unexpected_response("delete", &path, &response)),
        }
    }

    /// Reads the object at a path; `None` if it does not exist.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, DriverError> {
        let response = self.send("GET", path, None).await?;
        match response.status {
            200 => Ok(Some(response.body)),
            404 => Ok(None),
            _ => Err(unexpected_response("read", path, &response)),
        }
    }

    /// Changes an object; `None` if it does not exist.
    pub(crate) async fn patch(
        &self,
        path: &str,
        body: (&str, Value),
    ) -> Result<Option<()>, DriverError> {
        let response = self.send("PATCH", path, Some(body)).await?;
        match response.status {
            200..=299 => Ok(Some(())),
            404 => Ok(None),
            _ => Err(unexpected_response("change", path, &response)),
        }
    }

    /// Creates an object, unless it exists.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Result<(), DriverError> {
        let body = ("application/json", object);
        let response = self.send("POST", path, Some(body)).await?;
        match response.status {
            // It exists: an earlier attempt may have created it.
            200..=299 | 409 => Ok(()),
            _ => Err(unexpected_response("create", path, &response)),
        }
    }

    /// Changes a node, unless it was deleted or changed in the meantime.
    pub(crate) async fn change(
        &self,
        node: &ClusterNode,
        change: Value,
    ) -> Result<(), DriverError> {
        let path = node_path(node.name());
        let response = self.send("PATCH", &path, Some((MERGE, change))).await?;
        match response.status {
            // Deleted or changed in the meantime: the next poll sees it.
            200..=299 | 404 | 409 => Ok(()),
            _ => Err(unexpected_response("change", &path, &response)),
        }
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, DriverError> {
        let mut response = self.send("GET", path, None).await?;
        if response.status != 200 {
            return Err(unexpected_response("list", path, &response));
        }
        match response.body["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Sends a request; repeats it while the API server does not respond.
    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Value)>,
    ) -> Result<Response, DriverError> {
        let url = format!("{}{path}", self.url);
        let mut request = HttpRequest::new(method, &url)
            .header("authorization", format!("Bearer {}", self.token.reveal()))
            .header("accept", "application/json")
            .ca(self.ca.clone())
            .timeout(CALL_TIMEOUT);
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body.to_string());
        }
        let mut failed = 0;
        loop {
            let reason = match self.cx.http(request.clone()).await {
                Ok(response) if !is_transient(&response) || is_last_refusal(&response, failed) => {
                    let body = serde_json::from_str(&response.body);
                    let body = body.unwrap_or_else(|_| Value::Object(Map::new()));
                    return Ok(Response {
                        status: response.status,
                        body,
                    });
                }
                Ok(response) => format!("it returned {}", response.status),
                Err(error) if error.kind == ErrorKind::Unavailable => error.detail,
                Err(error) => return Err(DriverError::from(error).phase("cluster")),
            };
            failed += 1;
            if failed > MAX_FAILURES {
                let detail = format!("the API server at `{}` is unavailable: {reason}", self.url);
                return Err(DriverError::new("api-unavailable", detail)
                    .retryable()
                    .phase("cluster"));
            }
            let reason = format!("the API server at `{}`: {reason}", self.url);
            self.cx.pause(&reason, RETRY_INTERVAL).await?;
        }
    }
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

#[cfg(test)]
mod tests {
    use super::{ClusterNode, Pod, Response, is_transient};
    use serde_json::json;
    use vnfm_plugin_sdk::HttpResponse;

    #[test]
    fn an_api_server_that_starts_knows_no_roles_yet() {
        let starting = r#"{"message":"pods is forbidden: User \"u\" cannot get resource \"pods\": RBAC: clusterrole.rbac.authorization.k8s.io \"cluster-admin\" not found"}"#;
        let no_bindings =
            r#"{"message":"pods is forbidden: User \"u\" cannot get resource \"pods\""}"#;
        let forbidden =
            r#"{"message":"pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\""}"#;
        for (status, body, transient) in [
            (403, starting, true),
            (403, no_bindings, true),
            (403, forbidden, false),
            (404, starting, false),
            (503, "", true),
            (200, "{}", false),
        ] {
            let response = HttpResponse::new(status, body);
            assert_eq!(is_transient(&response), transient, "{status} {body}");
        }
    }

    #[test]
    fn a_blocked_eviction_names_the_budget() {
        let body = json!({
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": { "causes": [{ "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently" }] },
        });
        let reason = Response { status: 429, body }.reason();
        assert!(
            reason.contains("disruption budget (The disruption budget web needs 2"),
            "{reason}"
        );
        assert_eq!(
            Response {
                status: 500,
                body: json!({})
            }
            .reason(),
            "it gave no reason"
        );
    }

    #[test]
    fn a_drain_leaves_daemons_static_pods_and_ended_ones() {
        let owned = |kind: &str| json!([{ "kind": kind, "controller": true }]);
        let daemon = Pod(json!({ "metadata": { "ownerReferences": owned("DaemonSet") } }));
        let mirror =
            Pod(json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } }));
        let ended = Pod(json!({ "metadata": {}, "status": { "phase": "Succeeded" } }));
        assert!(daemon.survives_drain() && mirror.survives_drain() && ended.survives_drain());
        let replica = Pod(json!({ "metadata": { "namespace": "n", "name": "p",
            "ownerReferences": owned("ReplicaSet") } }));
        assert!(!replica.survives_drain() && !replica.is_bare() && replica.is_unscheduled());
        assert_eq!(replica.name(), "n/p");
        assert!(Pod(json!({ "metadata": {} })).is_bare());
    }

    #[test]
    fn nodes_are_matched_by_address() {
        let node = ClusterNode(
            json!({ "metadata": { "name": "w1" }, "spec": { "unschedulable": true },
            "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.2" }],
                "conditions": [{ "type": "Ready", "status": "Unknown" }] } }),
        );
        assert!(node.has_address("10.0.0.2") && !node.has_address("10.0.0.20"));
        assert!(node.is_silent());
        assert!(!node.takes_pods() && !node.is_ours());
    }
}
