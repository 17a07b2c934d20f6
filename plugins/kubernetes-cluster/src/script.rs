//! The vendor's own script: uploaded, run on the control-plane node, then on the workers side by side.
//!
//! It is given one argument, a file that only root can read with its parameters as lines `NAME='value'`; nothing
//! of them is ever in a command line. On the control-plane node its answer counts: the JSON at the end of what it prints.
//! What of it workers need (`SERVER`, `BOOTSTRAP_TOKEN`, `SSL_CA_CERT_HASH`) is among their parameters.
//!
//! No secret stays on a host: the parameters go with the step, its output once the answer is in a checkpoint, and a
//! bootstrap token and a certificate key of kubeadm are made worthless at the end.

use crate::install::{Access, Story, first_failure};
use crate::join_tokens::{Plane, forget, token_name};
use crate::machine::{FOLDER, Machine, State};
use crate::plan::{Node, Plan};
use crate::words::is_token;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "script";
/// Where the script lies: programs do not run below `/run` on many systems.
const SCRIPT: &str = "/var/lib/vnfm/vendor.sh";

/// The checkpoint with the answer.
const ANSWER: &str = "script-answer";
/// Where kubeadm keeps what a certificate key opens.
const CERTIFICATES: &str = "kubeadm-certs";

/// What the script prints.
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

/// A script's parameters, by name.
type Parameters<'a> = Vec<(&'a str, &'a str)>;

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
    let hosts: Vec<_> = plan
        .nodes()
        .map(|node| Machine::new(cx, plan, node))
        .collect();
    let [master, workers @ ..] = hosts.as_slice() else {
        return Err(DriverError::new("bad-parameters", "there is no server").phase(PHASE));
    };
    story.reach_all(&hosts).await?;
    story
        .tell(
            20,
            &format!("the vendor's script `{path}` on `{}`", master.node.name),
        )
        .await;
    let mut parameters = common(plan, &plan.master, "master");
    parameters.push(("CLUSTER_ADDRESS", &plan.api_address));
    parameters.push(("POD_CIDR", &plan.pod_cidr));
    parameters.push(("CLUSTER_CIDR", &plan.service_cidr));
    let manifest = format!("{FOLDER}/cni.yaml");
    if let Some(cni) = &plan.cni {
        master.put(Upload::artifact(&manifest, cni), PHASE).await?;
        parameters.push(("CNI_MANIFEST", &manifest));
    }
    let answer = ask(cx, master, path, &parameters).await?;
    story.tell(60, "the vendor's script on the workers").await;
    let runs = workers.iter().map(|worker| {
        let mut parameters = common(plan, worker.node, "worker");
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
            silence(worker).await
        }
    });
    first_failure(join_all(runs).await)?;
    forget(master, &answer.ends_with_us()).await?;
    story
        .tell(100, "the vendor's script has installed the cluster")
        .await;
    Ok(answer.into_access())
}

/// Runs the script at `path` on a worker that comes later, as on those that were there at first.
///
/// # Errors
///
/// As [`install`].
pub(crate) async fn join(
    worker: &Machine<'_>,
    path: &str,
    plane: &Plane,
) -> Result<(), DriverError> {
    let mut parameters = common(worker.plan, worker.node, "worker");
    let server = worker.plan.url();
    parameters.push(("SERVER", &server));
    parameters.extend(
        plane
            .tokens
            .last()
            .map(|token| ("BOOTSTRAP_TOKEN", token.reveal())),
    );
    parameters.push(("SSL_CA_CERT_HASH", &plane.ca_hash));
    run(worker, path, &parameters).await?;
    silence(worker).await
}

/// The answer of the control-plane node, now or from an earlier attempt.
async fn ask(
    cx: &HookContext,
    master: &Machine<'_>,
    path: &str,
    parameters: &Parameters<'_>,
) -> Result<Answer, DriverError> {
    let answer = if let Some(known) = cx.checkpoint(ANSWER).await? {
        known
    } else {
        run(master, path, parameters).await?;
        let answer = understand(master, &master.output_of(PHASE).await?)?;
        cx.save_checkpoint(ANSWER, &answer).await?;
        answer
    };
    silence(master).await?;
    Ok(answer)
}

/// Removes what the script printed.
async fn silence(host: &Machine<'_>) -> Result<(), DriverError> {
    let line = format!("rm -f {FOLDER}/{PHASE}/out {FOLDER}/{PHASE}/log");
    host.run(PHASE, &line).await.map(|_| ())
}

/// Runs the script on one host, unless it ran there.
async fn run(
    host: &Machine<'_>,
    path: &str,
    parameters: &Parameters<'_>,
) -> Result<(), DriverError> {
    let state = host.state(PHASE).await?;
    if state == State::Running {
        host.finish(PHASE).await?;
    } else if state != State::Done(0) {
        host.put(Upload::artifact(SCRIPT, path).mode("0700"), PHASE)
            .await?;
        let file = format!("{FOLDER}/vendor.env");
        host.put(Upload::new(&file, lines(parameters)), PHASE)
            .await?;
        host.step_with(PHASE, &file, &format!("{SCRIPT} {file}"))
            .await?;
    }
    Ok(())
}

/// What each host's script is told.
fn common<'a>(plan: &'a Plan, node: &'a Node, role: &'a str) -> Parameters<'a> {
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

/// Lines that a shell can read, whatever the values hold.
fn lines(parameters: &Parameters<'_>) -> String {
    let mut text = String::new();
    for (name, value) in parameters {
        let value = value.replace('\'', r"'\''");
        // A `String` takes whatever is written to it.
        let _ = writeln!(text, "{name}='{value}'");
    }
    text
}

/// Reads the answer: the last JSON object of what it printed, so that it may chat before.
fn understand(master: &Machine<'_>, text: &str) -> Result<Answer, DriverError> {
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
    if answer.bearer_token.as_ref().is_none_or(Secret::is_empty) {
        let hint = if answer.username.is_some() {
            "; Kubernetes takes no password: make a service account token"
        } else {
            ""
        };
        return Err(wrong(format!(
            "the script's answer has no `bearer_token`{hint}"
        )));
    }
    Ok(answer)
}

impl Answer {
    /// The cluster's secrets that let others join, as far as they are kubeadm's: what others make of the same names
    /// ends as they say.
    fn ends_with_us(&self) -> Vec<String> {
        let token = self
            .bootstrap_token
            .as_ref()
            .filter(|token| is_token(token.reveal()));
        let key = self.certificate_key.as_ref().map_or("", Secret::reveal);
        let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let certificates = is_key.then(|| CERTIFICATES.to_owned());
        token
            .and_then(token_name)
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

/// What is wrong with JSON, without its words: they may hold secrets.
fn what(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Syntax => "it is no JSON",
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data => "a member is missing or of the wrong type",
        serde_json::error::Category::Io => "it cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    /// A shell that reads the lines has exactly the bytes that were given, whatever they mean to a shell.
    #[test]
    fn a_shell_sees_exactly_the_bytes() {
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
                lines(&vec![("V", value)])
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
    fn any_value_survives_a_shell() {
        let text = lines(&vec![("A", "plain"), ("B", "it's $HOME `x`")]);
        assert_eq!(text, "A='plain'\nB='it'\\''s $HOME `x`'\n");
    }
}
