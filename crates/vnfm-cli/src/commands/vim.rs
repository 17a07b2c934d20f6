//! `vnfmctl vim …`: the VIM registry.

use crate::args::{Vim, VimSource};
use crate::client::{Client, Outcome, local, segment};
use crate::commands::vnf;
use crate::input;
use crate::output::{Column, Output, cell, tell};
use crate::vimfile;
use reqwest::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::path::Path;
use vnfm_types::{VimConnectionInfo, VimPolicy};

pub(super) const VIMS: &str = "/vnfm/v1/vims";
/// Largest policy in bytes: the server's limit for a request body.
const MAX_POLICY_BYTES: u64 = 1 << 20;
const COLUMNS: &[Column] = &[
    ("name", "/name"),
    ("id", "/id"),
    ("type", "/vimType"),
    ("endpoint", "/interfaceInfo/endpoint"),
    ("registered by", "/registeredBy"),
    ("expires", "/expiresAt"),
];
const DETAILS: &[Column] = &[
    ("name", "/name"),
    ("id", "/id"),
    ("type", "/vimType"),
    ("interface", "/interfaceInfo"),
    ("extra", "/extra"),
    ("registered by", "/registeredBy"),
    ("identity", "/identity"),
    ("shared", "/shared"),
    ("policy", "/policy"),
    ("expires", "/expiresAt"),
    ("created", "/createdAt"),
    ("updated", "/updatedAt"),
];

pub(super) async fn run(client: &Client, output: Output, command: Vim) -> Outcome<()> {
    match command {
        Vim::Register {
            name,
            id,
            source,
            from_vnf,
            shared,
            policy,
        } => {
            let policy = policy.as_deref().map(read_policy).transpose()?;
            register(
                client,
                output,
                (name, id, shared, policy),
                (source, from_vnf),
            )
            .await
        }
        Vim::Update {
            vim,
            source,
            password_stdin,
            name,
            shared,
            policy,
        } => {
            let policy = policy.as_deref().map(read_policy).transpose()?;
            let body = changes(&source, password_stdin, (name, shared, policy))?;
            update(client, output, &vim, body).await
        }
        Vim::Check { vim } => {
            let id = id(client, &vim).await?;
            let request = client.request(Method::POST, &format!("{VIMS}/{id}/check"));
            let report: Value = client.json(request).await?;
            output.done(
                &format!("VIM {vim} is reachable: {}", findings(&report)),
                &report,
            )
        }
        Vim::Capabilities { vim } => super::matching::cluster(client, output, &vim).await,
        Vim::Inventory(args) => super::inventory::write(output, &args),
        Vim::List => output.list(&client.list(VIMS).await?, COLUMNS),
        Vim::Show { vim } => output.one(&find(client, &vim).await?, DETAILS),
        Vim::Delete { vim, force, reason } => {
            let id = id(client, &vim).await?;
            let path = format!("{VIMS}/{id}{}", if force { "?force=true" } else { "" });
            let request = client.request(Method::DELETE, &path);
            client
                .send(client.with_audit(request, reason.as_deref())?)
                .await?;
            output.done(&format!("deleted VIM {vim}"), &json!({"id": id}))
        }
    }
}

/// The VIM with that id or name.
pub(super) async fn find(client: &Client, vim: &str) -> Outcome<Value> {
    client.get(&format!("{VIMS}/{}", segment(vim))).await
}

async fn id(client: &Client, vim: &str) -> Outcome<String> {
    Ok(find(client, vim).await?["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// What the driver found, on one line, with the expiry of the credential.
fn findings(report: &Value) -> String {
    let detail = report["detail"].as_object().into_iter().flatten();
    let mut parts: Vec<_> = detail
        .filter(|(name, _)| *name != "expires")
        .map(|(name, value)| format!("{name} {}", cell(Some(value))))
        .collect();
    if let Some(end) = report["expiresAt"].as_str() {
        let subject = report["detail"]["expires"].as_str().unwrap_or("credential");
        parts.push(format!("{subject} expires {end}"));
    }
    parts.join("; ")
}

async fn register(
    client: &Client,
    output: Output,
    (name, id, shared, policy): (String, Option<String>, bool, Option<Value>),
    (source, from_vnf): (VimSource, Option<String>),
) -> Outcome<()> {
    let mut body = match from_vnf {
        Some(vnf) => {
            let instance = vnf::find(client, &vnf).await?;
            json!({"name": name, "fromVnfInstanceId": instance["id"]})
        }
        None => json!({"name": name, "connection": connection(&source)?}),
    };
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    if shared {
        body["shared"] = json!(true);
    }
    if let Some(policy) = policy {
        body["policy"] = json!(policy);
    }
    let vim: Value = client
        .json(client.request(Method::POST, VIMS).json(&body))
        .await?;
    let id = vim["id"].as_str().unwrap_or_default();
    output.done(&format!("registered VIM {name} as {id}"), &vim)
}

/// Reads a policy from a YAML file; an empty file restricts nothing. It is sent as written, so that the server rejects
/// members that our type would ignore.
fn read_policy(file: &Path) -> Outcome<Value> {
    let failed = |error: String| {
        local(format!(
            "cannot read the policy `{}`: {error}",
            file.display()
        ))
    };
    let text = input::text_of(file, MAX_POLICY_BYTES).map_err(|error| failed(error.to_string()))?;
    let policy: Value = serde_yaml::from_str(&text).map_err(|error| failed(error.to_string()))?;
    match policy {
        Value::Null => Ok(json!({})),
        Value::Object(_) => {
            let known =
                VimPolicy::deserialize(&policy).map_err(|error| failed(error.to_string()))?;
            known.checked().map_err(failed)?;
            Ok(policy)
        }
        _ => Err(failed(
            "it is not a mapping of rules, such as `podSecurity: baseline`".to_owned(),
        )),
    }
}

fn connection(source: &VimSource) -> Outcome<VimConnectionInfo> {
    let Some(file) = &source.config_file else {
        return Err(local(
            "pass --config-file (clouds.yaml, kubeconfig or VIM file) or --from-vnf",
        ));
    };
    let read = vimfile::read(file, source.cloud.as_deref())?;
    read.warnings
        .iter()
        .for_each(|warning| tell(&format!("warning: {warning}")));
    Ok(read.connection)
}

fn changes(
    source: &VimSource,
    password_stdin: bool,
    (name, shared, policy): (Option<String>, Option<bool>, Option<Value>),
) -> Outcome<Value> {
    let mut body = json!({});
    if let Some(shared) = shared {
        body["shared"] = json!(shared);
    }
    if let Some(policy) = policy {
        body["policy"] = json!(policy);
    }
    if let Some(name) = name {
        body["name"] = json!(name);
    }
    if source.config_file.is_some() {
        body["connection"] = serde_json::to_value(connection(source)?).map_err(local)?;
    }
    if password_stdin {
        body["password"] = json!(super::secret_input::read_secret()?);
    }
    if body.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(local(
            "nothing to change: pass --config-file, --password-stdin, --name, --shared or --policy",
        ));
    }
    Ok(body)
}

async fn update(client: &Client, output: Output, vim: &str, body: Value) -> Outcome<()> {
    let id = id(client, vim).await?;
    let request = client
        .request(Method::PATCH, &format!("{VIMS}/{id}"))
        .json(&body);
    let updated: Value = client.json(request).await?;
    output.done(
        &format!("updated VIM {vim}; running operations use it from their next call on"),
        &updated,
    )
}
