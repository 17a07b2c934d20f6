//! `vnfmctl op …`: operation occurrences.

use crate::args::{Format, ListOptions, Op, Restart};
use crate::client::{Client, Outcome, lost};
use crate::commands::vnf::INSTANCES;
use crate::output::{Column, Output, print};
use crate::watch;
use jiff::{SignedDuration, Timestamp, Unit};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::{LcmOperationState, LogLine, Progress};

const OPS: &str = "/vnflcm/v2/vnf_lcm_op_occs";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("vnf", "/vnf"),
    ("operation", "/operation"),
    ("state", "/operationState"),
    ("started", "/started"),
    ("age", "/age"),
];
/// Number of ids in one filter, so that the URL stays short.
const IDS_PER_REQUEST: usize = 50;
const DETAILS: &[Column] = &[
    ("id", "/id"),
    ("operation", "/operation"),
    ("state", "/operationState"),
    ("vnf", "/vnfInstanceId"),
    ("started", "/startTime"),
    ("since", "/stateEnteredTime"),
    ("error", "/error/detail"),
    ("step", "/error/step"),
    ("resource", "/error/resource"),
    ("request id", "/error/requestId"),
    ("parameters", "/operationParams"),
];

pub(super) async fn run(client: &Client, output: Output, command: Op) -> Outcome<()> {
    match command {
        Op::List(options) => list(client, output, &options).await,
        Op::Show { op } => output.one(&client.get(&format!("{OPS}/{op}")).await?, DETAILS),
        Op::Watch { op } => watch::operation(client, &op, Completed).await,
        Op::Explain { op } => explain(client, output, &op).await,
        Op::Log { op, follow } => log(client, output, &op, follow).await,
        Op::Retry(Restart { op, watch }) => {
            let target = watch.then_some(Completed);
            restart(client, output, (&op, "retry"), target).await
        }
        Op::Rollback(Restart { op, watch }) => {
            let target = watch.then_some(RolledBack);
            restart(client, output, (&op, "rollback"), target).await
        }
        Op::Fail { op, reason } => {
            let request = client.request(Method::POST, &format!("{OPS}/{op}/fail"));
            let failed: Value = client
                .json(client.with_audit(request, reason.as_deref())?)
                .await?;
            let vnf = failed["vnfInstanceId"].as_str().unwrap_or("VNF");
            let sentence = format!(
                "operation {op} is FAILED; what it created remains. Next: `vnfmctl vnf show {vnf}`, then terminate or heal it"
            );
            output.done(&sentence, &failed)
        }
        Op::Cancel {
            op,
            forceful,
            reason,
        } => {
            let mode = if forceful { "FORCEFUL" } else { "GRACEFUL" };
            let request = client.request(Method::POST, &format!("{OPS}/{op}/cancel"));
            let request = client.with_audit(request, reason.as_deref())?;
            client
                .send(request.json(&json!({"cancelMode": mode})))
                .await?;
            let when = if forceful {
                "now"
            } else {
                "after its current step"
            };
            let sentence = format!(
                "operation {op} stops {when}: it becomes ROLLED_BACK if it was STARTING, otherwise FAILED_TEMP, to retry, roll \
                 back or fail. Follow it with `vnfmctl op watch {op}`"
            );
            output.done(&sentence, &json!({"cancelMode": mode}))
        }
    }
}

/// Lists operations, newest first; a table has the names of their VNFs and their age.
async fn list(client: &Client, output: Output, options: &ListOptions) -> Outcome<()> {
    let mut ops = client.listing(OPS, options, "").await?;
    ops.sort_by_key(|op| std::cmp::Reverse(started(op)));
    if output.is_table() && options.fields.is_none() {
        let names = vnf_names(client, &ops).await?;
        for op in &mut ops {
            let id = op["vnfInstanceId"].as_str().unwrap_or_default();
            op["vnf"] = names.get(id).map_or(id, String::as_str).into();
            if let Some(started) = started(op) {
                op["started"] = started
                    .round(Unit::Second)
                    .unwrap_or(started)
                    .to_string()
                    .into();
                op["age"] = age(Timestamp::now().duration_since(started)).into();
            }
        }
    }
    output.chosen(&ops, COLUMNS, options.fields.as_deref())
}

fn started(op: &Value) -> Option<Timestamp> {
    op["startTime"].as_str()?.parse().ok()
}

/// The names of the operations' VNFs, by id; instances that are deleted, or have no name, are absent.
async fn vnf_names(client: &Client, ops: &[Value]) -> Outcome<BTreeMap<String, String>> {
    let ids: BTreeSet<_> = ops
        .iter()
        .filter_map(|op| op["vnfInstanceId"].as_str())
        .collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut names = BTreeMap::new();
    for some in ids.chunks(IDS_PER_REQUEST) {
        let options = ListOptions {
            filter: Some(format!("(in,id,{})", some.join(","))),
            fields: Some("vnfInstanceName".to_owned()),
        };
        for vnf in client.listing(INSTANCES, &options, "").await? {
            if let (Some(id), Some(name)) = (vnf["id"].as_str(), vnf["vnfInstanceName"].as_str()) {
                names.insert(id.to_owned(), name.to_owned());
            }
        }
    }
    Ok(names)
}

/// A duration in its largest unit: `42s`, `5m`, `3h`, `12d`.
fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Retries an operation or rolls it back, and watches it if it has a `target` state.
async fn restart(
    client: &Client,
    output: Output,
    (op, task): (&str, &str),
    target: Option<LcmOperationState>,
) -> Outcome<()> {
    client
        .send(client.request(Method::POST, &format!("{OPS}/{op}/{task}")))
        .await?;
    if let Some(target) = target {
        watch::operation(client, op, target).await?;
    }
    output.done(
        &format!("{task} of operation {op} accepted"),
        &client.get(&format!("{OPS}/{op}")).await?,
    )
}

async fn explain(client: &Client, output: Output, op: &str) -> Outcome<()> {
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    if output.0 != Format::Table {
        return output.one(&client.get(&path).await?, &[]);
    }
    let now: Progress = client.get(&path).await?;
    print(&format!("operation {op} is {}", now.operation_state));
    for step in &now.steps {
        let since = step
            .started_at
            .map(|at| format!(" since {at}"))
            .unwrap_or_default();
        print(&format!("  {:18} {}{since}", step.name, step.status));
    }
    if let Some(message) = &now.message {
        print(&format!("doing: {message}"));
    }
    if let Some(waiting) = &now.waiting {
        let until = waiting
            .until
            .map(|at| format!(", until {at} at the latest"))
            .unwrap_or_default();
        print(&format!(
            "waiting for: {} since {}{until}",
            waiting.for_what, waiting.since
        ));
    }
    if let Some(retry) = &now.retry {
        let next = retry.next_at.map_or_else(
            || "the next attempt runs".to_owned(),
            |at| format!("the next attempt starts at {at}"),
        );
        let (failures, error) = (retry.failures, &retry.last_error);
        print(&format!("failed {failures} times: {error}; {next}"));
    }
    if let Some(error) = &now.error {
        // An operation that is being retried or rolled back still has the error of its previous attempt.
        let when = if now.operation_state.is_driven() {
            "previous error"
        } else {
            "error"
        };
        print(&format!("{when}: {}", error.detail));
        if let Some(next) = &error.next {
            print(&format!("hint: {next}"));
        }
    }
    for task in &now.ways_on {
        let may = if task.allowed { "can" } else { "cannot" };
        print(&format!("{may} {}: {}", task.task, task.what));
    }
    Ok(())
}

async fn log(client: &Client, output: Output, op: &str, follow: bool) -> Outcome<()> {
    let mut after = 0;
    loop {
        let state: Progress = client
            .get(&format!("/vnfm/v1/op_occs/{op}/progress"))
            .await?;
        let path = format!("/vnfm/v1/op_occs/{op}/log?after={after}");
        let lines: Vec<LogLine> = client.get(&path).await?;
        after = lines.last().map_or(after, |line| line.seq);
        if output.0 == Format::Table {
            for line in &lines {
                let (at, level, source) = (line.at, &line.level, &line.source);
                print(&format!("{at} {level:5} {source}: {}", line.text));
            }
        } else {
            output.one(
                &serde_json::to_value(&lines).map_err(crate::client::local)?,
                &[],
            )?;
        }
        if !follow || !state.operation_state.is_driven() {
            return Ok(());
        }
        next_event(client, op).await?;
    }
}

/// Waits for the operation's next change: the first event of the stream is the state already known.
async fn next_event(client: &Client, op: &str) -> Outcome<()> {
    let path = format!("/vnfm/v1/op_occs/{op}/events");
    let mut response = client.send(client.request(Method::GET, &path)).await?;
    for _ in 0..2 {
        if response
            .chunk()
            .await
            .map_err(|error| lost(client, &error))?
            .is_none()
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::age;
    use jiff::SignedDuration;

    #[test]
    fn an_age_has_its_largest_unit() {
        for (seconds, expected) in [
            (-5, "0s"),
            (59, "59s"),
            (60, "1m"),
            (7_199, "1h"),
            (86_400, "1d"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), expected);
        }
    }
}
