//! The clients of a flood: each function is the traffic of one thread.

use crate::http::login;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Connections that one of them holds at most.
const CONNECTIONS_PER_THREAD: usize = 75;

/// One thread's part of a flood at this address, until it is over.
pub(crate) type Flood = fn(&str, &Part);

/// The state of a thread of a flood.
pub(crate) struct Part {
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) number: usize,
}

impl Part {
    fn is_running(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }
}

/// Each flood: its name, victim and client.
pub(crate) const FLOODS: &[(&str, &str, Flood)] = &[
    ("silent connections", "vera", idle_connections),
    ("partial request lines", "vera", partial_request_lines),
    ("headers sent byte by byte", "vera", dripping_headers),
    ("missing bodies", "vera", missing_bodies),
    ("stalled uploads of the same tenant", "ann", stalled_uploads),
    ("aborted logins", "vera", aborted_logins),
    ("wrong passwords", "vera", wrong_passwords),
    ("long paths without a login", "vera", long_paths),
    ("long paths of a reader", "vera", reader_long_paths),
    ("list requests of readers", "vera", list_requests),
    ("event pollers", "vera", event_pollers),
    ("subscriptions", "vera", subscriptions),
    ("bytes that are not HTTP", "vera", non_http_bytes),
    ("large bodies", "vera", large_bodies),
];

fn connect(address: &str) -> Option<TcpStream> {
    let address = address.parse().ok()?;
    let stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .ok()?;
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .ok()?;
    Some(stream)
}

/// Opens connections, sends `first` on each, keeps them open, and sends `more` repeatedly.
fn hold(address: &str, part: &Part, first: &[u8], more: &[u8]) {
    let mut held = Vec::new();
    while part.is_running() {
        if held.len() < CONNECTIONS_PER_THREAD
            && let Some(mut stream) = connect(address)
            && stream.write_all(first).is_ok()
        {
            held.push(stream);
            continue;
        }
        // Closed ones are opened again.
        held.retain_mut(|stream| more.is_empty() || stream.write_all(more).is_ok());
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Sends requests as fast as they are accepted, and discards the responses.
fn hammer(address: &str, part: &Part, ask: impl Fn(usize) -> Vec<u8>, hang_up: bool) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    while part.is_running() {
        let Some(mut stream) = connect(address) else {
            continue;
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(&ask(count)).is_err() {
            continue;
        }
        if hang_up {
            std::thread::park_timeout(Duration::from_millis(4));
        } else {
            let mut answer = [0; 256];
            let _ = stream.read(&mut answer); // what it is does not count
        }
    }
}

fn idle_connections(address: &str, part: &Part) {
    hold(address, part, b"", b"");
}

fn partial_request_lines(address: &str, part: &Part) {
    hold(address, part, b"GET / HTTP/1.1\r\nX: ", b"");
}

fn dripping_headers(address: &str, part: &Part) {
    hold(address, part, b"GET / HTTP/1.1\r\nX: ", b"a");
}

fn missing_bodies(address: &str, part: &Part) {
    let message = head("POST", "/vnflcm/v2/vnf_instances", &login("bob"), 100_000);
    hold(address, part, format!("{message}\r\n{{").as_bytes(), b" ");
}

fn stalled_uploads(address: &str, part: &Part) {
    let id = "00000000-0000-4000-8000-00000000dead";
    let path = format!("/vnfpkgm/v2/vnf_packages/{id}/package_content");
    let message = head("PUT", &path, &login("olga"), 1_000_000);
    let message = message.replace("application/json", "application/zip");
    hold(address, part, format!("{message}\r\nPK").as_bytes(), b"");
}

fn aborted_logins(address: &str, part: &Part) {
    let ask = |count| {
        let login = STANDARD.encode(format!("vera:wrong-{count}"));
        let message = head(
            "GET",
            "/vnflcm/v2/vnf_instances",
            &format!("Basic {login}"),
            0,
        );
        format!("{message}\r\n").into_bytes()
    };
    hammer(address, part, ask, true);
}

fn wrong_passwords(address: &str, part: &Part) {
    let ask = |count| {
        let login = STANDARD.encode(format!("user-{}:wrong-{count}", count % 7));
        let message = head(
            "GET",
            "/vnflcm/v2/vnf_instances",
            &format!("Basic {login}"),
            0,
        );
        format!("{message}\r\n").into_bytes()
    };
    hammer(address, part, ask, false);
}

fn long_paths(address: &str, part: &Part) {
    let path = format!("/{}", "x".repeat(60_000));
    let message = format!("GET {path} HTTP/1.1\r\nhost: vnfm\r\n\r\n").into_bytes();
    hammer(address, part, |_| message.clone(), false);
}

fn reader_long_paths(address: &str, part: &Part) {
    let path = format!("/x{}", "a".repeat(60_000));
    let message = format!("{}\r\n", head("POST", &path, &login("rita"), 0)).into_bytes();
    hammer(address, part, |_| message.clone(), false);
}

fn list_requests(address: &str, part: &Part) {
    let message = head("GET", "/vnflcm/v2/vnf_lcm_op_occs", &login("rita"), 0);
    let message = format!("{message}\r\n").into_bytes();
    hammer(address, part, |_| message.clone(), false);
}

fn event_pollers(address: &str, part: &Part) {
    let message = head(
        "GET",
        "/vnfm/v1/events?after=99999&wait_seconds=60",
        &login("rita"),
        0,
    );
    hold(address, part, format!("{message}\r\n").as_bytes(), b"");
}

fn subscriptions(address: &str, part: &Part) {
    // A refused one is costly as well: its callback is tested first.
    let body = format!(
        "{{\"callbackUri\": \"http://127.0.0.1:{}/\"}}",
        9 + part.number
    );
    let message = head(
        "POST",
        "/vnflcm/v2/subscriptions",
        &login("bob"),
        body.len(),
    );
    let message = format!("{message}\r\n{body}").into_bytes();
    hammer(address, part, |_| message.clone(), false);
}

fn non_http_bytes(address: &str, part: &Part) {
    hold(
        address,
        part,
        &[0x16, 3, 1, 0xff, 0xff, 0, 0, 13, 10, 13, 10],
        &[0xff; 64],
    );
}

fn large_bodies(address: &str, part: &Part) {
    let body = format!("{{\"vnfdId\": \"{}\"}}", "x".repeat(900_000));
    let message = head(
        "POST",
        "/vnflcm/v2/vnf_instances",
        &login("bob"),
        body.len(),
    );
    let message = format!("{message}\r\n{body}").into_bytes();
    hammer(address, part, |_| message.clone(), false);
}

pub(crate) fn head(method: &str, path: &str, login: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: vnfm\r\nversion: 2.3.0\r\nauthorization: {login}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    )
}
