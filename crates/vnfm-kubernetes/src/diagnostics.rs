//! Why a workload is not ready: the state of its pods, and the last warning event about it or them.

use crate::claims::mounted;
use crate::ready::{pod_problem, readiness};
use crate::status::Readiness::{Failed, NotYet, Ready};
use crate::status::text;
use crate::virtual_machines::{INSTANCE, is_machine_of};
use crate::watch::ObjectCache;
use serde_json::Value;

const CLAIM: &str = "PersistentVolumeClaim";

/// The problem of the workload `kind` `name` in `namespace` beyond its own status; `None` if none is known.
pub(crate) fn workload_problem(
    cache: &ObjectCache,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<String> {
    let pods: Vec<&Value> = cache
        .all("Pod")
        .filter(|pod| is_in(pod, namespace) && is_pod_of(pod, kind, name))
        .collect();
    let pod = pods.iter().find_map(|pod| {
        Some(format!(
            "pod `{}`: {}",
            text(pod, "/metadata/name"),
            pod_problem(pod)?
        ))
    });
    let claim = pods
        .iter()
        .find_map(|pod| unbound_claim(cache, namespace, pod));
    let pod = match (pod, claim) {
        (Some(pod), Some(claim)) => Some(format!("{pod}; {claim}")),
        (pod, claim) => pod.or(claim),
    };
    let warning = last_warning(cache, namespace, &|about_kind, about| {
        let mounts = |pod: &&Value| mounted(pod).any(|claim| claim == about);
        (about_kind == kind && about == name)
            || (about_kind == CLAIM && pods.iter().any(mounts))
            || (about_kind == "Pod" && pods.iter().any(|pod| text(pod, "/metadata/name") == about))
            || (about_kind == "ReplicaSet" && kind == "Deployment" && is_of_deployment(about, name))
    });
    match (pod, warning) {
        (Some(pod), Some(warning)) if !pod.contains(&warning) => Some(format!("{pod}; {warning}")),
        (pod, warning) => pod.or(warning),
    }
}

/// Whether a workload controls the pod, or is the pod itself.
pub(crate) fn is_pod_of(pod: &Value, kind: &str, name: &str) -> bool {
    if kind == "Pod" {
        return text(pod, "/metadata/name") == name;
    }
    let Some((owner_kind, owner)) = controller(pod) else {
        return false;
    };
    if owner_kind == kind && owner == name {
        return true;
    }
    if owner_kind == INSTANCE {
        return is_machine_of(owner, (kind, name));
    }
    let hash = text(pod, "/metadata/labels/pod-template-hash");
    let is_prefix = |prefix: &str| prefix.strip_suffix('-') == Some(name);
    kind == "Deployment"
        && owner_kind == "ReplicaSet"
        && !hash.is_empty()
        && owner.strip_suffix(hash).is_some_and(is_prefix)
}

/// Kind and name of the controller that owns an object.
pub(crate) fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    Some((text(owner, "/kind"), text(owner, "/name")))
}

/// Whether a cached pod mounts the claim.
pub(crate) fn is_mounted(cache: &ObjectCache, namespace: &str, claim: &str) -> bool {
    cache
        .all("Pod")
        .filter(|pod| is_in(pod, namespace))
        .any(|pod| mounted(pod).any(|mounted| mounted == claim))
}

/// The first claim of a pod that is not bound, and why. The claims of a `StatefulSet` are no objects of the package, so no
/// other message names them.
fn unbound_claim(cache: &ObjectCache, namespace: &str, pod: &Value) -> Option<String> {
    mounted(pod).find_map(|name| {
        let mut claims = cache.all(CLAIM);
        let claim = claims
            .find(|claim| is_in(claim, namespace) && text(claim, "/metadata/name") == name)?;
        match readiness(claim) {
            Ready => None,
            NotYet(why) | Failed(why) => Some(format!("{CLAIM} `{name}`: {why}")),
        }
    })
}

fn last_warning(
    cache: &ObjectCache,
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
    let last = cache
        .all("Event")
        .filter(concerns)
        .max_by_key(|event| event_time(event))?;
    Some(format!(
        "{}: {}",
        text(last, "/reason"),
        text(last, "/message")
    ))
}

fn event_time(event: &Value) -> String {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    pointers
        .iter()
        .map(|pointer| text(event, pointer))
        .find(|time| !time.is_empty())
        .unwrap_or_default()
        .to_owned()
}

fn is_in(object: &Value, namespace: &str) -> bool {
    text(object, "/metadata/namespace") == namespace
}

/// `web-5d9c` belongs to `web`; `web-api-5d9c` does not.
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
    fn a_pod_is_matched_to_its_workload() {
        assert!(is_pod_of(
            &pod("ReplicaSet", "web-5d9c", "5d9c"),
            "Deployment",
            "web"
        ));
        assert!(!is_pod_of(
            &pod("ReplicaSet", "web-api-5d9c", "5d9c"),
            "Deployment",
            "web"
        ));
        assert!(!is_pod_of(
            &pod("ReplicaSet", "web-5d9c", ""),
            "Deployment",
            "web"
        ));
        assert!(is_pod_of(
            &pod("StatefulSet", "db", ""),
            "StatefulSet",
            "db"
        ));
        assert!(!is_pod_of(&pod("StatefulSet", "db", ""), "Job", "db"));
        assert!(is_pod_of(
            &json!({"metadata": {"name": "one"}}),
            "Pod",
            "one"
        ));
        assert!(!is_pod_of(
            &json!({"metadata": {"name": "one"}}),
            "Deployment",
            "one"
        ));
    }

    #[test]
    fn a_replica_set_is_matched_to_its_deployment() {
        assert!(is_of_deployment("web-5d9c", "web") && !is_of_deployment("web-api-5d9c", "web"));
    }
}
