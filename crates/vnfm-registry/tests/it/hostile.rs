//! Registries that lead elsewhere: refused before anything is sent there.

use crate::image::image;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use vnfm_outbound::Destinations;
use vnfm_registry::{Access, ErrorKind, Login, Registry, RegistryError};
use vnfm_types::Secret;

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
                let text =
                    format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
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
