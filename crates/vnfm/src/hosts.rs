//! What hooks may ask for, filled: SSH with host keys pinned in the database, and HTTP.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{
    Change, Code, CommandOutput, ErrorKind, HostServices, HttpRequest, HttpResponse, PortError,
    RemoteFile, SshCommand, SshTarget, Store,
};
use vnfm_outbound::{
    Client, Destinations, Error, Method, Policy, ReadError, Tls, is_forbidden, read, shown, words,
};
use vnfm_ssh::{HostKeys, Ssh};

/// SSH and HTTP for hooks.
pub struct Hosts {
    ssh: Ssh,
    to: Destinations,
    /// By the authority that a request brings, PEM.
    clients: Mutex<Vec<(String, Client)>>,
}

impl Hosts {
    /// Host keys are pinned in `store`; hooks reach what `to` allows.
    pub fn new(store: Arc<dyn Store>, to: Destinations) -> Self {
        Self::trusting(Arc::new(Pinned(store)), to)
    }

    /// Host keys are pinned in `host_keys`, where there is no store.
    pub fn trusting(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            ssh: Ssh::new(host_keys, to.clone()),
            to,
            clients: Mutex::default(),
        }
    }
}

/// Host keys as the database has them: one line each.
struct Pinned(Arc<dyn Store>);

#[async_trait]
impl HostKeys for Pinned {
    /// A key that an older version pinned for whomever counts, and is pinned anew to this host alone.
    async fn known(&self, host: &SshTarget) -> Result<Option<String>, PortError> {
        let Some(known) = self.0.host_key(&host.pin).await? else {
            return Ok(None);
        };
        if known.at != host.pin.at {
            self.learn(host, &known.key).await?;
        }
        Ok(Some(known.key))
    }

    async fn learn(&self, host: &SshTarget, key: &str) -> Result<(), PortError> {
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
        let doing = || format!("{} {}", request.method, shown(&request.url));
        let failed = |error: Error| {
            let code = if is_forbidden(&error) {
                &FORBIDDEN
            } else {
                &NO_ANSWER
            };
            PortError::new(code, doing(), words(&error))
        };
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|error| PortError::new(&BAD_REQUEST, doing(), error.to_string()))?;
        let seconds = request.deadline_seconds.unwrap_or(WITHOUT_DEADLINE);
        let client = self.client(request)?;
        let sending = client.request(method, &request.url);
        let sending =
            sending.map_err(|why| PortError::new(&FORBIDDEN, doing(), why.to_string()))?;
        let mut sending = sending.timeout(Duration::from_secs(seconds.into()));
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
        let body = read(response, client.policy())
            .await
            .map_err(|error| match error {
                ReadError::Lost(error) => failed(error),
                error => PortError::new(&TOO_LARGE, doing(), error.to_string()),
            })?;
        Ok(HttpResponse {
            status,
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// How long a request may take that says nothing of it, in seconds.
const WITHOUT_DEADLINE: u32 = 60;
/// Clients that are kept: one for each authority that requests bring.
const KEPT: usize = 16;

impl Hosts {
    /// A client that trusts whom the request says; the same one for the same authority.
    fn client(&self, request: &HttpRequest) -> Result<Client, PortError> {
        let authority = request.ca_pem.clone().unwrap_or_default();
        let mut kept = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = kept.iter().find(|(known, _)| *known == authority) {
            return Ok(client.clone());
        }
        let tls = Tls {
            authorities: authority.clone().into_bytes(),
            certificate: None,
        };
        let client = Client::new(self.to.clone(), Policy::HOOK, &tls, None).map_err(|why| {
            PortError::new(&BAD_REQUEST, format!("call {}", shown(&request.url)), why)
        })?;
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((authority, client.clone()));
        Ok(client)
    }
}

/// Nobody answers a hook's HTTP request.
const NO_ANSWER: Code = Code {
    name: "hook.http",
    kind: ErrorKind::Unavailable,
    means: "an HTTP request of a hook was not answered",
    next: "look whether the address in the message can be reached from the server, then retry",
};
/// A hook's HTTP request goes where it must not.
const FORBIDDEN: Code = Code {
    name: "hook.http-address",
    kind: ErrorKind::Refused,
    means: "a hook asked for an HTTP request to an address that this server must not call",
    next: "name the address in `hooks.networks` of the server's configuration if hooks are to reach it, then retry",
};
/// What answers a hook sends too much.
const TOO_LARGE: Code = Code {
    name: "hook.http-too-large",
    kind: ErrorKind::Refused,
    means: "the answer to an HTTP request of a hook is larger than any that is read",
    next: "have the hook ask for less at a time",
};
/// A hook's HTTP request is none.
const BAD_REQUEST: Code = Code {
    name: "hook.http-request",
    kind: ErrorKind::Refused,
    means: "a hook asked for an HTTP request that cannot be sent",
    next: "report it to whoever wrote the plugin",
};

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&NO_ANSWER, &FORBIDDEN, &TOO_LARGE, &BAD_REQUEST];
