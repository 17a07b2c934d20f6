//! Quotas hold under concurrency, and one tenant's resources neither cost another tenant anything nor are visible to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::lifecycle::{self, BeginOutcome};
use crate::packages::renamed;
use crate::testbed::Testbed;

const CLIENTS: usize = 16;
/// Quota of `tina` for each kind of resource.
const TINY_QUOTA: usize = 3;
/// Her quota for packages, and the size of one, in bytes.
const MAX_PACKAGE_BYTES: u64 = 200 << 10;
const PACKAGE_BYTES: usize = 70 << 10;
/// Her quota for stored files, the size of one, in bytes, and how many each client stores.
const MAX_STORED_BYTES: u64 = 1 << 20;
const STORED_BYTES: usize = 300 << 10;
const FILES_OF_CLIENT: usize = 4;
/// Number of subscriptions of another tenant.
const MANY: usize = 300;
/// Lifecycles whose cost is measured.
const LIFECYCLES: usize = 30;
/// Allowed cost above twice the previous one, in hundredths of a second.
const HEADROOM: u64 = 20;

/// The configuration of the tenants.
pub(crate) fn tenants() -> Value {
    json!({
        "tiny": {"quota": {"instances": TINY_QUOTA, "subscriptions": TINY_QUOTA, "vims": TINY_QUOTA, "packages": CLIENTS,
            "package_bytes": MAX_PACKAGE_BYTES, "stored_file_bytes": MAX_STORED_BYTES}},
        "other": {"quota": {"instances": 500, "operations": 200, "package_bytes": 64 << 20,
            "subscriptions": MANY}},
    })
}

/// Resources with a quota by number.
const LISTS: &[(&str, &str)] = &[
    ("/vnflcm/v2/vnf_instances", "instances"),
    ("/vnflcm/v2/subscriptions", "subscriptions"),
    ("/vnfm/v1/vims", "vims"),
];

/// Each quota × concurrent clients, and the effects of one tenant on another.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (path, name) in LISTS {
        let what = format!("{name}, {CLIENTS} clients at once");
        all.push(Case::new("quota", what, move |testbed, _| {
            create_concurrently(testbed, path, name)
        }));
    }
    for from_uri in [false, true] {
        let way = if from_uri {
            "from an address"
        } else {
            "uploaded"
        };
        let what = format!("packages {way}, {CLIENTS} clients at once");
        all.push(Case::new("quota", what, move |testbed, rng| {
            upload_concurrently(testbed, from_uri, rng)
        }));
    }
    let what = format!("files stored without end, {CLIENTS} clients at once");
    all.push(Case::new("quota", what, |testbed, _| {
        store_concurrently(testbed)
    }));
    let what = format!("{MANY} subscriptions of another tenant");
    all.push(Case::new("tenant", what, |testbed, _| {
        many_subscriptions(testbed)
    }));
    let what = "two tenants in one namespace of one cluster".to_owned();
    all.push(Case::new("tenant", what, shared_namespace));
    all
}

/// Runs an action in concurrent clients; how often it succeeded.
fn run_concurrently(clients: usize, act: impl Fn(usize) -> Result<bool> + Sync) -> Result<usize> {
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
            .try_for_each(|thread| thread.join().map_err(|_| client_panicked())?)
    })?;
    Ok(done.into_inner())
}

fn client_panicked() -> anyhow::Error {
    anyhow::anyhow!("a client of the machine panicked")
}

fn list(testbed: &Testbed, path: &str) -> Result<Vec<Value>> {
    Ok(testbed
        .clients
        .page("tina", path)?
        .as_array()
        .cloned()
        .unwrap_or_default())
}

fn create_concurrently(testbed: &mut Testbed, path: &str, name: &str) -> Result<()> {
    let callback = format!("{}/notifications", testbed.endpoint("nfvo"));
    let vim = json!({"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
        "interfaceInfo": {"endpoint": testbed.endpoint("authUrl")},
        "accessInfo": {"username": "nfv", "password": crate::processes::CLOUD_PASSWORD,
            "project": "nfv", "region": "RegionOne"}});
    let vnfd = onboard_tiny_package(testbed)?;
    let done = run_concurrently(CLIENTS, |number| {
        let body = match name {
            "instances" => json!({ "vnfdId": vnfd }),
            "subscriptions" => json!({ "callbackUri": format!("{callback}?{number}") }),
            _ => json!({"name": format!("vim-{number}"), "connection": vim}),
        };
        let answer = testbed.clients.json("tina", ("POST", path), &body)?;
        let is_valid_config = matches!(answer.status, 201 | 403 | 409 | 422 | 429 | 503 | 507);
        ensure!(
            is_valid_config,
            "POST {path} is answered {}: {}",
            answer.status,
            answer.text()
        );
        Ok(answer.status == 201)
    })?;
    let mut existing = list(testbed, path)?;
    // VIMs shared by the operator do not count.
    existing.retain(|one| one["id"] != testbed.fixture.cluster.as_str());
    for one in &existing {
        let id = one["id"].as_str().unwrap_or_default();
        testbed
            .clients
            .send("tina", ("DELETE", &format!("{path}/{id}")), None)?;
    }
    delete_packages(testbed)?;
    ensure!(
        existing.len() <= TINY_QUOTA,
        "{} {name} where {TINY_QUOTA} are allowed",
        existing.len()
    );
    ensure!(
        done == existing.len(),
        "{done} {name} were created, but {} exist",
        existing.len()
    );
    ensure!(done > 0, "no {name} can be created");
    Ok(())
}

/// Onboards a small package for instances of `tina`.
fn onboard_tiny_package(testbed: &Testbed) -> Result<String> {
    let (sample, vnfd) = testbed.samples.last().context("no sample")?;
    let archive = sample.archive()?;
    let (_, onboarded) = testbed
        .onboard("tina", &archive)?
        .map_err(anyhow::Error::msg)?;
    ensure!(
        onboarded == *vnfd,
        "another `vnfdId` than the sample's: {onboarded}"
    );
    Ok(onboarded)
}

fn delete_packages(testbed: &Testbed) -> Result<()> {
    let packages = "/vnfpkgm/v2/vnf_packages";
    for one in list(testbed, packages)? {
        let path = format!("{packages}/{}", one["id"].as_str().unwrap_or_default());
        testbed.clients.json(
            "tina",
            ("PATCH", &path),
            &json!({"operationalState": "DISABLED"}),
        )?;
        let deleted = testbed.clients.send("tina", ("DELETE", &path), None)?;
        ensure!(
            deleted.is_success(),
            "cannot delete a package: {}",
            deleted.text()
        );
    }
    Ok(())
}

/// A sample with another `vnfdId`, padded with incompressible bytes.
pub(crate) fn padded_package(
    testbed: &Testbed,
    bytes: usize,
    rng: &mut SeededRng,
) -> Result<Vec<u8>> {
    let (sample, vnfd) = testbed.samples.last().context("no sample")?;
    let (mut sample, _) = renamed(sample, vnfd);
    let padding = (0..bytes / 8)
        .flat_map(|_| rng.roll().to_le_bytes())
        .collect();
    sample.files.insert("Files/padding".into(), padding);
    sample.archive()
}

fn upload_concurrently(testbed: &mut Testbed, from_uri: bool, rng: &mut SeededRng) -> Result<()> {
    let packages = "/vnfpkgm/v2/vnf_packages";
    let archives: Vec<_> = (0..CLIENTS)
        .map(|_| padded_package(testbed, PACKAGE_BYTES, rng))
        .collect::<Result<_>>()?;
    let ids: Vec<_> = archives
        .iter()
        .map(|_| testbed.create("tina", packages, &json!({})))
        .collect::<Result<_>>()?;
    let urls: Vec<_> = archives
        .iter()
        .map(|archive| testbed.issuer.offer(archive.clone()))
        .collect();
    let sent = run_concurrently(CLIENTS, |number| {
        let path = format!("{packages}/{}/package_content", ids[number]);
        let clients = &testbed.clients;
        let answer = if from_uri {
            let body = json!({"addressInformation": urls[number]});
            clients.json("tina", ("POST", &format!("{path}/upload_from_uri")), &body)?
        } else {
            let body = Some(("application/zip", archives[number].as_slice()));
            clients.send("tina", ("PUT", &path), body)?
        };
        Ok(answer.status == 202)
    });
    let existing = count_onboarded(testbed, &ids);
    delete_packages(testbed)?;
    ensure!(sent? > 0, "no package is accepted");
    let (onboarded, size) = (existing?, archives[0].len() as u64);
    let held = onboarded as u64 * size;
    ensure!(
        held <= MAX_PACKAGE_BYTES,
        "{onboarded} packages of {size} bytes in {MAX_PACKAGE_BYTES}"
    );
    ensure!(onboarded > 0, "no package was onboarded");
    Ok(())
}

/// Stores files until long after the quota is used up: those that are refused leave nothing on the disk.
fn store_concurrently(testbed: &mut Testbed) -> Result<()> {
    let vnfd = onboard_tiny_package(testbed)?;
    let instances = "/vnflcm/v2/vnf_instances";
    let id = testbed.create("tina", instances, &json!({ "vnfdId": vnfd }))?;
    let files = format!("/vnfm/v1/vnf_instances/{id}/files");
    let content = vec![7; STORED_BYTES];
    let storing = run_concurrently(CLIENTS, |client| {
        let mut has_stored = false;
        for number in 0..FILES_OF_CLIENT {
            let path = format!("{files}/{client}-{number}");
            let body = Some(("application/octet-stream", content.as_slice()));
            let answer = testbed.clients.send("tina", ("PUT", &path), body)?;
            ensure!(
                matches!(answer.status, 200 | 403),
                "PUT {path} is answered {}: {}",
                answer.status,
                answer.text()
            );
            has_stored |= answer.status == 200;
        }
        Ok(has_stored)
    });
    let listed = list(testbed, &files)?;
    let on_disk = bytes_in(&testbed.data().join("files").join(&id))?;
    let instance = format!("{instances}/{id}");
    let deleted = testbed.clients.send("tina", ("DELETE", &instance), None)?;
    delete_packages(testbed)?;
    ensure!(storing? > 0, "no file can be stored");
    ensure!(deleted.is_success(), "cannot delete: {}", deleted.text());
    let descriptions = listed.len() as u64 * 1024;
    ensure!(
        on_disk <= MAX_STORED_BYTES + descriptions,
        "the disk holds {on_disk} bytes of a tenant that may store {MAX_STORED_BYTES}"
    );
    let fitting = MAX_STORED_BYTES / STORED_BYTES as u64;
    ensure!(
        listed.len() as u64 == fitting,
        "{} files are stored where {fitting} fit",
        listed.len()
    );
    Ok(())
}

fn bytes_in(folder: &std::path::Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Number of onboarded packages, once none is in progress.
fn count_onboarded(testbed: &Testbed, ids: &[String]) -> Result<usize> {
    let began = std::time::Instant::now();
    loop {
        let mut states = Vec::new();
        for id in ids {
            let page = testbed
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

/// CPU time of the server, in hundredths of a second.
fn cpu_time(testbed: &Testbed) -> Result<u64> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", testbed.process()))?;
    let rest = line.rsplit(')').next().unwrap_or_default();
    let numbers = rest.split_whitespace().skip(11).take(2);
    numbers.map(|number| Ok(number.parse::<u64>()?)).sum()
}

/// CPU time of the victim's lifecycles.
fn lifecycle_cost(testbed: &Testbed) -> Result<u64> {
    let before = cpu_time(testbed)?;
    let (list, body) = (
        "/vnflcm/v2/vnf_instances",
        json!({"vnfdId": testbed.fixture.calm_vnfd}),
    );
    for _ in 0..LIFECYCLES {
        let created = testbed.create("vera", list, &body)?;
        testbed
            .clients
            .send("vera", ("DELETE", &format!("{list}/{created}")), None)?;
    }
    Ok(cpu_time(testbed)? - before)
}

fn many_subscriptions(testbed: &mut Testbed) -> Result<()> {
    let path = "/vnflcm/v2/subscriptions";
    let callback = format!("{}/notifications", testbed.endpoint("nfvo"));
    lifecycle_cost(testbed)?;
    let alone = lifecycle_cost(testbed)?;
    run_concurrently(8, |number| {
        for one in 0..MANY / 8 {
            let body = json!({"callbackUri": format!("{callback}?{number}-{one}")});
            testbed.clients.json("bob", ("POST", path), &body)?;
        }
        Ok(true)
    })?;
    let page = testbed.clients.page("bob", path)?;
    let ids: Vec<_> = page
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["id"].as_str())
        .collect();
    let with_subscriptions = lifecycle_cost(testbed);
    run_concurrently(8, |number| {
        for id in ids.iter().skip(number).step_by(8) {
            testbed
                .clients
                .send("bob", ("DELETE", &format!("{path}/{id}")), None)?;
        }
        Ok(true)
    })?;
    let with_subscriptions = with_subscriptions?;
    let events = testbed.clients.page(
        "vera",
        &format!("/vnfm/v1/events?after={}", testbed.fixture.calm_events),
    )?;
    testbed.fixture.calm_events = events["next"].as_u64().unwrap_or_default();
    ensure!(
        ids.len() > 50,
        "only {} subscriptions can be created",
        ids.len()
    );
    ensure!(
        with_subscriptions <= alone * 2 + HEADROOM,
        "I9: {LIFECYCLES} lifecycles of the victim cost {with_subscriptions}/100 s of the processor with {} subscriptions of \
         another tenant, {alone}/100 s alone",
        ids.len()
    );
    Ok(())
}

/// Instantiates and reads the log; the state at the end, or the refusal.
fn instantiate(
    testbed: &mut Testbed,
    user: &str,
    instance: &str,
    request: &Value,
) -> Result<String> {
    match lifecycle::begin(testbed, user, (instance, "instantiate"), request)? {
        BeginOutcome::Op(op) => {
            let timeout = std::time::Duration::from_secs(10);
            let end = lifecycle::wait_for_end(testbed, user, &op, timeout)?;
            testbed
                .clients
                .page(user, &format!("/vnfm/v1/op_occs/{op}/log"))?;
            Ok(end["operationState"]
                .as_str()
                .unwrap_or_default()
                .to_owned())
        }
        BeginOutcome::Refused(response) => Ok(response.text()),
    }
}

/// Two tenants have logins to one cluster: neither learns of the other's resources there, not even from an error.
fn shared_namespace(testbed: &mut Testbed, rng: &mut SeededRng) -> Result<()> {
    let cluster = testbed.kubeconfig();
    let mut vims = Vec::new();
    for user in ["ann", "beth"] {
        vims.push(testbed.register(user, &["--name", "own", "--config-file", &cluster])?);
    }
    let found = testbed
        .samples
        .iter()
        .rev()
        .find(|(sample, _)| sample.is_kubernetes());
    let (sample, vnfd) = found.context("no sample for Kubernetes")?.clone();
    // It is refused if `bob` already has this package.
    let (package, _) = testbed
        .onboard("bob", &sample.archive()?)?
        .unwrap_or_default();
    let mut instances = Vec::new();
    let mut states = Vec::new();
    for (user, vim) in ["olga", "bob"].into_iter().zip(&vims) {
        let instance = lifecycle::create(testbed, user, &vnfd)?;
        let mut request = sample.request("instantiate", vim);
        request["additionalParams"]["namespace"] = json!("of-both");
        states.push(instantiate(testbed, user, &instance, &request)?);
        instances.push((user, instance));
    }
    for (user, instance) in instances.iter().rev() {
        lifecycle::remove(testbed, user, instance, rng)?;
    }
    for (user, vim) in ["ann", "beth"].into_iter().zip(&vims) {
        let deleted =
            testbed
                .clients
                .send(user, ("DELETE", &format!("/vnfm/v1/vims/{vim}")), None)?;
        ensure!(
            deleted.is_success(),
            "cannot delete a VIM: {}",
            deleted.text()
        );
    }
    if !package.is_empty() {
        let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
        testbed.clients.json(
            "bob",
            ("PATCH", &path),
            &json!({"operationalState": "DISABLED"}),
        )?;
        testbed.clients.send("bob", ("DELETE", &path), None)?;
    }
    ensure!(states[0] == "COMPLETED", "the first one is {}", states[0]);
    ensure!(
        states[1] != "COMPLETED",
        "the second tenant took over the namespace of the first"
    );
    Ok(())
}
