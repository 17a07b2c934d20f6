//! Counts the resources of a plan: its objects, and those that the cluster creates for them.
//!
//! | object | counts as |
//! |---|---|
//! | each | itself |
//! | with pods and `replicas` | that many pods; for a `StatefulSet` also one claim per replica and claim template |
//! | of any other kind with `replicas` | that many resources |
//! | `HorizontalPodAutoscaler` | `maxReplicas` pods |
//! | `Job`, `CronJob` | the larger of `parallelism` and `completions`: completed pods are kept |
//! | `DaemonSet`, `Pod` | one pod: the number of nodes is not known from the plan |
//!
//! An invalid number is refused: the cluster's interpretation is unknown.

use crate::errors::MANIFEST;
use crate::item::Item;
use crate::manifests::Plan;
use crate::pod_security::pod_specs;
use crate::virtual_machines::runs_machines;
use serde_json::Value;
use vnfm_core::ports::{Budget, PortError};

/// Refuses a plan with more resources (objects, pods, claims) or bytes than the budget allows.
///
/// # Errors
///
/// `Refused`, naming the limit and its setting, or an object with an invalid number.
pub(crate) fn check(plan: &Plan, budget: &Budget) -> Result<(), PortError> {
    let (mut resources, mut bytes) = (0, 0);
    let hooks = plan.charts.iter().flat_map(|chart| &chart.hooks);
    for item in plan.items().chain(hooks) {
        resources = u64::saturating_add(resources, 1).saturating_add(created_by(item)?);
        bytes += item.object.to_string().len() as u64;
    }
    budget.allows("plan the objects", resources, bytes)
}

/// How many pods an object runs at the same time.
pub(crate) fn concurrent_pods(item: &Item) -> u64 {
    let number = |pointer: &str| match item.object.pointer(pointer) {
        None | Some(Value::Null) => 1,
        // Invalid: `check` refuses the plan for it; here it exceeds any limit.
        Some(number) => number.as_u64().unwrap_or(u64::MAX),
    };
    match item.kind.as_str() {
        "HorizontalPodAutoscaler" => number("/spec/maxReplicas"),
        "Job" => number("/spec/parallelism"),
        "CronJob" => number("/spec/jobTemplate/spec/parallelism"),
        kind if runs_machines(kind) => number("/spec/replicas"),
        _ if pod_specs(&item.object).is_empty() => 0,
        _ => number("/spec/replicas"),
    }
}

/// How many resources the cluster creates for an object.
fn created_by(item: &Item) -> Result<u64, PortError> {
    match item.kind.as_str() {
        "HorizontalPodAutoscaler" => number(item, "/spec/maxReplicas", 1),
        "Job" => pods_of_job(item, "/spec"),
        "CronJob" => pods_of_job(item, "/spec/jobTemplate/spec"),
        _ => {
            let has_pods = !pod_specs(&item.object).is_empty();
            let per_replica = 1 + claims_per_replica(item);
            let replicas = number(item, "/spec/replicas", u64::from(has_pods))?;
            Ok(replicas.saturating_mul(per_replica))
        }
    }
}

fn pods_of_job(item: &Item, spec: &str) -> Result<u64, PortError> {
    let at_a_time = number(item, &format!("{spec}/parallelism"), 1)?;
    Ok(at_a_time.max(number(item, &format!("{spec}/completions"), 1)?))
}

fn claims_per_replica(item: &Item) -> u64 {
    let templates = item
        .object
        .pointer("/spec/volumeClaimTemplates")
        .and_then(Value::as_array);
    templates.map_or(0, |templates| templates.len() as u64)
}

fn number(item: &Item, pointer: &str, otherwise: u64) -> Result<u64, PortError> {
    let value = match item.object.pointer(pointer) {
        None | Some(Value::Null) => return Ok(otherwise),
        Some(value) => value,
    };
    // In a custom resource a member of that name may mean anything.
    let is_known = crate::object_policy::is_builtin(item);
    match value.as_u64() {
        Some(number) => Ok(number),
        None if !is_known && !value.is_number() => Ok(otherwise),
        None => {
            let object = format!("{} `{}`", item.kind, item.name);
            let member = pointer.trim_start_matches('/').replace('/', ".");
            let action = format!("use {object} (`{}`) of the package", item.location);
            let detail = format!("`{member}` is not an integer of at least 0");
            Err(PortError::new(&MANIFEST, action, detail).on(object))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::item::item_for_test;
    use crate::manifests::Plan;
    use serde_json::{Value, json};
    use vnfm_core::ports::Budget;

    const POD: fn() -> Value = || json!({"spec": {"containers": [{"name": "a", "image": "b"}]}});

    fn refusal(objects: &[Value], resources: u64) -> Option<String> {
        let items = objects.iter().cloned().map(item_for_test).collect();
        let plan = Plan {
            namespace: "mine".into(),
            is_named: true,
            stages: vec![items],
            ..Plan::default()
        };
        let budget = Budget {
            resources,
            ..Budget::default()
        };
        check(&plan, &budget).err().map(|error| error.to_string())
    }

    fn workload(api: &str, kind: &str, mut spec: Value) -> Value {
        if spec.get("template").is_none() && api != "autoscaling/v2" {
            spec["template"] = POD();
        }
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": spec})
    }

    const MANY: u64 = 100_000_000;

    fn assert_counts(rows: &[(Value, u64)]) {
        for (object, count) in rows {
            let refusal = refusal(std::slice::from_ref(object), 10_000).unwrap_or_default();
            let expected = format!("comes to {count} resources; `limits.resources` is 10000");
            assert!(refusal.contains(&expected), "{object}: {refusal:?}");
        }
    }

    #[test]
    fn replicas_and_their_claims_count() {
        assert_counts(&[
            (
                workload("apps/v1", "Deployment", json!({"replicas": MANY})),
                MANY + 1,
            ),
            (
                workload("apps/v1", "ReplicaSet", json!({"replicas": MANY})),
                MANY + 1,
            ),
            (
                workload("v1", "ReplicationController", json!({"replicas": MANY})),
                MANY + 1,
            ),
            (
                workload(
                    "apps/v1",
                    "StatefulSet",
                    json!({"replicas": MANY, "volumeClaimTemplates": [{}, {}]}),
                ),
                3 * MANY + 1,
            ),
            (
                workload("apps/v1", "Deployment", json!({"replicas": u64::MAX})),
                u64::MAX,
            ),
        ]);
    }

    #[test]
    fn pods_of_jobs_autoscalers_and_custom_resources_count() {
        assert_counts(&[
            (
                workload("batch/v1", "Job", json!({"parallelism": MANY})),
                MANY + 1,
            ),
            (
                workload(
                    "batch/v1",
                    "Job",
                    json!({"parallelism": 1, "completions": MANY}),
                ),
                MANY + 1,
            ),
            (
                workload(
                    "batch/v1",
                    "CronJob",
                    json!({"jobTemplate": {"spec": {"completions": MANY, "template": POD()}}}),
                ),
                MANY + 1,
            ),
            (
                workload(
                    "autoscaling/v2",
                    "HorizontalPodAutoscaler",
                    json!({"maxReplicas": MANY}),
                ),
                MANY + 1,
            ),
            (
                workload(
                    "example.com/v1",
                    "Fleet",
                    json!({"replicas": MANY, "template": {}}),
                ),
                MANY + 1,
            ),
        ]);
    }

    #[test]
    fn a_plan_may_use_its_budget_completely() {
        let web = workload("apps/v1", "Deployment", json!({"replicas": 3}));
        let job = workload("batch/v1", "Job", json!({}));
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let all = [web, job, config];
        assert_eq!(refusal(&all, 3 + 3 + 1), None);
        assert!(refusal(&all, 6).unwrap().contains("comes to 7 resources"));
    }

    #[test]
    fn an_invalid_replica_count_of_a_builtin_kind_is_refused() {
        for replicas in [json!(1e8), json!(-1), json!("100000000"), json!([1])] {
            let refusal = refusal(
                &[workload(
                    "apps/v1",
                    "Deployment",
                    json!({"replicas": replicas}),
                )],
                10,
            );
            let refusal = refusal.unwrap();
            assert!(
                refusal.contains("Deployment `web`") && refusal.contains("`spec.replicas`"),
                "{refusal}"
            );
        }
        let own = |replicas: Value| {
            workload(
                "example.com/v1",
                "Fleet",
                json!({"replicas": replicas, "template": {}}),
            )
        };
        assert_eq!(
            refusal(&[own(json!({"min": 1})), own(json!(null))], 10),
            None
        );
        assert!(refusal(&[own(json!(1e8))], 10).is_some());
    }
}
