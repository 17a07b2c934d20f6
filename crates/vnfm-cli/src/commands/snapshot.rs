//! `vnfmctl snapshot …`: VNF snapshots as resources. `vnfmctl vnf create_snapshot` stores a state in one.

use crate::args::Snapshot;
use crate::client::{Client, Outcome, read, segment};
use crate::output::{Column, Output};
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
            let request = client.request(Method::POST, SNAPSHOTS).json(&body);
            let created: Value = read(client.send(request).await?).await?;
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

fn at(snapshot: &str) -> String {
    format!("{SNAPSHOTS}/{}", segment(snapshot))
}
