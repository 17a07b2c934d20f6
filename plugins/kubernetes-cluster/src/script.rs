//! Installs the cluster with the vendor's own script: on the control-plane node, then on the workers in parallel.
//!
//! The script gets one argument, a file readable only by root with its parameters as lines `NAME='value'`; no parameter
//! is ever on a command line. On the control-plane node, the script must print a JSON object at the end. The members that
//! workers need (`SERVER`, `BOOTSTRAP_TOKEN`, `SSL_CA_CERT_HASH`) are passed to them as parameters.
//!
//! No secret stays on a host: the parameter file is deleted after the step, the output once its JSON is in a checkpoint,
//! and kubeadm's bootstrap token and certificate key are revoked at the end.

use crate::access::Access;
use crate::installer::{Installer, PARALLEL_HOSTS, first_failure};
use crate::join_tokens::{CERTIFICATES, ControlPlane, delete_secrets, token_secret_name};
use crate::machine::{FOLDER, Machine, StepState};
use crate::plan::{Node, Plan, SCRIPT_STEP};
use crate::secrets::is_token;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = SCRIPT_STEP;
/// Path of the script on a host; many systems mount `/run` with `noexec`.
const SCRIPT_PATH: &str = "/var/lib/vnfm/vendor.sh";

/// The checkpoint with the script's JSON.
const ANSWER: &str = "script-answer";

/// The JSON that the script prints on the control-plane node.
#[derive(Deserialize, Serialize)]
struct Answer {
    server: String,
    bearer_token: Option<Secret>,
    ssl_ca_cert: Option<String>,
    ssl_ca_cert_hash: Option<String>,
    certificate_key: Option<Secret>,
    bootstrap_token: Option<Secret>,
    username: Option<String>,
}

/// A script's parameters: name and value.
type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// Installs the cluster with the script at `path` in the package.
///
/// # Errors
///
/// If the script fails, with the end of its standard error, or its JSON is malformed.
pub(crate) async fn install(
    cx: &HookContext,
    plan: &Plan,
    path: &str,
) -> Result<Access, DriverError> {
    let installer = Installer::new(cx, plan);
    let hosts: Vec<_> = plan
        .nodes()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let [master, workers @ ..] = hosts.as_slice() else {
        return Err(DriverError::new("bad-parameters", "the VNF has no servers").phase(PHASE));
    };
    installer.reach_all(&hosts).await?;
    let added = hosts.iter().map(|host| installer.add_software(host));
    first_failure(join_all_limited(PARALLEL_HOSTS, added).await)?;
    installer
        .report(
            20,
            &format!("the vendor's script `{path}` on `{}`", master.node.name),
        )
        .await;
    let mut parameters = common_parameters(plan, plan.first_control_plane(), "master");
    parameters.push(("CLUSTER_ADDRESS", &plan.api.address));
    parameters.push(("POD_CIDR", &plan.pod_cidr));
    parameters.push(("CLUSTER_CIDR", &plan.service_cidr));
    let manifest = format!("{FOLDER}/cni.yaml");
    if let Some(cni) = &plan.cni {
        master.put(Upload::artifact(&manifest, cni), PHASE).await?;
        parameters.push(("CNI_MANIFEST", &manifest));
    }
    let answer = run_on_control_plane(cx, master, path, &parameters).await?;
    installer
        .report(60, "the vendor's script on the workers")
        .await;
    let runs = workers.iter().map(|worker| {
        let mut parameters = common_parameters(plan, worker.node, "worker");
        parameters.push(("SERVER", &answer.server));
        let token = answer.bootstrap_token.as_ref().map(Secret::reveal);
        parameters.extend(token.map(|token| ("BOOTSTRAP_TOKEN", token)));
        parameters.extend(
            answer
                .ssl_ca_cert_hash
                .as_deref()
                .map(|hash| ("SSL_CA_CERT_HASH", hash)),
        );
        async move {
            run(worker, path, &parameters).await?;
            delete_output(worker).await
        }
    });
    first_failure(join_all(runs).await)?;
    delete_secrets(master, &answer.temporary_secrets()).await?;
    installer
        .report(100, "the vendor's script has installed the cluster")
        .await;
    Ok(answer.into_access())
}

/// Runs the script at `path` on a worker that joins later.
///
/// # Errors
///
/// Those of [`install`], for the one worker.
pub(crate) async fn join(
    worker: &Machine<'_>,
    path: &str,
    control_plane: &ControlPlane,
) -> Result<(), DriverError> {
    let mut parameters = common_parameters(worker.plan, worker.node, "worker");
    let server = worker.plan.url();
    parameters.push(("SERVER", &server));
    parameters.extend(
        control_plane
            .tokens
            .last()
            .map(|token| ("BOOTSTRAP_TOKEN", token.reveal())),
    );
    parameters.push(("SSL_CA_CERT_HASH", &control_plane.ca_hash));
    run(worker, path, &parameters).await?;
    delete_output(worker).await
}

/// Runs the script on the control-plane node, unless an earlier attempt did, and returns its JSON.
async fn run_on_control_plane(
    cx: &HookContext,
    master: &Machine<'_>,
    path: &str,
    parameters: &Parameters<'_>,
) -> Result<Answer, DriverError> {
    let answer = if let Some(known) = cx.checkpoint(ANSWER).await? {
        known
    } else {
        run(master, path, parameters).await?;
        let answer = parse_answer(master, &master.step_output(PHASE).await?)?;
        cx.save_checkpoint(ANSWER, &answer).await?;
        answer
    };
    delete_output(master).await?;
    Ok(answer)
}

/// Deletes the script's output from the host.
async fn delete_output(host: &Machine<'_>) -> Result<(), DriverError> {
    let line = format!("rm -f {FOLDER}/{PHASE}/out {FOLDER}/{PHASE}/log");
    host.run(PHASE, &line).await.map(|_| ())
}

/// Runs the script on one host, unless an earlier attempt did.
async fn run(
    host: &Machine<'_>,
    path: &str,
    parameters: &Parameters<'_>,
) -> Result<(), DriverError> {
    let state = host.state(PHASE).await?;
    if state == StepState::Running {
        host.finish(PHASE).await?;
    } else if state != StepState::Done(0) {
        host.put(Upload::artifact(SCRIPT_PATH, path).mode("0700"), PHASE)
            .await?;
        let file = format!("{FOLDER}/vendor.env");
        let (parameters, line) = (
            shell_assignments(parameters),
            format!("{SCRIPT_PATH} {file}"),
        );
        host.step_with(PHASE, (&file, &parameters), &line).await?;
    }
    Ok(())
}

/// The parameters that the script gets on every host.
fn common_parameters<'a>(plan: &'a Plan, node: &'a Node, role: &'a str) -> Parameters<'a> {
    let mut all = vec![
        ("ROLE", role),
        ("NODE_NAME", &node.name),
        ("NODE_ADDRESS", &node.address),
    ];
    let proxy = &plan.proxy;
    all.extend(
        proxy
            .http_proxy
            .as_ref()
            .map(|url| ("HTTP_PROXY", url.reveal())),
    );
    all.extend(
        proxy
            .https_proxy
            .as_ref()
            .map(|url| ("HTTPS_PROXY", url.reveal())),
    );
    all.extend(proxy.no_proxy.as_deref().map(|hosts| ("NO_PROXY", hosts)));
    all
}

/// Shell assignments, with values quoted.
fn shell_assignments(parameters: &Parameters<'_>) -> String {
    let mut text = String::new();
    for (name, value) in parameters {
        let value = value.replace('\'', r"'\''");
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name}='{value}'");
    }
    text
}

/// Parses the last JSON object of the output; other output may precede it.
fn parse_answer(master: &Machine<'_>, text: &str) -> Result<Answer, DriverError> {
    let wrong = |detail: String| master.refusal("script-answer", PHASE, detail);
    let start = text.rfind("\n{").map_or(0, |at| at + 1);
    let answer: Answer = serde_json::from_str(text[start..].trim()).map_err(|error| {
        wrong(format!(
            "the script must print JSON with `server` and `bearer_token` at the end: {} at line {} column {}",
            json_problem(&error),
            error.line(),
            error.column(),
        ))
    })?;
    if !answer.server.starts_with("https://") && !answer.server.starts_with("http://") {
        return Err(wrong("`server` in the script's JSON is not a URL".into()));
    }
    if answer.bearer_token.as_ref().is_none_or(Secret::is_empty) {
        let hint = if answer.username.is_some() {
            "; Kubernetes supports no passwords: create a service account token"
        } else {
            ""
        };
        return Err(wrong(format!(
            "the script's JSON has no `bearer_token`{hint}"
        )));
    }
    Ok(answer)
}

impl Answer {
    /// The Kubernetes secrets behind kubeadm's bootstrap token and certificate key, to be deleted. Tokens and keys in other
    /// formats are the vendor's own business.
    fn temporary_secrets(&self) -> Vec<String> {
        let token = self
            .bootstrap_token
            .as_ref()
            .filter(|token| is_token(token.reveal()));
        let key = self.certificate_key.as_ref().map_or("", Secret::reveal);
        let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let certificates = is_key.then(|| CERTIFICATES.to_owned());
        token
            .and_then(token_secret_name)
            .into_iter()
            .chain(certificates)
            .collect()
    }

    fn into_access(self) -> Access {
        let reveal = |secret: Secret| secret.reveal().to_owned();
        Access {
            endpoint: self.server,
            ca: self.ssl_ca_cert.unwrap_or_default(),
            ca_hash: self.ssl_ca_cert_hash,
            bearer_token: self.bearer_token.map(reveal).unwrap_or_default(),
            certificate_key: self.certificate_key.map(reveal),
        }
    }
}

/// The kind of a JSON error, without its message, which may contain secrets.
fn json_problem(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Eof => "it is truncated",
        serde_json::error::Category::Data => "a member is missing or of the wrong type",
        serde_json::error::Category::Io => "it cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use super::shell_assignments;

    /// A shell reads exactly the original bytes, whatever they mean to a shell.
    #[test]
    fn a_shell_reads_exactly_the_original_bytes() {
        let evil = [
            "'; touch /tmp/x; '",
            "$(id) `id` ${HOME} $$ $'\\n'",
            "a\nEVIL='1'\nb",
            "\\ \\\\ \"",
            "*?[a-z]{a,b}~ # !x",
            "\t\r \u{202e}\u{1b}[31m é",
            "",
            " ",
            "--",
            "{{ x }} --- &a !!int 1",
        ];
        for value in evil {
            let script = format!(
                "{}printf %s \"$V\"; printf %s \"${{EVIL-}}\"",
                shell_assignments(&vec![("V", value)])
            );
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(script)
                .output()
                .unwrap();
            assert_eq!(output.stdout, value.as_bytes(), "{value:?}");
            let script = format!("printf %s {}", crate::machine::quote(value));
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(script)
                .output()
                .unwrap();
            assert_eq!(output.stdout, value.as_bytes(), "{value:?}");
        }
    }

    #[test]
    fn values_are_quoted_for_the_shell() {
        let text = shell_assignments(&vec![("A", "plain"), ("B", "it's $HOME `x`")]);
        assert_eq!(text, "A='plain'\nB='it'\\''s $HOME `x`'\n");
    }
}
