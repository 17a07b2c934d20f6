//! `vnfmctl vnf policy …`: what happens when a step of an instance's operations fails.

use crate::args::{PolicyOptions, Then, VnfPolicy};
use crate::client::{Client, Outcome};
use crate::output::{Column, Output};
use reqwest::Method;
use serde_json::{Value, json};

const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
const DETAILS: &[Column] = &[
    ("retries", "/onFailure/retries"),
    ("within seconds", "/onFailure/retryWithinSeconds"),
    ("then", "/onFailure/then"),
    ("set for", "/source"),
];

pub(super) async fn run(client: &Client, output: Output, command: VnfPolicy) -> Outcome<()> {
    match command {
        VnfPolicy::Show { vnf } => {
            let policy: Value = client.get(&path(client, &vnf).await?).await?;
            output.one(&policy, DETAILS)
        }
        VnfPolicy::Set(options) => set(client, output, options).await,
        VnfPolicy::Unset { vnf } => {
            let path = path(client, &vnf).await?;
            client.send(client.request(Method::DELETE, &path)).await?;
            let policy: Value = client.get(&path).await?;
            output.done(&format!("{vnf} has no policy of its own any more"), &policy)
        }
    }
}

async fn set(client: &Client, output: Output, options: PolicyOptions) -> Outcome<()> {
    let then = match options.then {
        Then::Stop => "STOP",
        Then::Rollback => "ROLLBACK",
    };
    let (retries, within) = (options.retries, options.within);
    let on_failure = json!({"retries": retries, "retryWithinSeconds": within, "then": then});
    let request = client.request(Method::PUT, &path(client, &options.vnf).await?);
    let policy: Value = client
        .json(request.json(&json!({"onFailure": on_failure})))
        .await?;
    let vnf = options.vnf;
    let sentence =
        format!("steps of {vnf} are retried {retries} times within {within} s, then {then}");
    output.done(&sentence, &policy)
}

async fn path(client: &Client, vnf: &str) -> Outcome<String> {
    let names = ["vnfInstanceName"];
    let found = client.find(INSTANCES, "vnf", &names, vnf).await?;
    let id = found["id"].as_str().unwrap_or_default();
    Ok(format!("/vnfm/v1/vnf_instances/{id}/policy"))
}
