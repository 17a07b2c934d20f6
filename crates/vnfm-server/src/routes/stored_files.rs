//! Files that are stored with an instance, such as snapshots of etcd. Our own API.

use crate::access::Tenant;
use crate::content::{Content, Source};
use crate::problem::{HandlerResult, Problem};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use futures::StreamExt as _;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use vnfm_core::ports::{MAX_FILE_BYTES, PortError};
use vnfm_core::{Engine, FileOwner, Refusal};
use vnfm_types::StoredFile;

const BYTES: &str = "application/octet-stream";

pub(super) async fn list(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<Vec<StoredFile>>> {
    engine.store().instance(&tenant, &id).await?;
    let files = engine.files().list(&id).await.map_err(problem)?;
    Ok(axum::Json(files))
}

pub(super) async fn content(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> HandlerResult {
    engine.store().instance(&tenant, &id).await?;
    let (stored, path) = engine.files().open(&id, &name).await.map_err(problem)?;
    let file = File::open(path).await;
    let content = Content {
        source: Source::File(file.map_err(|error| Problem::bug(&error))?),
        size: stored.bytes,
        kind: BYTES,
        tag: stored.sha256,
    };
    content.into_response(&headers).await
}

/// The client gives the length, so that a file that does not fit is refused before it is received.
pub(super) async fn upload(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> HandlerResult<axum::Json<StoredFile>> {
    engine.store().instance(&tenant, &id).await?;
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let Some(length) = length else {
        return Err(Problem::bad_request("`Content-Length` is missing"));
    };
    if length > MAX_FILE_BYTES {
        let detail = format!("the file has {length} bytes, and may have {MAX_FILE_BYTES}");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(Problem::new(status, "file.too-large", detail));
    }
    let files = engine.files();
    let begun = files.begin(owner(&tenant, &id), &name, length).await;
    let incoming = begun.map_err(problem)?;
    if let Err(refused) = receive(body, incoming.local(), length).await {
        incoming.discard().await;
        return Err(refused);
    }
    let stored = incoming.complete(None).await;
    Ok(axum::Json(stored.map_err(problem)?))
}

/// Writes a body of this length to a file that exists.
async fn receive(body: Body, local: &std::path::Path, length: u64) -> HandlerResult<()> {
    let disk = |error: std::io::Error| {
        let full = StatusCode::INSUFFICIENT_STORAGE;
        Problem::new(
            full,
            "server.low-disk",
            format!("cannot store the file: {error}"),
        )
    };
    let opened = OpenOptions::new().write(true).open(local).await;
    let mut file = opened.map_err(disk)?;
    let mut left = length;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk
            .map_err(|error| Problem::bad_request(format!("the upload broke off: {error}")))?;
        left = left
            .checked_sub(chunk.len() as u64)
            .ok_or_else(|| Problem::bad_request("the body is longer than `Content-Length`"))?;
        file.write_all(&chunk).await.map_err(disk)?;
    }
    if left > 0 {
        let detail = format!("the upload broke off: {left} bytes are missing");
        return Err(Problem::bad_request(detail));
    }
    file.flush().await.map_err(disk)
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path((id, name)): Path<(String, String)>,
) -> HandlerResult<StatusCode> {
    engine.store().instance(&tenant, &id).await?;
    engine.files().open(&id, &name).await.map_err(problem)?;
    let removed = engine.files().remove(owner(&tenant, &id), &name).await;
    removed.map_err(problem)?;
    Ok(StatusCode::NO_CONTENT)
}

fn owner<'a>(tenant: &'a str, instance_id: &'a str) -> FileOwner<'a> {
    FileOwner {
        tenant,
        instance_id,
    }
}

fn problem(error: PortError) -> Problem {
    let status = match error.name() {
        "file.absent" => StatusCode::NOT_FOUND,
        "file.no-space" => StatusCode::INSUFFICIENT_STORAGE,
        "file.quota" => StatusCode::FORBIDDEN,
        _ => return Refusal::unprocessable(error).into(),
    };
    let (code, next) = (error.code(), error.next().to_owned());
    Problem::new(status, code.name, error.to_string()).hint(next)
}
