//! VNF packages, onboarded by upload the SOL005 way (9.4.2 to 9.4.5).

use crate::access::Tenant;
use crate::body::Json;
use crate::conditions;
use crate::problem::{Answer, Problem};
use crate::state::App;
use crate::view::{self, Root};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use futures::stream;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use vnfm_types::KeyValuePairs;

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
    let record = app.onboarding.create(&tenant, request.user_defined_data).await?;
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
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if let Some(other) = kind.filter(|kind| !ARCHIVE.contains(kind)) {
        let what = format!("content type `{other}` is none of {}", ARCHIVE.join(", "));
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "request.media-type", what));
    }
    app.onboarding.upload(&tenant, &id, body).await?;
    Ok(StatusCode::ACCEPTED)
}

/// How much of an archive is read at once.
const PIECE: usize = 64 * 1024;

/// The archive, as it was onboarded (SOL005 9.4.5.3.2).
pub(super) async fn content(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer {
    let file = app.onboarding.archive(&tenant, &id).await?;
    let size = file.metadata().await.map_err(|error| Problem::bug(&error))?.len();
    let pieces = stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece).await?;
        piece.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((piece, file)))
    });
    let kind = (header::CONTENT_TYPE, ARCHIVE[0].to_owned());
    let headers = [kind, (header::CONTENT_LENGTH, size.to_string())];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

pub(super) async fn vnfd(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer {
    let vnfd = app.onboarding.vnfd(&tenant, &id).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], vnfd).into_response())
}
