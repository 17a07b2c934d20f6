//! Workloads whose number of pods an autoscaler of the package decides.
//!
//! | autoscaler | names its workload in |
//! |---|---|
//! | `HorizontalPodAutoscaler` (`autoscaling`) | `spec.scaleTargetRef` |
//! | `ScaledObject` (`keda.sh`) | `spec.scaleTargetRef`; without a kind, a Deployment |
//!
//! A workload is created in the size of the instantiation level. From then on every change leaves the number as it is, so
//! none of them undoes what the autoscaler did. While the VNF is stopped there are no pods, and autoscalers pause; a start
//! gives the workload its size again.

use crate::client::Session;
use crate::object::find;
use crate::replicas::{replicas, stated_replicas};
use crate::resolved::ResolvedObject;
use crate::status::text;
use std::collections::BTreeMap;
use vnfm_core::ports::PortError;

/// Namespace, kind and name.
type Workload = (Option<String>, String, String);

/// Gives autoscaled workloads of the plan the number of pods that they have.
///
/// # Errors
///
/// A workload could not be read.
pub(crate) async fn follow(
    session: &Session<'_>,
    stages: &mut [Vec<ResolvedObject>],
) -> Result<(), PortError> {
    let autoscalers = autoscalers(stages.iter().flatten());
    if autoscalers.is_empty() {
        return Ok(());
    }
    for resolved in stages.iter_mut().flatten() {
        let Some(autoscaler) = autoscalers.get(&workload(resolved)) else {
            continue;
        };
        let live = find(session, &resolved.target).await?;
        let now = live.map_or(0, |live| replicas(&live.data));
        let is_stopped = stated_replicas(&resolved.item.object) == Some(0);
        if now > 0 && !is_stopped {
            resolved.item.object["spec"]["replicas"] = now.into();
            resolved.autoscaler = Some(autoscaler.clone());
        }
    }
    Ok(())
}

/// What the operation says of a workload that it leaves to an autoscaler.
pub(crate) fn notice(resolved: &ResolvedObject) -> Option<String> {
    let autoscaler = resolved.autoscaler.as_ref()?;
    Some(format!(
        "how many pods {} has: {autoscaler} decides, operations leave it as it is",
        resolved.target
    ))
}

/// The autoscalers by their workloads.
fn autoscalers<'a>(
    objects: impl Iterator<Item = &'a ResolvedObject>,
) -> BTreeMap<Workload, String> {
    let mut found = BTreeMap::new();
    for resolved in objects {
        let (kind, object) = (
            resolved.target.resource.kind.as_str(),
            &resolved.item.object,
        );
        let default = match (resolved.target.resource.group.as_str(), kind) {
            ("autoscaling", "HorizontalPodAutoscaler") => "",
            ("keda.sh", "ScaledObject") => "Deployment",
            _ => continue,
        };
        let stated = text(object, "/spec/scaleTargetRef/kind");
        let kind = if stated.is_empty() { default } else { stated };
        let name = text(object, "/spec/scaleTargetRef/name");
        let namespace = resolved.target.namespace.clone();
        let workload = (namespace, kind.to_owned(), name.to_owned());
        found.insert(workload, resolved.target.to_string());
    }
    found
}

fn workload(resolved: &ResolvedObject) -> Workload {
    let target = &resolved.target;
    (
        target.namespace.clone(),
        target.resource.kind.clone(),
        target.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Target;
    use crate::item::item_for_test;
    use kube::api::{ApiResource, GroupVersionKind};
    use serde_json::{Value, json};

    fn resolved(group: &str, kind: &str, reference: &Value) -> ResolvedObject {
        let api_version = format!("{group}/v1");
        let item = item_for_test(json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "auto"}, "spec": {"scaleTargetRef": reference}}));
        ResolvedObject {
            item,
            target: Target {
                resource: ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)),
                namespace: Some("a".into()),
                name: "auto".into(),
            },
            watchable: false,
            has_scale: false,
            autoscaler: None,
        }
    }

    #[test]
    fn autoscalers_of_kubernetes_and_keda_name_their_workload() {
        let web = json!({"kind": "StatefulSet", "name": "web"});
        let unnamed = json!({"name": "web"});
        for (group, kind, reference, workload) in [
            (
                "autoscaling",
                "HorizontalPodAutoscaler",
                &web,
                Some("StatefulSet"),
            ),
            ("keda.sh", "ScaledObject", &web, Some("StatefulSet")),
            ("keda.sh", "ScaledObject", &unnamed, Some("Deployment")),
            ("example.com", "ScaledObject", &web, None),
            ("autoscaling", "Other", &web, None),
        ] {
            let found = autoscalers([resolved(group, kind, reference)].iter());
            let expected = workload.map(|kind| (Some("a".into()), kind.into(), "web".into()));
            assert_eq!(found.keys().next(), expected.as_ref(), "{group} {kind}");
        }
    }
}
