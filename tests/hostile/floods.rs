//! Floods, with and without a login, while the victim must be served (I9).
//!
//! The server has one processor, everything else the other. The victim's latency may be twice that of the same flood
//! against an idle server on the server's processor, plus 50 ms.

use crate::cases::Case;
use crate::flood_clients::{FLOODS, Flood, Part, head};
use crate::http::login;
use crate::processes::Limits;
use crate::testbed::Testbed;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const THREADS: usize = 8;
/// How long a flood lasts.
const FLOOD_DURATION: Duration = Duration::from_millis(1200);
/// Minimum number of measured requests of the victim.
const REQUESTS: usize = 40;
/// Limit for each request of the victim.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Source address of the victim.
const VICTIM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), 0);
/// Allowed latency in addition to twice that at the idle server.
const HEADROOM: Duration = Duration::from_millis(50);
/// Allowed growth of database and log, in bytes.
const MAX_DISK_GROWTH: u64 = 8 << 20;
/// Allowed memory after a first flood, in bytes.
const WARM: u64 = 512 << 20;
/// How long memory may take to be released.
const RECOVERY_TIME: Duration = Duration::from_secs(10);
/// Whether the machine is shared, so that latencies are meaningless.
pub(crate) static SHARED: AtomicBool = AtomicBool::new(false);

/// Each flood × limits of descriptors.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for descriptors in [None, Some(256), Some(64)] {
        for (name, victim, flood) in FLOODS {
            let limit =
                descriptors.map_or("all descriptors".into(), |n| format!("{n} descriptors"));
            let what = format!("{name}, {limit}");
            let act = move |testbed: &mut Testbed, _: &mut vnfm_tests::rng::SeededRng| {
                play(testbed, (name, victim), *flood)
            };
            let mut case = Case::new("flood", what, act);
            case.exclusive = Some(Limits {
                descriptors,
                core: has_two_cores().then_some(0),
                ..Limits::default()
            });
            all.push(case);
        }
    }
    all
}

/// Whether the server can have a processor to itself.
pub(crate) fn has_two_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Moves this process away from the server's processor.
///
/// # Errors
/// If the program `taskset` is missing.
pub(crate) fn move_to_other_core() -> Result<()> {
    if has_two_cores() {
        let me = std::process::id().to_string();
        let mut command = Command::new("taskset");
        let moved = command
            .args(["-acp", "1", &me])
            .stdout(Stdio::null())
            .status();
        ensure!(
            moved.context("cannot start taskset")?.success(),
            "taskset does not move us"
        );
    }
    Ok(())
}

/// The victim's latency while the same flood hits the idle server; measured once for each flood.
fn baseline(name: &'static str, user: &str, flood: Flood) -> Result<Duration> {
    static MEASURED: Mutex<BTreeMap<&str, Duration>> = Mutex::new(BTreeMap::new());
    let measured = || MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(baseline_latency) = measured().get(name) {
        return Ok(*baseline_latency);
    }
    let (idle_server, mut child) = idle_server()?;
    let baseline_latency = latency_under_flood(&idle_server, user, flood);
    let _ = child.kill(); // it ends with us otherwise
    let _ = child.wait();
    let baseline_latency = baseline_latency.context("at the listener that does nothing")?;
    measured().insert(name, baseline_latency);
    Ok(baseline_latency)
}

fn play(testbed: &mut Testbed, (name, user): (&'static str, &str), flood: Flood) -> Result<()> {
    let address = testbed.clients.address().to_owned();
    // The first login of a user is slow because its password hash is checked; warm up.
    let warm_up = Instant::now();
    while warm_up.elapsed() < Duration::from_millis(500) {
        request(&address, user, "GET", "/vnflcm/v2/vnf_instances").context("before the flood")?;
    }
    // One flood in advance: what the allocator keeps of it is the warm level, which has a limit of its own.
    latency_under_flood(&address, user, flood).context("I9, when the flood comes first")?;
    let (before, disk) = (
        testbed.memory.now(),
        size(&testbed.data()) + size(&testbed.log()),
    );
    ensure!(
        before < WARM,
        "memory: {} MiB after a flood of {FLOOD_DURATION:?}",
        before >> 20
    );
    let baseline_latency = baseline(name, user, flood)?;
    let latency = latency_under_flood(&address, user, flood);
    testbed.check_alive()?;
    let latency = latency.context("I9")?;
    let limit = baseline_latency * 2 + HEADROOM;
    let is_slow = latency > limit && !SHARED.load(Ordering::Relaxed);
    ensure!(
        !is_slow,
        "I9: a request of `{user}` takes {latency:?} (p95), {baseline_latency:?} while the same flood hits an idle server"
    );
    let grown = (size(&testbed.data()) + size(&testbed.log())).saturating_sub(disk);
    ensure!(
        grown < MAX_DISK_GROWTH,
        "a flood of {FLOOD_DURATION:?} adds {} MiB to database and log",
        grown >> 20
    );
    let (limit, began) = (before + before / 5 + (16 << 20), Instant::now());
    while testbed.memory.now() > limit.max(128 << 20) {
        let held = testbed.memory.now() >> 20;
        ensure!(
            began.elapsed() < RECOVERY_TIME,
            "memory: {held} MiB ten seconds after the flood, {} MiB before it",
            before >> 20
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    // Subscriptions are those of `olga`.
    let mine = testbed.clients.page("olga", "/vnflcm/v2/subscriptions")?;
    for one in mine.as_array().into_iter().flatten() {
        let id = one["id"].as_str().unwrap_or_default();
        if testbed.fixture.ids["{subscriptionId}"] != id {
            let path = format!("/vnflcm/v2/subscriptions/{id}");
            testbed.clients.send("olga", ("DELETE", &path), None)?;
        }
    }
    Ok(())
}

/// The 95th percentile of the victim's latency during a flood. Fails if a request is not served.
fn latency_under_flood(address: &str, user: &str, flood: Flood) -> Result<Duration> {
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (part, address) = (
                Part {
                    over: over.clone(),
                    number,
                },
                address.to_owned(),
            );
            std::thread::spawn(move || flood(&address, &part))
        })
        .collect();
    std::thread::park_timeout(FLOOD_DURATION / 3);
    let served = measure_victim(address, user);
    over.store(true, Ordering::Release);
    for thread in threads {
        let _ = thread.join(); // what a flood is answered does not count
    }
    served
}

fn measure_victim(address: &str, user: &str) -> Result<Duration> {
    let began = Instant::now();
    let mut latencies = Vec::new();
    while latencies.len() < REQUESTS || began.elapsed() < FLOOD_DURATION {
        let one = Instant::now();
        let status = request(address, user, "GET", "/vnflcm/v2/vnf_instances")?;
        ensure!(status == 200, "a request of `{user}` is answered {status}");
        latencies.push(one.elapsed());
        if began.elapsed() > RESPONSE_TIMEOUT {
            break;
        }
    }
    latencies.sort_unstable();
    Ok(latencies[latencies.len() * 95 / 100])
}

/// A request on a connection of its own; its status.
fn request(address: &str, user: &str, method: &str, path: &str) -> Result<u16> {
    let mut stream =
        connect_from_victim(address).with_context(|| format!("`{user}` gets no connection"))?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    let head = head(method, path, &login(user), 0);
    let message = format!("{head}connection: close\r\n\r\n");
    stream
        .write_all(message.as_bytes())
        .context("the request is not taken")?;
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .with_context(|| format!("`{user}` gets no answer"))?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.with_context(|| format!("`{user}` is answered `{}`", line.trim()))
}

/// Connects from an address of its own, so that limits per address affect the flood only.
fn connect_from_victim(address: &str) -> Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(VICTIM.into())?;
        let address = address.parse().map_err(std::io::Error::other)?;
        tokio::time::timeout(RESPONSE_TIMEOUT, socket.connect(address)).await?
    })?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Starts the idle server on the server's processor, which responds to everything at once.
fn idle_server() -> Result<(String, std::process::Child)> {
    let core = has_two_cores().then_some(0);
    let mut command = crate::processes::pinned_command("vnfm-hostile", core);
    let mut child = command
        .arg("--dummy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    Ok((line.trim().to_owned(), child))
}

/// Serves as the idle server, until standard input ends.
///
/// # Errors
/// If there is no port.
pub(crate) fn serve_idle() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                let (mut latency, answer) = (
                    Vec::new(),
                    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
                );
                while let Ok(more @ 1..) = stream.read(&mut piece) {
                    latency.extend_from_slice(&piece[..more]);
                    if latency.ends_with(b"\r\n\r\n") {
                        latency.clear();
                        if stream.write_all(answer).is_err() {
                            break;
                        }
                    }
                    latency.drain(..latency.len().saturating_sub(16));
                }
            });
        }
    });
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all)?;
    Ok(())
}

/// Size of a file or folder, in bytes.
fn size(path: &Path) -> u64 {
    let Ok(about) = std::fs::metadata(path) else {
        return 0;
    };
    if !about.is_dir() {
        return about.len();
    }
    let all = std::fs::read_dir(path).into_iter().flatten().flatten();
    all.map(|entry| size(&entry.path())).sum()
}
