//! `vnfmctl secrets …`: the keys that encrypt the server's secrets.

use crate::args::{Format, KeyStore, Secrets};
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
                &format!("re-encrypted {} values with a new key", done["sealedAnew"]),
                &done,
            )
        }
        Secrets::Migrate { to } => migrate(client, output, *to).await,
    }
}

async fn show(client: &Client, output: Output) -> Outcome<()> {
    let report: Value = client.get("/vnfm/v1/secrets").await?;
    if output.0 != Format::Table {
        return output.done("", &report);
    }
    report_unused_keys(&report);
    output.list(
        &report["keys"].as_array().cloned().unwrap_or_default(),
        KEYS,
    )
}

async fn migrate(client: &Client, output: Output, to: KeyStore) -> Outcome<()> {
    let (store, name) = match to {
        KeyStore::File => ("file", "the key file"),
        KeyStore::Barbican => ("barbican", "Barbican"),
    };
    let request = client.request(Method::POST, "/vnfm/v1/secrets/migrate");
    let done: Value = client.json(request.json(&json!({"to": store}))).await?;
    tell("older backups still need the old key; write a new backup with `vnfmctl backup`");
    report_unused_keys(&done);
    let sentence = format!(
        "re-encrypted {} values; the key is now in {name}",
        done["sealedAnew"]
    );
    output.done(&sentence, &done)
}

/// Reports keys that nothing in the database needs. They are never deleted: a backup may need them.
fn report_unused_keys(report: &Value) {
    if let Some(cause) = report["notAsked"].as_str() {
        tell(&format!(
            "could not check Barbican for unused keys: {cause}"
        ));
    }
    for id in report["unused"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        tell(&format!(
            "the key {id} in Barbican is no longer used by the database; once no backup needs it, delete it with \
             `openstack secret delete`"
        ));
    }
}
