//! Requests to the API server at the cluster's address, one after the other, while something changes: how many failed.
//!
//! A request that is refused, because the API server that it reaches is stopping, is repeated at once, as clients do. One that
//! gets no response has failed: the clients of an API server would wait as long.

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The interval between two requests.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often a request that is refused is repeated at once.
const REPEATS: u32 = 2;
/// What takes longer was not refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// Whether the API server is ready at an address and port; after `seconds`, it counts as not ready.
///
/// # Errors
/// If `curl` cannot be started.
pub(crate) fn is_ready(endpoint: &str, seconds: &str) -> Result<bool> {
    let url = format!("https://{endpoint}/readyz");
    let words = ["-ksS", "-m", seconds, "--noproxy", "*", &url];
    let output = Command::new("curl").args(words).output();
    Ok(output.context("cannot start `curl`")?.stdout == b"ok")
}

/// Requests that run until [`Requests::end`], or until they are dropped.
pub(crate) struct Requests {
    until_dropped: Sender<()>,
    counted: JoinHandle<Result<Count>>,
}

/// How many requests were served, how many of these only when repeated, and how many failed.
#[derive(Default)]
struct Count {
    served: u64,
    repeated: u64,
    failed: u64,
}

impl Requests {
    /// Starts them; each may take 5 s.
    pub(crate) fn start(endpoint: &str) -> Self {
        let (until_dropped, end) = std::sync::mpsc::channel();
        let endpoint = endpoint.to_owned();
        Self {
            until_dropped,
            counted: std::thread::spawn(move || request(&endpoint, &end)),
        }
    }

    /// Ends them; a sentence about what was served.
    ///
    /// # Errors
    /// If one failed, or none was served.
    pub(crate) fn end(self) -> Result<String> {
        drop(self.until_dropped);
        let Ok(counted) = self.counted.join() else {
            bail!("the requests to the API server could not be counted");
        };
        let Count {
            served,
            repeated,
            failed,
        } = counted?;
        let all = served + failed;
        ensure!(
            failed == 0,
            "{failed} of {all} requests to the API server failed"
        );
        ensure!(served > 0, "no request to the API server was served");
        Ok(format!(
            "API server: {served} requests served, {repeated} of them when repeated, 0 failed"
        ))
    }
}

/// Requests until the sender of `end` is dropped.
fn request(endpoint: &str, end: &Receiver<()>) -> Result<Count> {
    let mut count = Count::default();
    while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let mut repeats = 0;
        let mut sent = Instant::now();
        let mut is_served = is_ready(endpoint, "5")?;
        while !is_served && repeats < REPEATS && sent.elapsed() < REFUSED_WITHIN {
            repeats += 1;
            sent = Instant::now();
            is_served = is_ready(endpoint, "5")?;
        }
        let one = if is_served {
            &mut count.served
        } else {
            &mut count.failed
        };
        *one += 1;
        count.repeated += u64::from(is_served && repeats > 0);
    }
    Ok(count)
}
