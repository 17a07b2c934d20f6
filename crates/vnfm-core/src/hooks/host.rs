//! The engine's side of a running hook: implements the host services.

use super::bounds::{CheckpointSizes, check_reason};
use super::credentials::{CredentialSecrets, Requested};
use super::pinning::Login;
use crate::context::Context;
use crate::ports::{
    Change, Code, CommandOutput, Content, ErrorKind, Fence, HookCall, HookFile, HookHost,
    HttpRequest, InfraDriver, Ownership, PinnedTarget, PortError, SecretJson, SshCommand,
    SshTarget, Watcher as _, files_of, remote_file, wrong_call,
};
use crate::running_ops::RunningOp;
use crate::vims::VimHandle;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use vnfm_descriptor::{Package, ReadError};

pub(crate) struct Host {
    pub(crate) context: Context,
    pub(crate) live: Arc<RunningOp>,
    pub(crate) fence: Fence,
    pub(crate) tenant: String,
    pub(crate) instance_id: String,
    pub(crate) step: String,
    /// Whether the hook is undone.
    pub(crate) is_undo: bool,
    pub(crate) package: Arc<Package>,
    pub(crate) vim: VimHandle,
    pub(crate) infra: Arc<dyn InfraDriver>,
    pub(crate) pending: Pending,
    pub(crate) checkpoints: CheckpointSizes,
    pub(crate) ownership: Ownership,
    /// When the step ends.
    pub(crate) deadline: Timestamp,
    /// Whether the operation terminates the instance, and all its logins.
    pub(crate) terminates: bool,
    /// Logins from earlier operations.
    pub(crate) earlier_credentials: CredentialSecrets,
    pub(crate) requested: Requested,
    /// The step's span: a plugin may call from any thread.
    pub(crate) span: Span,
}

/// Open calls to hosts; those dropped together with their hook stay, so that the hook's error can name them.
#[derive(Clone, Default)]
pub(crate) struct Pending(Arc<Mutex<Vec<String>>>);

impl Pending {
    /// Describes the calls without a response.
    pub(crate) fn describe(&self) -> Option<String> {
        let calls = self.calls();
        (!calls.is_empty()).then(|| format!("no response by then: {}", calls.join(", ")))
    }

    fn calls(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, service: &str, request: &Value) -> Option<String> {
        let address = request["host"]["address"].as_str()?;
        let line = request["command"]
            .as_str()
            .or(request["path"].as_str())
            .unwrap_or_default();
        let call = format!("`{service}` on {address} {}", first_line(line))
            .trim_end()
            .to_owned();
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

/// Characters shown of a command.
const MAX_COMMAND_CHARS: usize = 100;

/// The first line of a command; `…` marks what was cut off.
fn first_line(command: &str) -> String {
    let first = command.lines().next().unwrap_or_default();
    let mut line: String = first.chars().take(MAX_COMMAND_CHARS).collect();
    if line.len() < command.trim_end().len() {
        line.push('…');
    }
    line
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let call = self.pending.begin(service, &request);
        let span = self.span_of(service, &request);
        let answer = self.serve(service, request).instrument(span.clone()).await;
        if answer.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        self.pending.end(call.as_ref());
        answer
    }

    fn log(&self, level: &str, text: &str) {
        self.live.log(level, &self.step, text);
    }
}

impl Host {
    fn span_of(&self, service: &str, request: &Value) -> Span {
        let host = request["host"]["address"].as_str();
        tracing::info_span!(parent: &self.span, "hook_call", service, host, otel.kind = "client", otel.status_code = Empty)
    }

    async fn serve(&self, service: &str, request: Value) -> Result<Value, PortError> {
        match HookCall::parse(service, request)? {
            HookCall::Run(target, command) => self.ssh_run(target, &command).await,
            HookCall::Put(target, file) => self.ssh_put(target, file).await,
            HookCall::Wait(target, seconds) => self.ssh_wait(target, seconds).await,
            HookCall::Http(request) => self.http(&request).await,
            HookCall::Artifacts => Ok(files_of(&self.package)),
            HookCall::Artifact(path) => {
                Ok(json!({"contentBase64": BASE64.encode(self.read(&path)?)}))
            }
            HookCall::Progress(percent, message) => Ok(self.progress(percent, &message)),
            HookCall::Waiting(reason) => Ok(self.waiting(&reason)),
            HookCall::Recall(key) => self.recall(&key).await,
            HookCall::Remember(key, value) => self.remember(key, value).await,
            HookCall::Irreversible(reason) => self.rule_out_rollback(&reason).await,
            HookCall::Sleep(seconds) => Ok(self.sleep(seconds).await),
            HookCall::Credential(wanted) => self.credential(&wanted).await,
            HookCall::Outputs => self.outputs().await,
            HookCall::Files => self.stored_files().await,
            HookCall::Fetch(target, file) => self.fetch(target, file).await,
            HookCall::Send(target, file) => self.send(target, file).await,
            HookCall::RemoveFile(name) => self.remove_file(&name).await,
            HookCall::Clock => Ok(self.clock()),
            HookCall::Cancelled => Ok(json!({"cancelled": self.live.cancel_mode().is_some()})),
        }
    }
}

/// Number of output lines of a failed command to log.
const MAX_FAILURE_LINES: usize = 40;

impl Host {
    async fn ssh_run(&self, target: SshTarget, command: &SshCommand) -> Result<Value, PortError> {
        let target = &self.pinned(target).await?;
        let source = format!("{} {}", self.step, target.host.address);
        self.live
            .log("debug", &source, &format!("$ {}", command.line));
        let output = self.context.ports.host.ssh_run(target, command).await?;
        self.log_output(&source, &output);
        to_value(&output)
    }

    /// Output of a successful command may contain a secret unknown to us, such as a new token: only the last lines of
    /// a failed one are logged.
    fn log_output(&self, source: &str, output: &CommandOutput) {
        if output.exit_code == 0 {
            return;
        }
        for text in [&output.stdout, &output.stderr] {
            let lines: Vec<_> = text.lines().collect();
            let last = lines.len().saturating_sub(MAX_FAILURE_LINES);
            lines[last..]
                .iter()
                .for_each(|line| self.live.log("info", source, line));
        }
        self.live
            .log("info", source, &format!("exit code {}", output.exit_code));
    }

    async fn ssh_put(&self, target: SshTarget, file: HookFile) -> Result<Value, PortError> {
        let target = &self.pinned(target).await?;
        let file = remote_file(file, |path| self.artifact(path))?;
        self.context.ports.host.ssh_put(target, &file).await?;
        Ok(json!({}))
    }

    async fn ssh_wait(&self, target: SshTarget, seconds: u32) -> Result<Value, PortError> {
        let target = &self.pinned(target).await?;
        let host = &self.context.ports.host;
        host.ssh_wait(target, seconds, &*self.live).await?;
        Ok(json!({}))
    }

    /// Sets what the host key is pinned to. Before the first login, the key is taken from the console log if that shows it.
    pub(super) async fn pinned(&self, target: SshTarget) -> Result<PinnedTarget, PortError> {
        let store = self.context.store();
        let login = Login {
            tenant: &self.tenant,
            instance_id: &self.instance_id,
            vim_id: self.vim.registered_id(),
        };
        let target = login.pinned(target);
        if store.host_key(&target.pin).await?.is_some() {
            return Ok(target);
        }
        let keys = self
            .infra
            .host_keys(&self.vim, &target.host.server_id)
            .await
            .unwrap_or_default();
        if !keys.is_empty() {
            let change = Change::PinHostKey {
                pin: Box::new(target.pin.clone()),
                key: keys.join("\n"),
            };
            store.write(Some(&self.fence), vec![change]).await?;
        }
        Ok(target)
    }

    async fn http(&self, request: &HttpRequest) -> Result<Value, PortError> {
        to_value(&self.context.ports.host.http(request).await?)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, PortError> {
        self.package
            .read(path)
            .map_err(|error| unread(path, &error))
    }

    /// A file of the package for a host, such as an archive of images, which may be larger than what is read into memory.
    fn artifact(&self, path: &str) -> Result<Content, PortError> {
        let bytes = self
            .package
            .size(path)
            .map_err(|error| unread(path, &error))?;
        let (package, path) = (self.package.clone(), path.to_owned());
        let source = move |to: &mut dyn Write| package.copy(&path, to).map_err(io::Error::other);
        Ok(Content::Streamed {
            bytes,
            source: Arc::new(source),
        })
    }

    fn progress(&self, percent: u8, message: &str) -> Value {
        self.live.progress(percent, message);
        self.live.log("info", &self.step, message);
        json!({})
    }

    fn waiting(&self, reason: &str) -> Value {
        self.live.waiting(reason);
        json!({})
    }

    async fn recall(&self, key: &str) -> Result<Value, PortError> {
        let store = self.context.store();
        let found = store.checkpoint(&self.fence.op_id, &self.step, key).await?;
        Ok(json!({"value": found.as_deref()}))
    }

    async fn remember(&self, key: String, value: Value) -> Result<Value, PortError> {
        self.checkpoints.count(&key, &value)?;
        let change = Change::Checkpoint {
            op_id: self.fence.op_id.clone(),
            step: self.step.clone(),
            key,
            value: SecretJson::from(value),
        };
        self.context
            .store()
            .write(Some(&self.fence), vec![change])
            .await?;
        Ok(json!({}))
    }

    /// The hook continues with what cannot be undone once it has the answer: the store has it by then.
    async fn rule_out_rollback(&self, reason: &str) -> Result<Value, PortError> {
        if self.is_undo {
            let what = "an undo cannot rule out the rollback that it is part of";
            return Err(wrong_call("irreversible", what));
        }
        check_reason(reason)?;
        let change = Change::RuleOutRollback {
            op_id: self.fence.op_id.clone(),
            step: self.step.clone(),
        };
        self.context
            .store()
            .write(Some(&self.fence), vec![change])
            .await?;
        self.live.rule_out_rollback(&self.step);
        let text = format!("from here on there is no rollback: {reason}");
        self.live.log("info", &self.step, &text);
        Ok(json!({}))
    }

    async fn sleep(&self, seconds: f64) -> Value {
        self.context
            .ports
            .clock
            .sleep(Duration::from_secs_f64(seconds))
            .await;
        json!({})
    }
}

fn unread(path: &str, error: &ReadError) -> PortError {
    let action = format!("read `{path}` of the package");
    PortError::new(&ARTIFACT, action, error.to_string())
}

pub(super) fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, PortError> {
    serde_json::to_value(value).map_err(|error| wrong_call("answer", error.to_string()))
}

pub(super) const ARTIFACT: Code = Code {
    name: "hook.artifact",
    kind: ErrorKind::Refused,
    means: "a hook asked for a file that the VNF package does not contain",
    next: "add it to the package, or correct the parameter that names it",
};

#[cfg(test)]
mod tests {
    use super::{MAX_COMMAND_CHARS, first_line};

    #[test]
    fn a_shortened_command_has_a_mark() {
        assert_eq!(first_line("uptime\n"), "uptime");
        assert_eq!(first_line("set -e\nuptime"), "set -e…");
        let long = "é".repeat(MAX_COMMAND_CHARS + 1);
        assert_eq!(
            first_line(&long),
            format!("{}…", "é".repeat(MAX_COMMAND_CHARS))
        );
    }
}
