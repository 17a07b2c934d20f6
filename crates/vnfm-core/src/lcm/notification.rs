//! The notifications that subscribers get about an operation.

use crate::ports::{EventScope, InstanceRecord, OpRecord, OutboxRow};
use serde_json::{Value, json};
use vnfm_types::LcmOperationState::{Failed, FailedTemp, RolledBack};

/// Whether a notification announces a new operation or a state change (SOL003 5.5.2.17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The occurrence was created, in its initial state.
    Start,
    /// It entered another state.
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
        if let Some(changes) = &op.resource_changes {
            merge_into(&mut body, serde_json::to_value(changes).unwrap_or_default());
        }
        if let Some(changed) = &op.changed_info {
            body["changedInfo"] = serde_json::to_value(changed).unwrap_or_default();
        }
        // The occurrence keeps its error during retry and rollback; only these notifications carry it.
        let carries_error = matches!(op.operation_state, FailedTemp | Failed | RolledBack);
        if let Some(error) = op.error.as_ref().filter(|_| carries_error) {
            body["error"] = serde_json::to_value(error).unwrap_or_default();
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
