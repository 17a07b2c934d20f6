//! Disruption budgets and the evictions that respect them.
//!
//! An eviction that a budget forbids gets a 429 with the real server's message. A pod that is not
//! running, or is not Ready while the budget is met without it, is always evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Cluster;
use super::facts::{condition, is_ready, is_terminating, keys, owner};
use super::objects::{Key, Kind, Store};
use super::watch::Selector;
use super::writes::{conflict, error, not_found, status};
use crate::http::Reply;

const BUDGETS: &str = "poddisruptionbudgets.policy";

impl Cluster {
    /// Evicts a pod, as `kubectl drain` does.
    ///
    /// # Errors
    ///
    /// The server's status and message; 429 if a disruption budget forbids it.
    pub fn evict(&self, namespace: &str, pod: &str) -> Result<(), (u16, String)> {
        let mut store = self.store();
        let kind = store
            .kind("", "v1", "pods")
            .ok_or((404, "no pods".to_owned()))?;
        let key = Key::new("pods", namespace, pod);
        evict(&mut store, &kind, &key, &Value::Null).map_err(|reply| (reply.status, reply.detail))
    }
}

/// The computed status of a `PodDisruptionBudget`.
struct Budget {
    name: String,
    expected: usize,
    healthy: usize,
    desired: usize,
    always_allows_unready: bool,
}

impl Budget {
    fn new(store: &Store, key: &Key, body: &Value) -> Self {
        let spec = &body["spec"];
        let pods = selected_pods(store, &key.namespace, &spec["selector"]);
        let healthy = pods
            .iter()
            .filter(|pod| is_ready(pod) && !is_terminating(pod))
            .count();
        let (expected, desired) = match (&spec["minAvailable"], &spec["maxUnavailable"]) {
            (Value::Number(least), _) => (
                pods.len(),
                least
                    .as_u64()
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(0),
            ),
            (least @ Value::String(_), _) => {
                let expected = desired_pods(store, &key.namespace, &pods);
                (expected, resolve_count(least, expected))
            }
            (_, most) => {
                let expected = desired_pods(store, &key.namespace, &pods);
                (
                    expected,
                    expected.saturating_sub(resolve_count(most, expected)),
                )
            }
        };
        let always_allows_unready = spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        Self {
            name: key.name.clone(),
            expected,
            healthy,
            desired,
            always_allows_unready,
        }
    }

    fn allowed(&self) -> usize {
        if self.expected == 0 {
            0
        } else {
            self.healthy.saturating_sub(self.desired)
        }
    }

    fn is_satisfied(&self) -> bool {
        self.desired > 0 && self.healthy >= self.desired
    }
}

/// A number, or a percentage of `all`, rounded up.
fn resolve_count(value: &Value, all: usize) -> usize {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<usize>().ok());
    match percent {
        Some(percent) => (all * percent).div_ceil(100),
        None => value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(0),
    }
}

fn selected_pods(store: &Store, namespace: &str, selector: &Value) -> Vec<Arc<Value>> {
    let Some(selector) = Selector::of_object(selector) else {
        return Vec::new();
    };
    let pods = store.list("pods", namespace).map(|(_, pod)| pod);
    pods.filter(|pod| selector.matches(pod)).cloned().collect()
}

/// The number of pods that the controllers of these pods want.
fn desired_pods(store: &Store, namespace: &str, pods: &[Arc<Value>]) -> usize {
    let mut wanted = BTreeMap::new();
    for controller in pods.iter().filter_map(|pod| owner(pod)) {
        let plural = match controller["kind"].as_str() {
            Some("ReplicaSet") => "replicasets.apps",
            Some("StatefulSet") => "statefulsets.apps",
            _ => continue,
        };
        let name = controller["name"].as_str().unwrap_or_default();
        let body = store.get(&Key::new(plural, namespace, name));
        let replicas = body
            .and_then(|body| body["spec"]["replicas"].as_u64())
            .unwrap_or(1);
        wanted.insert(
            (plural, name.to_owned()),
            usize::try_from(replicas).unwrap_or(1),
        );
    }
    wanted.values().sum()
}

/// One round: updates the status of every budget.
pub(super) fn reconcile(store: &mut Store) {
    for key in keys(store, BUDGETS) {
        let Some(body) = store.get(&key).cloned() else {
            continue;
        };
        let budget = Budget::new(store, &key, &body);
        let allowed = budget.allowed();
        let reason = if allowed > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        };
        let old = body["status"]["conditions"]
            .as_array()
            .and_then(|all| all.first());
        let previous = old.filter(|old| old["reason"] == reason).cloned();
        let previous =
            previous.unwrap_or_else(|| condition("DisruptionAllowed", allowed > 0, reason));
        store.update(&key, |body| {
            body["status"] = json!({ "expectedPods": budget.expected, "currentHealthy": budget.healthy, "desiredHealthy": budget.desired,
                "disruptionsAllowed": allowed, "observedGeneration": body["metadata"]["generation"], "conditions": [previous] });
        });
    }
}

/// Evicts a pod unless a budget forbids it.
///
/// # Errors
///
/// 404, 409 if the UID does not match, 429 if a budget forbids it.
pub(super) fn evict(
    store: &mut Store,
    kind: &Kind,
    key: &Key,
    eviction: &Value,
) -> Result<(), Reply> {
    let pod = store
        .get(key)
        .cloned()
        .ok_or_else(|| not_found(kind, &key.name))?;
    let options = &eviction["deleteOptions"];
    let uid = options["preconditions"]["uid"].as_str();
    if uid.is_some_and(|uid| pod["metadata"]["uid"] != uid) {
        let why = "Precondition failed: UID in precondition does not match";
        return Err(conflict(kind, &key.name, why));
    }
    let runs = pod["status"]["phase"] == "Running" && !is_terminating(&pod);
    if runs {
        permit(store, key, &pod)?;
    }
    let now = options["gracePeriodSeconds"] == 0;
    store.delete(key, false, now);
    Ok(())
}

fn permit(store: &Store, key: &Key, pod: &Value) -> Result<(), Reply> {
    let mut budgets = Vec::new();
    for (place, body) in store.list(BUDGETS, &key.namespace) {
        if Selector::of_object(&body["spec"]["selector"]).is_some_and(|all| all.matches(pod)) {
            budgets.push(Budget::new(store, place, body));
        }
    }
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(error(500, "InternalError", message));
        }
    };
    let unready = !is_ready(pod) && (budget.always_allows_unready || budget.is_satisfied());
    if unready || budget.allowed() > 0 {
        return Ok(());
    }
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = format!(
        "The disruption budget {} needs {} healthy pods and has {} currently",
        budget.name, budget.desired, budget.healthy
    );
    let details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
    Err(Reply::json(429, &status(429, "TooManyRequests", message, details)).with_remark(cause))
}
