//! `vnfmctl volume …`: retained volumes, and the VNFs that use them.

use crate::args::Volume;
use crate::client::{Client, Outcome, segment};
use crate::output::{Column, Output};
use reqwest::Method;
use serde_json::{Value, json};

const VOLUMES: &str = "/vnfm/v1/volumes";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("storage", "/virtualStorageDescId"),
    ("size (GiB)", "/sizeGib"),
    ("vim", "/vimId"),
    ("state", "/state"),
    ("resource", "/resourceId"),
    ("used by", "/usedBy"),
];
/// Shown by `show` in addition to the columns of the list.
const DETAILS: &[Column] = &[
    ("made for vnf", "/vnfInstanceId"),
    ("vnfd", "/vnfdId"),
    ("retained", "/createdAt"),
];

pub(super) async fn run(client: &Client, output: Output, command: Volume) -> Outcome<()> {
    match command {
        Volume::List(options) => {
            let all = client.listing(VOLUMES, &options, "").await?;
            output.chosen(&all, COLUMNS, options.fields.as_deref())
        }
        Volume::Show { volume } => {
            let found: Value = client.get(&at(&volume)).await?;
            output.one(&found, &[COLUMNS, DETAILS].concat())
        }
        Volume::Delete { volume } => {
            client
                .send(client.request(Method::DELETE, &at(&volume)))
                .await?;
            let what = format!("deleted volume {volume}, and its data on the VIM");
            output.done(&what, &json!({"volume": volume}))
        }
    }
}

fn at(volume: &str) -> String {
    format!("{VOLUMES}/{}", segment(volume))
}
