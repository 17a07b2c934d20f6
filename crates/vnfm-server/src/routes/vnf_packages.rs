//! VNF packages, onboarded the SOL005 way (9.4.2 to 9.4.7), by upload or from a URI, and served in whole and in part.

use crate::access::Tenant;
use crate::artifacts::{SIGNATURES, Selection, flag};
use crate::body::Json;
use crate::conditions::{self, Conditions};
use crate::gate;
use crate::onboarding::{self, Accepts};
use crate::problem::{Answer, Problem};
use crate::query::known;
use crate::state::App;
use crate::view::{self, Root};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use std::collections::BTreeMap;
use vnfm_types::{KeyValuePairs, UploadVnfPackageFromUriRequest, VnfPkgInfoModifications};

/// `CreateVnfPkgInfoRequest` (SOL005 9.5.2.2).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    #[serde(default)]
    user_defined_data: KeyValuePairs,
}

pub(super) async fn create(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    root: Root,
    Json(request): Json<Create>,
) -> Answer {
    let record = app
        .onboarding
        .create(&tenant, request.user_defined_data)
        .await?;
    let location = root.package(&record.info.id);
    let body = axum::Json(view::package(record, &root));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

pub(super) async fn show(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> Answer {
    let record = app.engine.store().package_record(&tenant, &id).await?;
    Ok(conditions::tagged(&view::package(record, &root), None))
}

/// Enables, disables, merges `userDefinedData` (SOL005 9.4.3.3.4); answers with what is so now.
pub(super) async fn modify(
    State(app): State<App>,
    root: Root,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    headers: HeaderMap,
    Json(patch): Json<VnfPkgInfoModifications>,
) -> Answer {
    let seen = Conditions::of(&headers)?;
    let tag = |record| conditions::tag(&view::package(record, &root));
    let expected = |record: &vnfm_core::ports::PackageRecord| seen.hold_for(&tag(record.clone()));
    let (record, changed) = app
        .onboarding
        .modify((&tenant, &id), patch, expected)
        .await?;
    let mut response = axum::Json(changed).into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag(record)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

pub(super) async fn delete(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    app.onboarding.delete(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an archive is sent as.
const ARCHIVE: &[&str] = &["application/zip", "application/octet-stream"];

/// 202; the record's `onboardingState` tells when it can be used, or why not.
pub(super) async fn upload(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer<StatusCode> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if let Some(other) = kind.filter(|kind| !ARCHIVE.contains(kind)) {
        let what = format!("content type `{other}` is none of {}", ARCHIVE.join(", "));
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "request.media-type",
            what,
        ));
    }
    app.onboarding.upload(&tenant, &id, body).await?;
    Ok(StatusCode::ACCEPTED)
}

/// 202; it is fetched meanwhile, and the record's `onboardingState` tells how it goes (SOL005 9.4.6.3.1).
pub(super) async fn upload_from_uri(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Json(request): Json<UploadVnfPackageFromUriRequest>,
) -> Answer<StatusCode> {
    let left = app.access.bytes_left(&app, &tenant).await?;
    let fetch = app
        .onboarding
        .from_uri((&tenant, &id), request, left)
        .await?;
    onboarding::go_on(app, fetch);
    Ok(StatusCode::ACCEPTED)
}

/// The archive, as it was onboarded (SOL005 9.4.5.3.2).
pub(super) async fn content(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    if !ARCHIVE.iter().any(|kind| takes(&headers, kind)) {
        return Err(no_archive());
    }
    app.onboarding
        .archive(&tenant, &id)
        .await?
        .served(&headers)
        .await
}

/// Parameters of a request.
type Parameters = Query<BTreeMap<String, String>>;

/// A small part of a package, which has no ranges in the standard.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// SOL005 9.4.4.3.2.
    Vnfd,
    /// SOL005 9.4.4b.3.2.
    Manifest,
}

pub(super) async fn part(
    State(app): State<App>,
    Extension(part): Extension<Part>,
    (Tenant(tenant), Path(id)): (Tenant, Path<String>),
    Query(query): Parameters,
    mut headers: HeaderMap,
) -> Answer {
    let (signatures, accepts) = (signatures(&query)?, accepts(&headers));
    let content = match part {
        Part::Vnfd => {
            app.onboarding
                .vnfd((&tenant, &id), signatures, accepts)
                .await
        }
        Part::Manifest => {
            app.onboarding
                .manifest((&tenant, &id), signatures, accepts)
                .await
        }
    };
    headers.remove(header::RANGE);
    content?.served(&headers).await
}

/// All artifacts that are selected, in an archive (SOL005 9.4.5a.3.2).
pub(super) async fn artifacts(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Answer {
    let selection = Selection::of(&query)?;
    if !accepts(&headers).zip {
        return Err(no_archive());
    }
    app.onboarding
        .artifacts((&tenant, &id), selection)
        .await?
        .served(&headers)
        .await
}

/// One artifact (SOL005 9.4.7.3.2).
pub(super) async fn artifact(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path((id, path)): Path<(String, String)>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Answer {
    let how = (signatures(&query)?, accepts(&headers));
    let content = app.onboarding.artifact((&tenant, &id), &path, how).await?;
    content.served(&headers).await
}

fn signatures(query: &BTreeMap<String, String>) -> Answer<bool> {
    known(query, &[SIGNATURES])?;
    flag(query, SIGNATURES)
}

fn takes(headers: &HeaderMap, kind: &str) -> bool {
    gate::takes(
        headers
            .get(header::ACCEPT)
            .and_then(|accept| accept.to_str().ok()),
        kind,
    )
}

fn accepts(headers: &HeaderMap) -> Accepts {
    Accepts {
        zip: takes(headers, "application/zip"),
        text: takes(headers, "text/plain"),
    }
}

fn no_archive() -> Problem {
    let what = "this is served as application/zip, which `Accept` leaves out";
    Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", what)
}
