//! The host services for hooks: SSH with host keys pinned in the database, and HTTP.

use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::{
    Change, Code, CommandOutput, ErrorKind, FileCopy, HostServices, HttpRequest, HttpResponse,
    PinnedTarget, PortError, RemoteFile, SshCommand, Store, Watcher,
};
use vnfm_outbound::{
    Client, Destinations, Error, Method, Policy, ReadError, Tls, error_chain, is_forbidden, read,
    without_credentials,
};
use vnfm_ssh::{HostKeys, Ssh};

/// SSH and HTTP for hooks.
pub struct Hosts {
    ssh: Ssh,
    to: Destinations,
    /// HTTP clients by the CA certificates of the request, PEM.
    clients: Mutex<Vec<(String, Client)>>,
}

impl Hosts {
    /// Pins host keys in `store`; hooks can reach the addresses that `to` allows.
    pub fn new(store: Arc<dyn Store>, to: Destinations) -> Self {
        Self::with_host_keys(Arc::new(Pinned(store)), to)
    }

    /// Pins host keys in `host_keys`, without a store.
    pub fn with_host_keys(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            ssh: Ssh::new(host_keys, to.clone()),
            to,
            clients: Mutex::default(),
        }
    }
}

/// Host keys pinned in the database, one per line.
struct Pinned(Arc<dyn Store>);

#[async_trait]
impl HostKeys for Pinned {
    /// A key that an older version pinned regardless of the tenant is accepted, and pinned again to this host only.
    async fn known(&self, host: &PinnedTarget) -> Result<Option<String>, PortError> {
        let Some(known) = self.0.host_key(&host.pin).await? else {
            return Ok(None);
        };
        if known.at != host.pin.at {
            self.learn(host, &known.key).await?;
        }
        Ok(Some(known.key))
    }

    async fn learn(&self, host: &PinnedTarget, key: &str) -> Result<(), PortError> {
        let pin = Box::new(host.pin.clone());
        let change = Change::PinHostKey {
            pin,
            key: key.to_owned(),
        };
        Ok(self.0.write(None, vec![change]).await?)
    }
}

#[async_trait]
impl HostServices for Hosts {
    async fn ssh_run(
        &self,
        target: &PinnedTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        self.ssh.run(target, command).await
    }

    async fn ssh_put(&self, target: &PinnedTarget, file: &RemoteFile) -> Result<(), PortError> {
        self.ssh.put(target, file).await
    }

    async fn ssh_fetch(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        self.ssh.fetch(target, copy).await
    }

    async fn ssh_send(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        self.ssh.send(target, copy).await
    }

    async fn ssh_wait(
        &self,
        target: &PinnedTarget,
        deadline_seconds: u32,
        watcher: &dyn Watcher,
    ) -> Result<(), PortError> {
        self.ssh.wait(target, deadline_seconds, watcher).await
    }

    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError> {
        let action = || format!("{} {}", request.method, without_credentials(&request.url));
        let failed = |error: Error| {
            let code = if is_forbidden(&error) {
                &FORBIDDEN
            } else {
                &NO_ANSWER
            };
            PortError::new(code, action(), error_chain(&error))
        };
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|error| PortError::new(&BAD_REQUEST, action(), error.to_string()))?;
        let client = self.client(request)?;
        let sending = client.request(method, &request.url);
        let sending =
            sending.map_err(|why| PortError::new(&FORBIDDEN, action(), why.to_string()))?;
        let mut sending = sending.timeout(request.deadline());
        for (name, value) in &request.headers {
            sending = sending.header(name, value.reveal());
        }
        if let Some(body) = &request.body {
            sending = sending.body(body.reveal().to_owned());
        }
        let response = sending.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let body = read(response, client.policy())
            .await
            .map_err(|error| match error {
                ReadError::Lost(error) => failed(error),
                error => PortError::new(&TOO_LARGE, action(), error.to_string()),
            })?;
        let mut answer = HttpResponse::new(status, String::from_utf8_lossy(&body));
        answer.headers = headers;
        Ok(answer)
    }
}

/// Maximum number of cached clients, one per CA.
const MAX_CLIENTS: usize = 16;

impl Hosts {
    /// A client that trusts the CA in the request; cached per CA.
    fn client(&self, request: &HttpRequest) -> Result<Client, PortError> {
        let authority = request.ca_pem.clone().unwrap_or_default();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == authority) {
            return Ok(client.clone());
        }
        let tls = Tls {
            authorities: authority.clone().into_bytes(),
            certificate: None,
        };
        let client = Client::new(self.to.clone(), Policy::HOOK, &tls, None).map_err(|why| {
            PortError::new(
                &BAD_REQUEST,
                format!("call {}", without_credentials(&request.url)),
                why,
            )
        })?;
        if clients.len() >= MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((authority, client.clone()));
        Ok(client)
    }
}

const NO_ANSWER: Code = Code {
    name: "hook.http",
    kind: ErrorKind::Unavailable,
    means: "an HTTP request of a hook got no response",
    next: "check that the address in the message is reachable from the server, then retry",
};
const FORBIDDEN: Code = Code {
    name: "hook.http-address",
    kind: ErrorKind::Refused,
    means: "a hook sent an HTTP request to an address that this server must not call",
    next: "add the address to `hooks.networks` in the server's configuration if hooks may reach it, then retry",
};
const TOO_LARGE: Code = Code {
    name: "hook.http-too-large",
    kind: ErrorKind::Refused,
    means: "the response to an HTTP request of a hook is too large",
    next: "have the hook request less at a time",
};
const BAD_REQUEST: Code = Code {
    name: "hook.http-request",
    kind: ErrorKind::Refused,
    means: "a hook tried to send an invalid HTTP request",
    next: "report it to the author of the plugin",
};

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&NO_ANSWER, &FORBIDDEN, &TOO_LARGE, &BAD_REQUEST];
