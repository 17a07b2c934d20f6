//! The vendor's own script: uploaded, run with its parameters in a file, its answer checked.
//!
//! It runs on the control plane first, and then on the workers in parallel. It reads
//!
//! | variable | what |
//! |---|---|
//! | `VNFM_ROLE` | `master` or `worker` |
//! | `VNFM_PARAMETERS` | path of a JSON file (0600): nodes, addresses, networks, proxies |
//! | `VNFM_CLUSTER` | on workers: path of the JSON that the control plane's run printed |
//!
//! and prints JSON: `server`, `bearer_token`, `ssl_ca_cert`, `ssl_ca_cert_hash`, `certificate_key`; only the first two
//! must be there, and only the control plane's answer counts. Nothing of it is ever in a command line.

use crate::install::{Access, Story, first_failure};
use crate::machine::{FOLDER, Machine, State};
use crate::plan::{Node, Plan};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "script";

/// What the script prints.
#[derive(Deserialize)]
struct Answer {
    server: String,
    bearer_token: Option<Secret>,
    ssl_ca_cert: Option<String>,
    ssl_ca_cert_hash: Option<String>,
    certificate_key: Option<Secret>,
    username: Option<String>,
}

/// Installs the cluster by the script at `path` in the package.
///
/// # Errors
///
/// Where it fails or its answer is not as it should be; what it says on standard error is in the error.
pub(crate) async fn install(
    cx: &HookContext,
    plan: &Plan,
    path: &str,
) -> Result<Access, DriverError> {
    let story = Story::new(cx, plan);
    let hosts: Vec<_> = plan.nodes().map(|node| Machine::new(cx, plan, node)).collect();
    let [master, workers @ ..] = hosts.as_slice() else {
        return Err(DriverError::new("bad-parameters", "there is no server").phase(PHASE));
    };
    story.reach_all(&hosts).await?;
    story.tell(20, &format!("the vendor's script `{path}` on `{}`", master.node.name)).await;
    let text = run(master, path, "master", None).await?;
    let access = understand(master, &text)?;
    story.tell(60, "the vendor's script on the workers").await;
    let runs = workers
        .iter()
        .map(|worker| async { run(worker, path, "worker", Some(&text)).await.map(|_| ()) });
    first_failure(join_all(runs).await)?;
    story.tell(100, "the vendor's script has installed the cluster").await;
    Ok(access)
}

/// Runs the script on one host, unless it ran there; returns what it printed.
async fn run(
    host: &Machine<'_>,
    path: &str,
    role: &str,
    cluster: Option<&str>,
) -> Result<String, DriverError> {
    let state = host.state(PHASE).await?;
    if state == State::Running {
        host.finish(PHASE).await?;
    } else if state != State::Done(0) {
        host.put(Upload::artifact(format!("{FOLDER}/vendor.sh"), path).mode("0700"), PHASE).await?;
        let parameters = parameters(host.plan, host.node, role);
        host.put(Upload::new(format!("{FOLDER}/vendor.json"), parameters), PHASE).await?;
        if let Some(cluster) = cluster {
            host.put(Upload::new(format!("{FOLDER}/cluster.json"), cluster), PHASE).await?;
        }
        let line = format!(
            "env VNFM_ROLE={role} VNFM_PARAMETERS={FOLDER}/vendor.json VNFM_CLUSTER={FOLDER}/cluster.json \
             {FOLDER}/vendor.sh"
        );
        host.step(PHASE, &line).await?;
    }
    host.output_of(PHASE).await
}

fn parameters(plan: &Plan, node: &Node, role: &str) -> String {
    let show = |node: &Node| json!({ "name": node.name, "address": node.address });
    json!({
        "role": role,
        "node": show(node),
        "master_node": show(&plan.master),
        "worker_node": plan.workers.iter().map(show).collect::<Vec<_>>(),
        "cluster_address": plan.api_address,
        "pod_cidr": plan.pod_cidr,
        "cluster_cidr": plan.service_cidr,
        "proxy": {
            "http_proxy": plan.proxy.http_proxy,
            "https_proxy": plan.proxy.https_proxy,
            "no_proxy": plan.proxy.no_proxy,
            "k8s_node_cidr": plan.proxy.k8s_node_cidr,
        },
    })
    .to_string()
}

/// Reads the answer: the last JSON object of what it printed, so that it may chat before.
fn understand(master: &Machine<'_>, text: &str) -> Result<Access, DriverError> {
    let wrong = |detail: String| master.refusal("script-answer", PHASE, detail);
    let start = text.rfind("\n{").map_or(0, |at| at + 1);
    let answer: Answer = serde_json::from_str(text[start..].trim()).map_err(|error| {
        wrong(format!(
            "the script should print JSON with `server` and `bearer_token` at the end: {} at line {} column {} of it",
            what(&error),
            error.line(),
            error.column(),
        ))
    })?;
    if !answer.server.starts_with("https://") && !answer.server.starts_with("http://") {
        return Err(wrong("`server` of the script's answer is no URL".into()));
    }
    let Some(token) = answer.bearer_token.filter(|token| !token.is_empty()) else {
        let hint = if answer.username.is_some() {
            "; Kubernetes takes no password: make a service account token"
        } else {
            ""
        };
        return Err(wrong(format!("the script's answer has no `bearer_token`{hint}")));
    };
    Ok(Access {
        endpoint: answer.server,
        ca: answer.ssl_ca_cert.unwrap_or_default(),
        ca_hash: answer.ssl_ca_cert_hash,
        bearer_token: token.reveal().to_owned(),
        certificate_key: answer.certificate_key.map(|key| key.reveal().to_owned()),
    })
}

/// What is wrong with JSON, without its words: they may hold secrets.
fn what(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Syntax => "it is no JSON",
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data => "a member is missing or of the wrong type",
        serde_json::error::Category::Io => "it cannot be read",
    }
}
