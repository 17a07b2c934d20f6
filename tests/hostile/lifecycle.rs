//! The lifecycle of an instance: create it, run operations, and remove it from any state.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use vnfm_tests::rng::SeededRng;

use crate::http::Response;
use crate::testbed::Testbed;

/// States of a running operation.
const RUNNING_STATES: &[&str] = &["STARTING", "PROCESSING", "ROLLING_BACK"];
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Limit for an operation with honest neighbours.
const HONEST_TIMEOUT: Duration = Duration::from_secs(40);
/// How long an operation may run after its cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(15);
/// Attempts to remove an instance.
const ATTEMPTS: usize = 8;

/// The outcome of a request for an operation.
pub(crate) enum BeginOutcome {
    /// It was accepted, as this operation.
    Op(String),
    /// It was refused, with this response.
    Refused(Box<Response>),
}

/// Creates an instance; its id.
///
/// # Errors
/// If the server refuses the request.
pub(crate) fn create(testbed: &Testbed, user: &str, vnfd: &str) -> Result<String> {
    testbed.create(user, "/vnflcm/v2/vnf_instances", &json!({"vnfdId": vnfd}))
}

/// Begins an operation on an instance.
///
/// # Errors
/// If there is no answer.
pub(crate) fn begin(
    testbed: &Testbed,
    user: &str,
    (instance, operation): (&str, &str),
    request: &Value,
) -> Result<BeginOutcome> {
    let path = format!("/vnflcm/v2/vnf_instances/{instance}/{operation}");
    let answer = testbed.clients.json(user, ("POST", &path), request)?;
    Ok(match answer.created_id().filter(|_| answer.status == 202) {
        Some(op) => BeginOutcome::Op(op),
        None => BeginOutcome::Refused(Box::new(answer)),
    })
}

/// Waits until an operation is not running; `None` on timeout.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn wait_until_idle(
    testbed: &mut Testbed,
    user: &str,
    op: &str,
    at_most: Duration,
) -> Result<Option<Value>> {
    let began = Instant::now();
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    loop {
        let now = testbed.clients.page(user, &path);
        let now = match now {
            Ok(now) => now,
            Err(error) => {
                testbed.check_alive()?;
                return Err(error);
            }
        };
        let state = now["operationState"].as_str().unwrap_or_default();
        if !RUNNING_STATES.contains(&state) {
            return Ok(Some(now));
        }
        if began.elapsed() > at_most {
            return Ok(None);
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Waits for the end of an operation, first with hostile, then with honest neighbours; finally cancels it.
///
/// # Errors
/// I1: if it neither ends nor stops with an error.
pub(crate) fn wait_for_end(
    testbed: &mut Testbed,
    user: &str,
    op: &str,
    patience: Duration,
) -> Result<Value> {
    let mut end = wait_until_idle(testbed, user, op, patience)?;
    if end.is_none() {
        testbed.disarm()?;
        end = wait_until_idle(testbed, user, op, HONEST_TIMEOUT)?;
    }
    if end.is_none() {
        let cancel = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}/cancel");
        let mode = json!({"cancelMode": "FORCEFUL"});
        let answer = testbed.clients.json(user, ("POST", &cancel), &mode)?;
        ensure!(
            matches!(answer.status, 202 | 409),
            "a cancel is answered {}: {}",
            answer.status,
            answer.text()
        );
        end = wait_until_idle(testbed, user, op, CANCEL_TIMEOUT)?;
    }
    let end = end.with_context(|| format!("I1: operation `{op}` does not end"))?;
    let state = end["operationState"].as_str().unwrap_or_default();
    let has_cause = end["error"]["detail"]
        .as_str()
        .is_some_and(|detail| !detail.is_empty());
    ensure!(
        state == "COMPLETED" || has_cause,
        "I1: {state} without an error: {end}"
    );
    Ok(end)
}

/// The operations of an instance.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn operations(testbed: &Testbed, user: &str, instance: &str) -> Result<Vec<Value>> {
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,{instance})");
    Ok(testbed
        .clients
        .page(user, &path)?
        .as_array()
        .cloned()
        .unwrap_or_default())
}

/// Removes an instance; recovers stopped operations by retry, rollback or fail.
///
/// # Errors
/// I7: if the instance cannot be removed.
pub(crate) fn remove(
    testbed: &mut Testbed,
    user: &str,
    instance: &str,
    rng: &mut SeededRng,
) -> Result<()> {
    let path = format!("/vnflcm/v2/vnf_instances/{instance}");
    let mut last = String::new();
    for attack in 0..ATTEMPTS {
        let seen = testbed.clients.send(user, ("GET", &path), None)?;
        if seen.status == 404 {
            return Ok(());
        }
        let open = operations(testbed, user, instance)?;
        let open: Vec<_> = open
            .iter()
            .filter(|op| {
                let state = op["operationState"].as_str().unwrap_or_default();
                RUNNING_STATES.contains(&state) || state == "FAILED_TEMP"
            })
            .collect();
        ensure!(
            open.len() < 2,
            "I8: two operations of one instance are open: {open:?}"
        );
        if let Some(op) = open.first() {
            let id = op["id"].as_str().unwrap_or_default().to_owned();
            if op["operationState"] == "FAILED_TEMP" {
                // Retry and rollback may be impossible; fail is not.
                let ways = ["retry", "rollback", "fail"];
                let way = if attack > 2 { "fail" } else { *rng.pick(&ways) };
                let way = format!("/vnflcm/v2/vnf_lcm_op_occs/{id}/{way}");
                let answer = testbed.clients.send(user, ("POST", &way), None)?;
                last = format!("{way}: {} {}", answer.status, answer.text());
            }
            last = format!(
                "{last} {}",
                wait_for_end(testbed, user, &id, HONEST_TIMEOUT)?["error"]
            );
        } else if seen.json()["instantiationState"] == "INSTANTIATED" {
            let request = json!({"terminationType": "FORCEFUL"});
            match begin(testbed, user, (instance, "terminate"), &request)? {
                BeginOutcome::Op(op) => {
                    last = wait_for_end(testbed, user, &op, HONEST_TIMEOUT)?["error"].to_string();
                }
                BeginOutcome::Refused(answer) => last = answer.text(),
            }
        } else {
            let deleted = testbed.clients.send(user, ("DELETE", &path), None)?;
            last = format!("DELETE: {} {}", deleted.status, deleted.text());
            if deleted.is_success() {
                return Ok(());
            }
        }
    }
    bail!("I7: cannot remove instance `{instance}`: {last}")
}

/// Runs operations until one does not complete; their final states, or the status of a refusal.
///
/// # Errors
/// If an invariant does not hold.
pub(crate) fn run_operations(
    testbed: &mut Testbed,
    (user, instance): (&str, &str),
    steps: &[(String, Value)],
    patience: Duration,
) -> Result<Vec<String>> {
    let mut states = Vec::new();
    for (operation, request) in steps {
        match begin(testbed, user, (instance, operation), request)? {
            BeginOutcome::Op(op) => {
                let end = wait_for_end(testbed, user, &op, patience)?;
                let state = end["operationState"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let is_done = state == "COMPLETED";
                states.push(state);
                if !is_done {
                    break;
                }
            }
            BeginOutcome::Refused(answer) => {
                states.push(answer.status.to_string());
                break;
            }
        }
    }
    Ok(states)
}
