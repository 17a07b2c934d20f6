//! `vnfmctl snapshot …`: VNF snapshots as resources. `vnfmctl vnf create_snapshot` stores a state in one, and
//! `vnfmctl vnf revert_to_snapshot` returns to it.

use super::request::{set, task_body};
use crate::args::{Reversion, Snapshot, SnapshotCreation, TaskOptions};
use crate::client::{Client, Outcome, local, read, segment};
use crate::output::{Column, Output, tell};
use reqwest::Method;
use serde_json::{Value, json};

const SNAPSHOTS: &str = "/vnflcm/v2/vnf_snapshots";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("vnf", "/vnfSnapshot/vnfInstanceId"),
    ("begun", "/vnfSnapshot/creationStartedAt"),
    ("complete", "/vnfSnapshot/creationFinishedAt"),
    ("package", "/vnfSnapshotPkgId"),
];
/// Shown by `show` in addition to the columns of the list.
const CONTENTS: &[Column] = &[
    ("vnfd", "/vnfSnapshot/vnfdId"),
    ("name", "/vnfSnapshot/vnfInstance/vnfInstanceName"),
    ("vnfcs", "/vnfSnapshot/vnfcSnapshots"),
    ("data", "/vnfSnapshot/userDefinedData"),
];

pub(super) async fn run(client: &Client, output: Output, command: Snapshot) -> Outcome<()> {
    match command {
        Snapshot::Create { package } => {
            let body = package.map_or(json!({}), |id| json!({"vnfSnapshotPkgId": id}));
            let created = create(client, &body).await?;
            let id = created["id"].as_str().unwrap_or_default();
            output.done(
                &format!("created snapshot {id}, without contents"),
                &created,
            )
        }
        Snapshot::List(options) => {
            let all = client.listing(SNAPSHOTS, &options, "").await?;
            output.chosen(&all, COLUMNS, options.fields.as_deref())
        }
        Snapshot::Show { snapshot } => {
            let found: Value = client.get(&at(&snapshot)).await?;
            output.one(&found, &[COLUMNS, CONTENTS].concat())
        }
        Snapshot::Delete { snapshot } => {
            let delete = client.request(Method::DELETE, &at(&snapshot));
            client.send(delete).await?;
            let what = format!("deleted snapshot {snapshot}, and what the VIM had of it");
            output.done(&what, &json!({"id": snapshot}))
        }
    }
}

/// A snapshot without contents.
async fn create(client: &Client, body: &Value) -> Outcome<Value> {
    let request = client.request(Method::POST, SNAPSHOTS).json(body);
    read(client.send(request).await?).await
}

/// The request that stores the state of a VNF, in a new snapshot unless one is named.
pub(super) async fn creation(client: &Client, args: &SnapshotCreation) -> Outcome<Value> {
    let mut body = body(args.snapshot.as_deref(), &args.common)?;
    for one in &args.data {
        set(&mut body["userDefinedData"], one)?;
    }
    if body[ID].is_null() {
        if client.plans() {
            return Err(local(
                "a plan creates no snapshot: pass --snapshot with one without contents (`vnfmctl snapshot create`)",
            ));
        }
        body[ID] = create(client, &json!({})).await?["id"].take();
        let id = body[ID].as_str().unwrap_or_default();
        tell(&format!("created snapshot {id}"));
    }
    Ok(body)
}

/// The request that returns a VNF to a stored state.
pub(super) fn reversion(args: &Reversion) -> Outcome<Value> {
    body(args.snapshot.as_deref(), &args.common)
}

const ID: &str = "vnfSnapshotInfoId";

/// The request in the file, with what the options say instead.
fn body(snapshot: Option<&str>, options: &TaskOptions) -> Outcome<Value> {
    let mut body = task_body(options)?;
    if let Some(id) = snapshot {
        body[ID] = json!(id);
    }
    Ok(body)
}

fn at(snapshot: &str) -> String {
    format!("{SNAPSHOTS}/{}", segment(snapshot))
}
