//! Live progress of an operation: a bar on a terminal, plain lines elsewhere; why it waits is always said.

use crate::client::{Client, Failure, Outcome, lost, parted};
use crate::output::{plain, tell};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;
use vnfm_types::{LcmOperationState, Progress};

/// Follows an operation until nobody drives it any more.
///
/// # Errors
///
/// [`Failure::Operation`] with the reason where it did not end as COMPLETED or ROLLED_BACK on request.
pub async fn operation(client: &Client, op_id: &str, wanted: LcmOperationState) -> Outcome<()> {
    let mut teller = Teller::new();
    let mut last = None;
    let mut missed = 0;
    while missed < MOST_MISSED {
        match follow(client, op_id, &mut teller, &mut last).await {
            Ok(()) => {}
            Err(Failure::Unreachable { url, why }) if last.is_some() => {
                teller.say(&format!("lost the connection to {url}: {why}; looking again"));
            }
            Err(failure) => return Err(failure),
        }
        match client.get::<Progress>(&format!("/vnfm/v1/op_occs/{op_id}/progress")).await {
            Ok(now) if !now.operation_state.is_driven() => {
                teller.end();
                return verdict(&now, op_id, wanted);
            }
            Ok(_) => missed = 0,
            Err(Failure::Unreachable { .. }) => {
                missed += 1;
                pause().await;
            }
            Err(failure) => return Err(failure),
        }
    }
    teller.end();
    let what = format!("the server was not seen again; operation `{op_id}` goes on when it is");
    let hint = Some(format!("start vnfm-server, then `vnfmctl op watch {op_id}`"));
    Err(Failure::Operation { what, hint })
}

/// How often a lost server is looked for, [`BETWEEN`] apart.
const MOST_MISSED: u32 = 60;
const BETWEEN: Duration = Duration::from_secs(1);

/// Waits for a server that went away: there is nothing to listen to.
#[expect(clippy::disallowed_methods, reason = "the pause between two looks for a lost server")]
async fn pause() {
    tokio::time::sleep(BETWEEN).await;
}

async fn follow(
    client: &Client,
    op_id: &str,
    teller: &mut Teller,
    last: &mut Option<Progress>,
) -> Outcome<()> {
    let path = format!("/vnfm/v1/op_occs/{op_id}/events");
    let response = client.send(client.request(Method::GET, &path)).await?;
    let mut stream = response.bytes_stream();
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| lost(client, &error))?;
        text.push_str(&String::from_utf8_lossy(&chunk));
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            let data = event.lines().find_map(|line| line.strip_prefix("data:"));
            if let Some(now) = data.and_then(|data| serde_json::from_str::<Progress>(data).ok()) {
                teller.tell(&now, last.as_ref());
                *last = Some(now);
            }
        }
    }
    Ok(())
}

fn verdict(end: &Progress, op_id: &str, wanted: LcmOperationState) -> Outcome<()> {
    if end.operation_state == wanted {
        return Ok(());
    }
    let told = end.error.as_ref().map_or("no reason given", |error| &error.detail);
    let (why, next) = parted(told);
    let mut what = format!("operation `{op_id}` is {}: {why}", end.operation_state);
    for way in end.ways_on.iter().filter(|way| way.allowed) {
        let _ = write!(what, "\n  vnfmctl op {} {op_id}   {}", way.task, way.what);
    }
    Err(Failure::Operation { what, hint: next.map(ToOwned::to_owned) })
}

/// Tells what goes on.
struct Teller {
    bar: Option<ProgressBar>,
}

impl Teller {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let style = ProgressStyle::with_template("{spinner} [{bar:24}] {elapsed:>4} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(100).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar: Some(bar) }
    }

    fn tell(&self, now: &Progress, before: Option<&Progress>) {
        let line = line(now);
        match &self.bar {
            Some(bar) => {
                bar.set_position(share(now));
                bar.set_message(plain(&line).into_owned());
            }
            None if before.map(self::line).as_ref() != Some(&line) => tell(&line),
            None => {}
        }
    }

    fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.println(plain(what)),
            None => tell(what),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(now: &Progress) -> String {
    let mut line = now.operation_state.to_string();
    if let Some(step) = &now.step {
        let _ = write!(line, " {step}");
    }
    if now.attempt > 1 {
        let _ = write!(line, " (attempt {})", now.attempt);
    }
    if let Some(message) = &now.message {
        let _ = write!(line, ": {message}");
    }
    if let Some(waiting) = &now.waiting {
        let _ = write!(line, ", waits for {}", waiting.for_what);
    }
    line
}

/// Steps that have ended, and the share of the one that runs.
fn share(now: &Progress) -> u64 {
    let all = now.steps.len().max(1) as u64;
    let done =
        now.steps.iter().filter(|s| matches!(s.status.as_str(), "done" | "skipped")).count() as u64;
    (done * 100 + u64::from(now.percent.unwrap_or(0))) / all
}
