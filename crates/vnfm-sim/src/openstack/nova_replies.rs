//! Replies of Nova that do not depend on its state: its versions, and errors in its form.

use serde_json::json;

use crate::http::Reply;

pub(super) fn versions() -> Reply {
    Reply::json(
        200,
        &json!({ "versions": [{ "id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "links": [] }] }),
    )
}

pub(super) fn no_instance(id: &str) -> Reply {
    error(404, &format!("Instance {id} could not be found."))
}

pub(super) fn error(status: u16, message: &str) -> Reply {
    let kind = match status {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        409 => "conflictingRequest",
        503 => "serviceUnavailable",
        _ => "computeFault",
    };
    Reply::json(
        status,
        &json!({ kind: { "code": status, "message": message } }),
    )
    .with_remark(message)
}
