//! A server that responds from a table and records the requests.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Id of a VNF instance.
pub(crate) const VNF: &str = "5f1d0f0a-0000-4000-8000-000000000001";
/// Id of an operation occurrence.
pub(crate) const OP: &str = "5f1d0f0a-0000-4000-8000-000000000002";

/// A request that the stub server received.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// Method and path, as in `GET /vnfm/v1/vims`.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A response of the table.
#[derive(Debug, Clone)]
pub(crate) struct Canned {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// A response with status 200 and this JSON.
pub(crate) fn ok(body: &Value) -> Canned {
    Canned {
        status: 200,
        headers: Vec::new(),
        body: body.to_string().into(),
    }
}

/// An archive with status 200.
pub(crate) fn file(bytes: Vec<u8>) -> Canned {
    Canned {
        status: 200,
        headers: vec![("content-type", "application/zip".into())],
        body: bytes,
    }
}

/// JSON with this status and `Location`.
pub(crate) fn at(status: u16, location: &str, body: &Value) -> Canned {
    Canned {
        status,
        headers: vec![("location", location.to_owned())],
        body: body.to_string().into(),
    }
}

/// 202 for the operation [`OP`].
pub(crate) fn accepted() -> Canned {
    let location = format!("http://elsewhere/vnflcm/v2/vnf_lcm_op_occs/{OP}");
    Canned {
        status: 202,
        headers: vec![("location", location)],
        body: Vec::new(),
    }
}

/// A response with ProblemDetails, but without a hint.
pub(crate) fn problem(status: u16, detail: &str) -> Canned {
    let body = json!({"status": status, "detail": detail})
        .to_string()
        .into();
    Canned {
        status,
        headers: Vec::new(),
        body,
    }
}

/// A response with ProblemDetails and a hint.
pub(crate) fn hinted(status: u16, detail: &str, next: &str) -> Canned {
    let body = json!({"status": status, "detail": detail, "next": next})
        .to_string()
        .into();
    Canned {
        status,
        headers: Vec::new(),
        body,
    }
}

/// Progress events as a stream.
pub(crate) fn events(all: &[Value]) -> Canned {
    let events: Vec<_> = all
        .iter()
        .map(|one| format!("event: progress\ndata: {one}"))
        .collect();
    let body = events.join("\n\n") + "\n\n";
    Canned {
        status: 200,
        headers: vec![("content-type", "text/event-stream".into())],
        body: body.into(),
    }
}

#[derive(Default)]
struct Table {
    responses: HashMap<String, Canned>,
    requests: Mutex<Vec<Recorded>>,
}

/// A server on a loopback port.
pub(crate) struct Stub {
    url: String,
    table: Arc<Table>,
}

async fn answer(State(table): State<Arc<Table>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let target = format!("{} {}", parts.method, parts.uri);
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let canned = match parts.headers.get("version") {
        Some(version) if version == "2.3.0" => table.responses.get(&target).cloned(),
        other => Some(problem(400, &format!("`Version` is {other:?}"))),
    };
    table.requests.lock().unwrap().push(Recorded {
        target: target.clone(),
        headers: parts.headers,
        body,
    });
    let canned = canned.unwrap_or_else(|| problem(404, &format!("no {target}")));
    let mut response = Response::builder().status(StatusCode::from_u16(canned.status).unwrap());
    for (name, value) in canned.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(canned.body)).unwrap()
}

impl Stub {
    pub(crate) async fn new<const N: usize>(responses: [(&str, Canned); N]) -> Self {
        let responses = responses
            .into_iter()
            .map(|(target, canned)| (target.to_owned(), canned))
            .collect();
        let table = Arc::new(Table {
            responses,
            requests: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(table.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, table }
    }

    /// Base URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far, the oldest first.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.table.requests.lock().unwrap().clone()
    }

    /// Runs `vnfmctl` with these arguments against this server.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        run(&[&["--server", self.url.as_str()], args].concat(), "").await
    }

    /// Runs `vnfmctl` with `input` on standard input.
    pub(crate) async fn run_with(&self, args: &[&str], input: &str) -> Ended {
        run(&[&["--server", self.url.as_str()], args].concat(), input).await
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code of the process.
    pub(crate) code: i32,
    /// Everything written to standard output.
    pub(crate) data: String,
    /// Everything written to standard error.
    pub(crate) messages: String,
}

/// Runs `vnfmctl`, and checks that it prints no planted secret.
pub(crate) async fn run(args: &[&str], input: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command
        .args(args)
        .env("VNFM_TOKEN", "planted-token")
        .env_remove("VNFM_SERVER")
        .env_remove("VNFM_PROFILE");
    command.env("VNFM_PROFILES", "/nonexistent/vnfmctl.yaml");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = process.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (data, messages) = (text(output.stdout), text(output.stderr));
    assert!(
        !format!("{data}{messages}").contains("planted"),
        "a secret was printed: {data}{messages}"
    );
    Ended {
        code: output.status.code().unwrap(),
        data,
        messages,
    }
}

/// The progress of the operation [`OP`], with more members.
pub(crate) fn progress(state: &str, more: &Value) -> Value {
    let mut progress = json!({"vnfLcmOpOccId": OP, "operationState": state, "attempt": 1});
    for (name, value) in more.as_object().into_iter().flatten() {
        progress[name] = value.clone();
    }
    progress
}
