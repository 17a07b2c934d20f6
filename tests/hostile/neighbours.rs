//! Hostile neighbours: every call to any neighbour gets each kind of hostile response, once and always. The calls are
//! recorded by the simulated world.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;
use vnfm_tests::rng::SeededRng;

use crate::canary::CANARY_SECRET;
use crate::cases::Case;
use crate::catalogue::{Document, Sample};
use crate::processes::{ANYWHERE, Limits, start_server};
use crate::quotas::padded_package;
use crate::testbed::Testbed;
use crate::{lifecycle, registries, tokens};

/// Limit for an operation with a hostile neighbour.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Limit for an operation with honest neighbours.
const HONEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit for a server to start or to give up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the interval at which the NFVO is polled.
const LOOK: Duration = Duration::from_millis(1200);
/// Memory that reading and parsing a response may take, in bytes.
const MAX_RESPONSE_MEMORY: u64 = 192 << 20;
/// As often as the call occurs.
const ALWAYS: u32 = 1_000_000;

/// Hostile responses, as `vnfm-sim` spells them; `@` is the address of the canary.
const HOSTILE_RESPONSES: &[&str] = &[
    r#""endless""#,
    r#""endless-list""#,
    r#""dripping""#,
    r#""huge""#,
    r#""deep""#,
    r#""shape""#,
    r#""types""#,
    r#""empty""#,
    r#""html""#,
    r#""not-utf8""#,
    r#""coding""#,
    r#""million""#,
    r#"{"texts":"\u001b]0;owned\u0007\n---\nkind: Secret"}"#,
    r#"{"texts":"$(touch /tmp/hostile) {{ 7 }} ../../etc"}"#,
    r#"{"redirect":"http://@/redirected"}"#,
    r#"{"elsewhere":"http://@"}"#,
];

/// What causes calls to neighbours.
#[derive(Debug, Clone)]
pub(crate) enum Trigger {
    /// An instance of a sample: instantiate, this operation, terminate.
    Life(usize, String),
    /// A request that calls a VIM.
    Ask(&'static str, &'static str, &'static str),
    /// An empty volume is created, and deleted.
    Volume,
    /// A subscription with a token, which receives notifications.
    Subscribe,
    /// A request with a token that Keystone must validate.
    Token,
    /// Start of a server whose key is in Barbican.
    Start,
    /// The NFVO has lost our subscription, and offers a package that is then instantiated.
    Offer,
}

/// Requests that call a neighbour: user, method and path.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("ann", "POST", "/vnfm/v1/vims/{cloud}/check"),
    ("root", "POST", "/vnfm/v1/vims/{cluster}/check"),
    ("ann", "GET", "/vnfm/v1/orphans"),
    ("root", "GET", "/vnfm/v1/orphans"),
];

/// What is recorded before the first case.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// The samples that can be instantiated, with their `vnfdId`.
    pub(crate) samples: Vec<(Sample, String)>,
    /// Each call, its first trigger, and whether the server needs an NFVO for it.
    calls: Vec<(Trigger, String, bool)>,
    /// The files of a data folder that is in use.
    pub(crate) files: Vec<String>,
}

/// Runs every trigger once with honest neighbours, and records the calls.
///
/// # Errors
/// If too few samples can be instantiated.
pub(crate) fn learn(testbed: &mut Testbed) -> Result<Learnt> {
    let mut learnt = Learnt::default();
    let mut known = BTreeSet::new();
    let operations = Document::read()?.operations();
    let (mut rng, mut after) = (SeededRng::new(0), 0);
    new_calls(testbed, &mut after)?;
    for (sample, vnfd) in testbed.samples.clone() {
        let trigger = |operation: &str| Trigger::Life(learnt.samples.len(), operation.to_owned());
        let (instance, vim) = (
            lifecycle::create(testbed, "olga", &vnfd)?,
            vim_of(testbed, &sample),
        );
        let mut lives = true;
        let ends = ["instantiate", "terminate"];
        let middle = operations
            .iter()
            .map(String::as_str)
            .filter(|one| !ends.contains(one));
        let order = [ends[0]].into_iter().chain(middle).chain([ends[1]]);
        let mut seen = Vec::new();
        for operation in order {
            let step = [(operation.to_owned(), sample.request(operation, &vim))];
            let states =
                lifecycle::run_operations(testbed, ("olga", &instance), &step, HONEST_TIMEOUT)?;
            lives &= operation != "instantiate" || states == ["COMPLETED"];
            let trigger = trigger(if ends.contains(&operation) {
                ends[1]
            } else {
                operation
            });
            seen.push((trigger, new_calls(testbed, &mut after)?));
        }
        lifecycle::remove(testbed, "olga", &instance, &mut rng)?;
        for (trigger, calls) in seen.into_iter().filter(|_| lives) {
            record(&trigger, calls, &mut known, &mut learnt);
        }
        if lives {
            learnt.samples.push((sample, vnfd));
        } else {
            eprintln!("skipping sample `{}`: cannot instantiate it", sample.name);
        }
    }
    let count = learnt.samples.len();
    ensure!(count >= 4, "only {count} samples can be instantiated");
    for trigger in triggers_without_instance() {
        play(testbed, (&trigger, &learnt.samples), &mut rng)?;
        record(
            &trigger,
            new_calls(testbed, &mut after)?,
            &mut known,
            &mut learnt,
        );
    }
    learnt.files = crate::disks::file_names(&testbed.data())?;
    Ok(learnt)
}

fn triggers_without_instance() -> impl Iterator<Item = Trigger> {
    let requests = REQUESTS
        .iter()
        .map(|(user, method, path)| Trigger::Ask(user, method, path));
    requests.chain([
        Trigger::Volume,
        Trigger::Subscribe,
        Trigger::Token,
        Trigger::Start,
    ])
}

/// Runs the triggers that involve an NFVO, and records the calls.
///
/// # Errors
/// If too few samples can be instantiated.
pub(crate) fn learn_nfvo(testbed: &mut Testbed, learnt: &mut Learnt) -> Result<()> {
    let mut known: BTreeSet<_> = learnt
        .calls
        .iter()
        .map(|(_, call, _)| call.clone())
        .collect();
    let (mut rng, mut after) = (SeededRng::new(0), 0);
    let before = learnt.calls.len();
    // Calls at the start are repeated later.
    let last = learnt.samples.len().saturating_sub(1);
    for trigger in [Trigger::Offer, Trigger::Life(last, "terminate".to_owned())] {
        play(testbed, (&trigger, &learnt.samples), &mut rng)?;
        record(
            &trigger,
            new_calls(testbed, &mut after)?,
            &mut known,
            learnt,
        );
    }
    for call in &mut learnt.calls[before..] {
        call.2 = true;
    }
    let names: Vec<_> = learnt.calls[before..]
        .iter()
        .map(|(_, call, _)| call.as_str())
        .collect();
    for wanted in ["nfvo.grant", "nfvo.package", "nfvo.subscribe"] {
        ensure!(
            names.iter().any(|name| name.starts_with(wanted)),
            "no `{wanted}` among {names:?}"
        );
    }
    Ok(())
}

/// The calls since the last look.
fn new_calls(testbed: &Testbed, after: &mut usize) -> Result<Vec<Value>> {
    let calls = testbed.calls(*after)?;
    *after += calls.len();
    Ok(calls)
}

fn record(trigger: &Trigger, calls: Vec<Value>, known: &mut BTreeSet<String>, learnt: &mut Learnt) {
    for call in calls {
        let name = call["call"].as_str().unwrap_or_default();
        // Actions of hosts are no responses to us.
        if !name.starts_with("host.") && known.insert(name.to_owned()) {
            learnt.calls.push((trigger.clone(), name.to_owned(), false));
        }
    }
}

/// The operations of a life.
fn steps(testbed: &Testbed, sample: &Sample, operation: &str) -> Vec<(String, Value)> {
    let vim = vim_of(testbed, sample);
    let mut all = vec![(
        "instantiate".to_owned(),
        sample.request("instantiate", &vim),
    )];
    if operation != "terminate" {
        all.push((operation.to_owned(), sample.request(operation, &vim)));
    }
    all.push(("terminate".to_owned(), sample.request("terminate", &vim)));
    all
}

/// The VIM for a sample.
pub(crate) fn vim_of(testbed: &Testbed, sample: &Sample) -> String {
    let Testbed { fixture, .. } = testbed;
    if sample.is_kubernetes() {
        fixture.cluster.clone()
    } else {
        fixture.cloud.clone()
    }
}

/// Runs a trigger, and cleans up after any response.
fn play(
    testbed: &mut Testbed,
    (trigger, samples): (&Trigger, &[(Sample, String)]),
    rng: &mut SeededRng,
) -> Result<()> {
    match trigger {
        Trigger::Life(at, operation) => {
            let (sample, vnfd) = &samples[*at];
            let instance = lifecycle::create(testbed, "olga", vnfd)?;
            let steps = steps(testbed, sample, operation);
            lifecycle::run_operations(testbed, ("olga", &instance), &steps, TIMEOUT)?;
            testbed.disarm()?;
            lifecycle::remove(testbed, "olga", &instance, rng)
        }
        Trigger::Ask(user, method, path) => {
            let path = path.replace("{cloud}", &testbed.fixture.cloud);
            let path = path.replace("{cluster}", &testbed.fixture.cluster);
            testbed.clients.send(user, (method, &path), None)?;
            Ok(())
        }
        Trigger::Volume => create_volume(testbed),
        Trigger::Subscribe => subscribe(testbed),
        Trigger::Token => tokens::send_keystone_token(testbed),
        Trigger::Start => start_with_barbican(testbed),
        Trigger::Offer => offer_package(testbed, rng),
    }
}

/// An empty volume on the cloud; whatever became of it, an honest cloud lets it be deleted.
fn create_volume(testbed: &mut Testbed) -> Result<()> {
    const VOLUMES: &str = "/vnfm/v1/volumes";
    let body =
        json!({"vimId": testbed.fixture.cloud, "virtualStorageDescId": "data", "sizeGib": 1});
    testbed.clients.json("ann", ("POST", VOLUMES), &body)?;
    testbed.disarm()?;
    let all = testbed.clients.page("ann", VOLUMES)?;
    for one in all.as_array().into_iter().flatten() {
        let path = format!("{VOLUMES}/{}", one["id"].as_str().unwrap_or_default());
        let deleted = testbed.clients.send("ann", ("DELETE", &path), None)?;
        ensure!(
            deleted.is_success(),
            "cannot delete the volume {one}: {}",
            deleted.text()
        );
    }
    Ok(())
}

/// A separate server starts with its key in Barbican, or refuses cleanly.
fn start_with_barbican(testbed: &Testbed) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("second")
        .tempdir_in(testbed.folder())?;
    let password = testbed.folder().join("keystone-password");
    let barbican = json!({"endpoint": testbed.endpoint("authUrl"), "user": "nfv", "project": "nfv",
        "password_file": password, "wait_seconds": 1});
    let config = json!({"secrets": {"barbican": barbican}});
    std::fs::write(
        folder.path().join("server.yaml"),
        serde_yaml::to_string(&config)?,
    )?;
    let began = Instant::now();
    match start_server(folder.path(), Limits::default(), ANYWHERE) {
        Ok((mut child, _)) => {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
        Err(why) => {
            let why = format!("{why:#}");
            let is_named = !why.contains("signal") && !why.contains("panicked");
            ensure!(
                is_named && !why.contains(CANARY_SECRET),
                "the start of a server ends badly: {why}"
            );
        }
    }
    let took = began.elapsed();
    ensure!(
        took < START_TIMEOUT,
        "a server needed {took:?} to start or give up"
    );
    Ok(())
}

/// The NFVO loses its subscriptions, offers a package, and withdraws it.
fn offer_package(testbed: &mut Testbed, rng: &mut SeededRng) -> Result<()> {
    let (id, archive) = (
        Uuid::new_v4().to_string(),
        padded_package(testbed, 1 << 10, rng)?,
    );
    let file = testbed.folder().join("offered.csar");
    std::fs::write(&file, &archive)?;
    let vnfd = vnfm_descriptor::Package::from_bytes(archive, &vnfm_descriptor::Limits::default());
    let vnfd = vnfd
        .map_err(|why| anyhow::anyhow!("{why}"))?
        .vnfd()
        .descriptor_id
        .clone();
    testbed.act(&json!({"action": "forget-subscriptions"}))?;
    testbed
        .act(&json!({"action": "offer-package", "vnfPkgId": id, "vnfdId": vnfd, "path": file}))?;
    let path = "/vnflcm/v2/vnf_instances";
    let created = testbed
        .clients
        .json("olga", ("POST", path), &json!({"vnfdId": vnfd}))?;
    // Subscription and packages are polled once a second.
    std::thread::park_timeout(LOOK);
    testbed.disarm()?;
    if let Some(instance) = created.created_id().filter(|_| created.status == 201) {
        lifecycle::remove(testbed, "olga", &instance, rng)?;
    }
    testbed.act(&json!({"action": "withdraw-package", "vnfPkgId": id}))?;
    let filter = format!("/vnfpkgm/v2/vnf_packages?filter=(eq,vnfdId,{vnfd})");
    for one in testbed
        .clients
        .page("olga", &filter)?
        .as_array()
        .into_iter()
        .flatten()
    {
        let path = format!(
            "/vnfpkgm/v2/vnf_packages/{}",
            one["id"].as_str().unwrap_or_default()
        );
        testbed.clients.json(
            "olga",
            ("PATCH", &path),
            &json!({"operationalState": "DISABLED"}),
        )?;
        testbed.clients.send("olga", ("DELETE", &path), None)?;
    }
    Ok(())
}

fn subscribe(testbed: &mut Testbed) -> Result<()> {
    let nfvo = testbed.endpoint("nfvo").to_owned();
    let credentials = json!({"clientId": "vnfm", "clientPassword": "planted-nfvo-password-2c77",
        "tokenEndpoint": format!("{nfvo}/token")});
    let request = json!({
        "callbackUri": format!("{nfvo}/notifications"),
        "authentication": {"authType": ["OAUTH2_CLIENT_CREDENTIALS"],
            "paramsOauth2ClientCredentials": credentials},
    });
    let created = testbed
        .clients
        .json("olga", ("POST", "/vnflcm/v2/subscriptions"), &request)?;
    let vnfd = testbed.samples[0].1.clone();
    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
    let path = format!("/vnflcm/v2/vnf_instances/{instance}");
    testbed.clients.send("olga", ("DELETE", &path), None)?;
    if let Some(id) = created.created_id().filter(|_| created.status == 201) {
        let path = format!("/vnflcm/v2/subscriptions/{id}");
        let deleted = testbed.clients.send("olga", ("DELETE", &path), None)?;
        ensure!(
            deleted.is_success(),
            "cannot delete a subscription: {}",
            deleted.text()
        );
    }
    Ok(())
}

/// Each call × each hostile response, once and always.
pub(crate) fn cases(learnt: &Learnt) -> Vec<Case> {
    let mut all = Vec::new();
    for (trigger, call, nfvo) in &learnt.calls {
        for hostile in HOSTILE_RESPONSES {
            for times in [1, ALWAYS] {
                let often = if times == 1 { "once" } else { "always" };
                let what = format!("{call} answers {hostile} {often} ({trigger:?})");
                let (trigger, call) = (trigger.clone(), call.clone());
                let samples = learnt.samples.clone();
                let mut case = Case::new("neighbour", what, move |testbed, rng| {
                    let hostile = hostile.replace('@', &testbed.canary.address().to_string());
                    let hostile: Value = serde_json::from_str(&hostile)?;
                    let nth = if times == 1 { 1 + rng.below(2) } else { 1 };
                    testbed.arm(&json!({"call": call, "nth": nth, "times": times,
                        "fault": {"hostile": hostile}}))?;
                    let (began, before) = (Instant::now(), testbed.memory.now());
                    let played = play(testbed, (&trigger, &samples), rng);
                    testbed.disarm()?;
                    // An unbounded response would take longer to kill the server than we wait.
                    let taken = testbed.memory.peak_since(began).saturating_sub(before);
                    ensure!(
                        taken < MAX_RESPONSE_MEMORY,
                        "memory: a response takes {} MiB",
                        taken >> 20
                    );
                    played?;
                    if call.starts_with("registry.") {
                        registries::delete_orphans(testbed)?;
                    }
                    Ok(())
                });
                case.limits.nfvo = *nfvo;
                all.push(case);
            }
        }
    }
    all
}
