//! Backup, pruning, recovery, and whether the server is well.

use crate::body;
use crate::problem::{Answer, Problem};
use crate::state::App;
use crate::upkeep::Upkeep;
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

const CHUNK: usize = 64 * 1024;

/// A backup, as it is made: database and packages, without keys.
pub(super) async fn backup(State(app): State<App>) -> Answer {
    let file = of(&app)?.backup().await?;
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

/// What `prune` is asked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Prune {
    dry_run: bool,
}

pub(super) async fn prune(State(app): State<App>, request: Bytes) -> Answer<Json<Value>> {
    let Prune { dry_run } = asked(&request)?;
    let (pruned, packages) = of(&app)?.prune(dry_run).await?;
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

/// How the world differs from the database; `recovering` where that has to be confirmed.
pub(super) async fn recovery(State(app): State<App>) -> Answer<Json<Value>> {
    let mut shown = serde_json::to_value(app.engine.compare_all().await?).unwrap_or_default();
    let recovery = app.upkeep.as_deref().and_then(Upkeep::recovery);
    shown["recovering"] = recovery.is_some().into();
    if let Some(recovery) = recovery {
        shown["restoredAt"] = recovery.restored_at.to_string().into();
        shown["backupAt"] = recovery.backup_at.to_string().into();
    }
    Ok(Json(shown))
}

/// What `confirm` is asked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Confirm {
    force: bool,
}

/// Refused while a VIM could not be asked, unless forced: nobody has seen what is there.
pub(super) async fn confirm(State(app): State<App>, request: Bytes) -> Answer<Json<Value>> {
    let Confirm { force } = asked(&request)?;
    let upkeep = of(&app)?;
    if upkeep.recovery().is_none() {
        let what = "the server is not in recovery";
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "request.wrong-state",
            what,
        ));
    }
    let comparison = app.engine.compare_all().await?;
    let silent: Vec<_> = comparison
        .not_asked
        .iter()
        .map(|silent| silent.vim.as_str())
        .collect();
    if !silent.is_empty() && !force {
        let what = format!("these VIMs could not be asked: {}", silent.join(", "));
        let problem = Problem::new(StatusCode::CONFLICT, "request.wrong-state", what);
        return Err(problem.next(
            "make sure that they answer, or confirm with `force`: an operation that goes on looks at its VIM first \
             in any case",
        ));
    }
    upkeep.confirm().await?;
    tracing::warn!(
        orphans = comparison.orphans.len(),
        in_flight = comparison.in_flight.len(),
        force,
        "the recovery was confirmed"
    );
    Ok(Json(serde_json::to_value(comparison).unwrap_or_default()))
}

pub(super) async fn health(State(app): State<App>) -> Json<Value> {
    let recovering = app
        .upkeep
        .as_deref()
        .is_some_and(|upkeep| upkeep.recovery().is_some());
    Json(json!({"status": if recovering { "recovery" } else { "ok" }}))
}

/// A body that may be left out.
fn asked<T: Default + serde::de::DeserializeOwned>(request: &Bytes) -> Answer<T> {
    if request.is_empty() {
        Ok(T::default())
    } else {
        body::parse(request)
    }
}

fn of(app: &App) -> Answer<&Upkeep> {
    app.upkeep.as_deref().ok_or_else(|| {
        Problem::not_found("this server has no database of its own: its embedder looks after it")
    })
}
