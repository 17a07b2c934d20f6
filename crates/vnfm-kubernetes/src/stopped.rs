//! The objects of a VNF that is stopped: the same, without pods.
//!
//! | kind | while the VNF is stopped |
//! |---|---|
//! | Deployment, StatefulSet, `ReplicaSet`, `ReplicationController` | has no replicas; an autoscaler of it pauses by itself |
//! | `CronJob` | is suspended |
//! | `VirtualMachine` | is halted |
//! | `DaemonSet`, Pod, `VirtualMachineInstance` | is deleted; a start creates it again from the package |
//! | any other, also a Job, which is complete | stays |

use crate::item::Item;
use crate::replicas::has_replicas;
use crate::virtual_machines::{INSTANCE, halt};
use serde_json::Value;

/// Whether objects of this kind are deleted while the VNF is stopped.
pub(crate) fn is_deleted(kind: &str) -> bool {
    matches!(kind, "DaemonSet" | "Pod" | INSTANCE)
}

/// Makes a plan that of the stopped VNF.
pub(crate) fn stop(stages: &mut [Vec<Item>]) {
    for stage in stages {
        stage.retain(|item| !is_deleted(&item.kind));
        for item in stage {
            if has_replicas(&item.kind) {
                item.object["spec"]["replicas"] = 0.into();
            } else if item.kind == "CronJob" {
                item.object["spec"]["suspend"] = Value::Bool(true);
            } else if let Some(halted) = halt(&item.object) {
                for (member, value) in halted["spec"].as_object().into_iter().flatten() {
                    item.object["spec"][member] = value.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stopped_vnf_has_the_same_objects_without_pods() {
        let item = |kind: &str, spec: Value| Item {
            api_version: "v1".into(),
            kind: kind.into(),
            name: "it".into(),
            namespace: None,
            object: json!({"kind": kind, "spec": spec}),
            location: "f:1".into(),
        };
        let mut stages = vec![
            vec![item("ConfigMap", json!({})), item("DaemonSet", json!({}))],
            vec![
                item("Deployment", json!({"replicas": 3, "paused": false})),
                item("StatefulSet", json!({})),
                item("CronJob", json!({"schedule": "* * * * *"})),
                item("Job", json!({})),
                item("Pod", json!({})),
            ],
        ];
        stop(&mut stages);
        let left: Vec<_> = stages.iter().flatten().map(|item| &item.object).collect();
        let expected = [
            json!({"kind": "ConfigMap", "spec": {}}),
            json!({"kind": "Deployment", "spec": {"replicas": 0, "paused": false}}),
            json!({"kind": "StatefulSet", "spec": {"replicas": 0}}),
            json!({"kind": "CronJob", "spec": {"schedule": "* * * * *", "suspend": true}}),
            json!({"kind": "Job", "spec": {}}),
        ];
        assert_eq!(left, expected.iter().collect::<Vec<_>>());
        assert_eq!(stages.len(), 2);
    }
}
