//! Registries that lead elsewhere, which is refused before anything is sent there; that lie; and whose responses have no end.

use crate::image::image;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use vnfm_outbound::Destinations;
use vnfm_registry::{Access, ErrorKind, Login, Registry, RegistryError};
use vnfm_types::Secret;

/// Between head and body of an answer.
const BODY: &str = "\r\n\r\n";
/// At the end of an answer: its body does not end.
const ENDLESS: &str = " endless";

/// A server that answers each request with what `answer` makes of its first line, and keeps the requests.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 16 << 10];
                let length = stream.read(&mut request).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let head = answer(request.lines().next().unwrap_or_default());
                log.lock().unwrap().push(request);
                if let Some(head) = head.strip_suffix(ENDLESS) {
                    let text = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
                    let mut sent = stream.write_all(text.as_bytes()).await;
                    let spaces = vec![b' '; 64 << 10];
                    while sent.is_ok() {
                        sent = stream.write_all(&spaces).await;
                    }
                    continue;
                }
                let (head, body) = head.split_once(BODY).unwrap_or((&head, ""));
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
                );
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { port, seen }
    }

    fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn push_to(server: &Server) -> RegistryError {
    let access = Access::new(&format!("http://127.0.0.1:{}", server.port)).unwrap();
    let access = access.with_login(Login {
        user: "vnfm".into(),
        password: Secret::new("hunter2"),
    });
    let registry = Registry::new(Destinations::anywhere(), access).unwrap();
    let (image, content) = image(b"layer");
    registry.push(&image, &content).await.unwrap_err()
}

async fn nobody() -> Server {
    Server::start(|_| "200 OK".into()).await
}

fn assert_refused(error: &RegistryError, says: &str, elsewhere: &Server) {
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    assert_eq!(elsewhere.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_is_refused() {
    let elsewhere = nobody().await;
    let to = elsewhere.port;
    let registry = Server::start(move |_| {
        format!("307 Temporary Redirect\r\nLocation: http://localhost:{to}/")
    })
    .await;
    assert_refused(&push_to(&registry).await, "redirects elsewhere", &elsewhere);
}

#[tokio::test]
async fn a_token_endpoint_on_another_host_does_not_get_the_login() {
    let elsewhere = nobody().await;
    let to = elsewhere.port;
    let registry = Server::start(move |_| {
        format!("401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://localhost:{to}/token\",service=\"x\"")
    })
    .await;
    assert_refused(
        &push_to(&registry).await,
        "may not get the login",
        &elsewhere,
    );
    let sent = registry.requests().concat().to_lowercase();
    assert!(!sent.contains("authorization"), "{sent}");
}

#[tokio::test]
async fn an_upload_location_elsewhere_is_refused() {
    let elsewhere = nobody().await;
    let to = elsewhere.port;
    let registry = Server::start(move |line| {
        if line.starts_with("POST") {
            format!("202 Accepted\r\nLocation: http://127.0.0.1:{to}/upload")
        } else {
            "404 Not Found".into()
        }
    })
    .await;
    assert_refused(
        &push_to(&registry).await,
        "upload location elsewhere",
        &elsewhere,
    );
    let requests = registry.requests();
    assert!(!requests.iter().any(|request| request.starts_with("PUT")));
}

#[tokio::test]
async fn a_refused_login_is_tried_once() {
    let registry =
        Server::start(|_| "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"".into()).await;
    let error = push_to(&registry).await;
    assert_refused(&error, "does not accept the login", &nobody().await);
    assert_eq!(registry.requests().len(), 2);
}

#[tokio::test]
async fn a_failing_registry_is_unavailable() {
    let registry = Server::start(|_| "503 Service Unavailable".into()).await;
    let error = push_to(&registry).await;
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    let closed = Server {
        port: 1,
        seen: Arc::default(),
    };
    assert_eq!(push_to(&closed).await.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_registry_that_states_another_digest_is_refused() {
    let other = format!("sha256:{:064}", 7);
    let registry =
        Server::start(move |_| format!("200 OK\r\nDocker-Content-Digest: {other}")).await;
    let error = push_to(&registry).await;
    assert_refused(&error, "it states the digest `sha256:0000", &nobody().await);
    assert_eq!(registry.requests().len(), 1, "nothing is tagged");
}

#[tokio::test]
async fn responses_without_end_are_cut_off() {
    let registry = Server::start(|_| format!("500 Internal Server Error{ENDLESS}")).await;
    let error = push_to(&registry).await;
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    let registry = Server::start(|_| format!("200 OK{ENDLESS}")).await;
    let access = Access::new(&format!("http://127.0.0.1:{}", registry.port)).unwrap();
    let client = Registry::new(Destinations::anywhere(), access).unwrap();
    let error = client.all_uses(None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("list `_catalog`"), "{error}");
}

#[tokio::test]
async fn lists_without_end_are_refused() {
    let registry = Server::start(|_| {
        let next = "Link: </v2/_catalog?last=a>; rel=\"next\"";
        format!("200 OK\r\n{next}{BODY}{{\"repositories\": [\"a\"]}}")
    })
    .await;
    let access = Access::new(&format!("http://127.0.0.1:{}", registry.port)).unwrap();
    let client = Registry::new(Destinations::anywhere(), access).unwrap();
    let error = client.all_uses(None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert_eq!(registry.requests().len(), 100);
}
