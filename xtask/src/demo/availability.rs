//! Requests to the API server at the cluster's address, one after the other, while something changes: how many failed.

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The interval between two requests.
const INTERVAL: Duration = Duration::from_millis(250);

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
    counted: JoinHandle<Result<(u64, u64)>>,
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
        let (served, failed) = counted?;
        let all = served + failed;
        ensure!(
            failed == 0,
            "{failed} of {all} requests to the API server failed"
        );
        ensure!(served > 0, "no request to the API server was served");
        Ok(format!("API server: {served} requests served, 0 failed"))
    }
}

/// Requests until the sender of `end` is dropped; how many were served, and how many failed.
fn request(endpoint: &str, end: &Receiver<()>) -> Result<(u64, u64)> {
    let (mut served, mut failed) = (0, 0);
    while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let count = if is_ready(endpoint, "5")? {
            &mut served
        } else {
            &mut failed
        };
        *count += 1;
    }
    Ok((served, failed))
}
