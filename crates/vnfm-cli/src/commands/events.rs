//! `vnfmctl events`: past lifecycle events, and new ones with `--follow`.

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
/// How long the server waits for new events before it returns an empty page, in seconds.
const WAIT_SECONDS: u64 = 30;

/// Prints the stored events after number `after`, and with `follow` new ones as they come.
pub(super) async fn run(
    client: &Client,
    output: Output,
    mut after: u64,
    follow: bool,
) -> Outcome<()> {
    if follow && output.0 == Format::Yaml {
        return Err(local(
            "`events --follow` does not end, so it cannot be YAML; use -o json for one line per event",
        ));
    }
    let mut all = Vec::new();
    loop {
        let wait = if follow { WAIT_SECONDS } else { 0 };
        let path = format!("/vnfm/v1/events?after={after}&wait_seconds={wait}");
        let mut page: Value = client.get(&path).await?;
        after = page["next"].as_u64().unwrap_or(after);
        let events = page["events"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let is_end = events.is_empty();
        let events = events.into_iter().map(with_summary);
        if follow {
            events.for_each(|event| line(output, &event));
        } else if is_end {
            return output.list(&all, COLUMNS);
        } else {
            all.extend(events);
        }
    }
}

/// Adds `what`: the event in one or two words.
fn with_summary(mut event: Value) -> Value {
    let of_operation = event["operation"].as_str().map(|operation| {
        format!(
            "{operation} {}",
            event["operationState"].as_str().unwrap_or_default()
        )
    });
    let what = of_operation.unwrap_or_else(|| match event["notificationType"].as_str() {
        Some("VnfIdentifierCreationNotification") => "created".to_owned(),
        Some("VnfIdentifierDeletionNotification") => "deleted".to_owned(),
        Some("VnfcResourcesChanged") => format!(
            "VNFCs changed outside of operations: {} new, {} gone",
            event["addedVnfcs"], event["removedVnfcs"]
        ),
        other => other.unwrap_or_default().to_owned(),
    });
    event["what"] = what.into();
    event
}

fn line(output: Output, event: &Value) {
    if output.0 == Format::Json {
        return print(&event.to_string());
    }
    let text = |pointer: &str| cell(event.pointer(pointer));
    let name = Some(text("/vnfInstanceName")).filter(|name| !name.is_empty());
    let vnf = name.unwrap_or_else(|| text("/vnfInstanceId"));
    print(
        format!(
            "{}  {vnf}  {}  {}",
            text("/at"),
            text("/what"),
            text("/detail")
        )
        .trim_end(),
    );
}
