//! The simulated host: answers by script or by a world of its own, fails where it is told to, remembers everything.

use super::request::TestRequest;
use super::script::{Reply, Script};
use super::uploaded::Uploaded;
use crate::context::{HookContext, Level, Services};
use crate::driver::{Hooks, MgmtDriver};
use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::http::HttpResponse;
use crate::messages::effects::Effects;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, pending, select};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A world that answers in place of the script: hosts over a real protocol, a simulated API.
///
/// Faults, checkpoints and books stay those of the [`TestHost`] that is made with [`TestHost::over`].
///
/// ```
/// use std::pin::Pin;
/// use std::sync::Arc;
/// use vnfm_plugin_sdk::serde_json::{Value, json};
/// use vnfm_plugin_sdk::testkit::{TestHost, World, block_on};
/// use vnfm_plugin_sdk::{HttpRequest, ServiceError};
///
/// type Answer = Option<Result<Value, ServiceError>>;
///
/// /// An API that is always up.
/// struct Api;
///
/// impl World for Api {
///     fn call(&self, service: &str, _: &Value) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
///         let is_known = service == "http";
///         Box::pin(async move { is_known.then(|| Ok(json!({"status": 200, "body": "up"}))) })
///     }
/// }
///
/// let host = TestHost::over(Arc::new(Api));
/// let answer = block_on(host.context().http(HttpRequest::new("GET", "https://10.0.0.1/"))).unwrap();
/// assert_eq!(answer.body, "up");
/// ```
pub trait World: Send + Sync {
    /// Serves a call, such as `ssh.run`; `None` where the script is to answer.
    fn call(
        &self,
        service: &str,
        request: &Value,
    ) -> BoxFuture<'static, Option<Result<Value, ServiceError>>>;
}

/// What goes wrong at one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    at: usize,
    after: bool,
    kills: bool,
}

#[derive(Default)]
struct Books {
    script: Script,
    world: Option<Arc<dyn World>>,
    files: BTreeMap<String, Vec<u8>>,
    checkpoints: BTreeMap<String, Value>,
    calls: Vec<(String, Value)>,
    commands: Vec<String>,
    unknown: Vec<String>,
    uploads: Vec<Uploaded>,
    progress: Vec<(u8, String)>,
    waiting: Vec<String>,
    logs: Vec<String>,
    faults: Vec<Fault>,
    cancel_after: Option<usize>,
    slept_cancelled: f64,
    crash: Option<oneshot::Sender<()>>,
}

/// A simulated host of hooks: SSH hosts, HTTP, package, store. Cheap to clone; clones share their books.
///
/// ```
/// use vnfm_plugin_sdk::SshTarget;
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
///
/// let host = TestHost::new().ssh_each("*", "uptime", [Reply::unreachable(), Reply::ok("up")]);
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// assert!(block_on(ssh.run("uptime")).is_err());
/// host.fail_after(1);
/// assert!(block_on(ssh.run("uptime")).is_err(), "it ran, and its answer was lost");
/// assert_eq!(host.commands(), ["10.0.0.1: uptime", "10.0.0.1: uptime"]);
/// assert_eq!(host.leaks_of("s3cret"), [""; 0]);
/// assert_eq!(block_on(ssh.run("reboot")).unwrap().exit_code, 127);
/// assert_eq!(host.unknown_commands(), ["10.0.0.1: reboot"]);
/// ```
///
/// What goes wrong is chosen by the number of the call, from now on:
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
/// host.go_on();
/// assert!(!block_on(host.context().cancelled()));
/// assert!(host.slept_while_cancelled().is_zero());
/// ```
#[derive(Clone, Default)]
pub struct TestHost {
    books: Arc<Mutex<Books>>,
}

impl std::fmt::Debug for TestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestHost({} calls)", self.books().calls.len())
    }
}

impl TestHost {
    /// A world in which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// A world that answers itself; what it does not know, the script does.
    pub fn over(world: Arc<dyn World>) -> Self {
        let host = Self::default();
        host.books().world = Some(world);
        host
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands that hold `holds`, on the host `address` (`*`: on any), are answered so. The newest rule wins.
    #[must_use]
    pub fn ssh(self, address: &str, holds: &str, reply: Reply) -> Self {
        self.ssh_each(address, holds, [reply])
    }

    /// The same with one answer after the other; the last is repeated.
    #[must_use]
    pub fn ssh_each(
        self,
        address: &str,
        holds: &str,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Self {
        self.books()
            .script
            .add_command(address, holds, replies.into_iter().collect());
        self
    }

    /// Requests to URLs that begin with `url` are answered so.
    #[must_use]
    pub fn http(self, method: &str, url: &str, status: u16, body: &str) -> Self {
        let response = HttpResponse {
            status,
            body: body.into(),
            ..HttpResponse::default()
        };
        self.books().script.add_url(method, url, response);
        self
    }

    /// Adds a file to the package.
    #[must_use]
    pub fn file(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.books().files.insert(path.into(), content.into());
        self
    }

    /// The `n`th call from now on, from 1, is answered by an error and does nothing.
    pub fn fail_before(&self, n: usize) {
        self.strike(n, false, false);
    }

    /// The `n`th call from now on, from 1, does what it should, and its answer is lost.
    pub fn fail_after(&self, n: usize) {
        self.strike(n, true, false);
    }

    /// The VNFM is killed at the `n`th call from now on, from 1, before it does anything: the hook is dropped.
    pub fn crash_before(&self, n: usize) {
        self.strike(n, false, true);
    }

    /// The VNFM is killed at the `n`th call from now on, from 1, once it did what it should: the hook is dropped.
    pub fn crash_after(&self, n: usize) {
        self.strike(n, true, true);
    }

    fn strike(&self, n: usize, after: bool, kills: bool) {
        let mut books = self.books();
        let at = books.calls.len() + n;
        books.faults.push(Fault { at, after, kills });
    }

    /// The operation is being cancelled once `n` more calls were made.
    pub fn cancel_after(&self, n: usize) {
        let mut books = self.books();
        books.cancel_after = Some(books.calls.len() + n);
    }

    /// The operation is no longer being cancelled, as after a retry.
    pub fn go_on(&self) {
        self.books().cancel_after = None;
    }

    /// How long hooks slept while their operation was being cancelled.
    pub fn slept_while_cancelled(&self) -> Duration {
        Duration::try_from_secs_f64(self.books().slept_cancelled).unwrap_or(Duration::MAX)
    }

    /// The context that a hook gets.
    pub fn context(&self) -> HookContext {
        HookContext::new(Arc::new(self.clone()))
    }

    /// Makes the driver and runs the hook, as the VNFM would.
    ///
    /// # Errors
    ///
    /// As the hook says; `crashed` where the VNFM was killed by [`TestHost::crash_before`] or
    /// [`TestHost::crash_after`].
    pub fn run<D: MgmtDriver>(&self, request: TestRequest) -> Result<Effects, DriverError> {
        futures::executor::block_on(self.run_async::<D>(request))
    }

    /// The same where the [`World`] needs a runtime.
    ///
    /// # Errors
    ///
    /// As [`TestHost::run`].
    pub async fn run_async<D: MgmtDriver>(
        &self,
        request: TestRequest,
    ) -> Result<Effects, DriverError> {
        let (request, config) = request.parts();
        let config = serde_json::from_value(config)
            .map_err(|error| DriverError::new("bad-config", error.to_string()))?;
        let driver = Arc::new(D::new(config)?);
        let (crash, crashed) = oneshot::channel();
        self.books().crash = Some(crash);
        let killed = async {
            if crashed.await.is_err() {
                pending::<()>().await;
            }
        };
        let hooks = Hooks::<D>::of();
        let running = pin!(hooks.run(driver, self.context(), request?));
        match select(running, pin!(killed)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(DriverError::new("crashed", "the VNFM was killed").retryable()),
        }
    }

    /// Every call: service and request, in order.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.books().calls.clone()
    }

    /// Every command, as `address: command line`, in order.
    pub fn commands(&self) -> Vec<String> {
        self.books().commands.clone()
    }

    /// Commands that no rule knew.
    pub fn unknown_commands(&self) -> Vec<String> {
        self.books().unknown.clone()
    }

    /// Every file that was put on a host.
    pub fn uploads(&self) -> Vec<Uploaded> {
        self.books().uploads.clone()
    }

    /// What the operator was told of the progress.
    pub fn progress(&self) -> Vec<(u8, String)> {
        self.books().progress.clone()
    }

    /// What the hook waited for.
    pub fn waiting(&self) -> Vec<String> {
        self.books().waiting.clone()
    }

    /// What was kept over attempts.
    pub fn checkpoints(&self) -> BTreeMap<String, Value> {
        self.books().checkpoints.clone()
    }

    /// Lines of the log, as `Level: text`.
    pub fn logs(&self) -> Vec<String> {
        self.books().logs.clone()
    }

    /// Where `secret` can be read by who must not: in command lines, logs, progress.
    pub fn leaks_of(&self, secret: &str) -> Vec<String> {
        let books = self.books();
        let told = books.progress.iter().map(|(_, text)| text);
        let all = books
            .commands
            .iter()
            .chain(&books.logs)
            .chain(&books.waiting)
            .chain(told);
        all.filter(|text| text.contains(secret)).cloned().collect()
    }
}

impl Services for TestHost {
    fn call(
        &self,
        service: &str,
        request: Value,
    ) -> BoxFuture<'static, Result<Value, ServiceError>> {
        let (host, service) = (self.clone(), service.to_owned());
        Box::pin(async move { host.answer(&service, &request).await })
    }

    fn log(&self, level: Level, text: &str) {
        self.books().logs.push(format!("{level:?}: {text}"));
    }
}

impl TestHost {
    async fn answer(&self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        let (fault, world) = self.books().begin(service, request);
        if let Some(fault) = fault.filter(|fault| !fault.after) {
            return self.struck(fault, service).await;
        }
        let elsewhere = match world {
            Some(world) => world.call(service, request).await,
            None => None,
        };
        let answer = match elsewhere {
            Some(answer) => answer,
            None => self.books().serve(service, request),
        };
        match fault {
            Some(fault) => self.struck(fault, service).await,
            None => answer,
        }
    }

    /// The answer is lost, or the hook with it.
    async fn struck(&self, fault: Fault, service: &str) -> Result<Value, ServiceError> {
        if fault.kills {
            let crash = self.books().crash.take();
            // Whoever listens drops the hook.
            let _ = crash.map(|crash| crash.send(()));
            pending::<()>().await;
        }
        let when = if fault.after { "after" } else { "before" };
        let said = format!("a fault by script, {when} the call");
        Err(ServiceError::new(service, ErrorKind::Unavailable, said))
    }
}

impl Books {
    /// Writes a call down; what goes wrong at it, and who answers.
    fn begin(&mut self, service: &str, request: &Value) -> (Option<Fault>, Option<Arc<dyn World>>) {
        self.calls.push((service.to_owned(), request.clone()));
        if service == "ssh.run" {
            let line = text(request, "/command");
            self.commands
                .push(format!("{}: {line}", text(request, "/host/address")));
        }
        if service == "sleep" && self.is_cancelled() {
            self.slept_cancelled += request["seconds"].as_f64().unwrap_or_default();
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
            "cancelled" => Ok(json!({ "cancelled": self.is_cancelled() })),
            _ => Err(refused(service, format!("there is no service `{service}`"))),
        }
    }

    fn run(&mut self, request: &Value) -> Result<Value, ServiceError> {
        let (address, line) = (text(request, "/host/address"), text(request, "/command"));
        self.script.command(address, line).unwrap_or_else(|| {
            self.unknown.push(format!("{address}: {line}"));
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

fn refused(service: &str, said: String) -> ServiceError {
    ServiceError::new(service, ErrorKind::Refused, said)
}

fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value
        .pointer(place)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
