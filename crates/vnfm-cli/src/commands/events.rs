//! `vnfmctl events`: what happened, and what happens.

use crate::args::Format;
use crate::client::{Client, Outcome, local};
use crate::output::{Column, Output, cell, print};
use serde_json::Value;

const COLUMNS: &[Column] = &[
    ("number", "/seq"),
    ("at", "/at"),
    ("vnf", "/vnfInstanceName"),
    ("id", "/vnfInstanceId"),
    ("what", "/what"),
    ("why", "/detail"),
];
/// How long the server waits for something new before it says that there is nothing, in seconds.
const WAIT: u64 = 30;

/// All that is kept behind `after`, and with `follow` what comes.
pub(super) async fn run(
    client: &Client,
    output: Output,
    (mut after, follow): (u64, bool),
) -> Outcome<()> {
    if follow && output.0 == Format::Yaml {
        return Err(local(
            "`events --follow` has no end, and so is no YAML; -o json writes a line for each",
        ));
    }
    let mut all = Vec::new();
    loop {
        let wait = if follow { WAIT } else { 0 };
        let path = format!("/vnfm/v1/events?after={after}&wait_seconds={wait}");
        let mut page: Value = client.get(&path).await?;
        after = page["next"].as_u64().unwrap_or(after);
        let events = page["events"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let is_end = events.is_empty();
        let events = events.into_iter().map(told);
        if follow {
            events.for_each(|event| line(output, &event));
        } else if is_end {
            return output.list(&all, COLUMNS);
        } else {
            all.extend(events);
        }
    }
}

/// With what it was in one word or two.
fn told(mut event: Value) -> Value {
    let of_operation = event["operation"].as_str().map(|operation| {
        format!(
            "{operation} {}",
            event["operationState"].as_str().unwrap_or_default()
        )
    });
    let what = of_operation.unwrap_or_else(|| match event["notificationType"].as_str() {
        Some("VnfIdentifierCreationNotification") => "created".to_owned(),
        Some("VnfIdentifierDeletionNotification") => "deleted".to_owned(),
        other => other.unwrap_or_default().to_owned(),
    });
    event["what"] = what.into();
    event
}

fn line(output: Output, event: &Value) {
    if output.0 == Format::Json {
        return print(&event.to_string());
    }
    let of = |place: &str| cell(event.pointer(place));
    let name = Some(of("/vnfInstanceName")).filter(|name| !name.is_empty());
    let who = name.unwrap_or_else(|| of("/vnfInstanceId"));
    print(format!("{}  {who}  {}  {}", of("/at"), of("/what"), of("/detail")).trim_end());
}
