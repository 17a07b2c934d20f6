//! A neighbour that lies: one HTTP answer for every request, such as one without an end. It counts what it was asked and what
//! it could send, so that a test sees where a reader stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Lie {
    /// 200, and a body that never ends.
    Endless,
    /// 200, and a byte now and then.
    Dripping,
    /// 200, and a body whose length is said to be a tebibyte.
    Huge,
    /// 200, and a JSON list of so many empty lists.
    Values(usize),
    /// 302 to this place.
    Redirect(String),
    /// This status with this body.
    Plain(u16, String),
}

/// One that listens at a loopback address of its own.
#[derive(Debug)]
pub struct Liar {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// How much is written at once.
const PIECE: usize = 64 << 10;
/// Between two bytes of a dripping answer.
const DROP: Duration = Duration::from_millis(20);

impl Liar {
    /// Begins to listen at `host`, an address of loopback.
    ///
    /// # Errors
    ///
    /// Where it cannot listen there.
    pub async fn start(host: &str, lie: Lie) -> std::io::Result<Self> {
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?;
        let (seen, sent) = (
            Arc::<Mutex<Vec<String>>>::default(),
            Arc::<AtomicU64>::default(),
        );
        let (asked, told) = (seen.clone(), sent.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // It ends where the other side hangs up.
                drop(tokio::spawn(answer(
                    stream,
                    lie.clone(),
                    (asked.clone(), told.clone()),
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

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first line and headers of each request that came.
    pub fn seen(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many bytes of bodies it could send.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Books = (Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

async fn answer(mut stream: TcpStream, lie: Lie, (seen, sent): Books) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    // The whole request is taken: who closes before is not heard to the end.
    let mut body = vec![0; length_of(&head)];
    stream.read_exact(&mut body).await?;
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(String::from_utf8_lossy(&head).into_owned());
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let chunked = format!("{json}Transfer-Encoding: chunked\r\n\r\n");
    let piece = " ".repeat(PIECE);
    match lie {
        Lie::Endless => {
            stream.write_all(chunked.as_bytes()).await?;
            let chunk = format!("{PIECE:x}\r\n{piece}\r\n");
            loop {
                stream.write_all(chunk.as_bytes()).await?;
                sent.fetch_add(PIECE as u64, Ordering::Relaxed);
            }
        }
        Lie::Dripping => {
            stream.write_all(chunked.as_bytes()).await?;
            let mut pace = tokio::time::interval(DROP);
            loop {
                pace.tick().await;
                stream.write_all(b"1\r\n \r\n").await?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        Lie::Huge => {
            let head = format!("{json}Content-Length: {}\r\n\r\n", 1_u64 << 40);
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(piece.as_bytes()).await?;
                sent.fetch_add(PIECE as u64, Ordering::Relaxed);
            }
        }
        Lie::Values(count) => {
            let body = format!("[{}[]]", "[],".repeat(count));
            whole(&mut stream, "200 OK", "", &body).await
        }
        Lie::Redirect(to) => {
            whole(&mut stream, "302 Found", &format!("Location: {to}\r\n"), "").await
        }
        Lie::Plain(status, body) => whole(&mut stream, &format!("{status} Said"), "", &body).await,
    }
}

/// The `Content-Length` of a request; 0 where it has none.
fn length_of(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse().ok())
        .unwrap_or_default()
}

async fn whole(
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
