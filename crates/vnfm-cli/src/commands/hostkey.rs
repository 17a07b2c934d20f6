//! `vnfmctl hostkey …`: the pinned SSH host keys.

use crate::args::HostKey;
use crate::client::{Client, Outcome, segment};
use crate::output::{Column, Output};
use reqwest::Method;
use serde_json::{Value, json};

const HOST_KEYS: &str = "/vnfm/v1/hostkeys";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("host", "/host"),
    ("vim", "/vimId"),
    ("vnf", "/vnfInstanceId"),
    ("fingerprints", "/fingerprints"),
];

pub(super) async fn run(client: &Client, output: Output, command: HostKey) -> Outcome<()> {
    match command {
        HostKey::List => {
            let all: Vec<Value> = client.get(HOST_KEYS).await?;
            output.list(&all, COLUMNS)
        }
        HostKey::Forget { id } => {
            let path = format!("{HOST_KEYS}/{}", segment(&id));
            client.send(client.request(Method::DELETE, &path)).await?;
            let sentence =
                format!("forgot host key {id}; the next key that the host shows is trusted");
            output.done(&sentence, &json!({"id": id}))
        }
    }
}
