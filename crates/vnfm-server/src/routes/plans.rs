//! What an operation would do to an instance, without doing it. Our own API.

use crate::access::Principal;
use crate::body::Json;
use crate::overrides::OperatorHeaders;
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use vnfm_core::Plan;
use vnfm_core::lcm::Begin;
use vnfm_types::LcmOperationType;

/// An operation, and the request that would begin it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanRequest {
    operation: LcmOperationType,
    #[serde(default = "empty")]
    request: Value,
}

fn empty() -> Value {
    json!({})
}

pub(super) async fn plan(
    State(app): State<App>,
    Principal { tenant, scope, .. }: Principal,
    headers: OperatorHeaders,
    Path(id): Path<String>,
    planned: Result<Json<PlanRequest>, Problem>,
) -> HandlerResult<axum::Json<Plan>> {
    // 404 for an instance of another tenant, whatever the body.
    app.engine.store().instance(&tenant, &id).await?;
    let Json(planned) = planned?;
    let kind = planned.operation;
    let Some(operation) = app.engine.operation(kind) else {
        let detail = format!("this VNFM does not implement the operation {kind}");
        let code = "request.not-supported";
        return Err(Problem::new(StatusCode::NOT_FOUND, code, detail));
    };
    let body = operation.body.read(&planned.request)?;
    let begin = Begin {
        cascade: headers.cascade()?,
        skip: headers.skip(operation, app.engine.operations())?,
        scope: Some(&scope),
        ..Begin::new(operation, body)
    };
    Ok(axum::Json(app.engine.plan(&tenant, &id, begin).await?))
}
