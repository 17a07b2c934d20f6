//! `vnfmctl op …`: operation occurrences.

use crate::args::{Format, Op, Restart};
use crate::client::{Client, Outcome, lost};
use crate::output::{Column, Output, print};
use crate::watch;
use reqwest::Method;
use serde_json::{Value, json};
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::{LcmOperationState, LogLine, Progress};

const OPS: &str = "/vnflcm/v2/vnf_lcm_op_occs";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("operation", "/operation"),
    ("state", "/operationState"),
    ("vnf", "/vnfInstanceId"),
    ("started", "/startTime"),
    ("since", "/stateEnteredTime"),
];
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
        Op::List(wanted) => {
            let all = client.listing(OPS, &wanted, "").await?;
            output.chosen(&all, COLUMNS, wanted.fields.as_deref())
        }
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
            output.done(&format!("operation {op} is FAILED"), &failed)
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
            output.done(
                &format!("operation {op} is being cancelled"),
                &json!({"cancelMode": mode}),
            )
        }
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
