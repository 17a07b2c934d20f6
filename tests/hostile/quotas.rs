//! What a tenant may have so much of: everybody at once does not get past it, and what one tenant has costs no other one
//! anything, nor shows it anything.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;
use vnfm_tests::rng::Dice;

use crate::cases::Case;
use crate::catalogue::archive;
use crate::testbed::Ground;
use crate::lifecycle::{self, Begun};

/// Clients at once.
const AT_ONCE: usize = 16;
/// What `tina` may have of everything.
const FEW: usize = 3;
/// Bytes of packages that she may have, and of one of them about.
const BYTES: u64 = 200 << 10;
const PACKAGE: usize = 70 << 10;
/// Subscriptions of somebody else.
const MANY: usize = 300;
/// Stories whose cost is measured.
const STORIES: usize = 30;
/// What they may cost more than twice what they cost before, in hundredths of a second.
const MORE: u64 = 20;

/// What is configured for the tenants that are tried here.
pub(crate) fn tenants() -> Value {
    json!({
        "tiny": {"quota": {"instances": FEW, "subscriptions": FEW, "vims": FEW, "packages": AT_ONCE,
            "package_bytes": BYTES}},
        "other": {"quota": {"instances": 500, "operations": 200, "package_bytes": 64 << 20,
            "subscriptions": MANY}},
    })
}

/// Lists that are bounded by number, and what adds to them.
const LISTS: &[(&str, &str)] = &[
    ("/vnflcm/v2/vnf_instances", "instances"),
    ("/vnflcm/v2/subscriptions", "subscriptions"),
    ("/vnfm/v1/vims", "vims"),
];

/// Each quota × clients at once, and what many things of one tenant are to another.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (path, name) in LISTS {
        let what = format!("{name}, {AT_ONCE} clients at once");
        all.push(Case::new("quota", what, move |ground, _| {
            crowd(ground, path, name)
        }));
    }
    for from_uri in [false, true] {
        let way = if from_uri {
            "from an address"
        } else {
            "uploaded"
        };
        let what = format!("packages {way}, {AT_ONCE} clients at once");
        all.push(Case::new("quota", what, move |ground, dice| {
            uploads(ground, from_uri, dice)
        }));
    }
    let what = format!("{MANY} subscriptions of another tenant");
    all.push(Case::new("tenant", what, |ground, _| subscribed(ground)));
    let what = "two tenants in one namespace of one cluster".to_owned();
    all.push(Case::new("tenant", what, one_namespace));
    all
}

/// What each client does; how often it was done.
fn at_once(clients: usize, act: impl Fn(usize) -> Result<bool> + Sync) -> Result<usize> {
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let act = |number| {
            let was_done: bool = act(number)?;
            done.fetch_add(usize::from(was_done), Ordering::Relaxed);
            anyhow::Ok(())
        };
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || act(number)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| died())?)
    })?;
    Ok(done.into_inner())
}

fn died() -> anyhow::Error {
    anyhow::anyhow!("a client of the machine panicked")
}

fn listed(ground: &Ground, path: &str) -> Result<Vec<Value>> {
    Ok(ground
        .clients
        .page("tina", path)?
        .as_array()
        .cloned()
        .unwrap_or_default())
}

fn crowd(ground: &mut Ground, path: &str, name: &str) -> Result<()> {
    let callback = format!("{}/notifications", ground.endpoint("nfvo"));
    let vim = json!({"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
        "interfaceInfo": {"endpoint": ground.endpoint("authUrl")},
        "accessInfo": {"username": "nfv", "password": crate::processes::CLOUD_PASSWORD,
            "project": "nfv", "region": "RegionOne"}});
    let vnfd = tiny_vnfd(ground)?;
    let done = at_once(AT_ONCE, |number| {
        let body = match name {
            "instances" => json!({ "vnfdId": vnfd }),
            "subscriptions" => json!({ "callbackUri": format!("{callback}?{number}") }),
            _ => json!({"name": format!("vim-{number}"), "connection": vim}),
        };
        let answer = ground.clients.json("tina", ("POST", path), &body)?;
        let is_known = matches!(answer.status, 201 | 403 | 409 | 422 | 429 | 503 | 507);
        ensure!(
            is_known,
            "POST {path} is answered {}: {}",
            answer.status,
            answer.text()
        );
        Ok(answer.status == 201)
    })?;
    let mut there = listed(ground, path)?;
    // Those that the operator shares are nobody's.
    there.retain(|one| one["id"] != ground.fixture.cluster.as_str());
    for one in &there {
        let id = one["id"].as_str().unwrap_or_default();
        ground
            .clients
            .send("tina", ("DELETE", &format!("{path}/{id}")), None)?;
    }
    forget_packages(ground)?;
    ensure!(
        there.len() <= FEW,
        "{} {name} where {FEW} are allowed",
        there.len()
    );
    ensure!(
        done == there.len(),
        "{done} {name} were made, and {} are there",
        there.len()
    );
    ensure!(done > 0, "no {name} can be made at all");
    Ok(())
}

/// A small package that `tina` has, for instances.
fn tiny_vnfd(ground: &Ground) -> Result<String> {
    let (sample, vnfd) = ground.samples.last().context("no sample")?;
    let archive = sample.archive()?;
    let (_, onboarded) = ground
        .onboard("tina", &archive)?
        .map_err(anyhow::Error::msg)?;
    ensure!(
        onboarded == *vnfd,
        "another `vnfdId` than the sample's: {onboarded}"
    );
    Ok(onboarded)
}

fn forget_packages(ground: &Ground) -> Result<()> {
    let packages = "/vnfpkgm/v2/vnf_packages";
    for one in listed(ground, packages)? {
        let path = format!("{packages}/{}", one["id"].as_str().unwrap_or_default());
        ground.clients.json(
            "tina",
            ("PATCH", &path),
            &json!({"operationalState": "DISABLED"}),
        )?;
        let gone = ground.clients.send("tina", ("DELETE", &path), None)?;
        ensure!(gone.is_success(), "a package does not go: {}", gone.text());
    }
    Ok(())
}

/// A sample with another id, and with bytes that cannot be made smaller.
pub(crate) fn padded(ground: &Ground, bytes: usize, dice: &mut Dice) -> Result<Vec<u8>> {
    let (sample, vnfd) = ground.samples.last().context("no sample")?;
    let new = Uuid::new_v4().to_string();
    let mut files = sample.files.clone();
    for content in files.values_mut() {
        if let Ok(text) = std::str::from_utf8(content) {
            *content = text.replace(vnfd, &new).into_bytes();
        }
    }
    let padding = (0..bytes / 8)
        .flat_map(|_| dice.roll().to_le_bytes())
        .collect();
    files.insert("Files/padding".into(), padding);
    archive(
        files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice())),
    )
}

fn uploads(ground: &mut Ground, from_uri: bool, dice: &mut Dice) -> Result<()> {
    let packages = "/vnfpkgm/v2/vnf_packages";
    let archives: Vec<_> = (0..AT_ONCE)
        .map(|_| padded(ground, PACKAGE, dice))
        .collect::<Result<_>>()?;
    let ids: Vec<_> = archives
        .iter()
        .map(|_| ground.make("tina", packages, &json!({})))
        .collect::<Result<_>>()?;
    let urls: Vec<_> = archives
        .iter()
        .map(|archive| ground.issuer.offer(archive.clone()))
        .collect();
    let sent = at_once(AT_ONCE, |number| {
        let path = format!("{packages}/{}/package_content", ids[number]);
        let clients = &ground.clients;
        let answer = if from_uri {
            let body = json!({"addressInformation": urls[number]});
            clients.json("tina", ("POST", &format!("{path}/upload_from_uri")), &body)?
        } else {
            let body = Some(("application/zip", archives[number].as_slice()));
            clients.send("tina", ("PUT", &path), body)?
        };
        Ok(answer.status == 202)
    });
    let there = settled(ground, &ids);
    forget_packages(ground)?;
    ensure!(sent? > 0, "no package is taken at all");
    let (onboarded, size) = (there?, archives[0].len() as u64);
    let held = onboarded as u64 * size;
    ensure!(
        held <= BYTES,
        "{onboarded} packages of {size} bytes in {BYTES}"
    );
    ensure!(onboarded > 0, "no package is on-boarded");
    Ok(())
}

/// How many of these are on-boarded once none is on its way.
fn settled(ground: &Ground, ids: &[String]) -> Result<usize> {
    let began = std::time::Instant::now();
    loop {
        let mut states = Vec::new();
        for id in ids {
            let page = ground
                .clients
                .page("tina", &format!("/vnfpkgm/v2/vnf_packages/{id}"))?;
            states.push(
                page["onboardingState"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        let is_on_its_way = |state: &String| matches!(state.as_str(), "UPLOADING" | "PROCESSING");
        if !states.iter().any(is_on_its_way) || began.elapsed().as_secs() > 10 {
            ensure!(
                !states.iter().any(is_on_its_way),
                "packages are still {states:?}"
            );
            return Ok(states.iter().filter(|state| *state == "ONBOARDED").count());
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

/// What the server's process has used of processors, in hundredths of a second.
fn used(ground: &Ground) -> Result<u64> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", ground.process()))?;
    let rest = line.rsplit(')').next().unwrap_or_default();
    let numbers = rest.split_whitespace().skip(11).take(2);
    numbers.map(|number| Ok(number.parse::<u64>()?)).sum()
}

/// What the stories of the victim cost.
fn stories(ground: &Ground) -> Result<u64> {
    let before = used(ground)?;
    let (list, body) = (
        "/vnflcm/v2/vnf_instances",
        json!({"vnfdId": ground.fixture.calm_vnfd}),
    );
    for _ in 0..STORIES {
        let made = ground.make("vera", list, &body)?;
        ground
            .clients
            .send("vera", ("DELETE", &format!("{list}/{made}")), None)?;
    }
    Ok(used(ground)? - before)
}

fn subscribed(ground: &mut Ground) -> Result<()> {
    let path = "/vnflcm/v2/subscriptions";
    let callback = format!("{}/notifications", ground.endpoint("nfvo"));
    stories(ground)?;
    let alone = stories(ground)?;
    at_once(8, |number| {
        for one in 0..MANY / 8 {
            let body = json!({"callbackUri": format!("{callback}?{number}-{one}")});
            ground.clients.json("bob", ("POST", path), &body)?;
        }
        Ok(true)
    })?;
    let page = ground.clients.page("bob", path)?;
    let ids: Vec<_> = page
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["id"].as_str())
        .collect();
    let beside = stories(ground);
    at_once(8, |number| {
        for id in ids.iter().skip(number).step_by(8) {
            ground
                .clients
                .send("bob", ("DELETE", &format!("{path}/{id}")), None)?;
        }
        Ok(true)
    })?;
    let beside = beside?;
    let events = ground.clients.page(
        "vera",
        &format!("/vnfm/v1/events?after={}", ground.fixture.calm_events),
    )?;
    ground.fixture.calm_events = events["next"].as_u64().unwrap_or_default();
    ensure!(
        ids.len() > 50,
        "only {} subscriptions can be made",
        ids.len()
    );
    ensure!(
        beside <= alone * 2 + MORE,
        "I9: {STORIES} stories of the victim cost {beside}/100 s of the processor beside {} subscriptions of \
         another tenant, {alone}/100 s alone",
        ids.len()
    );
    Ok(())
}

/// Two tenants have logins to one cluster: what one has there is no matter of the other's, whatever the error says.
fn one_namespace(ground: &mut Ground, dice: &mut Dice) -> Result<()> {
    let cluster = ground.kubeconfig();
    let mut vims = Vec::new();
    for user in ["ann", "beth"] {
        vims.push(ground.register(user, &["--name", "own", "--config-file", &cluster])?);
    }
    let found = ground
        .samples
        .iter()
        .rev()
        .find(|(sample, _)| sample.is_kubernetes());
    let (sample, vnfd) = found.context("no sample for Kubernetes")?.clone();
    // Where it is refused, it is the one that `bob` has from the beginning.
    let (package, _) = ground
        .onboard("bob", &sample.archive()?)?
        .unwrap_or_default();
    let mut instances = Vec::new();
    let mut states = Vec::new();
    for (user, vim) in ["olga", "bob"].into_iter().zip(&vims) {
        let instance = lifecycle::create(ground, user, &vnfd)?;
        let mut request = sample.request("instantiate", vim);
        request["additionalParams"]["namespace"] = json!("of-both");
        let begun = lifecycle::begin(ground, user, (&instance, "instantiate"), &request)?;
        let state = match begun {
            Begun::Op(op) => {
                let end = lifecycle::settle(ground, user, &op, std::time::Duration::from_secs(10))?;
                ground
                    .clients
                    .page(user, &format!("/vnfm/v1/op_occs/{op}/log"))?;
                end["operationState"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            }
            Begun::Refused(answer) => answer.text(),
        };
        states.push(state);
        instances.push((user, instance));
    }
    for (user, instance) in instances.iter().rev() {
        lifecycle::away(ground, user, instance, dice)?;
    }
    for (user, vim) in ["ann", "beth"].into_iter().zip(&vims) {
        let gone = ground
            .clients
            .send(user, ("DELETE", &format!("/vnfm/v1/vims/{vim}")), None)?;
        ensure!(gone.is_success(), "a VIM does not go: {}", gone.text());
    }
    if !package.is_empty() {
        let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
        ground.clients.json(
            "bob",
            ("PATCH", &path),
            &json!({"operationalState": "DISABLED"}),
        )?;
        ground.clients.send("bob", ("DELETE", &path), None)?;
    }
    ensure!(states[0] == "COMPLETED", "the first one is {}", states[0]);
    ensure!(
        states[1] != "COMPLETED",
        "the second one takes what the first one has"
    );
    Ok(())
}
