//! VNF instances (SOL003 5.4.2, 5.4.3), their modification, and the tasks on them (5.4.4, 5.4.8):
//! one handler begins every operation of the engine.

use crate::access::{Principal, Tenant};
use crate::body::{Json, UnparsedJson};
use crate::conditions::{self, Conditions};
use crate::overrides::OperatorHeaders;
use crate::problem::{HandlerResult, Problem};
use crate::route_match::{Matched, Route};
use crate::state::App;
use crate::view::{self, InstanceWithTasks, Root};
use axum::extract::{FromRequest as _, FromRequestParts as _, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use vnfm_core::Engine;
use vnfm_core::lcm::Begin;
use vnfm_core::query::VisibilityScope;
use vnfm_types::CreateVnfRequest;
use vnfm_types::v1::{self, ApiVersion};

pub(super) async fn create(
    State(app): State<App>,
    Principal {
        tenant,
        scope: only,
        ..
    }: Principal,
    root: Root,
    Json(request): Json<CreateVnfRequest>,
) -> HandlerResult {
    provide(&app, &tenant, &only, &request.vnfd_id).await?;
    let record = app.engine.create_in_scope(&tenant, &only, request).await?;
    let location = root.instance(&record.vnf.id);
    let shown = InstanceWithTasks::new(&app.engine, record).await;
    let body = axum::Json(view::instance(shown, &root));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// Fetches the package with this VNFD from the NFVO if it is not here. Callers limited to vendors may only use stored
/// packages: the vendor of a package is known only after it is fetched.
async fn provide(
    app: &App,
    tenant: &str,
    only: &VisibilityScope,
    vnfd_id: &str,
) -> Result<(), Problem> {
    let supply = app.nfvo_packages.as_ref();
    match supply.filter(|_| only.vendors.is_empty()) {
        Some(supply) => supply.provide(tenant, vnfd_id).await,
        None => Ok(()),
    }
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().instance(&tenant, &id).await?;
    let headers = conditions::of_instance(&record);
    let shown = InstanceWithTasks::new(&engine, record).await;
    Ok((headers, axum::Json(view::instance(shown, &root))).into_response())
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> HandlerResult<StatusCode> {
    let conditions = Conditions::from_headers(&headers)?;
    engine
        .delete_if(&tenant, &id, &|record| conditions.are_met_by(record))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins the operation of the route: a task on the instance, or its modification (PATCH).
pub(super) async fn begin(
    State(app): State<App>,
    matched: Matched,
    root: Root,
    (caller, Path(id)): (Principal, Path<String>),
    request: Request,
) -> HandlerResult {
    let operation = matched.operation()?;
    let is_later = |task: &&str| root.api_version == ApiVersion::V1 && !v1::has_task(task);
    if let Some(task) = operation.task.filter(is_later) {
        return Err(missing_task(
            &id,
            task,
            "version 1 of the interface does not have it",
        ));
    }
    let (mut parts, body) = request.into_parts();
    let Ok(overrides) = OperatorHeaders::from_request_parts(&mut parts, &app).await;
    // Only the modification is conditional (SOL003 5.4.3.3.4).
    let conditions = match operation.task {
        Some(_) => Conditions::default(),
        None => Conditions::from_headers(&parts.headers)?,
    };
    let request = Request::from_parts(parts, body);
    let body = UnparsedJson::from_request(request, &app).await?;
    let body = body.parse(&operation.body)?;
    let Principal { tenant, scope, .. } = caller;
    // A task that names a VNFD changes the instance to it.
    if let Some(vnfd_id) = body["vnfdId"].as_str().filter(|_| operation.task.is_some()) {
        provide(&app, &tenant, &scope, vnfd_id).await?;
    }
    let begin = Begin {
        cascade: overrides.cascade()?,
        skip: overrides.skip(operation, app.engine.operations())?,
        expected: Some(&|record| conditions.are_met_by(record)),
        scope: Some(&scope),
        ..Begin::new(operation, body)
    };
    let engine = app.engine.with_api_version(root.api_version);
    let op_id = engine.begin(&tenant, &id, begin).await?;
    Ok(accepted(&app, &root, &op_id))
}

/// 404, as the standard defines for a task that a VNF does not support (SOL003 5.4.5.3.1 and so on).
pub(super) async fn not_supported(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    matched: Matched,
) -> HandlerResult {
    let record = engine.store().instance(&tenant, &id).await?;
    let task = matched.route().map(Route::task).unwrap_or_default();
    let why = "this VNFM does not implement it";
    Err(missing_task(&record.vnf.id, task, why))
}

fn missing_task(id: &str, task: &str, why: &str) -> Problem {
    let detail = format!("VNF `{id}` does not support the task `{task}`: {why}");
    let code = "request.not-supported";
    Problem::new(StatusCode::NOT_FOUND, code, detail)
}

/// 202 with the occurrence's URI; starts driving the operation.
fn accepted(app: &App, root: &Root, op_id: &str) -> Response {
    app.wake.drive(op_id);
    (StatusCode::ACCEPTED, [(header::LOCATION, root.op(op_id))]).into_response()
}
