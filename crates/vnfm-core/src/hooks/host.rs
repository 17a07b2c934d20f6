//! The engine's side of one running hook: the services that it may ask for, by name.

use crate::engine::Engine;
use crate::live::LiveOp;
use crate::ports::{
    Change, Code, CommandOutput, ErrorKind, Fence, HookHost, HttpRequest, InfraDriver, PortError,
    RemoteFile, SecretJson, SshCommand, SshTarget, Watcher as _,
};
use crate::vims::AnyVim;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_descriptor::Package;

/// The engine's side of one running hook.
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) live: Arc<LiveOp>,
    pub(super) fence: Fence,
    pub(super) instance_id: String,
    pub(super) step: String,
    pub(super) package: Arc<Package>,
    pub(super) vim: AnyVim,
    pub(super) infra: Arc<dyn InfraDriver>,
    pub(super) pending: Pending,
}

/// Calls to hosts that have not ended; those that are dropped with their hook stay, so that its error can name them.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Vec<String>>>);

impl Pending {
    /// What was not answered.
    pub(super) fn told(&self) -> Option<String> {
        let calls = self.calls();
        (!calls.is_empty()).then(|| format!("not answered by then: {}", calls.join(", ")))
    }

    fn calls(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, service: &str, request: &Value) -> Option<String> {
        let address = request["host"]["address"].as_str()?;
        let line = request["command"].as_str().or(request["path"].as_str()).unwrap_or_default();
        let line: String = line.lines().next().unwrap_or_default().chars().take(60).collect();
        let call = format!("`{service}` on {address} {line}").trim_end().to_owned();
        self.calls().push(call.clone());
        Some(call)
    }

    fn end(&self, call: Option<&String>) {
        let mut calls = self.calls();
        if let Some(at) = calls.iter().position(|known| Some(known) == call) {
            calls.swap_remove(at);
        }
    }
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let call = self.pending.begin(service, &request);
        let answer = self.serve(service, request).await;
        self.pending.end(call.as_ref());
        answer
    }

    fn log(&self, level: &str, text: &str) {
        self.live.log(level, &self.step, text);
    }
}

impl Host {
    async fn serve(&self, service: &str, request: Value) -> Result<Value, PortError> {
        match service {
            "ssh.run" => self.ssh_run(parse(service, request)?).await,
            "ssh.put" => self.ssh_put(parse(service, request)?).await,
            "ssh.wait" => self.ssh_wait(parse(service, request)?).await,
            "http" => self.http(parse(service, request)?).await,
            "artifact.list" => Ok(json!({"paths": self.package.paths().collect::<Vec<_>>()})),
            "artifact.read" => self.artifact(&parse(service, request)?),
            "progress" => Ok(self.progress(&parse(service, request)?)),
            "waiting" => Ok(self.waiting(&parse(service, request)?)),
            "checkpoint.get" => self.recall(parse(service, request)?).await,
            "checkpoint.put" => self.remember(parse(service, request)?).await,
            "sleep" => Ok(self.sleep(&parse(service, request)?).await),
            "cancelled" => Ok(json!({"cancelled": self.live.cancel_mode().is_some()})),
            other => {
                let what = format!("there is no host service `{other}`");
                Err(PortError::new(&SERVICE, "serve a hook", what))
            }
        }
    }
}

#[derive(Deserialize)]
struct Run {
    host: SshTarget,
    #[serde(flatten)]
    command: SshCommand,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Put {
    host: SshTarget,
    path: String,
    #[serde(default = "private")]
    mode: String,
    #[serde(default)]
    sudo: bool,
    content_base64: Option<String>,
    artifact: Option<String>,
}

fn private() -> String {
    "0600".to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaitFor {
    host: SshTarget,
    deadline_seconds: u32,
}

#[derive(Deserialize)]
struct Path {
    path: String,
}

#[derive(Deserialize)]
struct Percent {
    percent: u8,
    message: String,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "for")]
    what: String,
}

#[derive(Deserialize)]
struct Key {
    key: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct Pause {
    seconds: f64,
}

/// How much of what a failed command says is kept.
const LAST_LINES: usize = 40;
/// The longest pause that a hook can ask for in one call.
const LONGEST_PAUSE: f64 = 3600.0;

impl Host {
    async fn ssh_run(&self, run: Run) -> Result<Value, PortError> {
        self.pin(&run.host).await?;
        let source = format!("{} {}", self.step, run.host.address);
        self.live.log("debug", &source, &format!("$ {}", run.command.command));
        let output = self.engine.parts.host.ssh_run(&run.host, &run.command).await?;
        self.log_output(&source, &output);
        to_value(&output)
    }

    /// What a command that worked says may be a secret that nobody has told us of, such as a new token: only the end
    /// of what a failed one says is kept.
    fn log_output(&self, source: &str, output: &CommandOutput) {
        if output.exit_code == 0 {
            return;
        }
        for text in [&output.stdout, &output.stderr] {
            let lines: Vec<_> = text.lines().collect();
            let last = lines.len().saturating_sub(LAST_LINES);
            lines[last..].iter().for_each(|line| self.live.log("info", source, line));
        }
        self.live.log("info", source, &format!("exit code {}", output.exit_code));
    }

    async fn ssh_put(&self, put: Put) -> Result<Value, PortError> {
        self.pin(&put.host).await?;
        let content = match (put.content_base64, put.artifact) {
            (Some(text), None) => {
                BASE64.decode(text).map_err(|e| wrong("ssh.put", e.to_string()))?
            }
            (None, Some(path)) => self.read(&path)?,
            _ => return Err(wrong("ssh.put", "needs one of contentBase64 and artifact".into())),
        };
        let file = RemoteFile { path: put.path, mode: put.mode, sudo: put.sudo, content };
        self.engine.parts.host.ssh_put(&put.host, &file).await?;
        Ok(json!({}))
    }

    async fn ssh_wait(&self, wait: WaitFor) -> Result<Value, PortError> {
        self.pin(&wait.host).await?;
        self.live.waiting(&format!("a login at {}@{}", wait.host.username, wait.host.address));
        self.engine.parts.host.ssh_wait(&wait.host, wait.deadline_seconds).await?;
        Ok(json!({}))
    }

    /// Pins the host's key as its console log shows it, before anybody logs in for the first time.
    async fn pin(&self, target: &SshTarget) -> Result<(), PortError> {
        let store = self.engine.store();
        if store.host_key(&target.server_id).await?.is_some() {
            return Ok(());
        }
        let keys = self.infra.host_keys(&self.vim, &target.server_id).await.unwrap_or_default();
        if keys.is_empty() {
            return Ok(());
        }
        let change = Change::PinHostKey {
            instance_id: self.instance_id.clone(),
            server_id: target.server_id.clone(),
            key: keys.join("\n"),
        };
        Ok(store.write(Some(&self.fence), vec![change]).await?)
    }

    async fn http(&self, request: HttpRequest) -> Result<Value, PortError> {
        to_value(&self.engine.parts.host.http(&request).await?)
    }

    fn artifact(&self, wanted: &Path) -> Result<Value, PortError> {
        Ok(json!({"contentBase64": BASE64.encode(self.read(&wanted.path)?)}))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, PortError> {
        self.package.read(path).map_err(|error| {
            PortError::new(&ARTIFACT, format!("read `{path}` of the package"), error.to_string())
        })
    }

    fn progress(&self, seen: &Percent) -> Value {
        self.live.progress(seen.percent, &seen.message);
        self.live.log("info", &self.step, &seen.message);
        json!({})
    }

    fn waiting(&self, reason: &Reason) -> Value {
        self.live.waiting(&reason.what);
        json!({})
    }

    async fn recall(&self, wanted: Key) -> Result<Value, PortError> {
        let store = self.engine.store();
        let found = store.checkpoint(&self.fence.op_id, &self.step, &wanted.key).await?;
        Ok(json!({"value": found.map(|value| value.0)}))
    }

    async fn remember(&self, new: Key) -> Result<Value, PortError> {
        let change = Change::Checkpoint {
            op_id: self.fence.op_id.clone(),
            step: self.step.clone(),
            key: new.key,
            value: SecretJson(new.value),
        };
        self.engine.store().write(Some(&self.fence), vec![change]).await?;
        Ok(json!({}))
    }

    async fn sleep(&self, pause: &Pause) -> Value {
        let seconds = pause.seconds.clamp(0.0, LONGEST_PAUSE);
        self.engine.parts.clock.sleep(Duration::from_secs_f64(seconds)).await;
        json!({})
    }
}

fn parse<T: DeserializeOwned>(service: &str, request: Value) -> Result<T, PortError> {
    serde_json::from_value(request).map_err(|error| wrong(service, error.to_string()))
}

fn wrong(service: &str, what: String) -> PortError {
    PortError::new(&SERVICE, format!("serve `{service}` to a hook"), what)
}

fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, PortError> {
    serde_json::to_value(value).map_err(|error| wrong("answer", error.to_string()))
}

/// A host service was asked for in the wrong way.
pub(super) const SERVICE: Code = Code {
    name: "hook.service",
    kind: ErrorKind::Refused,
    means: "a hook asked for a host service that is not there, or in the wrong shape",
    next: "report it to whoever wrote the plugin",
};
/// The package has no such file.
pub(super) const ARTIFACT: Code = Code {
    name: "hook.artifact",
    kind: ErrorKind::Refused,
    means: "a hook asked for a file that is not in the VNF package",
    next: "put it into the package, or correct the parameter that names it",
};
