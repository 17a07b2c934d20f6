//! The engine's side of a hook: SSH, HTTP, the package and the checkpoints.

use crate::lab::RealClock;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::{
    Clock as _, Code, Content, ErrorKind, FileCopy, FileTransfer, HookCall, HookHost, HttpRequest,
    InstanceFiles as _, PortError, remote_file, wrong_call,
};
use vnfm_plugin_sdk::ServiceError;
use vnfm_plugin_sdk::testkit::World;
use vnfm_ssh::Ssh;
use vnfm_store::FileDir;

/// The instance of the lab.
pub(crate) const INSTANCE: &str = "inst-1";

/// Secret of the logins to the cloud.
pub(crate) const CLOUD_SECRET: &str = "planted-cloud-secret";

const NO_ANSWER: Code = Code {
    name: "lab.no-answer",
    kind: ErrorKind::Unavailable,
    means: "-",
    next: "-",
};

const REFUSED: Code = Code {
    name: "lab.refused",
    kind: ErrorKind::Refused,
    means: "-",
    next: "-",
};

/// When to kill the VNFM, by the number of a service call or by its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kill {
    Before(usize),
    After(usize),
    /// Before the effect of the first call whose request contains these words.
    Asking(&'static str),
}

/// The lab as a world of the test kit: hosts and clusters are the lab's; package, checkpoints and faults the kit's.
pub(crate) struct Neighbours(pub(crate) Arc<EngineSide>);

impl World for Neighbours {
    fn call(
        &self,
        service: &str,
        request: &Value,
    ) -> BoxFuture<'static, Option<Result<Value, ServiceError>>> {
        let (side, service, request) = (self.0.clone(), service.to_owned(), request.clone());
        Box::pin(async move {
            let own = ["ssh.run", "ssh.put", "ssh.wait", "http", "sleep", "clock"];
            if !own.contains(&service.as_str()) && !service.starts_with("file.") {
                return None;
            }
            let response = side.serve(&service, request).await;
            Some(response.map_err(|error| {
                let kind = match error.kind() {
                    ErrorKind::Unavailable => vnfm_plugin_sdk::ErrorKind::Unavailable,
                    ErrorKind::Refused => vnfm_plugin_sdk::ErrorKind::Refused,
                    _ => vnfm_plugin_sdk::ErrorKind::Broken,
                };
                ServiceError::new(&service, kind, error.to_string())
            }))
        })
    }
}

/// The engine's side: SSH, package, checkpoints.
pub(crate) struct EngineSide {
    pub(crate) ssh: Ssh,
    pub(crate) files: Arc<FileDir>,
    pub(crate) package: BTreeMap<String, Vec<u8>>,
    /// Those of the stack.
    pub(crate) outputs: Value,
    pub(crate) checkpoints: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Name of the hook, to which checkpoints belong.
    pub(crate) hook: String,
    pub(crate) messages: Arc<Mutex<Vec<String>>>,
    pub(crate) calls: Mutex<usize>,
    pub(crate) kill: Option<Kill>,
    pub(crate) dead: Arc<Notify>,
    pub(crate) pending: Arc<Pending>,
}

/// The service calls of a hook that have not returned.
#[derive(Default)]
pub(crate) struct Pending {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Pending {
    /// The greatest number at one time.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl HookHost for EngineSide {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let n = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        let is_last = match self.kill {
            Some(Kill::Before(last)) => last == n,
            Some(Kill::Asking(words)) => request.to_string().contains(words),
            _ => false,
        };
        if is_last {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        let pending = 1 + self.pending.now.fetch_add(1, Ordering::SeqCst);
        self.pending.most.fetch_max(pending, Ordering::SeqCst);
        let response = self.serve(service, request).await;
        self.pending.now.fetch_sub(1, Ordering::SeqCst);
        if self.kill == Some(Kill::After(n)) {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        response
    }

    fn log(&self, level: &str, text: &str) {
        self.messages
            .lock()
            .unwrap()
            .push(format!("{level}: {text}"));
    }
}

impl EngineSide {
    async fn serve(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let scoped = |key: String| format!("{}: {key}", self.hook);
        match HookCall::parse(service, request.clone())? {
            HookCall::Run(host, command) => Ok(json!(self.ssh.run(&host.into(), &command).await?)),
            HookCall::Put(host, file) => {
                let file = remote_file(file, |path| self.file(path).map(Content::Bytes))?;
                self.ssh.put(&host.into(), &file).await.map(|()| json!({}))
            }
            HookCall::Wait(host, seconds) => {
                self.ssh.wait(&host.into(), seconds, &()).await?;
                Ok(json!({}))
            }
            HookCall::Http(request) => http(&request).await,
            HookCall::Artifacts => Ok(json!({ "paths": self.package.keys().collect::<Vec<_>>() })),
            HookCall::Artifact(path) => {
                Ok(json!({ "contentBase64": STANDARD.encode(&self.package[&path]) }))
            }
            HookCall::Recall(key) => {
                Ok(json!({ "value": self.checkpoints.lock().unwrap().get(&scoped(key)) }))
            }
            HookCall::Remember(key, value) => {
                self.checkpoints.lock().unwrap().insert(scoped(key), value);
                Ok(json!({}))
            }
            HookCall::Sleep(seconds) => {
                RealClock.sleep(Duration::from_secs_f64(seconds)).await;
                Ok(json!({}))
            }
            HookCall::Progress(..) | HookCall::Waiting(_) | HookCall::Irreversible(_) => {
                let message = format!("{service}: {request}");
                self.messages.lock().unwrap().push(message);
                Ok(json!({}))
            }
            HookCall::Credential(wanted) => Ok(json!({
                "authUrl": "http://cloud.example/v3", "region": "RegionOne", "interface": "public",
                "projectId": "project-1", "id": format!("id-of-{}", wanted.name), "secret": CLOUD_SECRET, "tag": "vnf-1",
            })),
            HookCall::Outputs => Ok(self.outputs.clone()),
            HookCall::Cancelled => Ok(json!({ "cancelled": false })),
            other => self.serve_files(other).await,
        }
    }

    /// Serves the calls that concern stored files and the time.
    async fn serve_files(&self, call: HookCall) -> Result<Value, PortError> {
        match call {
            HookCall::Clock => Ok(json!({ "unixMilliseconds": RealClock.now().as_millisecond() })),
            HookCall::Files => Ok(json!({ "files": self.files.list(INSTANCE).await? })),
            HookCall::Fetch(host, file) => {
                let local = self.files.begin(INSTANCE, &file.name, file.bytes).await?;
                let copy = file_copy(&file, (local.clone(), file.bytes));
                self.ssh.fetch(&host.into(), &copy).await?;
                let expected = (local, file.sha256.as_deref());
                let stored = self.files.complete(INSTANCE, &file.name, expected).await?;
                Ok(json!(stored))
            }
            HookCall::Send(host, file) => {
                let (stored, local) = self.files.open(INSTANCE, &file.name).await?;
                let copy = file_copy(&file, (local, stored.bytes));
                self.ssh.send(&host.into(), &copy).await?;
                Ok(json!(stored))
            }
            HookCall::RemoveFile(name) => {
                self.files.remove(INSTANCE, &name).await?;
                Ok(json!({}))
            }
            other => Err(wrong_call(other.service(), "not in this lab")),
        }
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, PortError> {
        let missing = || PortError::new(&REFUSED, "read an artifact", format!("no `{path}`"));
        self.package.get(path).cloned().ok_or_else(missing)
    }
}

fn file_copy(file: &FileTransfer, (local, bytes): (PathBuf, u64)) -> FileCopy {
    FileCopy {
        remote: file.path.clone(),
        local,
        bytes,
        sudo: file.sudo,
    }
}

async fn http(request: &HttpRequest) -> Result<Value, PortError> {
    let pem = request.ca_pem.as_deref().unwrap();
    let ca = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only(ca);
    let client = client.timeout(request.deadline()).build().unwrap();
    let mut sending = client.request(request.method.parse().unwrap(), &request.url);
    for (name, value) in &request.headers {
        sending = sending.header(name, value.reveal());
    }
    if let Some(body) = &request.body {
        sending = sending.body(body.reveal().to_owned());
    }
    let failed =
        |error: reqwest::Error| PortError::new(&NO_ANSWER, "ask", error.without_url().to_string());
    let response = sending.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    Ok(json!({ "status": status, "body": response.text().await.map_err(failed)? }))
}
