//! The simulated VNFM: serves calls from a script or a [`World`], injects faults, and records every call.

use super::request::TestRequest;
use super::script::{Reply, Script};
use super::stored::StoredFiles;
use super::uploaded::Uploaded;
use super::values::{TEST_TIME, refused, test_credential, text};
use super::world::World;
use crate::context::{HookContext, Level, Services};
use crate::driver::{Hooks, MgmtDriver};
use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::http::HttpResponse;
use crate::messages::effects::Effects;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, pending, select};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A fault to inject at the call with number `at`, before or after its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    at: usize,
    after: bool,
    is_crash: bool,
}

#[derive(Default)]
struct State {
    script: Script,
    world: Option<Arc<dyn World>>,
    files: BTreeMap<String, Vec<u8>>,
    stored: StoredFiles,
    checkpoints: BTreeMap<String, Value>,
    is_undo: bool,
    ruled_out: Option<String>,
    outputs: Map<String, Value>,
    calls: Vec<(String, Value)>,
    commands: Vec<String>,
    unknown_commands: Vec<String>,
    uploads: Vec<Uploaded>,
    progress: Vec<(u8, String)>,
    waiting: Vec<String>,
    logs: Vec<String>,
    faults: Vec<Fault>,
    cancel_after: Option<usize>,
    slept_while_cancelled: f64,
    crash: Option<oneshot::Sender<()>>,
}

/// A simulated VNFM: SSH hosts, HTTP, package and checkpoints. Cheap to clone; clones share their state.
///
/// ```
/// use vnfm_plugin_sdk::SshTarget;
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
///
/// let host = TestHost::new().ssh_each("*", "uptime", [Reply::unreachable(), Reply::ok("up")]);
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// assert!(block_on(ssh.run("uptime")).is_err());
/// host.fail_after(1);
/// assert!(block_on(ssh.run("uptime")).is_err(), "it ran, but its response was lost");
/// assert_eq!(host.commands(), ["10.0.0.1: uptime", "10.0.0.1: uptime"]);
/// assert_eq!(host.find_leaks("s3cret"), [""; 0]);
/// assert_eq!(block_on(ssh.run("reboot")).unwrap().exit_code, 127);
/// assert_eq!(host.unknown_commands(), ["10.0.0.1: reboot"]);
/// ```
///
/// Faults are injected by the number of the call, counted from the current one:
///
/// ```
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on, request};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Greeter;
/// # impl MgmtDriver for Greeter {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
/// # }
/// # impl Greeter {
/// #     async fn end(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         for vnfc in r.vnfcs() {
/// #             cx.ssh(vnfc.ssh("CP1", "root")?).check("greet", "echo hello").await?;
/// #         }
/// #         Ok(Effects::none())
/// #     }
/// # }
/// let host = TestHost::new().ssh("*", "echo", Reply::ok("hello"));
/// let request = request("instantiate_end").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
/// let run = || host.run::<Greeter>(request.clone());
/// host.fail_before(1);
/// assert!(run().unwrap_err().retryable);
/// host.crash_before(1);
/// assert_eq!(run().unwrap_err().code, "crashed");
/// host.crash_after(1);
/// assert_eq!(run().unwrap_err().code, "crashed");
/// block_on(host.run_async::<Greeter>(request.clone())).unwrap();
/// host.cancel_after(0);
/// assert!(block_on(host.context().cancelled()));
/// host.clear_cancel();
/// assert!(!block_on(host.context().cancelled()));
/// assert!(host.slept_while_cancelled().is_zero());
/// ```
#[derive(Clone, Default)]
pub struct TestHost {
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for TestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestHost({} calls)", self.state().calls.len())
    }
}

impl TestHost {
    /// A host without rules: every command exits with 127.
    pub fn new() -> Self {
        Self::default()
    }

    /// A host whose calls `world` serves; those that it does not know go to the script.
    pub fn with_world(world: Arc<dyn World>) -> Self {
        let host = Self::default();
        host.state().world = Some(world);
        host
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule: `reply` to commands that contain `substring`, on the host `address` (`*`: any). The newest rule wins.
    #[must_use]
    pub fn ssh(self, address: &str, substring: &str, reply: Reply) -> Self {
        self.ssh_each(address, substring, [reply])
    }

    /// Like [`TestHost::ssh`], with a reply for each call in order; the last one repeats.
    #[must_use]
    pub fn ssh_each(
        self,
        address: &str,
        substring: &str,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Self {
        self.state()
            .script
            .add_command(address, substring, replies.into_iter().collect());
        self
    }

    /// Adds a rule: this response to requests of `method` to URLs that start with `url`. The newest rule wins.
    #[must_use]
    pub fn http(self, method: &str, url: &str, status: u16, body: &str) -> Self {
        let response = HttpResponse::new(status, body);
        self.state().script.add_url(method, url, response);
        self
    }

    /// Adds a file to the package.
    #[must_use]
    pub fn file(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.state().files.insert(path.into(), content.into());
        self
    }

    /// Adds an output of the instance's template.
    #[must_use]
    pub fn output(self, name: &str, value: impl Into<Value>) -> Self {
        self.state().outputs.insert(name.into(), value.into());
        self
    }

    /// Makes the `n`th call from now, counted from 1, fail without any effect.
    pub fn fail_before(&self, n: usize) {
        self.add_fault(n, false, false);
    }

    /// Makes the `n`th call from now, counted from 1, fail after its effect: the response is lost.
    pub fn fail_after(&self, n: usize) {
        self.add_fault(n, true, false);
    }

    /// Kills the VNFM at the `n`th call from now, counted from 1, before its effect: the hook is dropped.
    pub fn crash_before(&self, n: usize) {
        self.add_fault(n, false, true);
    }

    /// Kills the VNFM at the `n`th call from now, counted from 1, after its effect: the hook is dropped.
    pub fn crash_after(&self, n: usize) {
        self.add_fault(n, true, true);
    }

    fn add_fault(&self, n: usize, after: bool, is_crash: bool) {
        let mut state = self.state();
        let at = state.calls.len() + n;
        state.faults.push(Fault {
            at,
            after,
            is_crash,
        });
    }

    /// Cancels the operation after `n` more calls.
    pub fn cancel_after(&self, n: usize) {
        let mut state = self.state();
        state.cancel_after = Some(state.calls.len() + n);
    }

    /// Ends the cancellation, as a retry does.
    pub fn clear_cancel(&self) {
        self.state().cancel_after = None;
    }

    /// Total time for which hooks slept while their operation was being cancelled.
    pub fn slept_while_cancelled(&self) -> Duration {
        Duration::try_from_secs_f64(self.state().slept_while_cancelled).unwrap_or(Duration::MAX)
    }

    /// A context as a hook gets it.
    pub fn context(&self) -> HookContext {
        HookContext::new(Arc::new(self.clone()))
    }

    /// Creates the driver and runs the hook, as the VNFM does.
    ///
    /// # Errors
    ///
    /// The error of the driver or the hook; `crashed` after
    /// [`TestHost::crash_before`] or [`TestHost::crash_after`] took effect.
    pub fn run<D: MgmtDriver>(&self, request: TestRequest) -> Result<Effects, DriverError> {
        futures::executor::block_on(self.run_async::<D>(request))
    }

    /// Like [`TestHost::run`], for a [`World`] that needs an async runtime.
    ///
    /// # Errors
    ///
    /// Those of [`TestHost::run`]: the error of the driver, or `crashed`.
    pub async fn run_async<D: MgmtDriver>(
        &self,
        request: TestRequest,
    ) -> Result<Effects, DriverError> {
        let (request, config) = request.parts();
        let config = serde_json::from_value(config)
            .map_err(|error| DriverError::new("bad-config", error.to_string()))?;
        let driver = Arc::new(D::new(config)?);
        let request = request?;
        let (crash, crashed) = oneshot::channel();
        {
            let mut state = self.state();
            (state.crash, state.is_undo) = (Some(crash), request.undo);
        }
        let killed = async {
            if crashed.await.is_err() {
                pending::<()>().await;
            }
        };
        let hooks = Hooks::<D>::declared();
        let running = pin!(hooks.run(driver, self.context(), request));
        match select(running, pin!(killed)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(DriverError::new("crashed", "the VNFM was killed").retryable()),
        }
    }

    /// All calls in order, as service and request.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.state().calls.clone()
    }

    /// All commands in order, as `address: command line`.
    pub fn commands(&self) -> Vec<String> {
        self.state().commands.clone()
    }

    /// Commands that no rule matched.
    pub fn unknown_commands(&self) -> Vec<String> {
        self.state().unknown_commands.clone()
    }

    /// All uploaded files, in order.
    pub fn uploads(&self) -> Vec<Uploaded> {
        self.state().uploads.clone()
    }

    /// All progress reports: percentage and message.
    pub fn progress(&self) -> Vec<(u8, String)> {
        self.state().progress.clone()
    }

    /// All conditions that the hook reported to be waiting for.
    pub fn waiting(&self) -> Vec<String> {
        self.state().waiting.clone()
    }

    /// The checkpoints, by key; they persist across attempts.
    pub fn checkpoints(&self) -> BTreeMap<String, Value> {
        self.state().checkpoints.clone()
    }

    /// The reason with which a hook first ruled out a rollback ([`HookContext::rule_out_rollback`]), in any attempt.
    pub fn rollback_ruled_out(&self) -> Option<String> {
        self.state().ruled_out.clone()
    }

    /// All log lines, as `Level: text`.
    pub fn logs(&self) -> Vec<String> {
        self.state().logs.clone()
    }

    /// All command lines, log lines and progress or waiting messages that contain `secret`.
    pub fn find_leaks(&self, secret: &str) -> Vec<String> {
        let state = self.state();
        let progress = state.progress.iter().map(|(_, text)| text);
        let texts = state
            .commands
            .iter()
            .chain(&state.logs)
            .chain(&state.waiting)
            .chain(&state.ruled_out)
            .chain(progress);
        texts
            .filter(|text| text.contains(secret))
            .cloned()
            .collect()
    }
}

impl Services for TestHost {
    fn call(
        &self,
        service: &str,
        request: Value,
    ) -> BoxFuture<'static, Result<Value, ServiceError>> {
        let (host, service) = (self.clone(), service.to_owned());
        Box::pin(async move { host.respond(&service, &request).await })
    }

    fn log(&self, level: Level, text: &str) {
        self.state().logs.push(format!("{level:?}: {text}"));
    }
}

impl TestHost {
    async fn respond(&self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        let (fault, world) = self.state().begin(service, request);
        if let Some(fault) = fault.filter(|fault| !fault.after) {
            return self.inject(fault, service).await;
        }
        let from_world = match world {
            Some(world) => world.call(service, request).await,
            None => None,
        };
        let response = match from_world {
            Some(response) => response,
            None => self.state().serve(service, request),
        };
        match fault {
            Some(fault) => self.inject(fault, service).await,
            None => response,
        }
    }

    /// Returns an error instead of the response, or drops the hook.
    async fn inject(&self, fault: Fault, service: &str) -> Result<Value, ServiceError> {
        if fault.is_crash {
            let crash = self.state().crash.take();
            // `run_async` receives this and drops the hook.
            let _ = crash.map(|crash| crash.send(()));
            pending::<()>().await;
        }
        let when = if fault.after { "after" } else { "before" };
        let detail = format!("injected fault {when} the call");
        Err(ServiceError::new(service, ErrorKind::Unavailable, detail))
    }
}

impl State {
    /// Records a call; returns the fault to inject at it, and the world that serves it.
    fn begin(&mut self, service: &str, request: &Value) -> (Option<Fault>, Option<Arc<dyn World>>) {
        self.calls.push((service.to_owned(), request.clone()));
        if service == "ssh.run" {
            let line = text(request, "/command");
            self.commands
                .push(format!("{}: {line}", text(request, "/host/address")));
        }
        if service == "sleep" && self.is_cancelled() {
            self.slept_while_cancelled += request["seconds"].as_f64().unwrap_or_default();
        }
        let number = self.calls.len();
        let fault = self.faults.iter().copied().find(|fault| fault.at == number);
        (fault, self.world.clone())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel_after
            .is_some_and(|after| self.calls.len() > after)
    }

    fn serve(&mut self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        match service {
            "ssh.run" => self.run(request),
            "ssh.put" => self.put(request),
            "ssh.wait" | "sleep" => Ok(json!({})),
            "http" => self
                .script
                .url(text(request, "/method"), text(request, "/url")),
            "artifact.list" => Ok(json!({ "paths": self.files.keys().collect::<Vec<_>>() })),
            "artifact.read" => {
                let content = BASE64_STANDARD.encode(self.file(text(request, "/path"))?);
                Ok(json!({ "contentBase64": content }))
            }
            "progress" => {
                let percent = request["percent"].as_u64().and_then(|n| n.try_into().ok());
                self.progress
                    .push((percent.unwrap_or(100), text(request, "/message").into()));
                Ok(json!({}))
            }
            "waiting" => {
                self.waiting.push(text(request, "/for").into());
                Ok(json!({}))
            }
            "checkpoint.get" => Ok(json!({ "value": self.checkpoints.get(text(request, "/key")) })),
            "checkpoint.put" => {
                self.checkpoints
                    .insert(text(request, "/key").into(), request["value"].clone());
                Ok(json!({}))
            }
            "irreversible" => self.rule_out_rollback(text(request, "/reason")),
            "vim.credential" => Ok(test_credential(text(request, "/name"))),
            "file.list" | "file.fetch" | "file.send" | "file.remove" => {
                self.stored.serve(service, request)
            }
            "clock" => Ok(json!({ "unixMilliseconds": TEST_TIME })),
            "vim.outputs" => Ok(Value::Object(self.outputs.clone())),
            "cancelled" => Ok(json!({ "cancelled": self.is_cancelled() })),
            _ => Err(refused(
                service,
                format!("unknown_commands service `{service}`"),
            )),
        }
    }

    fn rule_out_rollback(&mut self, reason: &str) -> Result<Value, ServiceError> {
        if self.is_undo {
            let what = "an undo cannot rule out the rollback that it is part of";
            return Err(refused("irreversible", what.to_owned()));
        }
        self.ruled_out.get_or_insert_with(|| reason.to_owned());
        Ok(json!({}))
    }

    fn run(&mut self, request: &Value) -> Result<Value, ServiceError> {
        let (address, line) = (text(request, "/host/address"), text(request, "/command"));
        self.script.command(address, line).unwrap_or_else(|| {
            self.unknown_commands.push(format!("{address}: {line}"));
            Ok(json!({ "exitCode": 127, "stdout": "", "stderr": "command not found" }))
        })
    }

    fn put(&mut self, request: &Value) -> Result<Value, ServiceError> {
        let content = match request.get("artifact").and_then(Value::as_str) {
            Some(artifact) => self.file(artifact)?,
            None => BASE64_STANDARD
                .decode(text(request, "/contentBase64"))
                .map_err(|error| refused("ssh.put", error.to_string()))?,
        };
        self.uploads.push(Uploaded {
            address: text(request, "/host/address").into(),
            path: text(request, "/path").into(),
            mode: text(request, "/mode").into(),
            sudo: request["sudo"] == true,
            content,
        });
        Ok(json!({}))
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, ServiceError> {
        let missing = || refused("artifact.read", format!("the package has no file `{path}`"));
        self.files.get(path).cloned().ok_or_else(missing)
    }
}
