//! `vnfmctl secrets …`: the keys that seal secrets.

use crate::args::{Format, KeyPlace, Secrets};
use crate::client::{Client, Outcome};
use crate::output::{Column, Output, tell};
use reqwest::Method;
use serde_json::{Value, json};

const KEYS: &[Column] = &[
    ("key", "/fingerprint"),
    ("key_type", "/key_type"),
    ("secret_uuid", "/secret_uuid"),
    ("values", "/values"),
    ("seals", "/seals"),
];

pub(super) async fn run(client: &Client, output: Output, command: &Secrets) -> Outcome<()> {
    match command {
        Secrets::Show => show(client, output).await,
        Secrets::Rotate => {
            let request = client.request(Method::POST, "/vnfm/v1/secrets/rotate");
            let done: Value = client.json(request).await?;
            output.done(
                &format!("sealed {} values anew with a new key", done["sealedAnew"]),
                &done,
            )
        }
        Secrets::Migrate { to } => migrate(client, output, *to).await,
    }
}

async fn show(client: &Client, output: Output) -> Outcome<()> {
    let shown: Value = client.get("/vnfm/v1/secrets").await?;
    if output.0 != Format::Table {
        return output.done("", &shown);
    }
    unused(&shown);
    output.list(&shown["keys"].as_array().cloned().unwrap_or_default(), KEYS)
}

async fn migrate(client: &Client, output: Output, to: KeyPlace) -> Outcome<()> {
    let (place, named) = match to {
        KeyPlace::File => ("file", "the key file"),
        KeyPlace::Barbican => ("barbican", "Barbican"),
    };
    let request = client.request(Method::POST, "/vnfm/v1/secrets/migrate");
    let done: Value = client.json(request.json(&json!({"to": place}))).await?;
    tell(
        "backups that were made before need the key of their own time; make a new one: `vnfmctl backup`",
    );
    unused(&done);
    let sentence = format!(
        "sealed {} values anew; the key is in {named}",
        done["sealedAnew"]
    );
    output.done(&sentence, &done)
}

/// Keys that nothing needs any more, which we never delete.
fn unused(shown: &Value) {
    if let Some(why) = shown["notAsked"].as_str() {
        tell(&format!(
            "Barbican was not asked for keys that nothing needs: {why}"
        ));
    }
    for id in shown["unused"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        tell(&format!(
            "Barbican has the key {id}, which nothing in the database needs; once no backup needs it either: `openstack \
             secret delete`"
        ));
    }
}
