//! VNF instances (SOL003 5.4.2, 5.4.3), their modification, and the tasks on them (5.4.4, 5.4.8).

use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::conditions::{self, Conditions};
use crate::overrides::OperatorHeaders;
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use crate::view::{self, Root};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use vnfm_types::{
    CreateVnfRequest, HealVnfRequest, InstantiateVnfRequest, TerminateVnfRequest,
    VnfInfoModificationRequest,
};

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
    // Callers limited to vendors may only use stored packages: the vendor of a package is known only after it is
    // fetched.
    if let Some(supply) = app
        .nfvo_packages
        .as_ref()
        .filter(|_| only.vendors.is_empty())
    {
        supply.provide(&app, &tenant, &request.vnfd_id).await?;
    }
    let record = app.engine.create_in_scope(&tenant, &only, request).await?;
    let location = root.instance(&record.vnf.id);
    let body = axum::Json(view::instance(record, &root));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

pub(super) async fn show(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = app.engine.store().instance(&tenant, &id).await?;
    let headers = conditions::of_instance(&record);
    Ok((headers, axum::Json(view::instance(record, &root))).into_response())
}

pub(super) async fn delete(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> HandlerResult<StatusCode> {
    let conditions = Conditions::from_headers(&headers)?;
    app.engine
        .delete_if(&tenant, &id, &|record| conditions.are_met_by(record))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn modify(
    State(app): State<App>,
    root: Root,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    headers: HeaderMap,
    Json(request): Json<VnfInfoModificationRequest>,
) -> HandlerResult {
    let conditions = Conditions::from_headers(&headers)?;
    let op_id = app
        .engine
        .with_api_version(root.api_version)
        .modify(&tenant, &id, request, &|record| {
            conditions.are_met_by(record)
        })
        .await?;
    Ok(accepted(&app, &root, &op_id))
}

pub(super) async fn instantiate(
    State(app): State<App>,
    root: Root,
    headers: OperatorHeaders,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Json(request): Json<InstantiateVnfRequest>,
) -> HandlerResult {
    headers.no_skip()?;
    let op_id = app
        .engine
        .with_api_version(root.api_version)
        .instantiate(&tenant, &id, request)
        .await?;
    Ok(accepted(&app, &root, &op_id))
}

pub(super) async fn terminate(
    State(app): State<App>,
    root: Root,
    headers: OperatorHeaders,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Json(request): Json<TerminateVnfRequest>,
) -> HandlerResult {
    let op_id = match headers.skip() {
        None => {
            app.engine
                .with_api_version(root.api_version)
                .terminate(&tenant, &id, request)
                .await?
        }
        Some(skip) => {
            app.engine
                .with_api_version(root.api_version)
                .terminate_without(&tenant, &id, request, skip)
                .await?
        }
    };
    Ok(accepted(&app, &root, &op_id))
}

pub(super) async fn heal(
    State(app): State<App>,
    root: Root,
    headers: OperatorHeaders,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Json(request): Json<HealVnfRequest>,
) -> HandlerResult {
    let op_id = match headers.skip() {
        None => {
            app.engine
                .with_api_version(root.api_version)
                .heal(&tenant, &id, request)
                .await?
        }
        Some(skip) => {
            app.engine
                .with_api_version(root.api_version)
                .heal_without(&tenant, &id, request, skip)
                .await?
        }
    };
    Ok(accepted(&app, &root, &op_id))
}

/// Tasks that are not implemented yet.
pub(super) const NOT_SUPPORTED: &[&str] = &[
    "scale",
    "scale_to_level",
    "change_flavour",
    "operate",
    "change_ext_conn",
    "change_vnfpkg",
    "create_snapshot",
    "revert_to_snapshot",
];

/// 404, as the standard defines for a task that a VNF does not support (SOL003 5.4.5.3.1 and so on).
pub(super) async fn not_supported(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    uri: Uri,
) -> HandlerResult {
    let record = app.engine.store().instance(&tenant, &id).await?;
    let task = uri.path().rsplit('/').next().unwrap_or_default();
    let detail = format!(
        "VNF `{}` does not support the task `{task}`: this VNFM does not implement it",
        record.vnf.id
    );
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "request.not-supported",
        detail,
    ))
}

/// 202 with the occurrence's URI; starts driving the operation.
fn accepted(app: &App, root: &Root, op_id: &str) -> Response {
    app.wake.drive(op_id);
    (StatusCode::ACCEPTED, [(header::LOCATION, root.op(op_id))]).into_response()
}
