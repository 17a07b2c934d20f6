//! `kubectl apply | get | wait | create token | delete | version` on a simulated host, against the host's cluster.

use super::kubeadm::{endpoint_of, parse};
use super::members;
use super::shell::Shell;
use super::stdio::{Input, Output, lines};
use super::upgrade::has_expired_certificates;
use crate::kubernetes::Cluster;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// Poll interval of `kubectl wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A command line of kubectl, parsed.
#[derive(Default)]
struct CommandLine<'a> {
    words: Vec<&'a str>,
    namespace: Option<&'a str>,
    kubeconfig: Option<&'a str>,
    file: Option<&'a str>,
    output: &'a str,
    condition: &'a str,
    timeout: u64,
    all: bool,
    /// `--ignore-not-found`: a missing object is not an error.
    ignore_not_found: bool,
}

impl<'a> CommandLine<'a> {
    fn read(args: &'a [String]) -> Self {
        let mut line = Self {
            timeout: 30,
            ..Self::default()
        };
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            if !arg.starts_with('-') || arg == "-" {
                line.words.push(arg);
                continue;
            }
            let (flag, value) = match arg.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (arg, None),
            };
            match flag {
                "--all" => line.all = true,
                "--ignore-not-found" => line.ignore_not_found = true,
                "-n" | "--namespace" => line.namespace = value.or_else(|| args.next()),
                "--kubeconfig" => line.kubeconfig = value.or_else(|| args.next()),
                "-f" | "--filename" => line.file = value.or_else(|| args.next()),
                "-o" | "--output" => {
                    line.output = value.or_else(|| args.next()).unwrap_or_default();
                }
                "--for" => line.condition = value.or_else(|| args.next()).unwrap_or_default(),
                "--timeout" => {
                    let text = value.or_else(|| args.next()).unwrap_or_default();
                    line.timeout = text.trim_end_matches('s').parse().unwrap_or(30);
                }
                _ => {}
            }
        }
        line
    }
}

pub(crate) async fn kubectl(shell: &Shell, argv: &[String], input: &mut Input) -> Output {
    let line = CommandLine::read(&argv[1..]);
    if line.words.first() == Some(&"version") {
        return Output::ok(format!("Client Version: {}\n", super::kubeadm::VERSION));
    }
    let cluster = match cluster(shell, &line) {
        Ok(cluster) => cluster,
        Err(words) => return Output::fail(1, words),
    };
    if let ["exec", pod, "etcdctl", words @ ..] = line.words.as_slice() {
        return members::etcdctl(&shell.host, &cluster, pod, words);
    }
    let result = match line.words.as_slice() {
        ["get", "/readyz"] => Ok("ok".into()),
        ["apply"] => apply(shell, &cluster, &line, input).await,
        ["get", kind, names @ ..] => get(&cluster, &line, kind, names),
        ["wait", subjects @ ..] => wait(&cluster, &line, subjects).await,
        ["create", "token", account] => Ok(format!(
            "{}\n",
            cluster.token_for(line.namespace.unwrap_or("default"), account)
        )),
        ["delete", kind, names @ ..] => delete(&cluster, &line, kind, names),
        other => {
            shell
                .host
                .lan
                .books
                .record_violation(format!("`kubectl {}` is not simulated", other.join(" ")));
            Err(format!(
                "error: unknown command {other:?} for \"kubectl\" (not simulated)\n"
            ))
        }
    };
    result.map_or_else(|words| Output::fail(1, words), Output::ok)
}

fn cluster(shell: &Shell, line: &CommandLine<'_>) -> Result<Arc<Cluster>, String> {
    let variable = shell.variables.get("KUBECONFIG").map(String::as_str);
    let path = line.kubeconfig.or(variable).unwrap_or("/root/.kube/config");
    let config = {
        let disk = shell.host.disk();
        let readable = shell.is_root() || disk.mode(path).is_some_and(|mode| mode & 0o004 != 0);
        disk.text(path).filter(|_| readable)
    };
    let Some(config) = config else {
        return Err("The connection to the server localhost:8080 was refused - did you specify the right host or port?\n".into());
    };
    if has_expired_certificates(&shell.host) {
        return Err("Unable to connect to the server: tls: failed to verify certificate: x509: certificate has expired or is not yet valid\n".into());
    }
    let endpoint = endpoint_of(&shell.host.lan, &config);
    let plane =
        endpoint.and_then(|endpoint| shell.host.lan.control_planes().get(&endpoint).cloned());
    plane.filter(|plane| plane.is_available()).ok_or_else(|| {
        "The connection to the server was refused - did you specify the right host or port?\n"
            .into()
    })
}

async fn apply(
    shell: &Shell,
    cluster: &Cluster,
    line: &CommandLine<'_>,
    input: &mut Input,
) -> Result<String, String> {
    let text = match line.file {
        Some("-") => String::from_utf8_lossy(&input.take().await).into_owned(),
        Some(path) => shell
            .host
            .disk()
            .text(path)
            .ok_or_else(|| format!("error: the path \"{path}\" does not exist\n"))?,
        None => return Err("error: must specify one of -f and -k\n".into()),
    };
    let mut messages = Vec::new();
    for document in parse(&text).map_err(|e| format!("error: error parsing {e}\n"))? {
        let kind = document["kind"].as_str().unwrap_or_default().to_lowercase();
        let name = document["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        cluster
            .apply(&document.to_string())
            .map_err(|e| format!("Error from server: {e}\n"))?;
        messages.push(format!("{kind}/{name} serverside-applied\n"));
    }
    Ok(lines(messages))
}

/// The API path of a kind's collection.
fn path(kind: &str, namespace: Option<&str>) -> Option<String> {
    let (group, plural, namespaced) = match kind {
        "node" | "nodes" | "no" => ("api/v1", "nodes", false),
        "namespace" | "namespaces" | "ns" => ("api/v1", "namespaces", false),
        "pod" | "pods" | "po" => ("api/v1", "pods", true),
        "secret" | "secrets" => ("api/v1", "secrets", true),
        "service" | "services" | "svc" => ("api/v1", "services", true),
        "configmap" | "configmaps" | "cm" => ("api/v1", "configmaps", true),
        "serviceaccount" | "serviceaccounts" | "sa" => ("api/v1", "serviceaccounts", true),
        "deployment" | "deployments" | "deploy" => ("apis/apps/v1", "deployments", true),
        "daemonset" | "daemonsets" | "ds" => ("apis/apps/v1", "daemonsets", true),
        "customresourcedefinition" | "crd" => (
            "apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            false,
        ),
        "apiservice" | "apiservices" => ("apis/apiregistration.k8s.io/v1", "apiservices", false),
        _ => return None,
    };
    Some(if namespaced {
        format!(
            "/{group}/namespaces/{}/{plural}",
            namespace.unwrap_or("default")
        )
    } else {
        format!("/{group}/{plural}")
    })
}

fn unknown(kind: &str) -> String {
    format!("error: the server doesn't have a resource type \"{kind}\"\n")
}

fn get(
    cluster: &Cluster,
    line: &CommandLine<'_>,
    kind: &str,
    names: &[&str],
) -> Result<String, String> {
    let (kind, names) = match kind.split_once('/') {
        Some((kind, name)) => (kind, vec![name]),
        None => (kind, names.to_vec()),
    };
    let path = path(kind, line.namespace).ok_or_else(|| unknown(kind))?;
    let object = match names.as_slice() {
        [] => cluster
            .object(&path)
            .unwrap_or_else(|| json!({ "items": [] })),
        [name, ..] => match cluster.object(&format!("{path}/{name}")) {
            Some(object) => object,
            None if line.ignore_not_found => return Ok(String::new()),
            None => {
                return Err(format!(
                    "Error from server (NotFound): {kind} \"{name}\" not found\n"
                ));
            }
        },
    };
    if line.output == "json" {
        return Ok(format!("{object}\n"));
    }
    if let Some(template) = line.output.strip_prefix("jsonpath=") {
        let field = template.trim_matches(['{', '}', '\'']).replace("\\.", "\0");
        let field = field.replace('[', ".").replace(']', "");
        let pointer: String = lines(
            field
                .trim_start_matches('.')
                .split('.')
                .map(|p| format!("/{p}")),
        );
        let value = object
            .pointer(&pointer.replace('\0', "."))
            .cloned()
            .unwrap_or_default();
        return Ok(value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned));
    }
    let items = object["items"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![object.clone()]);
    let names = items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str());
    Ok(match line.output {
        "name" => lines(names.map(|name| format!("{kind}/{name}\n"))),
        _ => "NAME\n".to_owned() + &lines(names.map(|name| format!("{name}\n"))),
    })
}

async fn wait(
    cluster: &Cluster,
    line: &CommandLine<'_>,
    subjects: &[&str],
) -> Result<String, String> {
    if line.condition != "condition=Ready" {
        return Err(format!(
            "error: the condition {:?} is not simulated\n",
            line.condition
        ));
    }
    let names: Vec<String> = if line.all {
        let nodes = cluster.object("/api/v1/nodes").unwrap_or_default();
        let items = nodes["items"].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .filter_map(|n| n["metadata"]["name"].as_str().map(str::to_owned))
            .collect()
    } else {
        let names = subjects
            .iter()
            .map(|s| s.rsplit('/').next().unwrap_or_default());
        names
            .filter(|name| !matches!(*name, "node" | "nodes"))
            .map(str::to_owned)
            .collect()
    };
    let deadline = Instant::now() + Duration::from_secs(line.timeout);
    let mut ticks = interval(POLL_INTERVAL);
    let mut messages = Vec::new();
    for name in names {
        if cluster.object(&format!("/api/v1/nodes/{name}")).is_none() {
            return Err(format!(
                "Error from server (NotFound): nodes \"{name}\" not found\n"
            ));
        }
        while !cluster.node_ready(&name) {
            if Instant::now() >= deadline {
                return Err(format!(
                    "error: timed out waiting for the condition on nodes/{name}\n"
                ));
            }
            ticks.tick().await;
        }
        messages.push(format!("node/{name} condition met\n"));
    }
    Ok(lines(messages))
}

fn delete(
    cluster: &Cluster,
    line: &CommandLine<'_>,
    kind: &str,
    names: &[&str],
) -> Result<String, String> {
    let path = path(kind, line.namespace).ok_or_else(|| unknown(kind))?;
    let mut messages = Vec::new();
    for name in names {
        let object_path = format!("{path}/{name}");
        if cluster.object(&object_path).is_none() {
            if line.ignore_not_found {
                continue;
            }
            return Err(format!(
                "Error from server (NotFound): {kind} \"{name}\" not found\n"
            ));
        }
        cluster.delete(&object_path);
        messages.push(format!("{kind} \"{name}\" deleted\n"));
    }
    Ok(lines(messages))
}
