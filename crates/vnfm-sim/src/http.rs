//! The HTTP server of all services: routes a request to a named call, injects faults,
//! runs the call and logs it.
//!
//! It uses hyper directly, not a framework, because a fault must be able to cut the connection
//! without a response ([`Cut`]), and because a request without a route must be refused and logged.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::faults::{Fault, Faults, When};
use crate::ledger::{Ledger, Outcome};
use crate::time::pause;

const MAX_BODY_LEN: usize = 64 << 20;

/// A request with its complete body.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    /// The non-empty path segments, percent-decoded.
    pub(crate) fn segments(&self) -> Vec<String> {
        let decode = |s: &str| {
            percent_encoding::percent_decode_str(s)
                .decode_utf8_lossy()
                .into_owned()
        };
        self.path
            .split('/')
            .filter(|s| !s.is_empty())
            .map(decode)
            .collect()
    }

    /// The first value of a query parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a header; empty if absent or not text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A response, with a remark for the call log.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
    pub(crate) detail: String,
}

impl Reply {
    /// A response with a JSON body.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self {
            status,
            headers,
            body: Body::from(body.to_string()),
            detail: String::new(),
        }
    }

    /// A response without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::empty(),
            detail: String::new(),
        }
    }

    /// Adds a header to the response.
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the remark for the call log.
    pub(crate) fn with_remark(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The same response with the full `Content-Length`, cut off after `bytes` bytes of its body.
    async fn cut_after(mut self, bytes: usize) -> Self {
        let body = std::mem::take(&mut self.body);
        let complete = axum::body::to_bytes(body, usize::MAX)
            .await
            .unwrap_or_default();
        let first = complete.slice(..bytes.min(complete.len()));
        let pieces = [Ok(first), Err(Cut)];
        let broken = futures::stream::iter(pieces).then(|piece| async {
            // Lets hyper flush the first piece before the connection is cut.
            tokio::task::yield_now().await;
            piece
        });
        self.body = Body::from_stream(broken);
        self.with_header("content-length", complete.len().to_string())
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// The call that a request makes: its name, its subject, and the code that serves it.
pub(crate) struct Route<'a> {
    pub(crate) call: Cow<'static, str>,
    pub(crate) subject: String,
    pub(crate) run: Box<dyn FnOnce() -> Result<Reply, Reply> + Send + 'a>,
}

impl<'a> Route<'a> {
    pub(crate) fn new(
        call: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
        run: impl FnOnce() -> Result<Reply, Reply> + Send + 'a,
    ) -> Self {
        Self {
            call: call.into(),
            subject: subject.into(),
            run: Box::new(run),
        }
    }
}

/// A simulated service with an HTTP API.
pub(crate) trait Service: Send + Sync + 'static {
    /// Its name in the call log.
    fn name(&self) -> &'static str;
    /// The call that a request makes; none if it is not modelled.
    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>>;
    /// An error response with this status in the service's own format.
    fn failure(&self, status: u16) -> Reply;
}

/// A service with the fault rules and the ledger that apply to it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) books: Arc<Ledger>,
    pub(crate) faults: Arc<Faults>,
}

/// Makes hyper cut the connection without a response.
#[derive(Debug)]
pub(crate) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was cut by an injected fault")
    }
}

impl std::error::Error for Cut {}

/// A listening service. Dropping it closes the socket and all connections.
pub(crate) struct Listening {
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    /// Stops listening and waits until the port is free.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        // The error only says that the task was aborted.
        let _ = (&mut self.task).await;
    }
}

/// Serves until the returned handle is dropped.
pub(crate) fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, server: Server) -> Listening {
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    connections.spawn(serve_connection(stream, tls.clone(), server.clone()));
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    });
    Listening { task }
}

async fn serve_connection(stream: TcpStream, tls: Option<TlsAcceptor>, server: Server) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { handle(&server, request).await }
    });
    let protocol = http1::Builder::new();
    let ended = match tls {
        None => {
            protocol
                .serve_connection(TokioIo::new(stream), service)
                .await
        }
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => {
                protocol
                    .serve_connection(TokioIo::new(stream), service)
                    .await
            }
            Err(error) => return tracing::debug!(%error, "no TLS"),
        },
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn handle(server: &Server, request: hyper::Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), MAX_BODY_LEN)
        .await
        .map_err(|_| Cut)?;
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect();
    let path = parts.uri.path().to_owned();
    let request = Request {
        method: parts.method,
        path,
        query,
        headers: parts.headers,
        body,
    };
    serve_request(server, &request)
        .await
        .map(Reply::into_response)
}

/// Logs the outcome of one call.
struct CallRecord<'a> {
    server: &'a Server,
    since: Option<jiff::Timestamp>,
    call: &'a str,
    subject: &'a str,
}

impl CallRecord<'_> {
    fn log(&self, outcome: impl Into<Outcome>) {
        let service = self.server.service.name();
        let call = (service, self.call, self.subject);
        self.server
            .books
            .record_since(self.since, call, outcome.into());
    }

    fn served(&self, reply: Reply) -> Reply {
        self.log((i64::from(reply.status), reply.detail.as_str()));
        reply
    }
}

async fn serve_request(server: &Server, request: &Request) -> Result<Reply, Cut> {
    let Some(Route { call, subject, run }) = server.service.route(request) else {
        return Ok(refuse_unmodelled(server, request));
    };
    let run = move || run().unwrap_or_else(|refused| refused);
    let record = CallRecord {
        server,
        since: Some(jiff::Timestamp::now()),
        call: &call,
        subject: &subject,
    };
    let reply = match server.faults.take(&call, &subject) {
        None | Some(Fault::Exit { .. } | Fault::Flood { .. } | Fault::Hang { hang: false }) => {
            run()
        }
        Some(Fault::Status { status }) => {
            server.service.failure(status).with_remark("fault: status")
        }
        Some(Fault::Delay { delay_ms }) => {
            pause(Duration::from_millis(delay_ms)).await;
            run()
        }
        Some(Fault::CutAfter { cut_after }) => {
            let reply = run().cut_after(cut_after).await;
            reply.with_remark(format!("fault: cut after {cut_after} bytes"))
        }
        Some(Fault::ErrorAfterEffect { error_after_effect }) => {
            let remark = format!("fault: error after the effect ({})", run().status);
            server
                .service
                .failure(error_after_effect)
                .with_remark(remark)
        }
        Some(Fault::Hostile { hostile }) => {
            let remark = format!("fault: hostile response ({hostile:?})");
            let reply = hostile.apply(run(), server.faults.cleared()).await;
            reply.with_remark(remark)
        }
        Some(Fault::Drop { drop: When::Before }) => {
            record.log((0, "fault: cut before the effect"));
            return Err(Cut);
        }
        Some(Fault::Drop { drop: When::After }) => {
            let remark = format!("fault: cut after the effect ({})", run().status);
            record.log((0, remark));
            return Err(Cut);
        }
        Some(Fault::Hang { hang: true }) => {
            record.log((0, "fault: no response"));
            std::future::pending().await
        }
        Some(Fault::HangAfterEffect { .. }) => {
            let remark = format!("fault: no response after the effect ({})", run().status);
            record.log((0, remark));
            std::future::pending().await
        }
    };
    Ok(record.served(reply))
}

fn refuse_unmodelled(server: &Server, request: &Request) -> Reply {
    let name = server.service.name();
    let message = format!(
        "{name}: `{} {}` is not modelled",
        request.method, request.path
    );
    server.books.record(
        name,
        "unknown",
        &format!("{} {}", request.method, request.path),
        501_u16,
    );
    server.books.record_violation(message.clone());
    Reply::json(
        501,
        &json!({ "code": 501, "title": "Not Implemented", "message": message }),
    )
}
