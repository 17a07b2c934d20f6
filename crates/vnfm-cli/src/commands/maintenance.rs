//! `vnfmctl backup`, `prune` and `recovery …`.

use crate::args::{Format, Recovery};
use crate::client::{Client, Outcome, local, lost};
use crate::output::{Column, Output, cell, tell};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

const INSTANCES: &[Column] = &[
    ("vnf", "/vnfInstanceId"),
    ("name", "/vnfInstanceName"),
    ("recorded", "/instantiationState"),
    ("found", "/found"),
];

/// Writes the backup to a temporary file first, so that `file` never holds a partial one.
pub(super) async fn backup(client: &Client, output: Output, file: &Path) -> Outcome<()> {
    let failed =
        |error: std::io::Error| local(format!("cannot write `{}`: {error}", file.display()));
    if file.exists() {
        return Err(local(format!(
            "`{}` already exists; choose another name",
            file.display()
        )));
    }
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let mut response = client
        .send(client.request(Method::POST, "/vnfm/v1/backup"))
        .await?;
    let mut size = 0_u64;
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| lost(client, &error))?
    {
        part.write_all(&chunk).map_err(failed)?;
        size += chunk.len() as u64;
    }
    part.as_file().sync_all().map_err(failed)?;
    part.persist_noclobber(file)
        .map_err(|error| failed(error.error))?;
    tell(
        "note: the backup does not contain the encryption key; back up the server's `secrets.key` separately",
    );
    let sentence = format!("wrote a backup of {size} bytes to `{}`", file.display());
    output.done(
        &sentence,
        &json!({"file": file.display().to_string(), "bytes": size}),
    )
}

pub(super) async fn prune(client: &Client, output: Output, dry_run: bool) -> Outcome<()> {
    let request = client
        .request(Method::POST, "/vnfm/v1/prune")
        .json(&json!({"dryRun": dry_run}));
    let done: Value = client.json(request).await?;
    let sentence = format!(
        "{} {} operation occurrences, {} journal rows, {} log lines, {} notifications, {} audit entries, {} parsed packages",
        if dry_run { "would remove" } else { "removed" },
        done["opOccs"],
        done["journalRows"],
        done["logLines"],
        done["notifications"],
        done["auditEntries"],
        done["parsedPackages"]
    );
    output.done(&sentence, &done)
}

pub(super) async fn recovery(client: &Client, output: Output, command: Recovery) -> Outcome<()> {
    match command {
        Recovery::Show => {
            let found: Value = client.get("/vnfm/v1/recovery").await?;
            if output.0 != Format::Table {
                return output.done("", &found);
            }
            report_differences(&found);
            output.list(&list(&found, "instances"), INSTANCES)
        }
        Recovery::Confirm { force } => {
            let request = client.request(Method::POST, "/vnfm/v1/recovery/confirm");
            let found: Value = client.json(request.json(&json!({"force": force}))).await?;
            report_differences(&found);
            output.done("confirmed: the server accepts operations again", &found)
        }
    }
}

/// Prints one line for each difference between the database and the VIMs.
fn report_differences(found: &Value) {
    if found["recovering"] == true {
        let (restored, backup) = (cell(found.get("restoredAt")), cell(found.get("backupAt")));
        tell(&format!(
            "in recovery: restored at {restored} from a backup of {backup}"
        ));
    }
    for skipped in list(found, "notAsked") {
        tell(&format!(
            "VIM {} could not be queried: {}",
            cell(skipped.get("vim")),
            cell(skipped.get("why"))
        ));
    }
    for orphan in list(found, "orphans") {
        let (kind, name) = (cell(orphan.get("kind")), cell(orphan.get("name")));
        let (id, vim) = (cell(orphan.get("id")), cell(orphan.get("vimId")));
        tell(&format!("orphan: {kind} {name} ({id}) on VIM {vim}"));
    }
    for instance in list(found, "instances")
        .iter()
        .filter(|instance| instance["found"] == "MISSING")
    {
        tell(&format!(
            "missing: no resources found of VNF {}",
            cell(instance.get("vnfInstanceId"))
        ));
    }
    for op in list(found, "inFlight") {
        let (id, operation) = (cell(op.get("vnfLcmOpOccId")), cell(op.get("operation")));
        let (state, vnf) = (
            cell(op.get("operationState")),
            cell(op.get("vnfInstanceId")),
        );
        tell(&format!(
            "unfinished: {operation} {id} of VNF {vnf} is {state}"
        ));
    }
}

fn list(found: &Value, member: &str) -> Vec<Value> {
    found[member].as_array().cloned().unwrap_or_default()
}
