//! What subscribers are told of an operation.

use crate::ports::{About, InstanceRecord, OpRecord, OutboxRow};
use serde_json::{Value, json};
use vnfm_types::LcmOperationState::{Failed, FailedTemp, RolledBack, Starting};

/// `VnfLcmOperationOccurrenceNotification` (SOL003 5.5.2.17), as far as no subscription decides.
pub(crate) fn notification(
    record: &OpRecord,
    instance: &InstanceRecord,
    at: jiff::Timestamp,
) -> OutboxRow {
    let op = &record.op;
    let status = if op.operation_state == Starting { "START" } else { "RESULT" };
    let mut body = json!({
        "notificationType": "VnfLcmOperationOccurrenceNotification",
        "operationState": op.operation_state,
        "notificationStatus": status,
        "vnfInstanceId": op.vnf_instance_id,
        "operation": op.operation,
        "isAutomaticInvocation": op.is_automatic_invocation,
        "vnfLcmOpOccId": op.id,
        "timeStamp": at,
    });
    if status == "RESULT" {
        if let Some(changes) = &op.resource_changes {
            merge_into(&mut body, serde_json::to_value(changes).unwrap_or_default());
        }
        if let Some(changed) = &op.changed_info {
            body["changedInfo"] = serde_json::to_value(changed).unwrap_or_default();
        }
        // It stays known while an operation goes on from there, and is told where it came to a stop.
        let told = matches!(op.operation_state, FailedTemp | Failed | RolledBack);
        if let Some(error) = op.error.as_ref().filter(|_| told) {
            body["error"] = serde_json::to_value(error).unwrap_or_default();
        }
    }
    OutboxRow {
        seq: 0,
        tenant: record.tenant.clone(),
        instance_id: op.vnf_instance_id.clone(),
        kind: "VnfLcmOperationOccurrenceNotification".to_owned(),
        body,
        about: About::of(instance, Some(record)),
        at,
    }
}

fn merge_into(body: &mut Value, members: Value) {
    if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
        body.extend(members);
    }
}
