//! What holds after each case. What the simulated world has is read in its own books.
//!
//! | | |
//! |---|---|
//! | I1 | an operation has ended, or stopped with a cause (`lifecycle.rs`) |
//! | I2 | nothing exists that no instance explains |
//! | I3 | nothing of others was touched |
//! | I4 | every change of state is among the events, once, in order |
//! | I5 | what the record says is there: an instance that is not instantiated has nothing (with I2) |
//! | I6 | no planted secret is in an answer, in the log or among the server's files |
//! | I7 | a way on works (`lifecycle.rs`) |
//! | I8 | no instance has two operations that have not ended |
//! | I9 | the tenant that nobody attacks is served, and sees what it saw |
//! | I10 | nobody came to an address that no policy names, least of all with a secret |
//!
//! And the same process still runs, calls nothing its own fault, has kept its keys, and has touched no file outside.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use vnfm_types::LcmOperationState;

use crate::testbed::Testbed;

/// The longest that a request of the victim may take while nobody floods.
const MAX_VICTIM_LATENCY: Duration = Duration::from_secs(5);
/// How long what is deleted may take to go.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// What a command that came through would leave behind.
const SHELL_MARKER: &str = "/tmp/hostile";

/// Checks everything; the first thing that does not hold is the error.
///
/// # Errors
/// What does not hold.
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
        "a value was run: `{SHELL_MARKER}` is there"
    );
    testbed.check_alive()
}

/// I10.
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

/// I9, while nothing is going on: the victim's small story.
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
    ensure!(
        is_calm,
        "the victim's events tell of what others do: {events}"
    );
    let list = "/vnflcm/v2/vnf_instances";
    let seen = testbed
        .clients
        .page("vera", list)
        .context("I9: the victim")?;
    ensure!(
        seen == testbed.fixture.calm,
        "I9: the victim sees another list: {seen}"
    );
    let body = json!({"vnfdId": testbed.fixture.calm_vnfd});
    let made = testbed
        .create("vera", list, &body)
        .context("I9: the victim")?;
    let path = format!("{list}/{made}");
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

/// I2, I3 and I5.
fn world(testbed: &Testbed) -> Result<()> {
    let began = Instant::now();
    let mut left = testbed.resources(false)?;
    while !left.is_empty() && began.elapsed() < CLEANUP_TIMEOUT {
        std::thread::park_timeout(Duration::from_millis(20));
        left = testbed.resources(false)?;
    }
    ensure!(
        left.is_empty(),
        "I2: {} things that nobody knows: {left:?}",
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
            "I4: an event of `{op}` is lost or doubled: {states:?}"
        );
        ensure!(
            states[0] == LcmOperationState::Starting,
            "I4: `{op}` begins with {states:?}"
        );
        let is_over = states.last().is_some_and(|last| last.is_final());
        ensure!(is_over, "I8: `{op}` is not ended: {states:?}");
    }
    testbed.fixture.events = page["next"].as_u64().unwrap_or(testbed.fixture.events);
    Ok(())
}

/// I6: what the server has logged since the last time; and that none of its threads has panicked.
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

/// I6, at the end: what lies in the data folder and beside it.
///
/// # Errors
/// Where a secret is in a file.
pub(crate) fn files(testbed: &Testbed) -> Result<()> {
    let folders = [testbed.data(), testbed.log()];
    let found = testbed.planted.files(&folders, &[]);
    ensure!(found.is_empty(), "I6: planted secrets in {found:?}");
    Ok(())
}

/// What a case has made while an instance lives: everything of it lies in namespaces of its own.
///
/// # Errors
/// Where something lies outside.
pub(crate) fn own_namespace(testbed: &Testbed, instance: &str, asked: &str) -> Result<()> {
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
            |namespace: &str| namespace == own || (!asked.is_empty() && namespace == asked);
        let fine = is_isolated(namespace) || (kind == "namespaces" && is_isolated(name));
        ensure!(
            fine,
            "an object outside of the instance's own namespace: {kind} `{name}`"
        );
    }
    Ok(())
}
