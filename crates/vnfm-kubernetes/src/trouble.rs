//! Why a workload is not ready: its own words, those of its pods, and the last warning about any of them.

use crate::ready::{pod_trouble, text};
use crate::watch::Scene;
use serde_json::Value;

/// What is known about the trouble of the workload `kind` `name` in `namespace`, beyond its own status.
pub(crate) fn of_workload(
    scene: &Scene,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<String> {
    let pods: Vec<&Value> = scene
        .all("Pod")
        .filter(|pod| is_in(pod, namespace) && belongs(pod, kind, name))
        .collect();
    let pod = pods.iter().find_map(|pod| {
        Some(format!(
            "pod `{}`: {}",
            text(pod, "/metadata/name"),
            pod_trouble(pod)?
        ))
    });
    let warning = last_warning(scene, namespace, &|about_kind, about| {
        (about_kind == kind && about == name)
            || (about_kind == "Pod" && pods.iter().any(|pod| text(pod, "/metadata/name") == about))
            || (about_kind == "ReplicaSet" && kind == "Deployment" && is_of_deployment(about, name))
    });
    match (pod, warning) {
        (Some(pod), Some(warning)) if !pod.contains(&warning) => Some(format!("{pod}; {warning}")),
        (pod, warning) => pod.or(warning),
    }
}

/// Whether a pod was made by a workload.
pub(crate) fn belongs(pod: &Value, kind: &str, name: &str) -> bool {
    if kind == "Pod" {
        return text(pod, "/metadata/name") == name;
    }
    let Some((owner_kind, owner)) = controller(pod) else {
        return false;
    };
    if owner_kind == kind && owner == name {
        return true;
    }
    let hash = text(pod, "/metadata/labels/pod-template-hash");
    let of = |prefix: &str| prefix.strip_suffix('-') == Some(name);
    kind == "Deployment"
        && owner_kind == "ReplicaSet"
        && !hash.is_empty()
        && owner.strip_suffix(hash).is_some_and(of)
}

/// Kind and name of the controller that made an object.
pub(crate) fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    Some((text(owner, "/kind"), text(owner, "/name")))
}

/// Whether a pod in the scene mounts the claim.
pub(crate) fn is_used(scene: &Scene, namespace: &str, claim: &str) -> bool {
    scene
        .all("Pod")
        .filter(|pod| is_in(pod, namespace))
        .any(|pod| {
            let volumes = pod
                .pointer("/spec/volumes")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            volumes
                .into_iter()
                .any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
        })
}

fn last_warning(
    scene: &Scene,
    namespace: &str,
    about: &dyn Fn(&str, &str) -> bool,
) -> Option<String> {
    let concerns = |event: &&Value| {
        text(event, "/type") == "Warning"
            && is_in(event, namespace)
            && about(
                text(event, "/involvedObject/kind"),
                text(event, "/involvedObject/name"),
            )
    };
    let last = scene
        .all("Event")
        .filter(concerns)
        .max_by_key(|event| when(event))?;
    Some(format!(
        "{}: {}",
        text(last, "/reason"),
        text(last, "/message")
    ))
}

fn when(event: &Value) -> String {
    let places = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    places
        .iter()
        .map(|place| text(event, place))
        .find(|time| !time.is_empty())
        .unwrap_or_default()
        .to_owned()
}

fn is_in(object: &Value, namespace: &str) -> bool {
    text(object, "/metadata/namespace") == namespace
}

/// `web-5d9c` is of `web`; `web-api-5d9c` is not.
fn is_of_deployment(replica_set: &str, deployment: &str) -> bool {
    replica_set
        .rsplit_once('-')
        .is_some_and(|(name, _)| name == deployment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(owner_kind: &str, owner: &str, hash: &str) -> Value {
        json!({"metadata": {"name": "p", "labels": {"pod-template-hash": hash},
            "ownerReferences": [{"kind": owner_kind, "name": owner, "controller": true}]}})
    }

    #[test]
    fn pods_know_their_workload() {
        assert!(belongs(
            &pod("ReplicaSet", "web-5d9c", "5d9c"),
            "Deployment",
            "web"
        ));
        assert!(!belongs(
            &pod("ReplicaSet", "web-api-5d9c", "5d9c"),
            "Deployment",
            "web"
        ));
        assert!(!belongs(
            &pod("ReplicaSet", "web-5d9c", ""),
            "Deployment",
            "web"
        ));
        assert!(belongs(&pod("StatefulSet", "db", ""), "StatefulSet", "db"));
        assert!(!belongs(&pod("StatefulSet", "db", ""), "Job", "db"));
        assert!(belongs(&json!({"metadata": {"name": "one"}}), "Pod", "one"));
        assert!(!belongs(
            &json!({"metadata": {"name": "one"}}),
            "Deployment",
            "one"
        ));
    }

    #[test]
    fn replica_sets_know_their_deployment() {
        assert!(is_of_deployment("web-5d9c", "web") && !is_of_deployment("web-api-5d9c", "web"));
    }
}
