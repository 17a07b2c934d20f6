//! Hostile registries of images, in what only they can state: challenges, upload locations, digests, and what they have. Bodies,
//! redirects and timing are those of every neighbour (`neighbours.rs`).
//!
//! ```text
//! row ── call, response, each time ── instantiate: ends with an error that says why ── honest again ── remove: nothing is left
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vnfm_tests::package_image;
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::catalogue::Sample;
use crate::lifecycle::{self, BeginOutcome};
use crate::testbed::Testbed;

/// How long an operation may run before its registry is honest again.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for a case: no call may wait for its own timeout of a minute.
const LIMIT: Duration = Duration::from_secs(45);
/// Memory that a response may take, in bytes.
const MAX_MEMORY: u64 = 192 << 20;
/// As often as the call occurs.
const ALWAYS: u32 = 1_000_000;

/// Call, fault, and what the error says; `{metadata}` is the address of metadata services, with the canary's port. Without a text
/// the operation may still complete: once the registry is honest, or if it has the blobs from before.
const ROWS: &[(&str, &str, &str)] = &[
    (
        "registry.manifest_head",
        r#"{"hostile": {"redirect": "http://{canary}/v2/"}}"#,
        "redirects elsewhere",
    ),
    (
        "registry.upload_begin",
        r#"{"hostile": {"redirect": "http://{metadata}/latest/meta-data"}}"#,
        "redirects elsewhere",
    ),
    (
        "registry.upload_end",
        r#"{"hostile": {"redirect": "http://{canary}/v2/"}}"#,
        "redirects elsewhere",
    ),
    (
        "registry.manifest_head",
        r#"{"hostile": {"challenge": "Bearer realm=\"http://{canary}/token\",service=\"x\""}}"#,
        "may not get the login",
    ),
    (
        "registry.upload_begin",
        r#"{"hostile": {"challenge": "Bearer realm=\"http://{metadata}/token\""}}"#,
        "may not get the login",
    ),
    (
        "registry.manifest_head",
        r#"{"hostile": {"challenge": "Bearer realm=\"http://a:b@{registry}/token\""}}"#,
        "may not get the login",
    ),
    (
        "registry.*",
        r#"{"hostile": {"challenge": "Basic realm=\"again\""}}"#,
        "does not accept the login",
    ),
    (
        "registry.manifest_head",
        r#"{"hostile": {"challenge": "Bearer realm=\"http://{registry}/token\""}}"#,
        "does not accept the login",
    ),
    (
        "registry.upload_begin",
        r#"{"hostile": {"location": "http://{canary}/upload"}}"#,
        "upload location elsewhere",
    ),
    (
        "registry.upload_begin",
        r#"{"hostile": {"location": "http://{metadata}/upload"}}"#,
        "upload location elsewhere",
    ),
    (
        "registry.upload_begin",
        r#"{"hostile": {"location": ""}}"#,
        "no location for the upload",
    ),
    (
        "registry.upload_end",
        r#"{"hostile": {"digest": "sha256:0707"}}"#,
        "it states the digest `sha256:0707`",
    ),
    (
        "registry.manifest_put",
        r#"{"hostile": {"digest": "sha256:0707"}}"#,
        "it states the digest `sha256:0707`",
    ),
    ("registry.upload_end", r#"{"status": 201}"#, ""),
    ("registry.manifest_put", r#"{"status": 201}"#, ""),
    ("registry.upload_end", r#"{"hostile": "endless-error"}"#, ""),
    ("registry.tags", r#"{"hostile": "endless-error"}"#, ""),
];

/// The sample that brings an image.
fn sample(testbed: &Testbed) -> Result<(Sample, String)> {
    let mut all = testbed.samples.iter();
    let found = all.find(|(sample, _)| sample.name == package_image::SAMPLE);
    found.cloned().context("no sample brings an image")
}

/// A row's fault with the addresses of this testbed.
fn fault(testbed: &Testbed, text: &str) -> Result<Value> {
    let canary = testbed.canary.address();
    let registry = testbed.endpoint("registry");
    let registry = registry.strip_prefix("http://").unwrap_or(registry);
    let filled = text
        .replace("{canary}", &canary.to_string())
        .replace("{metadata}", &format!("169.254.169.254:{}", canary.port()))
        .replace("{registry}", registry);
    Ok(serde_json::from_str(&filled)?)
}

/// Images that the registry refused to delete are listed as orphans (I2). Deletes them, now that it is honest.
pub(crate) fn delete_orphans(testbed: &Testbed) -> Result<()> {
    let left = testbed.resources(false)?;
    let tags = left.iter();
    let tags: Vec<_> = tags
        .filter_map(|name| name.strip_prefix("image-tag ")?.rsplit_once(':'))
        .collect();
    if tags.is_empty() {
        return Ok(());
    }
    let orphans = testbed.clients.page("root", "/vnfm/v1/orphans")?;
    let orphans = orphans.to_string();
    let uses = tags.iter().filter(|(_, tag)| tag.starts_with("vnfm"));
    ensure!(
        uses.clone().count() > 0 && uses.clone().all(|(_, tag)| orphans.contains(tag)),
        "I2: {tags:?} are left, and no orphans: {orphans}"
    );
    tags.into_iter().try_for_each(|tag| delete(testbed, tag))
}

/// Deletes what a tag names, with all its tags.
fn delete(testbed: &Testbed, (repository, tag): (&str, &str)) -> Result<()> {
    let url = format!("{}/v2/{repository}/manifests", testbed.endpoint("registry"));
    let login = format!("Bearer {}", vnfm::sim::registry::TOKEN);
    let head = ureq::head(format!("{url}/{tag}")).header("authorization", &login);
    let found = head.config().http_status_as_error(false).build().call()?;
    // It was deleted with another tag.
    let Some(digest) = found.headers().get("docker-content-digest") else {
        return Ok(());
    };
    let digest = digest.to_str()?;
    ureq::delete(format!("{url}/{digest}"))
        .header("authorization", &login)
        .call()?;
    Ok(())
}

/// Every row; a login to the registry when its VIM is checked; and images that others delete.
pub(crate) fn cases() -> Vec<Case> {
    let mut all: Vec<_> = ROWS
        .iter()
        .map(|(call, text, says)| {
            let what = format!("{call} answers {text}");
            Case::new("registry", what, move |testbed, rng| {
                pushed(testbed, (call, text, says), rng)
            })
        })
        .collect();
    let what = "a token endpoint elsewhere, when a VIM is checked";
    all.push(Case::new("registry", what.into(), |testbed, _| {
        checked(testbed)
    }));
    let what = "others delete the images of an instance";
    all.push(Case::new("registry", what.into(), deleted_by_others));
    all
}

/// Instantiates the sample while the registry is hostile.
fn pushed(
    testbed: &mut Testbed,
    (call, text, says): (&str, &str, &str),
    rng: &mut SeededRng,
) -> Result<()> {
    let (sample, vnfd) = sample(testbed)?;
    let fault = fault(testbed, text)?;
    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
    let request = sample.request("instantiate", &testbed.fixture.cluster);
    // Blobs of earlier cases are in the registry: they are uploaded again.
    let no_blobs = json!({"call": "registry.blob_head", "times": ALWAYS, "fault": {"status": 404}});
    let hostile = json!({"call": call, "times": ALWAYS, "fault": fault});
    testbed.arm(&json!([hostile, no_blobs]))?;
    let (began, before) = (Instant::now(), testbed.memory.now());
    let begun = lifecycle::begin(testbed, "olga", (&instance, "instantiate"), &request)?;
    let outcome = match begun {
        BeginOutcome::Refused(response) => json!({"error": {"detail": response.text()}}),
        BeginOutcome::Op(op) => lifecycle::wait_for_end(testbed, "olga", &op, TIMEOUT)?,
    };
    let taken = testbed.memory.peak_since(began).saturating_sub(before);
    testbed.disarm()?;
    let removed = lifecycle::remove(testbed, "olga", &instance, rng);
    let detail = outcome["error"]["detail"].as_str().unwrap_or_default();
    ensure!(
        detail.contains(says),
        "the error does not say `{says}`: {outcome}"
    );
    ensure!(
        says.is_empty() || outcome["operationState"] != "COMPLETED",
        "it completed: {outcome}"
    );
    ensure!(
        taken < MAX_MEMORY,
        "memory: a response takes {} MiB",
        taken >> 20
    );
    removed?;
    delete_orphans(testbed)?;
    let took = began.elapsed();
    ensure!(took < LIMIT, "the operation and its end took {took:?}");
    Ok(())
}

/// Checks the VIM while its registry wants the login elsewhere.
fn checked(testbed: &mut Testbed) -> Result<()> {
    let text = r#"{"hostile": {"challenge": "Bearer realm=\"http://{canary}/token\""}}"#;
    let fault = fault(testbed, text)?;
    testbed.arm(&json!({"call": "registry.api", "times": ALWAYS, "fault": fault}))?;
    let path = format!("/vnfm/v1/vims/{}/check", testbed.fixture.cluster);
    let response = testbed.clients.send("root", ("POST", &path), None)?;
    testbed.disarm()?;
    ensure!(
        response.text().contains("may not get the login"),
        "the check says: {} {}",
        response.status,
        response.text()
    );
    Ok(())
}

/// Deletes all images of an instance that runs: its termination completes.
fn deleted_by_others(testbed: &mut Testbed, rng: &mut SeededRng) -> Result<()> {
    let (sample, vnfd) = sample(testbed)?;
    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
    let step = |name: &str| {
        let request = sample.request(name, &testbed.fixture.cluster);
        vec![(name.to_owned(), request)]
    };
    let (begin, end) = (step("instantiate"), step("terminate"));
    let states = lifecycle::run_operations(testbed, ("olga", &instance), &begin, LIMIT)?;
    ensure!(states == ["COMPLETED"], "the instantiation is {states:?}");
    let images = testbed.resources(false)?;
    let mut tags = images
        .iter()
        .filter_map(|name| name.strip_prefix("image-tag "));
    let tag = tags.next().context("the image was not pushed")?;
    let (repository, tag) = tag.rsplit_once(':').context("no tag")?;
    delete(testbed, (repository, tag))?;
    let states = lifecycle::run_operations(testbed, ("olga", &instance), &end, LIMIT)?;
    lifecycle::remove(testbed, "olga", &instance, rng)?;
    ensure!(states == ["COMPLETED"], "the termination is {states:?}");
    Ok(())
}
