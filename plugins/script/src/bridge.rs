//! The socket at which a script asks for the services of its host: one JSON object in a line, one in return.
//!
//! ```text
//! {"service": "ssh.run", "request": {"host": "web-1", "command": "uptime"}}
//! {"answer": {"exitCode": 0, "stdout": "…"}}     or     {"error": {"kind": "UNAVAILABLE", "detail": "…"}}
//! ```
//!
//! The services are those of the hook itself; `host` names a host, and the login is added here. Two are ours: `hosts`, and `request`, the
//! hook's own. `http` is there where the operator allows it: a script without a network would else have the server's.

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

/// The longest line: a file for a host is the longest that is meant.
const LONGEST: u64 = 256 << 20;
/// How long a command may take for which the script says nothing: the hook's own deadline comes first.
const NO_LIMIT: u32 = 7 * 24 * 3600;

/// What a script is told that asks for HTTP where the operator does not allow it.
const NO_HTTP: &str = "scripts have no `http` here: they reach the hosts of their VNF over SSH; whoever runs the server allows \
                       it with `http: true` in the configuration of this plugin (`plugins.config`)";

/// The socket, until it is dropped.
pub(crate) struct Bridge {
    path: PathBuf,
    closed: Arc<AtomicBool>,
}

/// What each connection needs.
#[derive(Clone)]
pub(crate) struct Side {
    cx: HookContext,
    hosts: Arc<Hosts>,
    request: Arc<Value>,
    /// Whether it may send HTTP requests through the VNFM.
    http: bool,
}

impl Bridge {
    /// Listens at `path`, one thread for each connection.
    pub(crate) fn open(side: Side, path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let closed = Arc::new(AtomicBool::new(false));
        let until = closed.clone();
        std::thread::Builder::new()
            .name("bridge".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if until.load(Ordering::Acquire) {
                        break;
                    }
                    let (Ok(stream), side) = (stream, side.clone()) else {
                        continue;
                    };
                    // Where there is no thread, the connection is closed, and the script says so.
                    let serve = std::thread::Builder::new().name("bridge".into());
                    let _ = serve.spawn(move || side.serve(stream));
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
        // Wakes who listens.
        let _ = UnixStream::connect(&self.path);
    }
}

#[derive(Deserialize)]
struct Asked {
    service: String,
    #[serde(default)]
    request: Value,
}

impl Side {
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
            match (&mut reading).take(LONGEST).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            let answer = match self.answer(&line) {
                Ok(answer) => json!({ "answer": answer }),
                Err(error) => json!({"error": {"kind": error.kind, "detail": error.detail}}),
            };
            let text = format!("{answer}\n");
            if writing.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, line: &[u8]) -> Result<Value, ServiceError> {
        let Asked {
            service,
            mut request,
        } = serde_json::from_slice(line).map_err(|error| {
            let said =
                format!("a call is `{{\"service\": …, \"request\": {{…}}}}` in one line: {error}");
            ServiceError::new("script", ErrorKind::Refused, said)
        })?;
        if service == "hosts" {
            return Ok(self.hosts.shown(request["vdu"].as_str()));
        }
        if service == "request" {
            return Ok((*self.request).clone());
        }
        if service == "http" && !self.http {
            return Err(ServiceError::new("http", ErrorKind::Refused, NO_HTTP));
        }
        if service.starts_with("ssh.") {
            self.log_in(&service, &mut request)?;
        }
        block_on(self.cx.call(&service, request))
    }

    /// Puts where to log in into the place of a host's name.
    fn log_in(&self, service: &str, request: &mut Value) -> Result<(), ServiceError> {
        let refused = |said: String| ServiceError::new(service, ErrorKind::Refused, said);
        let name = request["host"].as_str().ok_or_else(|| {
            refused(format!(
                "`{service}` needs `host`, the name of a host of this VNF"
            ))
        })?;
        let target = self.hosts.target(name).map_err(refused)?;
        let login = serde_json::to_value(target).map_err(|error| refused(error.to_string()))?;
        request["host"] = login;
        if service != "ssh.put" && request["deadlineSeconds"].is_null() {
            request["deadlineSeconds"] = NO_LIMIT.into();
        }
        Ok(())
    }
}
