//! The engine's side of a hook: SSH, HTTP, the package and the checkpoints.

use crate::lab::RealClock;
use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::{
    Clock as _, Code, ErrorKind, HookHost, PortError, RemoteFile, SshCommand, SshTarget,
};
use vnfm_plugin_sdk::ServiceError;
use vnfm_plugin_sdk::testkit::World;
use vnfm_ssh::Ssh;

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

/// When to kill the VNFM: before or after the effect of the nth service call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kill {
    Before(usize),
    After(usize),
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
            if !["ssh.run", "ssh.put", "ssh.wait", "http", "sleep"].contains(&service.as_str()) {
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
    pub(crate) package: BTreeMap<String, Vec<u8>>,
    pub(crate) checkpoints: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Name of the hook, to which checkpoints belong.
    pub(crate) hook: String,
    pub(crate) messages: Arc<Mutex<Vec<String>>>,
    pub(crate) calls: Mutex<usize>,
    pub(crate) kill: Option<Kill>,
    pub(crate) dead: Arc<Notify>,
}

#[async_trait]
impl HookHost for EngineSide {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        let n = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        if self.kill == Some(Kill::Before(n)) {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        let response = self.serve(service, request).await;
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
    async fn serve(&self, service: &str, mut request: Value) -> Result<Value, PortError> {
        let host = request["host"].take();
        let target = || serde_json::from_value::<SshTarget>(host.clone()).unwrap();
        let key = format!(
            "{}: {}",
            self.hook,
            request["key"].as_str().unwrap_or_default()
        );
        match service {
            "ssh.run" => {
                request.as_object_mut().unwrap().remove("host");
                let command: SshCommand = serde_json::from_value(request).unwrap();
                Ok(json!(self.ssh.run(&target(), &command).await?))
            }
            "ssh.put" => {
                let file = self.remote_file(&request)?;
                self.ssh.put(&target(), &file).await.map(|()| json!({}))
            }
            "ssh.wait" => {
                let seconds = u32::try_from(request["deadlineSeconds"].as_u64().unwrap()).unwrap();
                self.ssh
                    .wait(&target(), seconds, &())
                    .await
                    .map(|()| json!({}))
            }
            "http" => http(&request).await,
            "artifact.list" => Ok(json!({ "paths": self.package.keys().collect::<Vec<_>>() })),
            "checkpoint.get" => Ok(json!({ "value": self.checkpoints.lock().unwrap().get(&key) })),
            "checkpoint.put" => {
                self.checkpoints
                    .lock()
                    .unwrap()
                    .insert(key, request["value"].clone());
                Ok(json!({}))
            }
            "sleep" => {
                RealClock
                    .sleep(Duration::from_secs_f64(
                        request["seconds"].as_f64().unwrap(),
                    ))
                    .await;
                Ok(json!({}))
            }
            "progress" | "waiting" => {
                self.messages
                    .lock()
                    .unwrap()
                    .push(format!("{service}: {request}"));
                Ok(json!({}))
            }
            "cancelled" => Ok(json!({ "cancelled": false })),
            other => Err(PortError::new(
                &REFUSED,
                "serve a hook",
                format!("`{other}` is unknown"),
            )),
        }
    }

    fn remote_file(&self, request: &Value) -> Result<RemoteFile, PortError> {
        let content = match request["artifact"].as_str() {
            Some(path) => self.file(path)?,
            None => decode(request["contentBase64"].as_str().unwrap()),
        };
        Ok(RemoteFile {
            path: request["path"].as_str().unwrap().into(),
            mode: request["mode"].as_str().unwrap().into(),
            sudo: request["sudo"] == true,
            content,
        })
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, PortError> {
        let missing = || PortError::new(&REFUSED, "read an artifact", format!("no `{path}`"));
        self.package.get(path).cloned().ok_or_else(missing)
    }
}

async fn http(request: &Value) -> Result<Value, PortError> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let ca = reqwest::Certificate::from_pem(text(&request["caPem"]).as_bytes()).unwrap();
    let seconds = request["deadlineSeconds"].as_u64().unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]);
    let client = client
        .timeout(Duration::from_secs(seconds))
        .build()
        .unwrap();
    let method = text(&request["method"]).parse().unwrap();
    let mut sending = client.request(method, text(&request["url"]));
    for (name, value) in request["headers"].as_object().unwrap() {
        sending = sending.header(name, text(value));
    }
    if let Some(body) = request["body"].as_str() {
        sending = sending.body(body.to_owned());
    }
    let failed =
        |error: reqwest::Error| PortError::new(&NO_ANSWER, "ask", error.without_url().to_string());
    let response = sending.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    Ok(json!({ "status": status, "body": response.text().await.map_err(failed)? }))
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}
