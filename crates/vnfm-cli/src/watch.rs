//! Live progress of an operation: a bar on a terminal, plain lines elsewhere, always with what it waits for.

use crate::client::{Client, Failure, Outcome, local, lost};
use crate::output::{plain, tell};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;
use vnfm_types::{LcmOperationState, Progress};

/// Watches an operation until it stops.
///
/// # Errors
///
/// [`Failure::Operation`] with the cause if it stops in another state than `target`.
pub async fn operation(client: &Client, op_id: &str, target: LcmOperationState) -> Outcome<()> {
    let mut display = Display::new();
    let mut last = None;
    let mut missed = 0;
    while missed < MAX_RECONNECTS {
        match follow(client, op_id, &mut display, &mut last).await {
            Ok(()) => {}
            Err(Failure::Unreachable { url, cause }) if last.is_some() => {
                display.message(&format!(
                    "lost the connection to {url}: {cause}; reconnecting"
                ));
            }
            Err(failure) => return Err(failure),
        }
        match client
            .get::<Progress>(&format!("/vnfm/v1/op_occs/{op_id}/progress"))
            .await
        {
            Ok(now) if !now.operation_state.is_driven() => {
                display.finish();
                return verdict(&now, op_id, target);
            }
            Ok(_) => missed = 0,
            Err(Failure::Unreachable { .. }) => {
                missed += 1;
                pause().await;
            }
            Err(failure) => return Err(failure),
        }
    }
    display.finish();
    let message =
        format!("the server did not come back; it will resume operation `{op_id}` when it starts");
    let hint = Some(format!(
        "start vnfm-server, then run `vnfmctl op watch {op_id}`"
    ));
    Err(Failure::Operation { message, hint })
}

/// Attempts to reconnect to a lost server, [`RECONNECT_INTERVAL`] apart.
const MAX_RECONNECTS: u32 = 60;
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Waits before the next attempt to reconnect.
#[expect(
    clippy::disallowed_methods,
    reason = "the interval between two attempts to reach a lost server"
)]
async fn pause() {
    tokio::time::sleep(RECONNECT_INTERVAL).await;
}

async fn follow(
    client: &Client,
    op_id: &str,
    display: &mut Display,
    last: &mut Option<Progress>,
) -> Outcome<()> {
    let path = format!("/vnfm/v1/op_occs/{op_id}/events");
    let response = client.send(client.request(Method::GET, &path)).await?;
    let mut stream = response.bytes_stream();
    let mut events = Events::default();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| lost(client, &error))?;
        events.received(&chunk)?;
        while let Some(now) = events.next() {
            display.show(&now, last.as_ref());
            *last = Some(now);
        }
    }
    Ok(())
}

/// Largest event in bytes; a longer one fails the command.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Parses server-sent events from the chunks in which they arrive. A chunk may end anywhere, even within a character.
#[derive(Default)]
struct Events(Vec<u8>);

impl Events {
    fn received(&mut self, chunk: &[u8]) -> Outcome<()> {
        self.0.extend_from_slice(chunk);
        if self.0.len() > MAX_EVENT_BYTES && !self.0.windows(2).any(|two| two == b"\n\n") {
            return Err(local(format!(
                "the server sent an event larger than {MAX_EVENT_BYTES} bytes"
            )));
        }
        Ok(())
    }

    /// The next complete progress event; other events are skipped.
    fn next(&mut self) -> Option<Progress> {
        while let Some(end) = self.0.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.0.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            let data = event.lines().find_map(|line| line.strip_prefix("data:"));
            let progress = data.and_then(|data| serde_json::from_str(data).ok());
            if progress.is_some() {
                return progress;
            }
        }
        None
    }
}

fn verdict(end: &Progress, op_id: &str, target: LcmOperationState) -> Outcome<()> {
    if end.operation_state == target {
        return Ok(());
    }
    let cause = end
        .error
        .as_ref()
        .map_or("no reason given", |error| &error.detail);
    let next = end.error.as_ref().and_then(|error| error.next.clone());
    let mut message = format!("operation `{op_id}` is {}: {cause}", end.operation_state);
    for task in end.ways_on.iter().filter(|task| task.allowed) {
        let _ = write!(
            message,
            "\n  vnfmctl op {} {op_id}   {}",
            task.task, task.what
        );
    }
    Err(Failure::Operation {
        message,
        hint: next,
    })
}

/// Shows the progress: a bar on a terminal, else lines.
struct Display {
    bar: Option<ProgressBar>,
}

impl Display {
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

    fn show(&self, now: &Progress, before: Option<&Progress>) {
        let line = line(now);
        match &self.bar {
            Some(bar) => {
                bar.set_position(percent(now));
                bar.set_message(plain(&line).into_owned());
            }
            None if before.map(self::line).as_ref() != Some(&line) => tell(&line),
            None => {}
        }
    }

    fn message(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(plain(text)),
            None => tell(text),
        }
    }

    fn finish(&self) {
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
        let _ = write!(line, ", waiting for {}", waiting.for_what);
    }
    line
}

/// The overall progress: the share of finished steps, plus that of the running one.
fn percent(now: &Progress) -> u64 {
    let all = now.steps.len().max(1) as u64;
    let done = now
        .steps
        .iter()
        .filter(|s| matches!(s.status.as_str(), "done" | "skipped"))
        .count() as u64;
    (done * 100 + u64::from(now.percent.unwrap_or(0))) / all
}

#[cfg(test)]
mod tests {
    use super::{Events, MAX_EVENT_BYTES};
    use serde_json::json;

    #[test]
    fn an_event_is_parsed_when_a_chunk_ends_within_a_character() {
        let progress = json!({"vnfLcmOpOccId": "o", "operationState": "PROCESSING", "attempt": 1,
            "waysOn": [], "steps": [], "message": "Zürich – 東京"});
        let text = format!(": ping\n\nevent: progress\ndata: {progress}\n\n");
        for cut in 1..text.len() {
            let mut events = Events::default();
            events.received(&text.as_bytes()[..cut]).unwrap();
            let early = events.next();
            events.received(&text.as_bytes()[cut..]).unwrap();
            let now = early.or_else(|| events.next()).unwrap();
            assert_eq!(
                now.message.as_deref(),
                Some("Zürich – 東京"),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let mut events = Events::default();
        events.received(&vec![b'x'; MAX_EVENT_BYTES]).unwrap();
        assert!(events.received(b"y").is_err());
    }
}
