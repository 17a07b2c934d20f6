//! Backup, pruning, recovery and health.

use crate::maintenance::Maintenance;
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;
use tokio::io::AsyncReadExt as _;
use vnfm_core::to_json;

const CHUNK: usize = 64 * 1024;

/// Streams a new backup: database, packages and stored files, without keys.
pub(super) async fn backup(State(app): State<App>) -> HandlerResult {
    let file = maintenance(&app)?.backup().await?;
    let length = file
        .metadata()
        .await
        .map_err(|error| Problem::bug(&error))?
        .len();
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let count = file.read(&mut chunk).await?;
        chunk.truncate(count);
        Ok::<_, io::Error>((count > 0).then(|| (Bytes::from(chunk), file)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// The request body of `prune`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Prune {
    dry_run: bool,
}

pub(super) async fn prune(State(app): State<App>, request: Bytes) -> HandlerResult<Json<Value>> {
    let Prune { dry_run } = parse_optional(&request)?;
    let (pruned, packages) = maintenance(&app)?.prune(dry_run).await?;
    Ok(Json(json!({
        "dryRun": dry_run,
        "opOccs": pruned.op_occs,
        "journalRows": pruned.journal,
        "logLines": pruned.log_lines,
        "notifications": pruned.notifications,
        "auditEntries": pruned.audit,
        "parsedPackages": packages,
    })))
}

/// How the VIMs differ from the database; `recovering`: whether a confirmation is required.
pub(super) async fn recovery(State(app): State<App>) -> HandlerResult<Json<Value>> {
    let mut response = to_json("the comparison", &app.engine.compare_all().await?)?;
    let recovery = app.maintenance.as_deref().and_then(Maintenance::recovery);
    response["recovering"] = recovery.is_some().into();
    if let Some(recovery) = recovery {
        response["restoredAt"] = recovery.restored_at.to_string().into();
        response["backupAt"] = recovery.backup_at.to_string().into();
    }
    Ok(Json(response))
}

/// The request body of `confirm`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Confirm {
    force: bool,
}

/// Refused while a VIM is unreachable, unless forced: its state is unknown.
pub(super) async fn confirm(State(app): State<App>, request: Bytes) -> HandlerResult<Json<Value>> {
    let Confirm { force } = parse_optional(&request)?;
    let maintenance = maintenance(&app)?;
    if maintenance.recovery().is_none() {
        let detail = "the server is not in recovery";
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "request.wrong-state",
            detail,
        ));
    }
    let comparison = app.engine.compare_all().await?;
    let unreachable: Vec<_> = comparison
        .not_asked
        .iter()
        .map(|vim| vim.vim.as_str())
        .collect();
    if !unreachable.is_empty() && !force {
        let detail = format!("these VIMs are unreachable: {}", unreachable.join(", "));
        let problem = Problem::new(StatusCode::CONFLICT, "request.wrong-state", detail);
        return Err(problem.hint(
            "make sure that they are reachable, or confirm with `force`: a resumed operation checks its VIM first \
             in any case",
        ));
    }
    maintenance.confirm().await?;
    tracing::warn!(
        orphans = comparison.orphans.len(),
        in_flight = comparison.in_flight.len(),
        force,
        "recovery confirmed"
    );
    Ok(Json(to_json("the comparison", &comparison)?))
}

pub(super) async fn health(State(app): State<App>) -> Json<Value> {
    let recovering = app
        .maintenance
        .as_deref()
        .is_some_and(|maintenance| maintenance.recovery().is_some());
    Json(json!({"status": if recovering { "recovery" } else { "ok" }}))
}

/// Parses a body that may be empty.
fn parse_optional<T: Default + serde::de::DeserializeOwned>(request: &Bytes) -> HandlerResult<T> {
    if request.is_empty() {
        Ok(T::default())
    } else {
        Ok(vnfm_core::json::parse(request)?)
    }
}

fn maintenance(app: &App) -> HandlerResult<&Maintenance> {
    app.maintenance.as_deref().ok_or_else(|| {
        Problem::not_found(
            "this server is embedded in another application, which manages the database",
        )
    })
}
