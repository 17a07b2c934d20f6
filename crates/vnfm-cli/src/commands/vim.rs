//! `vnfmctl vim …`

use crate::args::{Source, Vim};
use crate::client::{Client, Outcome, local, segment};
use crate::commands::vnf;
use crate::output::{Column, Output, cell, tell};
use crate::vimfile;
use reqwest::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use vnfm_types::{VimConnectionInfo, VimPolicy};

const VIMS: &str = "/vnfm/v1/vims";
/// The most bytes that a policy may have: what the server takes as a body.
const LARGEST_POLICY: u64 = 1 << 20;
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
            let policy = policy.as_deref().map(policy_of).transpose()?;
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
            let policy = policy.as_deref().map(policy_of).transpose()?;
            let body = changed(&source, password_stdin, (name, shared, policy))?;
            update(client, output, &vim, body).await
        }
        Vim::Check { vim } => {
            let id = id(client, &vim).await?;
            let request = client.request(Method::POST, &format!("{VIMS}/{id}/check"));
            let report: Value = client.json(request).await?;
            output.done(&format!("VIM {vim} answers: {}", found(&report)), &report)
        }
        Vim::List => output.list(&client.list(VIMS).await?, COLUMNS),
        Vim::Show { vim } => output.one(&find(client, &vim).await?, DETAILS),
        Vim::Delete { vim, force, reason } => {
            let id = id(client, &vim).await?;
            let path = format!("{VIMS}/{id}{}", if force { "?force=true" } else { "" });
            let request = client.request(Method::DELETE, &path);
            client
                .send(client.acting(request, reason.as_deref())?)
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

/// What a driver found, on one line; the end of the credential with what it is that ends.
fn found(report: &Value) -> String {
    let detail = report["detail"].as_object().into_iter().flatten();
    let mut told: Vec<_> = detail
        .filter(|(name, _)| *name != "expires")
        .map(|(name, value)| format!("{name} {}", cell(Some(value))))
        .collect();
    if let Some(end) = report["expiresAt"].as_str() {
        let what = report["detail"]["expires"].as_str().unwrap_or("credential");
        told.push(format!("{what} expires {end}"));
    }
    told.join("; ")
}

async fn register(
    client: &Client,
    output: Output,
    (name, id, shared, policy): (String, Option<String>, bool, Option<Value>),
    (source, from_vnf): (Source, Option<String>),
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

/// The policy in a YAML file; an empty file limits nothing. It is sent as it is written, so that the server sees what a
/// type would let pass.
fn policy_of(file: &Path) -> Outcome<Value> {
    let read = |error: String| {
        local(format!(
            "cannot read the policy `{}`: {error}",
            file.display()
        ))
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| read(error.to_string()))?;
    let taken = opened.take(LARGEST_POLICY + 1).read_to_string(&mut text);
    if taken.map_err(|error| read(error.to_string()))? as u64 > LARGEST_POLICY {
        return Err(read(format!("it is larger than {LARGEST_POLICY} bytes")));
    }
    let policy: Value = serde_yaml::from_str(&text).map_err(|error| read(error.to_string()))?;
    match policy {
        Value::Null => Ok(json!({})),
        Value::Object(_) => {
            let known = VimPolicy::deserialize(&policy).map_err(|error| read(error.to_string()))?;
            known.checked().map_err(read)?;
            Ok(policy)
        }
        _ => Err(read(
            "it is not a mapping of rules, such as `podSecurity: baseline`".to_owned(),
        )),
    }
}

fn connection(source: &Source) -> Outcome<VimConnectionInfo> {
    let Some(file) = &source.config_file else {
        return Err(local(
            "give --config-file (clouds.yaml, kubeconfig, VIM file) or --from-vnf",
        ));
    };
    let read = vimfile::read(file, source.cloud.as_deref())?;
    read.warnings
        .iter()
        .for_each(|warning| tell(&format!("warning: {warning}")));
    Ok(read.connection)
}

fn changed(
    source: &Source,
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
        body["password"] = json!(super::secret()?);
    }
    if body.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(local(
            "nothing to change: give --config-file, --password-stdin, --name, --shared or --policy",
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
        &format!("updated VIM {vim}; operations in flight use it from their next call on"),
        &updated,
    )
}
