//! Listeners that nothing may call: who calls them, and what is sent.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::network;

/// The response of a canary: a user who sees it has read from an internal address.
pub(crate) const CANARY_SECRET: &str = "inner-secret-of-the-canary-91d2";
/// How long a caller may take to send its request.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Listeners on addresses that no policy allows.
pub(crate) struct Canary {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Attempts to find a port that is free on every address.
const PORT_ATTEMPTS: usize = 50;

impl Canary {
    /// Listens at a loopback address, and at the same port of the other addresses of our own network, if we have one.
    ///
    /// # Errors
    /// If it cannot listen on its address.
    pub(crate) fn open() -> Result<Self> {
        let others: &[&str] = if network::is_isolated() {
            network::ADDRESSES
        } else {
            &[]
        };
        'ports: for _ in 0..PORT_ATTEMPTS {
            let canary = Self::at("127.99.0.1")?;
            for other in others {
                let Ok(listener) = TcpListener::bind((*other, canary.address.port())) else {
                    continue 'ports;
                };
                record_requests(listener, canary.seen.clone());
            }
            return Ok(canary);
        }
        bail!("no port is free at all of {others:?}")
    }

    /// Listens at a free port of this address, for as long as the process lives.
    ///
    /// # Errors
    /// If the address is not this machine's.
    pub(crate) fn at(address: &str) -> Result<Self> {
        let listener = TcpListener::bind((address, 0))
            .with_context(|| format!("cannot listen at `{address}`"))?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        record_requests(listener, seen.clone());
        Ok(Self { address, seen })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests since the last time.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records what each caller sends.
fn record_requests(listener: TcpListener, notes: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let notes = notes.clone();
            std::thread::spawn(move || {
                let received = read_request(stream);
                notes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(received);
            });
        }
    });
}

/// Reads a request and responds normally.
fn read_request(mut stream: TcpStream) -> String {
    let (mut received, mut piece) = (Vec::new(), [0; 8192]);
    let _ = stream.set_read_timeout(Some(TIMEOUT)); // a caller that says nothing has come all the same
    while received.len() < 1 << 20 {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(more) => received.extend_from_slice(&piece[..more]),
        }
        if is_complete(&received) {
            break;
        }
    }
    let body = format!("{{\"canary\": \"{CANARY_SECRET}\"}}");
    let _ = write!(
        stream,
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    String::from_utf8_lossy(&received).into_owned()
}

/// Whether a request is complete.
fn is_complete(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().filter_map(|line| line.split_once(':'));
    let mut length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length
        .next()
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

/// A listener on the address of the world, which responds to every request without end.
pub(crate) struct EndlessServer(SocketAddr);

impl EndlessServer {
    /// Listens at a free port, for as long as the process lives.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\"";
                    let piece = vec![b'a'; 64 << 10];
                    let mut went = stream.write_all(head);
                    while went.is_ok() {
                        went = stream.write_all(&piece);
                    }
                });
            }
        });
        Ok(Self(address))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }
}
