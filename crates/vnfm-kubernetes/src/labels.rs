//! What we write onto every object: whose it is.
//!
//! | mark | value |
//! |---|---|
//! | label `app.kubernetes.io/managed-by` | `vnfm` |
//! | label `vnfm.dev/installation` | the installation id |
//! | label `vnfm.dev/instance` | `VnfInstance.id` |
//! | annotation `vnfm.dev/operation` | the operation occurrence that applied it last |
//!
//! The labels go onto what a workload makes as well (pods, claims), so that everything of an instance is found
//! by one selector.

use kube::core::ObjectMeta;
use serde_json::{Map, Value};
use vnfm_core::ports::Ownership;

/// The field manager of everything that we apply.
pub(crate) const MANAGER: &str = "vnfm";
pub(crate) const INSTALLATION: &str = "vnfm.dev/installation";
pub(crate) const INSTANCE: &str = "vnfm.dev/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const OPERATION: &str = "vnfm.dev/operation";

/// Where workloads describe what they make.
const TEMPLATES: &[&str] = &[
    "/spec/template",
    "/spec/jobTemplate",
    "/spec/jobTemplate/spec/template",
];

/// Writes the marks onto an object and onto what it describes.
pub(crate) fn stamp(object: &mut Value, owner: &Ownership) {
    label(object, owner);
    annotate(object, owner);
    if object
        .get("apiVersion")
        .and_then(Value::as_str)
        .is_some_and(|group| group == "apps/v1" || group == "batch/v1")
    {
        for template in TEMPLATES {
            if let Some(template) = object.pointer_mut(template) {
                label(template, owner);
            }
        }
        if let Some(claims) = object
            .pointer_mut("/spec/volumeClaimTemplates")
            .and_then(Value::as_array_mut)
        {
            for claim in claims {
                label(claim, owner);
            }
        }
    }
}

fn label(object: &mut Value, owner: &Ownership) {
    if let Some(labels) = member(object, "metadata").and_then(|metadata| member(metadata, "labels"))
    {
        labels[MANAGED_BY] = MANAGER.into();
        labels[INSTALLATION] = owner.installation_id.as_str().into();
        labels[INSTANCE] = owner.instance_id.as_str().into();
    }
}

/// The labels of an object, made where there are none.
pub(crate) fn of_object(object: &mut Value) -> Option<&mut Map<String, Value>> {
    member(object, "metadata")
        .and_then(|metadata| member(metadata, "labels"))?
        .as_object_mut()
}

fn annotate(object: &mut Value, owner: &Ownership) {
    if let Some(notes) =
        member(object, "metadata").and_then(|metadata| member(metadata, "annotations"))
    {
        notes[OPERATION] = owner.op_id.as_str().into();
    }
}

/// A member that is an object, made where it is missing or null.
fn member<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let member = object.as_object_mut()?.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = Value::Object(Map::new());
    }
    member.is_object().then_some(member)
}

/// Whether an object is this instance's.
pub(crate) fn is_ours(metadata: &ObjectMeta, owner: &Ownership) -> bool {
    of(metadata, INSTANCE) == Some(&owner.instance_id)
        && of(metadata, INSTALLATION) == Some(&owner.installation_id)
}

/// Whom an object belongs to, in words that name no instance: it may be another tenant's.
pub(crate) fn whose(metadata: &ObjectMeta, owner: &Ownership) -> String {
    match of(metadata, INSTALLATION) {
        Some(installation) if *installation == owner.installation_id => {
            "it belongs to another instance".to_owned()
        }
        Some(_) => "it belongs to another vnfm".to_owned(),
        None => "it does not carry our labels".to_owned(),
    }
}

/// The label `name`.
pub(crate) fn of<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a String> {
    metadata.labels.as_ref()?.get(name)
}

/// Selects everything of an instance.
pub(crate) fn selector(owner: &Ownership) -> String {
    format!(
        "{INSTANCE}={},{INSTALLATION}={}",
        owner.instance_id, owner.installation_id
    )
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
    fn a_workload_and_what_it_makes_are_marked() {
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
    fn strangers_templates_stay_as_they_are() {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"template": {"x": 1}}});
        stamp(&mut object, &owner());
        assert_eq!(object["spec"], json!({"template": {"x": 1}}));
    }

    #[test]
    fn ours_is_what_carries_both_ids() {
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
            whose(&marked("inst-1", "vnf-2"), &owner()),
            "it belongs to another instance"
        );
        assert_eq!(
            whose(&marked("inst-2", "vnf-1"), &owner()),
            "it belongs to another vnfm"
        );
        assert_eq!(
            whose(&ObjectMeta::default(), &owner()),
            "it does not carry our labels"
        );
        assert!(
            !is_ours(&marked("inst-2", "vnf-1"), &owner())
                && !is_ours(&ObjectMeta::default(), &owner())
        );
    }
}
