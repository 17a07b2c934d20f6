//! The host of the hook of `plugin run`: serves, numbers and traces each call, and injects faults.

use super::inventory::{Inventory, Machine};
use super::state::RunState;
use super::trace::{Trace, without_checkpoint};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vnfm::descriptor::Package;
use vnfm::outbound::Destinations;
use vnfm::ports::{
    Clock as _, Code, CommandOutput, Content, ErrorKind, HookCall, HookFile, HookHost,
    HostServices as _, PortError, SshCommand, SshTarget, Watcher, files_of, remote_file,
    wrong_call,
};
use vnfm::{Hosts, SystemClock};

/// Number of the call that fails, before or after its effect.
pub(super) struct Fault {
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// Serves the calls of one hook.
pub(super) struct Host {
    inventory: Inventory,
    package: Option<Package>,
    hosts: Hosts,
    state: Arc<RunState>,
    is_undo: bool,
    fault: Fault,
    trace: Trace,
    calls: AtomicUsize,
    /// Calls in progress, by number.
    running: Mutex<BTreeMap<usize, String>>,
    cancelled: AtomicBool,
}

impl Host {
    pub(super) fn new(
        (inventory, package): (Inventory, Option<Package>),
        (state, is_undo): (Arc<RunState>, bool),
        fault: Fault,
        trace: Trace,
    ) -> Self {
        Self {
            inventory,
            package,
            hosts: Hosts::with_host_keys(state.clone(), Destinations::anywhere()),
            state,
            is_undo,
            fault,
            trace,
            calls: AtomicUsize::new(0),
            running: Mutex::default(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Number of calls so far.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Cancels the hook's operation. Returns whether it was cancelled before.
    pub(super) fn cancel(&self) -> bool {
        self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// The calls that have begun but not returned.
    pub(super) fn unanswered(&self) -> Vec<String> {
        self.running().values().cloned().collect()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let shown = without_checkpoint(service, &request);
        self.trace
            .message(&format!("#{number:<3} > {service}"), &shown);
        let call = HookCall::parse(service, request).inspect_err(|error| {
            self.trace
                .tell(&format!("#{number:<3} {service}  -> {error}"));
        })?;
        let summary = self.summary(&call);
        self.running()
            .insert(number, self.trace.clean(&format!("#{number} {summary}")));
        let begun = Instant::now();
        let answer = self.serve_with_faults(number, call).await;
        self.running().remove(&number);
        let seconds = begun.elapsed().as_secs_f64();
        self.trace.tell(&format!(
            "#{number:<3} {seconds:>8.3} s  {summary}{}",
            outcome(&answer)
        ));
        if let Ok(answer) = &answer {
            let shown = without_checkpoint(service, answer);
            self.trace.message(&format!("#{number:<3} <"), &shown);
        }
        for line in last_lines(&answer) {
            self.trace.tell(&format!("          | {line}"));
        }
        answer
    }

    fn log(&self, level: &str, text: &str) {
        self.trace.tell(&format!("{level}: {text}"));
    }
}

/// A wait for a login says why it takes long.
impl Watcher for Host {
    fn waiting(&self, what: &str) {
        self.trace.tell(&format!("waiting for {what}"));
    }

    fn progress(&self, percent: u8, message: &str) {
        self.trace.tell(&format!("{percent} %  {message}"));
    }

    fn log(&self, level: &str, source: &str, text: &str) {
        self.trace.tell(&format!("{level}: {source}: {text}"));
    }
}

impl Host {
    /// Serves the call, unless it is the one to fail.
    async fn serve_with_faults(&self, number: usize, call: HookCall) -> Result<Value, PortError> {
        let injected = |option: &str| {
            let action = format!("serve `{}`", call.service());
            PortError::new(
                &FAULT,
                action,
                format!("fault injected by `{option} {number}`"),
            )
        };
        if self.fault.before == Some(number) {
            return Err(injected("--fail-at"));
        }
        let lost = (self.fault.after == Some(number)).then(|| injected("--fail-after"));
        let answer = self.serve(call).await?;
        lost.map_or(Ok(answer), Err)
    }

    async fn serve(&self, call: HookCall) -> Result<Value, PortError> {
        match call {
            HookCall::Run(target, command) => Ok(json!(self.run(&target, &command).await?)),
            HookCall::Put(target, file) => self.put(&target, file).await,
            HookCall::Wait(target, seconds) => {
                if !self.is_simulated(&target) {
                    self.hosts
                        .ssh_wait(&self.inventory.resolve(&target), seconds, self)
                        .await?;
                }
                Ok(json!({}))
            }
            HookCall::Http(request) => Ok(json!(self.hosts.http(&request).await?)),
            HookCall::Artifacts => Ok(self
                .package
                .as_ref()
                .map_or_else(|| json!({"paths": []}), files_of)),
            HookCall::Artifact(path) => {
                Ok(json!({"contentBase64": BASE64.encode(self.artifact(&path)?)}))
            }
            HookCall::Recall(key) => Ok(json!({"value": self.state.checkpoint(&key)})),
            HookCall::Remember(key, value) => {
                self.state.save_checkpoint(key, value).map(|()| json!({}))
            }
            HookCall::Irreversible(_) if self.is_undo => {
                let what = "an undo cannot rule out the rollback that it is part of";
                Err(wrong_call("irreversible", what))
            }
            HookCall::Sleep(seconds) => {
                SystemClock.sleep(Duration::from_secs_f64(seconds)).await;
                Ok(json!({}))
            }
            HookCall::Cancelled => Ok(json!({"cancelled": self.cancelled.load(Ordering::Relaxed)})),
            HookCall::Credential(_) => Err(wrong_call(
                "vim.credential",
                "a run outside of a VNFM has no VIM",
            )),
            HookCall::Clock => Ok(json!({"unixMilliseconds": SystemClock.now().as_millisecond()})),
            HookCall::Files
            | HookCall::Fetch(..)
            | HookCall::Send(..)
            | HookCall::RemoveFile(_) => {
                let what = "a run outside of a VNFM stores no files";
                Err(wrong_call(call.service(), what))
            }
            // Progress, waiting, and no rollback any more: the trace line says it all.
            _ => Ok(json!({})),
        }
    }

    fn is_simulated(&self, target: &SshTarget) -> bool {
        self.inventory
            .host_at(&target.address)
            .is_some_and(Machine::is_simulated)
    }

    async fn run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let host = self
            .inventory
            .host_at(&target.address)
            .filter(|host| host.is_simulated());
        let Some(host) = host else {
            return self
                .hosts
                .ssh_run(&self.inventory.resolve(target), command)
                .await;
        };
        let line = command.line.as_str();
        let file = || {
            let content = self
                .state
                .file(&host.name, line.strip_prefix("cat ")?.trim())?;
            let stdout = String::from_utf8_lossy(&BASE64.decode(content).ok()?).into_owned();
            Some(CommandOutput::new(0, stdout, ""))
        };
        Ok(host
            .answer(line)
            .or_else(file)
            .unwrap_or_else(|| {
                let stderr = format!(
                    "`{}` is simulated and has no answer to this command: add `- {{holds: …}}` under `simulated` in the inventory",
                    host.name
                );
                CommandOutput::new(127, "", stderr)
            }))
    }

    async fn put(&self, target: &SshTarget, file: HookFile) -> Result<Value, PortError> {
        let artifact = |path: &str| self.artifact(path).map(Content::Bytes);
        let file = remote_file(file, artifact)?;
        match self
            .inventory
            .host_at(&target.address)
            .filter(|host| host.is_simulated())
        {
            Some(host) => {
                let unread = |error: io::Error| wrong_call("ssh.put", error.to_string());
                let content = file.content.into_bytes().map_err(unread)?;
                self.state
                    .put(&host.name, file.path, BASE64.encode(content))?;
            }
            None => {
                self.hosts
                    .ssh_put(&self.inventory.resolve(target), &file)
                    .await?;
            }
        }
        Ok(json!({}))
    }

    fn artifact(&self, path: &str) -> Result<Vec<u8>, PortError> {
        let missing = |cause: String| {
            PortError::new(&NO_FILE, format!("read `{path}` of the package"), cause)
        };
        let package = self
            .package
            .as_ref()
            .ok_or_else(|| missing("there is no package".into()))?;
        package
            .read(path)
            .map_err(|error| missing(error.to_string()))
    }
}

/// Characters shown of a command line.
const MAX_COMMAND_CHARS: usize = 100;
/// Lines shown of the output of a failed command.
const MAX_OUTPUT_LINES: usize = 12;

impl Host {
    /// A call on one line.
    fn summary(&self, call: &HookCall) -> String {
        let on = |target: &SshTarget| {
            let known = self
                .inventory
                .host_at(&target.address)
                .map(|host| host.name.as_str());
            known.unwrap_or(&target.address).to_owned()
        };
        let arguments = match call {
            HookCall::Run(target, command) => {
                let line = shortened(&command.line);
                let line = if command.sudo {
                    format!("sudo sh -c '{line}'")
                } else {
                    line
                };
                format!("{}  $ {line}", on(target))
            }
            HookCall::Put(target, file) => format!("{}  {} {}", on(target), file.path, file.mode),
            HookCall::Wait(target, seconds) => format!("{}  {seconds} s at most", on(target)),
            HookCall::Http(request) => format!("{} {}", request.method, request.url),
            HookCall::Artifact(path) => path.clone(),
            HookCall::Progress(percent, message) => format!("{percent} %  {message}"),
            HookCall::Waiting(reason) => format!("for {reason}"),
            HookCall::Irreversible(reason) => reason.clone(),
            HookCall::Recall(key) | HookCall::Remember(key, _) => key.clone(),
            HookCall::Sleep(seconds) => format!("{seconds} s"),
            _ => String::new(),
        };
        format!("{:<14}  {arguments}", call.service())
            .trim_end()
            .to_owned()
    }
}

/// The first line of a command; `…` marks what was cut off.
fn shortened(command: &str) -> String {
    let first = command.lines().next().unwrap_or_default();
    let mut line: String = first.chars().take(MAX_COMMAND_CHARS).collect();
    if line.len() < command.trim_end().len() {
        line.push('…');
    }
    line
}

/// The result of a call, if it is worth showing.
fn outcome(answer: &Result<Value, PortError>) -> String {
    match answer {
        Err(error) => format!("  -> {error}"),
        Ok(answer) if answer["exitCode"].as_i64().is_some_and(|code| code != 0) => {
            format!("  -> exit code {}", answer["exitCode"])
        }
        Ok(answer) if answer["status"].is_u64() => format!("  -> {}", answer["status"]),
        Ok(answer) if answer.get("value").is_some() => {
            let found = if answer["value"].is_null() {
                "nothing"
            } else {
                "found"
            };
            format!("  -> {found}")
        }
        Ok(_) => String::new(),
    }
}

/// The last output lines of a failed command.
fn last_lines(answer: &Result<Value, PortError>) -> Vec<String> {
    let failed = answer
        .as_ref()
        .ok()
        .filter(|a| a["exitCode"].as_i64().is_some_and(|c| c != 0));
    let texts = failed
        .into_iter()
        .flat_map(|answer| [&answer["stdout"], &answer["stderr"]]);
    let lines: Vec<_> = texts
        .filter_map(Value::as_str)
        .flat_map(str::lines)
        .collect();
    let from = lines.len().saturating_sub(MAX_OUTPUT_LINES);
    lines[from..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

/// A fault injected by `--fail-at` or `--fail-after`.
const FAULT: Code = Code {
    name: "plugin-run.fault",
    kind: ErrorKind::Unavailable,
    means: "a fault injected on the command line",
    next: "run the hook again with the same --checkpoints",
};
/// `artifact` for a file that the package does not have.
const NO_FILE: Code = Code {
    name: "plugin-run.no-file",
    kind: ErrorKind::Refused,
    means: "the hook requested a file that is not in the package",
    next: "pass a package that contains it with --package",
};
