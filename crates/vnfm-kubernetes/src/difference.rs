//! Whether an apply would change an object, and where: the object that exists against a dry run.

use crate::labels;
use kube::api::DynamicObject;
use serde_json::Value;
use vnfm_core::json::differing_paths;
use vnfm_core::ports::ResourceAction;

/// Whether a dry run changes the object, and where.
pub(crate) fn compared(live: &DynamicObject, dry: &DynamicObject) -> (ResourceAction, Vec<String>) {
    let paths = differing_paths(&stated(live), &stated(dry));
    if paths.is_empty() {
        (ResourceAction::Keep, paths)
    } else {
        (ResourceAction::Update, paths)
    }
}

/// The object without what the API server and each operation of ours write.
fn stated(object: &DynamicObject) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for member in [
            "managedFields",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "uid",
            "selfLink",
        ] {
            metadata.remove(member);
        }
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(labels::OPERATION);
    }
    object
}
