//! VNF packages (SOL005 9.4.2 to 9.4.7): onboarding by upload or from a URI, and full or partial downloads.

use crate::access::Tenant;
use crate::api_version;
use crate::artifacts::{SIGNATURES, Selection, flag};
use crate::body::Json;
use crate::conditions::{self, Conditions};
use crate::onboarding::Onboarding;
use crate::onboarding::{self, Accepts};
use crate::problem::{HandlerResult, Problem};
use crate::query::known;
use crate::state::App;
use crate::view::{self, Root};
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_core::Engine;
use vnfm_types::{KeyValuePairs, UploadVnfPackageFromUriRequest, VnfPkgInfoModifications};

/// `CreateVnfPkgInfoRequest` (SOL005 9.5.2.2): a record without content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    #[serde(default)]
    user_defined_data: KeyValuePairs,
}

pub(super) async fn create(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    root: Root,
    Json(request): Json<Create>,
) -> HandlerResult {
    let record = onboarding
        .create(&tenant, request.user_defined_data)
        .await?;
    let location = root.package(&record.info.id);
    let body = axum::Json(view::package(record, &root));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().package_record(&tenant, &id).await?;
    Ok(conditions::json_with_tag(
        &view::package(record, &root),
        None,
    ))
}

/// Enables, disables, merges `userDefinedData` (SOL005 9.4.3.3.4); responds with the changes.
pub(super) async fn modify(
    State(onboarding): State<Arc<Onboarding>>,
    root: Root,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    headers: HeaderMap,
    Json(patch): Json<VnfPkgInfoModifications>,
) -> HandlerResult {
    let conditions = Conditions::from_headers(&headers)?;
    let tag = |record| conditions::tag(&view::package(record, &root));
    let expected = |record: &vnfm_core::ports::PackageRecord| {
        tag(record.clone()).is_ok_and(|tag| conditions.are_met_by_tag(&tag))
    };
    let (record, changed) = onboarding.modify((&tenant, &id), patch, expected).await?;
    let mut response = axum::Json(changed).into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag(record)?) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

pub(super) async fn delete(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    onboarding.delete(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accepted content types of an archive.
const ARCHIVE: &[&str] = &["application/zip", "application/octet-stream"];

/// 202; `onboardingState` of the record shows when it can be used, or why not.
pub(super) async fn upload(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> HandlerResult<StatusCode> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if let Some(other) = kind.filter(|kind| !ARCHIVE.contains(kind)) {
        let detail = format!(
            "content type `{other}` is not one of {}",
            ARCHIVE.join(", ")
        );
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "request.media-type",
            detail,
        ));
    }
    onboarding.upload(&tenant, &id, body).await?;
    Ok(StatusCode::ACCEPTED)
}

/// 202; the fetch continues in the background, and `onboardingState` of the record
/// shows its progress (SOL005 9.4.6.3.1).
pub(super) async fn upload_from_uri(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Json(request): Json<UploadVnfPackageFromUriRequest>,
) -> HandlerResult<StatusCode> {
    let quotas = app.access.quota_table();
    let left = quotas.bytes_left(app.engine.store(), &tenant).await?;
    let fetch = app
        .onboarding
        .begin_from_uri((&tenant, &id), request, left)
        .await?;
    let supervisor = &app.instrumentation.supervisor;
    onboarding::resume(app.onboarding.clone(), supervisor, fetch);
    Ok(StatusCode::ACCEPTED)
}

/// The archive as onboarded (SOL005 9.4.5.3.2).
pub(super) async fn content(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> HandlerResult {
    if !ARCHIVE.iter().any(|kind| accepts_type(&headers, kind)) {
        return Err(archive_not_acceptable());
    }
    onboarding
        .archive(&tenant, &id)
        .await?
        .into_response(&headers)
        .await
}

/// Query parameters by name, as strings.
type Parameters = Query<BTreeMap<String, String>>;

/// The VNFD (SOL005 9.4.4.3.2). The standard defines no ranges for it.
pub(super) async fn vnfd(
    State(onboarding): State<Arc<Onboarding>>,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Query(query): Parameters,
    mut headers: HeaderMap,
) -> HandlerResult {
    let (signatures, accepts) = (signatures(&query)?, accepts(&headers));
    let content = onboarding.vnfd((&tenant, &id), signatures, accepts);
    headers.remove(header::RANGE);
    content.await?.into_response(&headers).await
}

/// The manifest (SOL005 9.4.4b.3.2), likewise without ranges.
pub(super) async fn manifest(
    State(onboarding): State<Arc<Onboarding>>,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Query(query): Parameters,
    mut headers: HeaderMap,
) -> HandlerResult {
    let (signatures, accepts) = (signatures(&query)?, accepts(&headers));
    let content = onboarding.manifest((&tenant, &id), signatures, accepts);
    headers.remove(header::RANGE);
    content.await?.into_response(&headers).await
}

/// The selected artifacts in an archive (SOL005 9.4.5a.3.2).
pub(super) async fn artifacts(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> HandlerResult {
    let selection = Selection::from_query(&query)?;
    if !accepts(&headers).zip {
        return Err(archive_not_acceptable());
    }
    onboarding
        .artifacts((&tenant, &id), selection)
        .await?
        .into_response(&headers)
        .await
}

/// Returns one artifact of a package (SOL005 9.4.7.3.2).
pub(super) async fn artifact(
    State(onboarding): State<Arc<Onboarding>>,
    Tenant(tenant): Tenant,
    Path((id, path)): Path<(String, String)>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> HandlerResult {
    let options = (signatures(&query)?, accepts(&headers));
    let content = onboarding.artifact((&tenant, &id), &path, options).await?;
    content.into_response(&headers).await
}

fn signatures(query: &BTreeMap<String, String>) -> HandlerResult<bool> {
    known(query, &[SIGNATURES])?;
    flag(query, SIGNATURES)
}

fn accepts_type(headers: &HeaderMap, kind: &str) -> bool {
    api_version::accepts(
        headers
            .get(header::ACCEPT)
            .and_then(|accept| accept.to_str().ok()),
        kind,
    )
}

fn accepts(headers: &HeaderMap) -> Accepts {
    Accepts {
        zip: accepts_type(headers, "application/zip"),
        text: accepts_type(headers, "text/plain"),
    }
}

fn archive_not_acceptable() -> Problem {
    let detail =
        "the resource is available only as application/zip, which `Accept` does not include";
    Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", detail)
}
