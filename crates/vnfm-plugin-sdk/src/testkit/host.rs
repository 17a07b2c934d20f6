//! The simulated host: answers by script, remembers everything.

use super::request::TestRequest;
use super::script::{Reply, Script};
use crate::context::{HookContext, Level, Services};
use crate::driver::{Hooks, MgmtDriver};
use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::http::HttpResponse;
use crate::messages::effects::Effects;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file that a driver put on a simulated host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uploaded {
    /// The host's address.
    pub address: String,
    /// Where on it.
    pub path: String,
    /// Permissions.
    pub mode: String,
    /// True where root wrote it.
    pub sudo: bool,
    /// Its content.
    pub content: Vec<u8>,
}

impl Uploaded {
    /// Its content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}

#[derive(Debug, Default)]
struct Books {
    script: Script,
    files: BTreeMap<String, Vec<u8>>,
    checkpoints: BTreeMap<String, Value>,
    calls: Vec<(String, Value)>,
    commands: Vec<String>,
    unknown: Vec<String>,
    uploads: Vec<Uploaded>,
    progress: Vec<(u8, String)>,
    waiting: Vec<String>,
    logs: Vec<String>,
    fail_before: Option<usize>,
    fail_after: Option<usize>,
    cancel_after: Option<usize>,
}

/// A simulated host of hooks: SSH hosts, HTTP, package, store. Cheap to clone; clones share their books.
#[derive(Debug, Clone, Default)]
pub struct TestHost {
    books: Arc<Mutex<Books>>,
}

impl TestHost {
    /// A world in which nothing is known.
    pub fn new() -> Self {
        Self::default()
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
        self.books().script.add_command(address, holds, replies.into_iter().collect());
        self
    }

    /// Requests to URLs that begin with `url` are answered so.
    #[must_use]
    pub fn http(self, method: &str, url: &str, status: u16, body: &str) -> Self {
        let response = HttpResponse { status, body: body.into(), ..HttpResponse::default() };
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
        let mut books = self.books();
        books.fail_before = Some(books.calls.len() + n);
    }

    /// The `n`th call from now on, from 1, does what it should, and its answer is lost.
    pub fn fail_after(&self, n: usize) {
        let mut books = self.books();
        books.fail_after = Some(books.calls.len() + n);
    }

    /// The operation is being cancelled once `n` more calls were made.
    pub fn cancel_after(&self, n: usize) {
        let mut books = self.books();
        books.cancel_after = Some(books.calls.len() + n);
    }

    /// The context that a hook gets.
    pub fn context(&self) -> HookContext {
        HookContext::new(Arc::new(self.clone()))
    }

    /// Makes the driver and runs the hook, as the VNFM would.
    ///
    /// # Errors
    ///
    /// As the hook says.
    pub fn run<D: MgmtDriver>(&self, request: TestRequest) -> Result<Effects, DriverError> {
        let (request, config) = request.parts();
        let config = serde_json::from_value(config)
            .map_err(|error| DriverError::new("bad-config", error.to_string()))?;
        let driver = Arc::new(D::new(config)?);
        futures::executor::block_on(Hooks::<D>::of().run(driver, self.context(), request?))
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
        let all = books.commands.iter().chain(&books.logs).chain(&books.waiting).chain(told);
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
        Box::pin(async move { host.books().call(&service, &request) })
    }

    fn log(&self, level: Level, text: &str) {
        self.books().logs.push(format!("{level:?}: {text}"));
    }
}

impl Books {
    fn call(&mut self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        self.calls.push((service.to_owned(), request.clone()));
        let lost = |what| Err(ServiceError::new(service, ErrorKind::Unavailable, what));
        if self.fail_before == Some(self.calls.len()) {
            return lost("a fault by script, before the call");
        }
        let answer = self.serve(service, request);
        if self.fail_after == Some(self.calls.len()) {
            return lost("a fault by script, after the call");
        }
        answer
    }

    fn serve(&mut self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        match service {
            "ssh.run" => self.run(request),
            "ssh.put" => self.put(request),
            "ssh.wait" | "sleep" => Ok(json!({})),
            "http" => self.script.url(text(request, "/method"), text(request, "/url")),
            "artifact.list" => Ok(json!({ "paths": self.files.keys().collect::<Vec<_>>() })),
            "artifact.read" => {
                let content = BASE64_STANDARD.encode(self.file(text(request, "/path"))?);
                Ok(json!({ "contentBase64": content }))
            }
            "progress" => {
                let percent = request["percent"].as_u64().and_then(|n| n.try_into().ok());
                self.progress.push((percent.unwrap_or(100), text(request, "/message").into()));
                Ok(json!({}))
            }
            "waiting" => {
                self.waiting.push(text(request, "/for").into());
                Ok(json!({}))
            }
            "checkpoint.get" => Ok(json!({ "value": self.checkpoints.get(text(request, "/key")) })),
            "checkpoint.put" => {
                self.checkpoints.insert(text(request, "/key").into(), request["value"].clone());
                Ok(json!({}))
            }
            "cancelled" => {
                let cancelled = self.cancel_after.is_some_and(|after| self.calls.len() > after);
                Ok(json!({ "cancelled": cancelled }))
            }
            _ => Err(refused(service, format!("there is no service `{service}`"))),
        }
    }

    fn run(&mut self, request: &Value) -> Result<Value, ServiceError> {
        let (address, line) = (text(request, "/host/address"), text(request, "/command"));
        let shown = format!("{address}: {line}");
        self.commands.push(shown.clone());
        self.script.command(address, line).unwrap_or_else(|| {
            self.unknown.push(shown);
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
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}
