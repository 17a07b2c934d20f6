//! The listener under clients that do nothing, and under many of them. Each test ends when the server closes a connection,
//! which takes the second that is configured; what it may take at most only keeps a failure from hanging.

use crate::process::{Server, started, with_config};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Only so that a server that waits for ever fails the test.
const FOR_EVER: Duration = Duration::from_mins(2);

fn serving(data: &TempDir, limits: &str) -> Server {
    let config = data.path().join("vnfm.yaml");
    std::fs::write(&config, format!("limits: {limits}\n")).unwrap();
    started(&mut with_config(&data.path().join("data"), &config))
}

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// What the server sends until it closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let closed = tokio::time::timeout(FOR_EVER, stream.read_to_end(&mut said)).await;
    // A reset is an end, too.
    assert!(closed.is_ok(), "the connection is held for ever");
    String::from_utf8(said).unwrap()
}

async fn sent(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn half_a_request_and_silence_are_closed() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{header_seconds: 1}");
    for text in ["GET / HTTP/1.1\r\nX: ", "", "PRI * HTTP/2.0\r\n"] {
        let mut stream = sent(&server, text).await;
        assert!(
            !until_closed(&mut stream).await.contains(" 200 "),
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_does_nothing_is_closed_and_names_of_headers_are_in_title_case() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{idle_seconds: 1, header_seconds: 60}");
    let mut stream = sent(&server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    assert!(
        said.contains("\r\nContent-Type: ") && said.contains("\r\nX-Request-Id: "),
        "{said}"
    );
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_408() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{body_seconds: 1, idle_seconds: 1}");
    let request = "POST /vnfpkgm/v2/vnf_packages HTTP/1.1\r\nHost: x\r\nVersion: 2.3.0\r\n\
                   Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"userDef";
    let mut stream = sent(&server, request).await;
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(said.contains("request.too-slow"), "{said}");
}

/// The response to a request with a large body that is refused before the body is read.
async fn refused(stream: &mut TcpStream) -> String {
    let head =
        "DELETE /nowhere HTTP/1.1\r\nHost: x\r\nVersion: 2.3.0\r\nContent-Length: 900000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server has answered, or could have, before the body begins.
    tokio::task::yield_now().await;
    stream.write_all(&vec![b'x'; 900_000]).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}") {
        let read = tokio::time::timeout(FOR_EVER, stream.read_buf(&mut response)).await;
        assert_ne!(
            read.unwrap().unwrap(),
            0,
            "closed after {} bytes",
            response.len()
        );
    }
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn a_refusal_is_received_by_a_client_that_is_still_sending() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{}");
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    for _ in 0..3 {
        let response = refused(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    }
}

#[tokio::test]
async fn a_request_that_waits_for_events_is_not_idle() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(
        &data,
        "{header_seconds: 1, body_seconds: 1, idle_seconds: 1}",
    );
    let request = "GET /vnfm/v1/events?wait_seconds=3 HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = sent(&server, request).await;
    let said = until_closed(&mut stream).await;
    assert!(
        said.starts_with("HTTP/1.1 200 OK") && said.contains("\"events\":[]"),
        "{said}"
    );
}

/// A connection from another address of this machine.
async fn connected(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(from)), 0))?;
    socket.connect(to).await
}

/// With 64 descriptors, of which one address wants 200.
#[tokio::test]
async fn one_address_does_not_take_the_descriptors_of_others_or_of_the_database() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("data");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 64 && exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_vnfm-server"),
    ]);
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&folder);
    command.stdin(std::process::Stdio::null());
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let server = started(&mut command);
    let to = address(&server);
    let mut flood = Vec::new();
    for _ in 0..200 {
        let mut stream = connected([127, 0, 0, 1], to).await.unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ").await;
        flood.push(stream);
    }
    let client = reqwest::Client::builder()
        .no_proxy()
        .local_address(IpAddr::from([127, 0, 0, 2]));
    let client = client.build().unwrap();
    for _ in 0..20 {
        let made = client.post(format!("{}/vnfpkgm/v2/vnf_packages", server.url));
        let made = made
            .header("version", "2.3.0")
            .json(&serde_json::json!({}))
            .send();
        let made = tokio::time::timeout(FOR_EVER, made).await.unwrap().unwrap();
        assert_eq!(made.status(), 201);
    }
    drop(flood);
}
