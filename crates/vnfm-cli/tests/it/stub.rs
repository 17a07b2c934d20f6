//! A server that answers from a table and remembers what it was asked.

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

/// An instance, as the server shows it.
pub(crate) const VNF: &str = "5f1d0f0a-0000-4000-8000-000000000001";
/// An operation.
pub(crate) const OP: &str = "5f1d0f0a-0000-4000-8000-000000000002";

/// What was asked: method and path, headers, body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) what: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// An answer of the table.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// JSON with status 200.
pub(crate) fn ok(body: &Value) -> Told {
    Told {
        status: 200,
        headers: Vec::new(),
        body: body.to_string().into(),
    }
}

/// A file.
pub(crate) fn file(bytes: Vec<u8>) -> Told {
    Told {
        status: 200,
        headers: vec![("content-type", "application/zip".into())],
        body: bytes,
    }
}

/// JSON with this status and `Location`.
pub(crate) fn at(status: u16, location: &str, body: &Value) -> Told {
    Told {
        status,
        headers: vec![("location", location.to_owned())],
        body: body.to_string().into(),
    }
}

/// An operation was accepted.
pub(crate) fn accepted() -> Told {
    let location = format!("http://elsewhere/vnflcm/v2/vnf_lcm_op_occs/{OP}");
    Told {
        status: 202,
        headers: vec![("location", location)],
        body: Vec::new(),
    }
}

/// A problem.
pub(crate) fn problem(status: u16, detail: &str) -> Told {
    let body = json!({"status": status, "detail": detail})
        .to_string()
        .into();
    Told {
        status,
        headers: Vec::new(),
        body,
    }
}

/// A problem that says what to do next.
pub(crate) fn hinted(status: u16, detail: &str, next: &str) -> Told {
    let body = json!({"status": status, "detail": detail, "next": next})
        .to_string()
        .into();
    Told {
        status,
        headers: Vec::new(),
        body,
    }
}

/// Server-sent events.
pub(crate) fn events(all: &[Value]) -> Told {
    let events: Vec<_> = all
        .iter()
        .map(|one| format!("event: progress\ndata: {one}"))
        .collect();
    let body = events.join("\n\n") + "\n\n";
    Told {
        status: 200,
        headers: vec![("content-type", "text/event-stream".into())],
        body: body.into(),
    }
}

#[derive(Default)]
struct Table {
    answers: HashMap<String, Told>,
    asked: Mutex<Vec<Asked>>,
}

/// The server.
pub(crate) struct Stub {
    url: String,
    table: Arc<Table>,
}

async fn answer(State(table): State<Arc<Table>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let what = format!("{} {}", parts.method, parts.uri);
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let told = match parts.headers.get("version") {
        Some(version) if version == "2.3.0" => table.answers.get(&what).cloned(),
        other => Some(problem(400, &format!("`Version` is {other:?}"))),
    };
    table.asked.lock().unwrap().push(Asked {
        what: what.clone(),
        headers: parts.headers,
        body,
    });
    let told = told.unwrap_or_else(|| problem(404, &format!("no {what}")));
    let mut response = Response::builder().status(StatusCode::from_u16(told.status).unwrap());
    for (name, value) in told.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(told.body)).unwrap()
}

impl Stub {
    pub(crate) async fn new<const N: usize>(answers: [(&str, Told); N]) -> Self {
        let answers = answers
            .into_iter()
            .map(|(what, told)| (what.to_owned(), told))
            .collect();
        let table = Arc::new(Table {
            answers,
            asked: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(table.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, table }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Everything that was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.table.asked.lock().unwrap().clone()
    }

    /// Runs `vnfmctl` with `words`.
    pub(crate) async fn run(&self, words: &[&str]) -> Ended {
        run(&[&["--server", self.url.as_str()], words].concat(), "").await
    }

    /// The same with something on standard input.
    pub(crate) async fn run_with(&self, words: &[&str], input: &str) -> Ended {
        run(&[&["--server", self.url.as_str()], words].concat(), input).await
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) data: String,
    pub(crate) said: String,
}

/// Runs `vnfmctl`.
pub(crate) async fn run(words: &[&str], input: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command
        .args(words)
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
    let (data, said) = (text(output.stdout), text(output.stderr));
    assert!(
        !format!("{data}{said}").contains("planted"),
        "a secret was printed: {data}{said}"
    );
    Ended {
        code: output.status.code().unwrap(),
        data,
        said,
    }
}

/// A picture of the operation's progress.
pub(crate) fn progress(state: &str, more: &Value) -> Value {
    let mut picture = json!({"vnfLcmOpOccId": OP, "operationState": state, "attempt": 1});
    for (name, value) in more.as_object().into_iter().flatten() {
        picture[name] = value.clone();
    }
    picture
}
