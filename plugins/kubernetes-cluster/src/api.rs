//! The cluster's API, as far as healing needs it: nodes, their pods, evictions.
//!
//! It is called through the host service `http` with the token that the VIM has, at the address that the VIM has:
//! whoever can use the VIM can reach it. Evictions answer with a status and a cause there, where `kubectl drain` has
//! words only. An API server that does not answer is asked again for a while; any answer is one.

use serde_json::{Map, Value, json};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{ErrorKind, HttpRequest};

/// How often in a row the API server may fail to answer, and the time between.
const SHAKY: (u32, Duration) = (40, Duration::from_secs(1));
/// How long one call may take.
const CALL: Duration = Duration::from_secs(15);
/// What kubelets and the cloud's controllers know a node by that is off for good.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// On a node that we have taken out of service, and not somebody else.
const CORDONED_BY: &str = "vnfm.dev/cordoned-by";
/// Whose a pod is.
const INSTANCE: &str = "vnfm.dev/instance";
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// The way to the API server.
pub(crate) struct Api<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) url: String,
    pub(crate) ca: String,
    pub(crate) token: Secret,
    /// Who drains: the VNF instance.
    pub(crate) instance: String,
}

/// An answer of the API server.
struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    /// What it says, with the causes.
    fn words(&self) -> String {
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

/// What became of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The pod is going.
    Accepted,
    /// There is no such pod any more.
    Gone,
    /// Not now; why.
    Blocked(String),
}

/// A node, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct NodeSeen(Value);

impl NodeSeen {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.0
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .unwrap_or(&NONE)
    }

    /// Whether it has this address.
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

    /// Whether its kubelet says nothing any more.
    pub(crate) fn is_silent(&self) -> bool {
        has(&self.0, "Ready", "Unknown")
    }

    fn takes_pods(&self) -> bool {
        self.0.pointer("/spec/unschedulable") != Some(&Value::Bool(true))
    }

    fn is_ours(&self) -> bool {
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

/// A pod, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct PodSeen(Value);

impl PodSeen {
    /// `NAMESPACE/NAME`.
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

    /// Whether it stays where it is when its node is drained: a daemon's, a static one, or one that has ended.
    pub(crate) fn stays(&self) -> bool {
        let mirror = &self.0["metadata"]["annotations"]["kubernetes.io/config.mirror"];
        self.controller() == Some("DaemonSet") || !mirror.is_null() || self.has_ended()
    }

    fn has_ended(&self) -> bool {
        matches!(
            self.0["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        )
    }

    /// Whether nothing makes it again.
    pub(crate) fn is_bare(&self) -> bool {
        self.controller().is_none()
    }

    fn controller(&self) -> Option<&str> {
        let owners = self.0["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["controller"] == true)?["kind"].as_str()
    }

    /// Whether it was told to go.
    pub(crate) fn is_going(&self) -> bool {
        !self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Whether it keeps data on its node.
    pub(crate) fn has_local_data(&self) -> bool {
        let volumes = self.0.pointer("/spec/volumes").and_then(Value::as_array);
        volumes
            .into_iter()
            .flatten()
            .any(|volume| !volume["emptyDir"].is_null())
    }

    /// Whether it works, or has done its work.
    pub(crate) fn is_well(&self) -> bool {
        self.has_ended() || has(&self.0, "Ready", "True")
    }

    /// Whether no node has it.
    pub(crate) fn is_without_node(&self) -> bool {
        self.is_on("")
    }

    /// Whether the node of this name has it.
    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.0["spec"]["nodeName"].as_str().unwrap_or_default() == node
    }

    /// Why it does not work, in the cluster's words.
    pub(crate) fn trouble(&self) -> String {
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
        let refused = scheduling
            .into_iter()
            .flatten()
            .filter(|seen| seen["status"] == "False");
        let mut said = waiting.chain(refused).filter_map(|seen| {
            let words = seen["message"]
                .as_str()
                .or_else(|| seen["reason"].as_str())?;
            Some(words.trim().to_owned()).filter(|words| !words.is_empty())
        });
        let phase = self.0["status"]["phase"].as_str().unwrap_or("Pending");
        said.next().unwrap_or_else(|| format!("it is {phase}"))
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
    /// All nodes.
    pub(crate) async fn nodes(&self) -> Result<Vec<NodeSeen>, DriverError> {
        Ok(self
            .list("/api/v1/nodes")
            .await?
            .into_iter()
            .map(NodeSeen)
            .collect())
    }

    /// A node, where there is one of that name.
    pub(crate) async fn node(&self, name: &str) -> Result<Option<NodeSeen>, DriverError> {
        Ok(self.find(&node_path(name)).await?.map(NodeSeen))
    }

    /// The pods on a node.
    pub(crate) async fn pods_on(&self, node: &str) -> Result<Vec<PodSeen>, DriverError> {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        Ok(self.list(&path).await?.into_iter().map(PodSeen).collect())
    }

    /// The pods of these VNF instances.
    pub(crate) async fn pods_of(&self, instances: &[String]) -> Result<Vec<PodSeen>, DriverError> {
        let path = format!(
            "/api/v1/pods?labelSelector={INSTANCE}%20in%20%28{}%29",
            instances.join("%2C")
        );
        Ok(self.list(&path).await?.into_iter().map(PodSeen).collect())
    }

    /// No pod comes to the node any more.
    pub(crate) async fn cordon(&self, node: &NodeSeen) -> Result<(), DriverError> {
        if !node.takes_pods() {
            return Ok(());
        }
        let change = json!({
            "metadata": { "annotations": { CORDONED_BY: self.instance } },
            "spec": { "unschedulable": true },
        });
        self.change(node, change).await
    }

    /// Pods come to it again, unless somebody else has forbidden it.
    pub(crate) async fn uncordon(&self, node: &NodeSeen) -> Result<(), DriverError> {
        if !node.is_ours() {
            return Ok(());
        }
        let change = json!({
            "metadata": { "annotations": { CORDONED_BY: null } },
            "spec": { "unschedulable": null },
        });
        self.change(node, change).await
    }

    /// Says that the node is off for good: its pods are made anew elsewhere, its volumes let go.
    pub(crate) async fn out_of_service(&self, node: &NodeSeen) -> Result<(), DriverError> {
        if node.is_out_of_service() {
            return Ok(());
        }
        let mut taints = node.taints();
        taints
            .push(json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" }));
        // Others write taints as well: ours goes onto those that we saw, or not at all.
        let version = &node.0["metadata"]["resourceVersion"];
        let change = json!({
            "metadata": { "resourceVersion": version },
            "spec": { "taints": taints, "unschedulable": true },
        });
        self.change(node, change).await
    }

    /// The node is no part of the cluster any more.
    pub(crate) async fn delete_node(&self, name: &str) -> Result<(), DriverError> {
        let path = node_path(name);
        let answer = self.ask("DELETE", &path, None).await?;
        match answer.status {
            200..=299 | 404 => Ok(()),
            _ => Err(refused("delete", &path, &answer)),
        }
    }

    /// Asks a pod to go, as far as its disruption budgets allow.
    pub(crate) async fn evict(&self, pod: &PodSeen) -> Result<Eviction, DriverError> {
        let name = pod.name();
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
        });
        let path = format!("{}/eviction", pod.path());
        let answer = self
            .ask("POST", &path, Some(("application/json", body)))
            .await?;
        match answer.status {
            200..=299 => Ok(Eviction::Accepted),
            404 => Ok(Eviction::Gone),
            // 500 where several budgets cover it; 409 where it has just changed.
            409 | 429 | 500 => Ok(Eviction::Blocked(answer.words())),
            _ => Err(refused("evict", &path, &answer)),
        }
    }

    /// Deletes a pod, whatever its disruption budgets say.
    pub(crate) async fn delete_pod(&self, pod: &PodSeen) -> Result<(), DriverError> {
        let path = pod.path();
        let answer = self.ask("DELETE", &path, None).await?;
        match answer.status {
            200..=299 | 404 => Ok(()),
            _ => Err(refused("delete", &path, &answer)),
        }
    }

    /// What is at a path, if anything is.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, DriverError> {
        let answer = self.ask("GET", path, None).await?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => Err(refused("read", path, &answer)),
        }
    }

    /// Writes at a path; nothing where nothing is there to be changed.
    pub(crate) async fn write(
        &self,
        method: &str,
        path: &str,
        body: (&str, Value),
    ) -> Result<Option<()>, DriverError> {
        let answer = self.ask(method, path, Some(body)).await?;
        match answer.status {
            200..=299 => Ok(Some(())),
            404 => Ok(None),
            _ => Err(refused("write", path, &answer)),
        }
    }

    /// Changes a node, unless it is gone or was changed meanwhile.
    pub(crate) async fn change(&self, node: &NodeSeen, change: Value) -> Result<(), DriverError> {
        let path = node_path(node.name());
        let answer = self.ask("PATCH", &path, Some((MERGE, change))).await?;
        match answer.status {
            // Gone, or changed meanwhile: the next look tells.
            200..=299 | 404 | 409 => Ok(()),
            _ => Err(refused("change", &path, &answer)),
        }
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, DriverError> {
        let mut answer = self.ask("GET", path, None).await?;
        if answer.status != 200 {
            return Err(refused("list", path, &answer));
        }
        match answer.body["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// One call; asked again while nobody answers.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Value)>,
    ) -> Result<Answer, DriverError> {
        let url = format!("{}{path}", self.url);
        let mut request = HttpRequest::new(method, &url)
            .header("authorization", format!("Bearer {}", self.token.reveal()))
            .header("accept", "application/json")
            .ca(self.ca.clone())
            .timeout(CALL);
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body.to_string());
        }
        let (times, pause) = SHAKY;
        let mut failed = 0;
        loop {
            let why = match self.cx.http(request.clone()).await {
                Ok(answer) if !matches!(answer.status, 502..=504) => {
                    let body = serde_json::from_str(&answer.body);
                    let body = body.unwrap_or_else(|_| Value::Object(Map::new()));
                    return Ok(Answer {
                        status: answer.status,
                        body,
                    });
                }
                Ok(answer) => format!("it answered with {}", answer.status),
                Err(error) if error.kind == ErrorKind::Unavailable => error.detail,
                Err(error) => return Err(DriverError::from(error).phase("cluster")),
            };
            failed += 1;
            if failed > times {
                let detail = format!("the API server at `{}` cannot be used: {why}", self.url);
                return Err(DriverError::new("api-unavailable", detail)
                    .retryable()
                    .phase("cluster"));
            }
            self.cx
                .waiting(&format!("the API server at `{}`: {why}", self.url))
                .await;
            self.cx.check_cancelled().await?;
            self.cx.sleep(pause).await?;
        }
    }
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn refused(verb: &str, path: &str, answer: &Answer) -> DriverError {
    let what = format!(
        "cannot {verb} `{path}`: {} {}",
        answer.status,
        answer.words()
    );
    let error = DriverError::new("api-refused", what).phase("cluster");
    if answer.status >= 500 || answer.status == 429 {
        error.retryable()
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, NodeSeen, PodSeen};
    use serde_json::json;

    #[test]
    fn what_a_budget_says_is_told_with_its_cause() {
        let body = json!({
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": { "causes": [{ "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently" }] },
        });
        let words = Answer { status: 429, body }.words();
        assert!(
            words.contains("disruption budget (The disruption budget web needs 2"),
            "{words}"
        );
        assert_eq!(
            Answer {
                status: 500,
                body: json!({})
            }
            .words(),
            "it gave no reason"
        );
    }

    #[test]
    fn daemons_static_pods_and_those_that_ended_stay() {
        let owned = |kind: &str| json!([{ "kind": kind, "controller": true }]);
        let daemon = PodSeen(json!({ "metadata": { "ownerReferences": owned("DaemonSet") } }));
        let mirror = PodSeen(
            json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } }),
        );
        let ended = PodSeen(json!({ "metadata": {}, "status": { "phase": "Succeeded" } }));
        assert!(daemon.stays() && mirror.stays() && ended.stays());
        let replica = PodSeen(json!({ "metadata": { "namespace": "n", "name": "p",
            "ownerReferences": owned("ReplicaSet") } }));
        assert!(!replica.stays() && !replica.is_bare() && replica.is_without_node());
        assert_eq!(replica.name(), "n/p");
        assert!(PodSeen(json!({ "metadata": {} })).is_bare());
    }

    #[test]
    fn a_node_is_known_by_its_addresses() {
        let node = NodeSeen(
            json!({ "metadata": { "name": "w1" }, "spec": { "unschedulable": true },
            "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.2" }],
                "conditions": [{ "type": "Ready", "status": "Unknown" }] } }),
        );
        assert!(node.has_address("10.0.0.2") && !node.has_address("10.0.0.20"));
        assert!(node.is_silent());
        assert!(!node.takes_pods() && !node.is_ours());
    }
}
