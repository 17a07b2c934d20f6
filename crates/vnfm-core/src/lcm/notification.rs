//! The notifications that subscribers get about an operation.

use crate::json::to_json_or_log;
use crate::ports::{EventScope, InstanceRecord, OpRecord, OutboxRow};
use serde_json::{Value, json};
use vnfm_types::LcmOperationState::{Failed, FailedTemp, RolledBack};

/// Whether a notification announces a new operation or a state change (SOL003 5.5.2.17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The occurrence was created, in its initial state.
    Start,
    /// The operation has entered another state.
    Result,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "START",
            Self::Result => "RESULT",
        }
    }
}

/// Its member for what a change of the VNF package modified.
const MODIFIED: &str = "modificationsTriggeredByVnfPkgChange";

/// `VnfLcmOperationOccurrenceNotification` (SOL003 5.5.2.17), without the members that depend on the subscription.
pub(super) fn notification(
    record: &OpRecord,
    instance: &InstanceRecord,
    status: Status,
    at: jiff::Timestamp,
) -> OutboxRow {
    let op = &record.op;
    let mut body = json!({
        "notificationType": "VnfLcmOperationOccurrenceNotification",
        "operationState": op.operation_state,
        "notificationStatus": status.as_str(),
        "vnfInstanceId": op.vnf_instance_id,
        "operation": op.operation,
        "isAutomaticInvocation": op.is_automatic_invocation,
        "vnfLcmOpOccId": op.id,
        "timeStamp": at,
    });
    if status == Status::Result {
        let changes = op.resource_changes.as_ref();
        if let Some(changes) = changes.and_then(|it| to_json_or_log("resourceChanges", it)) {
            merge_into(&mut body, changes);
        }
        let changed = op.changed_info.as_ref();
        if let Some(changed) = changed.and_then(|it| to_json_or_log("changedInfo", it)) {
            body["changedInfo"] = changed;
        }
        let modified = op.modifications_triggered_by_vnf_pkg_change.as_ref();
        if let Some(modified) = modified.and_then(|it| to_json_or_log(MODIFIED, it)) {
            body[MODIFIED] = modified;
        }
        let links = &op.changed_ext_connectivity;
        if let Some(links) = to_json_or_log("changedExtConnectivity", links)
            && !op.changed_ext_connectivity.is_empty()
        {
            body["changedExtConnectivity"] = links;
        }
        // The occurrence keeps its error during retry and rollback; only these notifications carry it.
        let carries_error = matches!(op.operation_state, FailedTemp | Failed | RolledBack);
        let error = op.error.as_ref().filter(|_| carries_error);
        if let Some(error) = error.and_then(|it| to_json_or_log("error", it)) {
            body["error"] = error;
        }
    }
    OutboxRow {
        seq: 0,
        tenant: record.tenant.clone(),
        instance_id: op.vnf_instance_id.clone(),
        kind: "VnfLcmOperationOccurrenceNotification".to_owned(),
        body,
        about: EventScope::for_instance(instance, Some(record)),
        at,
    }
}

fn merge_into(body: &mut Value, members: Value) {
    if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
        body.extend(members);
    }
}
