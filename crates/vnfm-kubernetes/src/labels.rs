//! Labels and annotations that record the owner of every object that we apply.
//!
//! | mark | value |
//! |---|---|
//! | label `app.kubernetes.io/managed-by` | `vnfm` |
//! | label `vnfm.dev/installation` | the installation id |
//! | label `vnfm.dev/instance` | `VnfInstance.id` |
//! | label `vnfm.dev/snapshot` | the VNF snapshot that it belongs to: the instance no longer accounts for it |
//! | label `vnfm.dev/volume` | the retained volume that it is, or is made with; then it has no instance |
//! | label `vnfm.dev/link` | the shared virtual link that it is; then it has no instance |
//! | annotation `vnfm.dev/operation` | the operation occurrence that applied it last |
//!
//! Templates of pods, machines and claims get the labels too, so that one selector finds everything of an instance.

use crate::cluster_api::machine_template;
use crate::virtual_machines::is_kubevirt;
use kube::core::ObjectMeta;
use serde_json::{Map, Value};
use vnfm_core::ports::Ownership;

/// The field manager of everything that we apply.
pub(crate) const FIELD_MANAGER: &str = "vnfm";
pub(crate) const INSTALLATION: &str = "vnfm.dev/installation";
pub(crate) const INSTANCE: &str = "vnfm.dev/instance";
pub(crate) const SNAPSHOT: &str = "vnfm.dev/snapshot";
pub(crate) const LINK: &str = "vnfm.dev/link";
pub(crate) const VOLUME: &str = "vnfm.dev/volume";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Annotations by which helm recognises the objects of a release.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
pub(crate) const OPERATION: &str = "vnfm.dev/operation";

/// The templates of a workload.
const TEMPLATES: &[&str] = &[
    "/spec/template",
    "/spec/jobTemplate",
    "/spec/jobTemplate/spec/template",
];

/// Marks an object and its templates. What helm manages keeps its label `app.kubernetes.io/managed-by`.
pub(crate) fn stamp(object: &mut Value, owner: &Ownership) {
    let is_released = object["metadata"]["annotations"]
        .get(RELEASE_NAME)
        .is_some();
    let add_labels = |object: &mut Value, owner: &Ownership| {
        if is_released {
            add_owner(object, owner);
        } else {
            add_labels(object, owner);
        }
    };
    add_labels(object, owner);
    add_annotation(object, owner);
    if let Some(template) = machine_template(object).and_then(|path| object.pointer_mut(path)) {
        add_labels(template, owner);
    }
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    let has_templates = matches!(api_version, Some("apps/v1" | "batch/v1"));
    if has_templates || is_kubevirt(object) {
        for template in TEMPLATES {
            if let Some(template) = object.pointer_mut(template) {
                add_labels(template, owner);
            }
        }
        if let Some(claims) = object
            .pointer_mut("/spec/volumeClaimTemplates")
            .and_then(Value::as_array_mut)
        {
            for claim in claims {
                add_labels(claim, owner);
            }
        }
    }
}

/// Marks an object as helm does when it installs the release `name` in `namespace`.
pub(crate) fn stamp_release(object: &mut Value, (name, namespace): (&str, &str)) {
    if let Some(labels) = labels_mut(object) {
        labels.insert(MANAGED_BY.to_owned(), "Helm".into());
    }
    if let Some(notes) =
        member_mut(object, "metadata").and_then(|metadata| member_mut(metadata, "annotations"))
    {
        notes[RELEASE_NAME] = name.into();
        notes[RELEASE_NAMESPACE] = namespace.into();
    }
}

fn add_labels(object: &mut Value, owner: &Ownership) {
    add_owner(object, owner);
    if let Some(labels) = labels_mut(object) {
        labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.into());
    }
}

fn add_owner(object: &mut Value, owner: &Ownership) {
    if let Some(labels) =
        member_mut(object, "metadata").and_then(|metadata| member_mut(metadata, "labels"))
    {
        labels[INSTALLATION] = owner.installation_id.as_str().into();
        labels[INSTANCE] = owner.instance_id.as_str().into();
    }
}

/// The labels of an object, created if absent.
pub(crate) fn labels_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    member_mut(object, "metadata")
        .and_then(|metadata| member_mut(metadata, "labels"))?
        .as_object_mut()
}

fn add_annotation(object: &mut Value, owner: &Ownership) {
    if let Some(notes) =
        member_mut(object, "metadata").and_then(|metadata| member_mut(metadata, "annotations"))
    {
        notes[OPERATION] = owner.op_id.as_str().into();
    }
}

/// An object member, created if missing or null; `None` if it is something else.
pub(crate) fn member_mut<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let member = object.as_object_mut()?.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = Value::Object(Map::new());
    }
    member.is_object().then_some(member)
}

/// Whether the labels name this installation and this instance.
pub(crate) fn is_ours(metadata: &ObjectMeta, owner: &Ownership) -> bool {
    label_of(metadata, INSTANCE) == Some(&owner.instance_id)
        && label_of(metadata, INSTALLATION) == Some(&owner.installation_id)
}

/// Describes the owner of a foreign object without naming an instance, which may be another tenant's.
pub(crate) fn owner_description(metadata: &ObjectMeta, owner: &Ownership) -> String {
    match label_of(metadata, INSTALLATION) {
        Some(installation) if *installation == owner.installation_id => {
            "it belongs to another instance".to_owned()
        }
        Some(_) => "it belongs to another vnfm".to_owned(),
        None => "it does not carry our labels".to_owned(),
    }
}

/// The value of label `name`, if present.
pub(crate) fn label_of<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a String> {
    metadata.labels.as_ref()?.get(name)
}

/// The label selector of everything that belongs to an instance; what belongs to its snapshots outlives it.
pub(crate) fn selector(owner: &Ownership) -> String {
    format!(
        "{INSTANCE}={},{INSTALLATION}={},!{SNAPSHOT}",
        owner.instance_id, owner.installation_id
    )
}

/// Marks an object as part of a VNF snapshot.
pub(crate) fn stamp_snapshot(object: &mut Value, owner: &Ownership, snapshot: &str) {
    add_labels(object, owner);
    add_annotation(object, owner);
    if let Some(labels) = labels_mut(object) {
        labels.insert(SNAPSHOT.to_owned(), snapshot.into());
    }
}

/// Marks an object as a shared virtual link.
pub(crate) fn stamp_link(object: &mut Value, owner: &Ownership, link: &str) {
    stamp_apart(object, owner, (LINK, link));
}

/// Marks an object as a retained volume, or as what that is made with.
pub(crate) fn stamp_volume(object: &mut Value, owner: &Ownership, volume: &str) {
    stamp_apart(object, owner, (VOLUME, volume));
}

/// Marks an object of the installation that belongs to no instance.
fn stamp_apart(object: &mut Value, owner: &Ownership, (label, id): (&str, &str)) {
    if let Some(labels) = labels_mut(object) {
        labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.into());
        labels.insert(
            INSTALLATION.to_owned(),
            owner.installation_id.as_str().into(),
        );
        labels.insert(label.to_owned(), id.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owner() -> Ownership {
        Ownership {
            installation_id: "inst-1".into(),
            tenant: "default".into(),
            instance_id: "vnf-1".into(),
            op_id: "op-1".into(),
        }
    }

    #[test]
    fn a_workload_and_its_templates_are_labelled() {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a", "labels": {"mine": "1"}, "annotations": null},
            "spec": {"template": {"spec": {}}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
        stamp(&mut object, &owner());
        let marks = json!({"app.kubernetes.io/managed-by": "vnfm", "vnfm.dev/installation": "inst-1", "vnfm.dev/instance": "vnf-1"});
        assert_eq!(object["metadata"]["labels"]["mine"], "1");
        assert_eq!(
            object["metadata"]["annotations"],
            json!({"vnfm.dev/operation": "op-1"})
        );
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], marks);
        assert_eq!(
            object["spec"]["template"]["metadata"].get("annotations"),
            None,
            "a new operation must not roll the pods"
        );
        assert_eq!(
            object["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"],
            marks
        );
    }

    #[test]
    fn what_helm_manages_keeps_its_label() {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}}});
        stamp_release(&mut object, ("web", "mine"));
        stamp(&mut object, &owner());
        let labels = json!({"app.kubernetes.io/managed-by": "Helm", "vnfm.dev/installation": "inst-1", "vnfm.dev/instance": "vnf-1"});
        assert_eq!(object["metadata"]["labels"], labels);
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(
            object["metadata"]["annotations"],
            json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "mine", "vnfm.dev/operation": "op-1"})
        );
    }

    #[test]
    fn machines_of_cluster_api_get_the_labels() {
        for (group, kind, template) in [
            ("cluster.x-k8s.io", "MachineDeployment", "template"),
            (
                "controlplane.cluster.x-k8s.io",
                "KubeadmControlPlane",
                "machineTemplate",
            ),
        ] {
            let mut object = json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind,
                "metadata": {"name": "a"}, "spec": {template: {"spec": {}}}});
            stamp(&mut object, &owner());
            let labels = &object["spec"][template]["metadata"]["labels"];
            assert_eq!(labels["vnfm.dev/instance"], "vnf-1", "{kind}");
        }
    }

    #[test]
    fn templates_of_custom_resources_are_not_changed() {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"template": {"x": 1}}});
        stamp(&mut object, &owner());
        assert_eq!(object["spec"], json!({"template": {"x": 1}}));
    }

    #[test]
    fn an_object_is_ours_if_its_labels_name_installation_and_instance() {
        let marked = |installation: &str, instance: &str| ObjectMeta {
            labels: Some(
                [
                    (INSTALLATION.to_owned(), installation.to_owned()),
                    (INSTANCE.to_owned(), instance.to_owned()),
                ]
                .into(),
            ),
            ..ObjectMeta::default()
        };
        assert!(is_ours(&marked("inst-1", "vnf-1"), &owner()));
        assert_eq!(
            owner_description(&marked("inst-1", "vnf-2"), &owner()),
            "it belongs to another instance"
        );
        assert_eq!(
            owner_description(&marked("inst-2", "vnf-1"), &owner()),
            "it belongs to another vnfm"
        );
        assert_eq!(
            owner_description(&ObjectMeta::default(), &owner()),
            "it does not carry our labels"
        );
        assert!(
            !is_ours(&marked("inst-2", "vnf-1"), &owner())
                && !is_ours(&ObjectMeta::default(), &owner())
        );
    }
}
