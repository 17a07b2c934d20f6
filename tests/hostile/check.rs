//! The checks after each case. Resources are read from the simulated world's own inventory.
//!
//! | | |
//! |---|---|
//! | I1 | an operation has ended, or stopped with an error (`lifecycle.rs`) |
//! | I2 | every resource belongs to an instance |
//! | I3 | resources of others are unchanged |
//! | I4 | every change of state is among the events, once, in order |
//! | I5 | the record matches what exists: an instance that is not instantiated has no resources (with I2) |
//! | I6 | no planted secret is in a response, in the log or in a file of the server |
//! | I7 | recovery works (`lifecycle.rs`) |
//! | I8 | no instance has two open operations |
//! | I9 | the victim, a tenant that is not involved, is served and sees what it saw before |
//! | I10 | no address is called that no policy allows, least of all with a secret |
//!
//! In addition the same process still runs, reports no internal error, has the same keys, and has written no file outside.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use vnfm_types::LcmOperationState;

use crate::testbed::Testbed;

/// Limit for the victim's requests without a flood.
const MAX_VICTIM_LATENCY: Duration = Duration::from_secs(5);
/// How long deleted resources may take to disappear.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// The file that an injected shell command would create.
const SHELL_MARKER: &str = "/tmp/hostile";

/// Checks everything; fails with the first violation.
///
/// # Errors
/// The first invariant that is violated.
pub(crate) fn all(testbed: &mut Testbed) -> Result<()> {
    testbed.disarm()?;
    testbed.check_alive()?;
    let found = testbed.clients.found();
    ensure!(found.is_empty(), "{}", found.join(" AND "));
    canary(testbed)?;
    victim(testbed)?;
    world(testbed)?;
    events(testbed)?;
    log(testbed)?;
    let keys = testbed.clients.page("root", "/vnfm/v1/secrets")?["keys"].clone();
    let sealed = |keys: &serde_json::Value| keys[0]["fingerprint"].clone();
    ensure!(
        sealed(&keys) == sealed(&testbed.fixture.keys),
        "the server's keys were changed"
    );
    ensure!(
        !Path::new(SHELL_MARKER).exists(),
        "an injected command was run: `{SHELL_MARKER}` exists"
    );
    testbed.check_alive()
}

/// Checks I10: no canary was called.
pub(crate) fn canary(testbed: &Testbed) -> Result<()> {
    let seen = testbed.canary.seen();
    let Some(first) = seen.first() else {
        return Ok(());
    };
    let secrets: Vec<_> = seen
        .iter()
        .flat_map(|request| testbed.planted.within(request.as_bytes()))
        .collect();
    let line: String = first
        .lines()
        .next()
        .unwrap_or("(silence)")
        .chars()
        .take(200)
        .collect();
    if secrets.is_empty() {
        bail!("I10: the server called an inner address that no policy names: {line}");
    }
    bail!("I10: {secrets:?} sent to an address that it was not registered for: {line}")
}

/// I9 without a flood: the victim lists, creates and deletes.
fn victim(testbed: &mut Testbed) -> Result<()> {
    let began = Instant::now();
    let own = |after: u64| {
        testbed
            .clients
            .page("vera", &format!("/vnfm/v1/events?after={after}"))
    };
    let number = |page: &serde_json::Value| page["next"].as_u64().unwrap_or_default();
    let events = own(testbed.fixture.calm_events).context("I9: the victim")?;
    let is_calm = events["events"] == json!([]) && number(&events) == testbed.fixture.calm_events;
    ensure!(is_calm, "the victim sees events of other tenants: {events}");
    let list = "/vnflcm/v2/vnf_instances";
    let seen = testbed
        .clients
        .page("vera", list)
        .context("I9: the victim")?;
    ensure!(
        seen == testbed.fixture.calm,
        "I9: the victim's list has changed: {seen}"
    );
    let body = json!({"vnfdId": testbed.fixture.calm_vnfd});
    let created = testbed
        .create("vera", list, &body)
        .context("I9: the victim")?;
    let path = format!("{list}/{created}");
    let missing = testbed.clients.send("vera", ("DELETE", &path), None)?;
    ensure!(
        missing.status == 204,
        "I9: the victim's DELETE is {}",
        missing.status
    );
    let events = number(&own(testbed.fixture.calm_events)?);
    let took = began.elapsed();
    ensure!(
        took < MAX_VICTIM_LATENCY,
        "I9: the victim's story takes {took:?}"
    );
    testbed.fixture.calm_events = events;
    Ok(())
}

/// Checks I2, I3 and I5 against the simulated world.
fn world(testbed: &Testbed) -> Result<()> {
    let began = Instant::now();
    let mut left = testbed.resources(false)?;
    while !left.is_empty() && began.elapsed() < CLEANUP_TIMEOUT {
        std::thread::park_timeout(Duration::from_millis(20));
        left = testbed.resources(false)?;
    }
    ensure!(
        left.is_empty(),
        "I2: {} resources that belong to no instance: {left:?}",
        left.len()
    );
    let seeded = testbed.resources(true)?;
    let before = &testbed.fixture.seeded;
    let missing: Vec<_> = before.iter().filter(|one| !seeded.contains(one)).collect();
    ensure!(
        missing.is_empty(),
        "I3: what others have is gone: {missing:?}"
    );
    Ok(())
}

/// I4 and I8: for each operation its states, each a legal move from the one before.
fn events(testbed: &mut Testbed) -> Result<()> {
    let path = format!("/vnfm/v1/events?after={}", testbed.fixture.events);
    let page = testbed.clients.page("ann", &path)?;
    let mut states_by_op: BTreeMap<String, Vec<LcmOperationState>> = BTreeMap::new();
    for event in page["events"].as_array().into_iter().flatten() {
        let Some(op) = event["vnfLcmOpOccId"].as_str() else {
            continue;
        };
        let state = serde_json::from_value(event["operationState"].clone())?;
        states_by_op.entry(op.to_owned()).or_default().push(state);
    }
    for (op, states) in &states_by_op {
        let legal = states.windows(2).all(|pair| pair[0].can_become(pair[1]));
        ensure!(
            legal,
            "I4: an event of `{op}` is missing or duplicated: {states:?}"
        );
        ensure!(
            states[0] == LcmOperationState::Starting,
            "I4: `{op}` begins with {states:?}"
        );
        let is_over = states.last().is_some_and(|last| last.is_final());
        ensure!(is_over, "I8: `{op}` has not ended: {states:?}");
    }
    testbed.fixture.events = page["next"].as_u64().unwrap_or(testbed.fixture.events);
    Ok(())
}

/// I6 for the new part of the log; and no thread has panicked.
fn log(testbed: &mut Testbed) -> Result<()> {
    let mut file = std::fs::File::open(testbed.log())?;
    file.seek(SeekFrom::Start(testbed.log_read))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    testbed.log_read += u64::try_from(bytes.len())?;
    let found = testbed.planted.within(&bytes);
    ensure!(found.is_empty(), "I6: {found:?} in the log");
    let text = String::from_utf8_lossy(&bytes);
    let panic = text.lines().find(|line| line.contains("panicked at"));
    ensure!(
        panic.is_none(),
        "a thread of the server panicked: {panic:?}"
    );
    Ok(())
}

/// I6 at the end: the data folder and the log.
///
/// # Errors
/// If a secret is in a file.
pub(crate) fn files(testbed: &Testbed) -> Result<()> {
    let folders = [testbed.data(), testbed.log()];
    let found = testbed.planted.files(&folders, &[]);
    ensure!(found.is_empty(), "I6: planted secrets in {found:?}");
    Ok(())
}

/// All objects of an instance are in its own namespace, or in the `requested` one.
///
/// # Errors
/// If an object is elsewhere.
pub(crate) fn own_namespace(testbed: &Testbed, instance: &str, expected: &str) -> Result<()> {
    let own = format!("vnf-{instance}");
    for name in testbed.resources(false)? {
        let Some((kind, name)) = name.split_once(' ') else {
            continue;
        };
        let Some(kind) = kind.strip_prefix("object:") else {
            continue;
        };
        let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
        let is_isolated =
            |namespace: &str| namespace == own || (!expected.is_empty() && namespace == expected);
        let fine = is_isolated(namespace) || (kind == "namespaces" && is_isolated(name));
        ensure!(
            fine,
            "an object outside the instance's namespace: {kind} `{name}`"
        );
    }
    Ok(())
}
