//! The host of a hook of `plugin run`: serves each call, numbers it, and tells it in a line. Faults strike here.

use super::inventory::{Inventory, Machine};
use super::kept::Kept;
use crate::output::tell;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vnfm::descriptor::Package;
use vnfm::outbound::Destinations;
use vnfm::ports::{
    Clock as _, Code, CommandOutput, ErrorKind, HookCall, HookFile, HookHost, HostServices as _,
    PortError, SshCommand, SshTarget, files_of,
};
use vnfm::{Hosts, Redactor, SystemClock};

/// Which call is to fail: before its effect, or after it.
pub(super) struct Fault {
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// The host of one hook.
pub(super) struct Host {
    inventory: Inventory,
    package: Option<Package>,
    hosts: Hosts,
    kept: Arc<Kept>,
    fault: Fault,
    secrets: Redactor,
    calls: AtomicUsize,
    /// Calls that have not ended, by number.
    running: Mutex<BTreeMap<usize, String>>,
    cancelled: AtomicBool,
}

impl Host {
    pub(super) fn new(
        (inventory, package): (Inventory, Option<Package>),
        kept: Arc<Kept>,
        fault: Fault,
        secrets: Redactor,
    ) -> Self {
        Self {
            inventory,
            package,
            hosts: Hosts::trusting(kept.clone(), Destinations::anywhere()),
            kept,
            fault,
            secrets,
            calls: AtomicUsize::new(0),
            running: Mutex::default(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// How many calls there were.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Lets the hook know that its operation is cancelled; whether it was told before.
    pub(super) fn cancel(&self) -> bool {
        self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// The calls that have no answer.
    pub(super) fn unanswered(&self) -> Vec<String> {
        self.running().values().cloned().collect()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for people, without secrets.
    fn tell(&self, line: &str) {
        tell(&self.secrets.clean(line));
    }
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let call = HookCall::parse(service, request)
            .inspect_err(|error| self.tell(&format!("#{number:<3} {service}  -> {error}")))?;
        let shown = self.shown(&call);
        self.running()
            .insert(number, self.secrets.clean(&format!("#{number} {shown}")));
        let begun = Instant::now();
        let answer = self.faulty(number, call).await;
        self.running().remove(&number);
        let seconds = begun.elapsed().as_secs_f64();
        self.tell(&format!(
            "#{number:<3} {seconds:>8.3} s  {shown}{}",
            outcome(&answer)
        ));
        for line in last_lines(&answer) {
            self.tell(&format!("          | {line}"));
        }
        answer
    }

    fn log(&self, level: &str, text: &str) {
        self.tell(&format!("{level}: {text}"));
    }
}

impl Host {
    /// Serves the call, unless it is the one that is to fail.
    async fn faulty(&self, number: usize, call: HookCall) -> Result<Value, PortError> {
        let asked_for = |option: &str| {
            let doing = format!("serve `{}`", call.service());
            PortError::new(
                &FAULT,
                doing,
                format!("`{option} {number}` asked for this fault"),
            )
        };
        if self.fault.before == Some(number) {
            return Err(asked_for("--fail-at"));
        }
        let lost = (self.fault.after == Some(number)).then(|| asked_for("--fail-after"));
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
                        .ssh_wait(&self.inventory.reached(&target), seconds)
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
            HookCall::Recall(key) => Ok(json!({"value": self.kept.checkpoint(&key)})),
            HookCall::Remember(key, value) => self.kept.keep(key, value).map(|()| json!({})),
            HookCall::Sleep(seconds) => {
                SystemClock.sleep(Duration::from_secs_f64(seconds)).await;
                Ok(json!({}))
            }
            HookCall::Cancelled => Ok(json!({"cancelled": self.cancelled.load(Ordering::Relaxed)})),
            // They are told by their own line.
            _ => Ok(json!({})),
        }
    }

    fn is_simulated(&self, target: &SshTarget) -> bool {
        self.inventory
            .at(&target.address)
            .is_some_and(Machine::is_simulated)
    }

    async fn run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let host = self
            .inventory
            .at(&target.address)
            .filter(|host| host.is_simulated());
        let Some(host) = host else {
            return self
                .hosts
                .ssh_run(&self.inventory.reached(target), command)
                .await;
        };
        let line = command.command.as_str();
        let file = || {
            let content = self
                .kept
                .file(&host.name, line.strip_prefix("cat ")?.trim())?;
            let stdout = String::from_utf8_lossy(&BASE64.decode(content).ok()?).into_owned();
            Some(CommandOutput {
                stdout,
                ..CommandOutput::default()
            })
        };
        Ok(host
            .answer(line)
            .or_else(file)
            .unwrap_or_else(|| CommandOutput {
                exit_code: 127,
                stderr: format!(
                    "`{}` is simulated, and the inventory has no answer to this",
                    host.name
                ),
                ..CommandOutput::default()
            }))
    }

    async fn put(&self, target: &SshTarget, file: HookFile) -> Result<Value, PortError> {
        let file = file.with(|path| self.artifact(path))?;
        match self
            .inventory
            .at(&target.address)
            .filter(|host| host.is_simulated())
        {
            Some(host) => self
                .kept
                .put(&host.name, file.path, BASE64.encode(file.content))?,
            None => {
                self.hosts
                    .ssh_put(&self.inventory.reached(target), &file)
                    .await?
            }
        }
        Ok(json!({}))
    }

    fn artifact(&self, path: &str) -> Result<Vec<u8>, PortError> {
        let wrong =
            |what: String| PortError::new(&NO_FILE, format!("read `{path}` of the package"), what);
        let package = self
            .package
            .as_ref()
            .ok_or_else(|| wrong("there is no package".into()))?;
        package.read(path).map_err(|error| wrong(error.to_string()))
    }
}

/// How much of a command line and of what it says is shown.
const LONGEST: usize = 100;
const LAST_LINES: usize = 12;

impl Host {
    /// A call in a line.
    fn shown(&self, call: &HookCall) -> String {
        let on = |target: &SshTarget| {
            let known = self
                .inventory
                .at(&target.address)
                .map(|host| host.name.as_str());
            known.unwrap_or(&target.address).to_owned()
        };
        let what = match call {
            HookCall::Run(target, command) => {
                let line: String = command
                    .command
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(LONGEST)
                    .collect();
                let sudo = if command.sudo { "sudo " } else { "" };
                format!("{}  $ {sudo}{line}", on(target))
            }
            HookCall::Put(target, file) => format!("{}  {} {}", on(target), file.path, file.mode),
            HookCall::Wait(target, seconds) => format!("{}  {seconds} s at most", on(target)),
            HookCall::Http(request) => format!("{} {}", request.method, request.url),
            HookCall::Artifact(path) => path.clone(),
            HookCall::Progress(percent, message) => format!("{percent} %  {message}"),
            HookCall::Waiting(reason) => format!("for {reason}"),
            HookCall::Recall(key) | HookCall::Remember(key, _) => key.clone(),
            HookCall::Sleep(seconds) => format!("{seconds} s"),
            _ => String::new(),
        };
        format!("{:<14}  {what}", call.service())
            .trim_end()
            .to_owned()
    }
}

/// How a call ended, where that is worth a word.
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

/// The last words of a command that failed.
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
    let from = lines.len().saturating_sub(LAST_LINES);
    lines[from..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

/// A fault that the command line asked for.
const FAULT: Code = Code {
    name: "plugin-run.fault",
    kind: ErrorKind::Unavailable,
    means: "the command line asked for this fault",
    next: "run the hook again with the same --checkpoints",
};
/// The package has no such file.
const NO_FILE: Code = Code {
    name: "plugin-run.no-file",
    kind: ErrorKind::Refused,
    means: "the hook asked for a file that is not in the package",
    next: "name a package that has it with --package",
};
