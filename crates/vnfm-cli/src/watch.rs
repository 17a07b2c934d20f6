//! Live progress of an operation: a bar on a terminal, plain lines elsewhere; why it waits is always said.

use crate::client::{Client, Failure, Outcome, local, lost};
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
                teller.say(&format!(
                    "lost the connection to {url}: {why}; looking again"
                ));
            }
            Err(failure) => return Err(failure),
        }
        match client
            .get::<Progress>(&format!("/vnfm/v1/op_occs/{op_id}/progress"))
            .await
        {
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
    let hint = Some(format!(
        "start vnfm-server, then `vnfmctl op watch {op_id}`"
    ));
    Err(Failure::Operation { what, hint })
}

/// How often a lost server is looked for, [`BETWEEN`] apart.
const MOST_MISSED: u32 = 60;
const BETWEEN: Duration = Duration::from_secs(1);

/// Waits for a server that went away: there is nothing to listen to.
#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks for a lost server"
)]
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
    let mut events = Events::default();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| lost(client, &error))?;
        events.received(&chunk)?;
        while let Some(now) = events.next() {
            teller.tell(&now, last.as_ref());
            *last = Some(now);
        }
    }
    Ok(())
}

/// Most bytes of one event: a server that never ends one is given up.
const MAX_EVENT: usize = 1 << 20;

/// Server-sent events, from the chunks in which they arrive: a chunk may end anywhere, also within a character.
#[derive(Default)]
struct Events(Vec<u8>);

impl Events {
    fn received(&mut self, chunk: &[u8]) -> Outcome<()> {
        self.0.extend_from_slice(chunk);
        if self.0.len() > MAX_EVENT && !self.0.windows(2).any(|two| two == b"\n\n") {
            return Err(local(format!(
                "the server sent an event of more than {MAX_EVENT} bytes"
            )));
        }
        Ok(())
    }

    /// The next progress that has arrived whole; other events are passed over.
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

fn verdict(end: &Progress, op_id: &str, wanted: LcmOperationState) -> Outcome<()> {
    if end.operation_state == wanted {
        return Ok(());
    }
    let why = end
        .error
        .as_ref()
        .map_or("no reason given", |error| &error.detail);
    let next = end.error.as_ref().and_then(|error| error.next.clone());
    let mut what = format!("operation `{op_id}` is {}: {why}", end.operation_state);
    for way in end.ways_on.iter().filter(|way| way.allowed) {
        let _ = write!(what, "\n  vnfmctl op {} {op_id}   {}", way.task, way.what);
    }
    Err(Failure::Operation { what, hint: next })
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
    let done = now
        .steps
        .iter()
        .filter(|s| matches!(s.status.as_str(), "done" | "skipped"))
        .count() as u64;
    (done * 100 + u64::from(now.percent.unwrap_or(0))) / all
}

#[cfg(test)]
mod tests {
    use super::{Events, MAX_EVENT};
    use serde_json::json;

    #[test]
    fn a_chunk_may_end_within_a_character() {
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
    fn an_event_that_does_not_end_is_given_up() {
        let mut events = Events::default();
        events.received(&vec![b'x'; MAX_EVENT]).unwrap();
        assert!(events.received(b"y").is_err());
    }
}
