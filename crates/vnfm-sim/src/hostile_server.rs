//! A hostile HTTP server that sends one fixed response to every request, such as an endless one. It counts requests
//! and bytes sent, so that a test can see where a reader stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The response to every request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HostileResponse {
    /// 200 with a body that never ends.
    Endless,
    /// 200 with an endless body, one byte every 20 ms.
    Dripping,
    /// 200 with an endless body and a `Content-Length` of 1 TiB.
    Huge,
    /// 200 with a JSON array of this many empty arrays.
    Values(usize),
    /// Status 302 with this `Location`.
    Redirect(String),
    /// This status with this body.
    Plain(u16, String),
}

/// A running server; it stops when dropped.
#[derive(Debug)]
pub struct HostileServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// Size of a chunk in bytes.
const CHUNK_LEN: usize = 64 << 10;
/// Pause between two bytes of [`HostileResponse::Dripping`].
const DRIP_INTERVAL: Duration = Duration::from_millis(20);

impl HostileServer {
    /// Listens on a free port of `host`, a loopback address.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub async fn start(host: &str, lie: HostileResponse) -> std::io::Result<Self> {
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?;
        let (seen, sent) = (
            Arc::<Mutex<Vec<String>>>::default(),
            Arc::<AtomicU64>::default(),
        );
        let (seen_by_task, sent_by_task) = (seen.clone(), sent.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // The task ends when the client disconnects.
                drop(tokio::spawn(respond(
                    stream,
                    lie.clone(),
                    (seen_by_task.clone(), sent_by_task.clone()),
                )));
            }
        });
        Ok(Self {
            address,
            seen,
            sent,
            task,
        })
    }

    /// Base URL, with the port.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The request line and headers of each request received.
    pub fn seen(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Number of body bytes sent in endless responses.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Counters = (Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

async fn respond(
    mut stream: TcpStream,
    lie: HostileResponse,
    (seen, sent): Counters,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    // Reads the complete request: closing earlier may reset the connection before the client reads the response.
    let mut body = vec![0; length_of(&head)];
    stream.read_exact(&mut body).await?;
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(String::from_utf8_lossy(&head).into_owned());
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let chunked = format!("{json}Transfer-Encoding: chunked\r\n\r\n");
    let piece = " ".repeat(CHUNK_LEN);
    match lie {
        HostileResponse::Endless => {
            stream.write_all(chunked.as_bytes()).await?;
            let chunk = format!("{CHUNK_LEN:x}\r\n{piece}\r\n");
            loop {
                stream.write_all(chunk.as_bytes()).await?;
                sent.fetch_add(CHUNK_LEN as u64, Ordering::Relaxed);
            }
        }
        HostileResponse::Dripping => {
            stream.write_all(chunked.as_bytes()).await?;
            let mut pace = tokio::time::interval(DRIP_INTERVAL);
            loop {
                pace.tick().await;
                stream.write_all(b"1\r\n \r\n").await?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        HostileResponse::Huge => {
            let head = format!("{json}Content-Length: {}\r\n\r\n", 1_u64 << 40);
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(piece.as_bytes()).await?;
                sent.fetch_add(CHUNK_LEN as u64, Ordering::Relaxed);
            }
        }
        HostileResponse::Values(count) => {
            let body = format!("[{}[]]", "[],".repeat(count));
            send_complete(&mut stream, "200 OK", "", &body).await
        }
        HostileResponse::Redirect(to) => {
            send_complete(&mut stream, "302 Found", &format!("Location: {to}\r\n"), "").await
        }
        HostileResponse::Plain(status, body) => {
            send_complete(&mut stream, &format!("{status} Said"), "", &body).await
        }
    }
}

/// The `Content-Length` of a request; 0 if absent.
fn length_of(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse().ok())
        .unwrap_or_default()
}

async fn send_complete(
    stream: &mut TcpStream,
    status: &str,
    headers: &str,
    body: &str,
) -> std::io::Result<()> {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Subject-Token: planted-token\r\n{headers}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
