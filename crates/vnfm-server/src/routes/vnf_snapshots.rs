//! VNF snapshots as resources (SOL003 5.4.23 to 5.4.25). `create_snapshot` stores a state in one, as every operation through
//! [`vnf_instances`](super::vnf_instances).

use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::conditions::{self, Conditions};
use crate::problem::{HandlerResult, Problem};
use crate::view::{self, Root};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_types::{CreateVnfSnapshotInfoRequest, VnfSnapshotInfoModificationRequest};

pub(super) async fn create(
    State(engine): State<Engine>,
    Principal {
        tenant,
        scope: only,
        ..
    }: Principal,
    root: Root,
    Json(request): Json<CreateVnfSnapshotInfoRequest>,
) -> HandlerResult {
    let record = engine.create_snapshot_info(&tenant, &only, request).await?;
    let location = root.snapshot(&record.info.id);
    let headers = conditions::of_snapshot(&record);
    let body = axum::Json(view::snapshot(record, &root));
    let location = [(header::LOCATION, location)];
    Ok((StatusCode::CREATED, location, headers, body).into_response())
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().snapshot(&tenant, &id).await?;
    let headers = conditions::of_snapshot(&record);
    Ok((headers, axum::Json(view::snapshot(record, &root))).into_response())
}

pub(super) async fn modify(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(request): Json<VnfSnapshotInfoModificationRequest>,
) -> HandlerResult {
    let conditions = Conditions::from_headers(&headers)?;
    let is_unchanged = |record: &_| conditions.are_met_by_snapshot(record);
    let modified = engine.modify_snapshot_info(&tenant, &id, request, &is_unchanged);
    let (record, modified) = modified.await?;
    let headers = conditions::of_snapshot(&record);
    Ok((headers, axum::Json(modified)).into_response())
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> HandlerResult<StatusCode> {
    let conditions = Conditions::from_headers(&headers)?;
    let is_unchanged = |record: &_| conditions.are_met_by_snapshot(record);
    let deleted = engine.delete_snapshot_info(&tenant, &id, &is_unchanged);
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// 404: this VNFM stores no VNF-specific state data, so no snapshot has this resource (SOL003 5.4.25.1).
pub(super) async fn state_snapshot(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().snapshot(&tenant, &id).await?;
    let id = &record.info.id;
    let detail = format!("VNF snapshot `{id}` has no VNF-specific state data");
    Err(Problem::not_found(detail))
}
