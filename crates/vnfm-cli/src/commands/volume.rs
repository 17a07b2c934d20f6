//! `vnfmctl volume …`: retained volumes, and the VNFs that use them.

use crate::args::{Volume, VolumeCreation};
use crate::client::{Client, Outcome, read, segment};
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
    ("type", "/volumeType"),
    ("made for vnf", "/vnfInstanceId"),
    ("vnfd", "/vnfdId"),
    ("since", "/createdAt"),
];

pub(super) async fn run(client: &Client, output: Output, command: Volume) -> Outcome<()> {
    match command {
        Volume::Create(args) => create(client, output, &args).await,
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

async fn create(client: &Client, output: Output, args: &VolumeCreation) -> Outcome<()> {
    let mut body =
        json!({"vimId": args.vim, "virtualStorageDescId": args.storage, "sizeGib": args.size});
    if let Some(kind) = &args.volume_type {
        body["volumeType"] = json!(kind);
    }
    let post = client.request(Method::POST, VOLUMES).json(&body);
    let created: Value = read(client.send(post).await?).await?;
    let id = created["id"].as_str().unwrap_or_default();
    let what = format!("volume {id} is available; a VNF uses it by `--volume {id}`");
    output.done(&what, &created)
}

fn at(volume: &str) -> String {
    format!("{VOLUMES}/{}", segment(volume))
}
