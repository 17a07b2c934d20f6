//! The socket through which a script calls the host's services: one JSON object per line, one in return.
//!
//! ```text
//! {"service": "ssh.run", "request": {"host": "web-1", "command": "uptime"}}
//! {"answer": {"exitCode": 0, "stdout": "…"}}     or     {"error": {"kind": "UNAVAILABLE", "detail": "…"}}
//! ```
//!
//! The services are those of the hook; `host` names a host, and the bridge adds its login. Two more are served here:
//! `hosts`, and `request`, the hook's request. `http` must be allowed by the operator: otherwise a script without a
//! network would have the server's.

use crate::hosts::Hosts;
use futures::executor::block_on;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vnfm_plugin_sdk::{ErrorKind, HookContext, ServiceError};

/// Maximum length of a line; uploads to a host are the longest.
const MAX_LINE_LEN: u64 = 256 << 20;
/// Timeout of a call for which the script gives none; the hook's own deadline comes first.
const DEFAULT_TIMEOUT: u32 = 7 * 24 * 3600;

/// The error of `http` if the operator does not allow it.
const NO_HTTP: &str = "scripts may not use `http` here; they reach the hosts of their VNF over SSH. The operator allows it \
                       with `http: true` in this plugin's configuration (`plugins.config`)";

/// The socket; closed when dropped.
pub(crate) struct Bridge {
    path: PathBuf,
    closed: Arc<AtomicBool>,
}

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct BridgeState {
    cx: HookContext,
    hosts: Arc<Hosts>,
    request: Arc<Value>,
    /// True if the script may send HTTP requests through the VNFM.
    http: bool,
}

impl Bridge {
    /// Listens at `path`, with one thread per connection.
    pub(crate) fn open(state: BridgeState, path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let closed = Arc::new(AtomicBool::new(false));
        let stop = closed.clone();
        std::thread::Builder::new()
            .name("bridge".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let (Ok(stream), state) = (stream, state.clone()) else {
                        continue;
                    };
                    // Without a thread, the connection is closed, and the script reports that.
                    let serve = std::thread::Builder::new().name("bridge".into());
                    let _ = serve.spawn(move || state.serve(stream));
                }
            })?;
        Ok(Self {
            path: path.to_owned(),
            closed,
        })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the listening thread.
        let _ = UnixStream::connect(&self.path);
    }
}

#[derive(Deserialize)]
struct Call {
    service: String,
    #[serde(default)]
    request: Value,
}

impl BridgeState {
    pub(crate) fn new(cx: HookContext, hosts: Arc<Hosts>, request: Value, http: bool) -> Self {
        Self {
            cx,
            hosts,
            request: Arc::new(request),
            http,
        }
    }

    fn serve(&self, stream: UnixStream) {
        let Ok(mut writing) = stream.try_clone() else {
            return;
        };
        let mut reading = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match (&mut reading)
                .take(MAX_LINE_LEN)
                .read_until(b'\n', &mut line)
            {
                Ok(1..) => {}
                _ => return,
            }
            let response = match self.response(&line) {
                Ok(response) => json!({ "answer": response }),
                Err(error) => json!({"error": {"kind": error.kind, "detail": error.detail}}),
            };
            let text = format!("{response}\n");
            if writing.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn response(&self, line: &[u8]) -> Result<Value, ServiceError> {
        let Call {
            service,
            mut request,
        } = serde_json::from_slice(line).map_err(|error| {
            let detail = format!(
                "a call must be `{{\"service\": …, \"request\": {{…}}}}` on one line: {error}"
            );
            ServiceError::new("script", ErrorKind::Refused, detail)
        })?;
        if service == "hosts" {
            let hosts = self.hosts.to_json(request["vdu"].as_str());
            return hosts.map_err(|error| {
                ServiceError::new("hosts", ErrorKind::Refused, error.detail.clone())
            });
        }
        if service == "request" {
            return Ok((*self.request).clone());
        }
        if service == "http" && !self.http {
            return Err(ServiceError::new("http", ErrorKind::Refused, NO_HTTP));
        }
        if service.starts_with("ssh.") {
            self.add_login(&service, &mut request)?;
        }
        block_on(self.cx.call(&service, request))
    }

    /// Replaces the host's name in a request by its address and login.
    fn add_login(&self, service: &str, request: &mut Value) -> Result<(), ServiceError> {
        let refused = |detail: String| ServiceError::new(service, ErrorKind::Refused, detail);
        let name = request["host"].as_str().ok_or_else(|| {
            refused(format!(
                "`{service}` needs `host`, the name of a host of this VNF"
            ))
        })?;
        let target = self.hosts.target(name).map_err(refused)?;
        let login = serde_json::to_value(target).map_err(|error| refused(error.to_string()))?;
        request["host"] = login;
        if service != "ssh.put" && request["deadlineSeconds"].is_null() {
            request["deadlineSeconds"] = DEFAULT_TIMEOUT.into();
        }
        Ok(())
    }
}
