//! The call that deletes one object: by its UID, with its dependents first where they are pods.

use crate::catalog::Target;
use crate::client::Session;
use crate::cluster_api;
use crate::identifiers::segment;
use crate::network_annotations;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use vnfm_core::ports::PortError;

/// Deletes the object with this UID; does not wait.
///
/// # Errors
///
/// The API server's error. Succeeds if the object does not exist.
pub(crate) async fn delete(
    session: &Session<'_>,
    target: &Target,
    uid: &str,
) -> Result<(), PortError> {
    let policy = if has_dependents(target) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    let uid = (!uid.is_empty()).then(|| uid.to_owned());
    let params = DeleteParams {
        propagation_policy: Some(policy),
        preconditions: Some(Preconditions {
            uid,
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    let params = &params;
    let (action, name) = (format!("delete {target}"), &segment(&target.name));
    let deleted = session
        .find(&action, |client| async move {
            target.api(client).delete(name, params).await
        })
        .await;
    deleted
        .map(drop)
        .map_err(|error| error.on(target.to_string()))
}

/// Whether its dependents must be deleted first: the pods of a workload, the objects of a custom resource. What belongs to a
/// cluster of Cluster API, its own controllers delete, in their order. Networks for pods own nothing: they need not wait for
/// the garbage collector, which learns of a new kind only after half a minute or more.
pub(crate) fn has_dependents(target: &Target) -> bool {
    match target.resource.group.as_str() {
        "" => target.resource.kind == "ReplicationController",
        "apps" | "batch" => true,
        network_annotations::GROUP => false,
        group if cluster_api::is_group(group) => false,
        group => group.contains('.') && !group.ends_with(".k8s.io"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::api::{ApiResource, GroupVersionKind};

    #[test]
    fn dependents_are_those_of_workloads_and_of_most_custom_resources() {
        for (group, kind, expected) in [
            ("", "ReplicationController", true),
            ("", "ConfigMap", false),
            ("apps", "Deployment", true),
            ("batch", "Job", true),
            ("networking.k8s.io", "Ingress", false),
            ("databases.example.com", "Database", true),
            (network_annotations::GROUP, network_annotations::KIND, false),
            ("cluster.x-k8s.io", "Cluster", false),
        ] {
            let target = Target {
                resource: ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)),
                namespace: None,
                name: "a".to_owned(),
            };
            assert_eq!(has_dependents(&target), expected, "{group} {kind}");
        }
    }
}
