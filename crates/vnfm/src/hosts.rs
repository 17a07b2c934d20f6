//! What hooks may ask for, filled: SSH with host keys pinned in the database, and HTTP.

use async_trait::async_trait;
use reqwest::{Certificate, Client, Method};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Change, Code, CommandOutput, ErrorKind, HostServices, HttpRequest, HttpResponse, PortError,
    RemoteFile, SshCommand, SshTarget, Store,
};
use vnfm_ssh::{HostKeys, Ssh};

/// SSH and HTTP for hooks.
pub struct Hosts {
    ssh: Ssh,
}

impl Hosts {
    /// Host keys are pinned in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::trusting(Arc::new(Pinned(store)))
    }

    /// Host keys are pinned in `host_keys`, where there is no store.
    pub fn trusting(host_keys: Arc<dyn HostKeys>) -> Self {
        Self { ssh: Ssh::new(host_keys) }
    }
}

/// Host keys as the database has them: one line each.
struct Pinned(Arc<dyn Store>);

#[async_trait]
impl HostKeys for Pinned {
    async fn known(&self, server_id: &str) -> Result<Option<String>, PortError> {
        Ok(self.0.host_key(server_id).await?)
    }

    async fn learn(&self, server_id: &str, key: &str) -> Result<(), PortError> {
        let change = Change::PinHostKey {
            instance_id: String::new(),
            server_id: server_id.to_owned(),
            key: key.to_owned(),
        };
        Ok(self.0.write(None, vec![change]).await?)
    }
}

#[async_trait]
impl HostServices for Hosts {
    async fn ssh_run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        self.ssh.run(target, command).await
    }

    async fn ssh_put(&self, target: &SshTarget, file: &RemoteFile) -> Result<(), PortError> {
        self.ssh.put(target, file).await
    }

    async fn ssh_wait(&self, target: &SshTarget, deadline_seconds: u32) -> Result<(), PortError> {
        self.ssh.wait(target, deadline_seconds).await
    }

    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError> {
        let doing = || format!("{} {}", request.method, request.url);
        let failed = |error: reqwest::Error| {
            PortError::new(&NO_ANSWER, doing(), error.without_url().to_string())
        };
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|error| PortError::new(&BAD_REQUEST, doing(), error.to_string()))?;
        let mut sending = client(request)?.request(method, &request.url);
        for (name, value) in &request.headers {
            sending = sending.header(name, value.reveal());
        }
        if let Some(body) = &request.body {
            sending = sending.body(body.clone());
        }
        let response = sending.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers: BTreeMap<_, _> = response
            .headers()
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let body = response.text().await.map_err(failed)?;
        Ok(HttpResponse { status, headers, body })
    }
}

const WITHOUT_DEADLINE: u32 = 60;

fn client(request: &HttpRequest) -> Result<Client, PortError> {
    let wrong = |error: reqwest::Error| {
        PortError::new(
            &BAD_REQUEST,
            format!("call {}", request.url),
            error.without_url().to_string(),
        )
    };
    let seconds = request.deadline_seconds.unwrap_or(WITHOUT_DEADLINE);
    let mut builder = Client::builder().no_proxy().timeout(Duration::from_secs(seconds.into()));
    if let Some(pem) = &request.ca_pem {
        let authority = Certificate::from_pem(pem.as_bytes()).map_err(wrong)?;
        builder = builder.tls_certs_only([authority]);
    }
    builder.build().map_err(wrong)
}

/// Nobody answers a hook's HTTP request.
const NO_ANSWER: Code = Code {
    name: "hook.http",
    kind: ErrorKind::Unavailable,
    means: "an HTTP request of a hook was not answered",
    next: "look whether the address in the message can be reached from the server, then retry",
};
/// A hook's HTTP request is none.
const BAD_REQUEST: Code = Code {
    name: "hook.http-request",
    kind: ErrorKind::Refused,
    means: "a hook asked for an HTTP request that cannot be sent",
    next: "report it to whoever wrote the plugin",
};

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&NO_ANSWER, &BAD_REQUEST];
