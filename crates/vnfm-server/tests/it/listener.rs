//! The listener with idle clients and with many clients. Each test ends when the server closes a connection, after the
//! configured second; `TEST_TIMEOUT` only prevents a failing test from hanging.

use crate::process::{Server, started, with_config};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Makes the test fail if the server never closes the connection.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

fn serving(data: &TempDir, limits: &str) -> Server {
    let config = data.path().join("vnfm.yaml");
    std::fs::write(&config, format!("limits: {limits}\n")).unwrap();
    started(&mut with_config(&data.path().join("data"), &config))
}

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Everything that the server sends before it closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    let closed = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut response)).await;
    // A reset also closes the connection.
    assert!(closed.is_ok(), "the server does not close the connection");
    String::from_utf8(response).unwrap()
}

async fn sent(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn an_incomplete_request_is_closed_after_the_timeout() {
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
async fn an_idle_connection_is_closed_and_header_names_are_in_title_case() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{idle_seconds: 1, header_seconds: 60}");
    let mut stream = sent(&server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let response = until_closed(&mut stream).await;
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    assert!(
        response.contains("\r\nContent-Type: ") && response.contains("\r\nX-Request-Id: "),
        "{response}"
    );
}

#[tokio::test]
async fn a_body_that_never_arrives_gets_408() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{body_seconds: 1, idle_seconds: 1}");
    let request = "POST /vnfpkgm/v2/vnf_packages HTTP/1.1\r\nHost: x\r\nVersion: 2.3.0\r\n\
                   Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"userDef";
    let mut stream = sent(&server, request).await;
    let response = until_closed(&mut stream).await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains("request.too-slow"), "{response}");
}

/// The response to a request with a large body that is refused before the body is read.
async fn refused(stream: &mut TcpStream) -> String {
    let head =
        "DELETE /nowhere HTTP/1.1\r\nHost: x\r\nVersion: 2.3.0\r\nContent-Length: 900000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server can respond before the body begins.
    tokio::task::yield_now().await;
    stream.write_all(&vec![b'x'; 900_000]).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}") {
        let read = tokio::time::timeout(TEST_TIMEOUT, stream.read_buf(&mut response)).await;
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
async fn a_client_that_is_still_sending_receives_the_refusal() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(&data, "{}");
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    for _ in 0..3 {
        let response = refused(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    }
}

#[tokio::test]
async fn a_request_waiting_for_events_is_not_idle() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(
        &data,
        "{header_seconds: 1, body_seconds: 1, idle_seconds: 1}",
    );
    let request = "GET /vnfm/v1/events?wait_seconds=3 HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = sent(&server, request).await;
    let response = until_closed(&mut stream).await;
    assert!(
        response.starts_with("HTTP/1.1 200 OK") && response.contains("\"events\":[]"),
        "{response}"
    );
}

/// A connection from another local address.
async fn connected(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(from)), 0))?;
    socket.connect(to).await
}

/// A server with 64 descriptors, while one address opens 200 connections.
#[tokio::test]
async fn one_address_cannot_exhaust_the_file_descriptors() {
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
        let created = client.post(format!("{}/vnfpkgm/v2/vnf_packages", server.url));
        let created = created
            .header("version", "2.3.0")
            .json(&serde_json::json!({}))
            .send();
        let created = tokio::time::timeout(TEST_TIMEOUT, created)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(created.status(), 201);
    }
    drop(flood);
}
