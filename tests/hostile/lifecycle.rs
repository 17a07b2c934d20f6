//! An instance's life: created, worked on, brought away whatever has become of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use vnfm_tests::rng::Dice;

use crate::testbed::Ground;
use crate::http::Answer;

/// States in which somebody drives an operation.
const DRIVEN: &[&str] = &["STARTING", "PROCESSING", "ROLLING_BACK"];
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long an operation may take when nobody lies any more.
const LONG: Duration = Duration::from_secs(40);
/// How long it may take after it was cancelled.
const CANCELLED: Duration = Duration::from_secs(15);
/// Attempts to bring an instance away.
const ATTEMPTS: usize = 8;

/// What became of a request for an operation.
pub(crate) enum Begun {
    /// It was accepted.
    Op(String),
    /// It was refused.
    Refused(Box<Answer>),
}

/// Creates an instance; its id.
///
/// # Errors
/// Where it is refused.
pub(crate) fn create(ground: &Ground, user: &str, vnfd: &str) -> Result<String> {
    ground.make(user, "/vnflcm/v2/vnf_instances", &json!({"vnfdId": vnfd}))
}

/// Begins an operation.
///
/// # Errors
/// Where there is no answer.
pub(crate) fn begin(
    ground: &Ground,
    user: &str,
    (instance, operation): (&str, &str),
    request: &Value,
) -> Result<Begun> {
    let path = format!("/vnflcm/v2/vnf_instances/{instance}/{operation}");
    let answer = ground.clients.json(user, ("POST", &path), request)?;
    Ok(match answer.made().filter(|_| answer.status == 202) {
        Some(op) => Begun::Op(op),
        None => Begun::Refused(Box::new(answer)),
    })
}

/// Waits until nobody drives an operation; nothing where that takes longer.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn rest(
    ground: &mut Ground,
    user: &str,
    op: &str,
    at_most: Duration,
) -> Result<Option<Value>> {
    let began = Instant::now();
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    loop {
        let now = ground.clients.page(user, &path);
        let now = match now {
            Ok(now) => now,
            Err(error) => {
                ground.is_alive()?;
                return Err(error);
            }
        };
        let state = now["operationState"].as_str().unwrap_or_default();
        if !DRIVEN.contains(&state) {
            return Ok(Some(now));
        }
        if began.elapsed() > at_most {
            return Ok(None);
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// Waits for an operation's end while somebody lies, then without lies, and cancels it if that is not enough.
///
/// # Errors
/// I1: where it neither ends nor stops with a cause.
pub(crate) fn settle(
    ground: &mut Ground,
    user: &str,
    op: &str,
    patience: Duration,
) -> Result<Value> {
    let mut end = rest(ground, user, op, patience)?;
    if end.is_none() {
        ground.disarm()?;
        end = rest(ground, user, op, LONG)?;
    }
    if end.is_none() {
        let cancel = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}/cancel");
        let mode = json!({"cancelMode": "FORCEFUL"});
        let answer = ground.clients.json(user, ("POST", &cancel), &mode)?;
        ensure!(
            matches!(answer.status, 202 | 409),
            "a cancel is answered {}: {}",
            answer.status,
            answer.text()
        );
        end = rest(ground, user, op, CANCELLED)?;
    }
    let end = end.with_context(|| format!("I1: operation `{op}` does not end"))?;
    let state = end["operationState"].as_str().unwrap_or_default();
    let has_cause = end["error"]["detail"]
        .as_str()
        .is_some_and(|detail| !detail.is_empty());
    ensure!(
        state == "COMPLETED" || has_cause,
        "I1: {state} without a cause: {end}"
    );
    Ok(end)
}

/// The operations of an instance.
///
/// # Errors
/// Where they cannot be read.
pub(crate) fn operations(ground: &Ground, user: &str, instance: &str) -> Result<Vec<Value>> {
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,{instance})");
    Ok(ground
        .clients
        .page(user, &path)?
        .as_array()
        .cloned()
        .unwrap_or_default())
}

/// Brings an instance away, by one of the ways on where it has stopped.
///
/// # Errors
/// I7: where no way on works.
pub(crate) fn away(ground: &mut Ground, user: &str, instance: &str, dice: &mut Dice) -> Result<()> {
    let path = format!("/vnflcm/v2/vnf_instances/{instance}");
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        let seen = ground.clients.send(user, ("GET", &path), None)?;
        if seen.status == 404 {
            return Ok(());
        }
        let open = operations(ground, user, instance)?;
        let open: Vec<_> = open
            .iter()
            .filter(|op| {
                let state = op["operationState"].as_str().unwrap_or_default();
                DRIVEN.contains(&state) || state == "FAILED_TEMP"
            })
            .collect();
        ensure!(
            open.len() < 2,
            "I8: two operations of one instance are open: {open:?}"
        );
        if let Some(op) = open.first() {
            let id = op["id"].as_str().unwrap_or_default().to_owned();
            if op["operationState"] == "FAILED_TEMP" {
                // A rollback or a retry may be impossible; to fail it is not.
                let ways = ["retry", "rollback", "fail"];
                let way = if attempt > 2 {
                    "fail"
                } else {
                    *dice.pick(&ways)
                };
                let way = format!("/vnflcm/v2/vnf_lcm_op_occs/{id}/{way}");
                let answer = ground.clients.send(user, ("POST", &way), None)?;
                last = format!("{way}: {} {}", answer.status, answer.text());
            }
            last = format!("{last} {}", settle(ground, user, &id, LONG)?["error"]);
        } else if seen.json()["instantiationState"] == "INSTANTIATED" {
            let request = json!({"terminationType": "FORCEFUL"});
            match begin(ground, user, (instance, "terminate"), &request)? {
                Begun::Op(op) => last = settle(ground, user, &op, LONG)?["error"].to_string(),
                Begun::Refused(answer) => last = answer.text(),
            }
        } else {
            let gone = ground.clients.send(user, ("DELETE", &path), None)?;
            last = format!("DELETE: {} {}", gone.status, gone.text());
            if gone.is_success() {
                return Ok(());
            }
        }
    }
    bail!("I7: instance `{instance}` does not go: {last}")
}

/// A whole life with one operation in the middle; `look` sees the instance while it is there.
///
/// # Errors
/// Where an invariant does not hold.
pub(crate) fn life(
    ground: &mut Ground,
    (user, instance): (&str, &str),
    steps: &[(String, Value)],
    patience: Duration,
) -> Result<Vec<String>> {
    let mut states = Vec::new();
    for (operation, request) in steps {
        match begin(ground, user, (instance, operation), request)? {
            Begun::Op(op) => {
                let end = settle(ground, user, &op, patience)?;
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
            Begun::Refused(answer) => {
                states.push(answer.status.to_string());
                break;
            }
        }
    }
    Ok(states)
}
