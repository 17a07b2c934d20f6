//! Broken disks: files of the data folder missing, cut, emptied or damaged at the start, leftovers of a crash, a folder
//! removed from a running server, and a full disk.
//!
//! A server either refuses to start and names the file, or still has everything that it acknowledged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::lifecycle::{self, BeginOutcome};
use crate::neighbours::{Learnt, vim_of};
use crate::processes::{ANYWHERE, Limits, start_server};
use crate::quotas::padded_package;
use crate::testbed::Testbed;

/// MiB of the disk that fills up: nothing new is begun with less than 128 MiB free.
const SMALL_DISK: u64 = 168;
/// MiB after the operator has enlarged it.
const LARGER_DISK: u64 = 400;
/// Bytes of each package that fills it.
const PACKAGE_BYTES: usize = 4 << 20;
/// Uploads attempted; fewer fill the disk.
const MAX_PACKAGES: usize = 12;
/// Bytes of each stored file: the server reads the rest of a refused body of this size.
const STORED_BYTES: usize = 512 << 10;
/// Stored files attempted; fewer fill the disk.
const MAX_STORED: usize = 120;
/// Number of bytes overwritten in a damaged file.
const NOISE_BYTES: usize = 8192;
/// Limit for an operation that began before the disk was full.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Damages one file of the data folder.
type Harm = fn(&Path, &mut SeededRng) -> Result<()>;

/// The ways to damage a file while no server runs.
const HARMS: &[(&str, Harm)] = &[
    ("gone", |file, _| Ok(std::fs::remove_file(file)?)),
    ("empty", |file, _| Ok(std::fs::write(file, "")?)),
    ("cut", |file, _| {
        let bytes = std::fs::read(file)?;
        Ok(std::fs::write(file, &bytes[..bytes.len() / 2])?)
    }),
    ("damaged in the middle", |file, rng| {
        let mut bytes = std::fs::read(file)?;
        let from = bytes.len() / 4 + rng.below(bytes.len() / 2);
        for byte in bytes.iter_mut().skip(from).take(NOISE_BYTES) {
            *byte = u8::try_from(rng.below(256))?;
        }
        Ok(std::fs::write(file, bytes)?)
    }),
    ("somebody else's", |file, rng| {
        let bytes: Vec<_> = (0..512).flat_map(|_| rng.roll().to_le_bytes()).collect();
        Ok(std::fs::write(file, bytes)?)
    }),
];

/// The files of a data folder, one for each name pattern.
///
/// # Errors
/// If it cannot be listed.
pub(crate) fn file_names(data: &Path) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for name in below(data, data)? {
        if !all
            .iter()
            .any(|known| name_pattern(known) == name_pattern(&name))
        {
            all.push(name);
        }
    }
    Ok(all)
}

/// A file name with ids and numbers masked.
fn name_pattern(name: &str) -> String {
    name.chars()
        .map(|one| if one.is_ascii_hexdigit() { '0' } else { one })
        .collect()
}

fn below(top: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(below(top, &path)?);
        } else if path.is_file() {
            all.push(path.strip_prefix(top)?.to_string_lossy().into_owned());
        }
    }
    all.sort();
    Ok(all)
}

/// Each file × each damage; and faults that a running server must notice.
pub(crate) fn files(learnt: &Learnt) -> Vec<Case> {
    let mut all = Vec::new();
    for name in &learnt.files {
        for (how, harm) in HARMS {
            let wanted = name_pattern(name);
            all.push(Case::new(
                "disk",
                format!("`{name}` is {how}"),
                move |testbed, rng| {
                    let found = file_names(&testbed.data())?;
                    let file = found.into_iter().find(|one| name_pattern(one) == wanted);
                    let file = file.context("the file is not there")?;
                    start_with_harmed_file(testbed, &file, |path| harm(path, rng))
                },
            ));
        }
    }
    let mut add = |what: &str, act: fn(&mut Testbed, &mut SeededRng) -> Result<()>| {
        all.push(Case::new("disk", what.to_owned(), act));
    };
    add("the folder is taken from a running server", |testbed, _| {
        remove_data_folder(testbed)
    });
    add("a second server, once the lock is gone", |testbed, _| {
        start_second_server(testbed)
    });
    add("a folder that everybody may read", |testbed, _| {
        open_permissions(testbed)
    });
    add(
        "kills while keys are changed and backups made",
        kill_during_maintenance,
    );
    all
}

/// Kills the server, damages a file, and starts the next one.
fn start_with_harmed_file(
    testbed: &mut Testbed,
    file: &str,
    harm: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    testbed.kill()?;
    let (data, backup) = (testbed.data(), testbed.folder().join("kept"));
    copy(&data, &backup)?;
    harm(&data.join(file)).with_context(|| format!("cannot harm `{file}`"))?;
    let began = testbed.begin();
    let judged = match began {
        Ok(()) => {
            let judged = check_complete(testbed);
            testbed.clients.found();
            testbed.kill()?;
            judged
        }
        Err(why) => {
            let why = format!("{why:#}");
            let name = file.rsplit('/').next().unwrap_or(file);
            let is_named = why.contains(name) || why.contains("vnfm.db");
            if is_named && !why.contains("signal") && !why.contains("panicked") {
                Ok(())
            } else {
                Err(anyhow::anyhow!(
                    "it refuses to start without naming `{file}`: {why}"
                ))
            }
        }
    };
    std::fs::remove_dir_all(&data)?;
    std::fs::rename(&backup, &data)?;
    testbed.begin().context("with the files as they were")?;
    judged
}

/// Everything acknowledged exists, or `/readyz` reports a problem.
fn check_complete(testbed: &Testbed) -> Result<()> {
    let ready = testbed.clients.send("", ("GET", "/readyz"), None)?;
    if ready.status == 503 {
        return Ok(());
    }
    ensure!(ready.status == 200, "/readyz is {}", ready.status);
    let pages = [
        ("{vnfInstanceId}", "/vnflcm/v2/vnf_instances"),
        ("{vnfLcmOpOccId}", "/vnflcm/v2/vnf_lcm_op_occs"),
        ("{subscriptionId}", "/vnflcm/v2/subscriptions"),
        ("{vnfPkgId}", "/vnfpkgm/v2/vnf_packages"),
        ("{vimId}", "/vnfm/v1/vims"),
    ];
    for (name, path) in pages {
        let path = format!("{path}/{}", testbed.fixture.ids[name]);
        let seen = testbed.clients.send("ann", ("GET", &path), None)?;
        ensure!(
            seen.status == 200,
            "it starts and is ready, and GET {path} is {}",
            seen.status
        );
    }
    let calm = testbed.clients.page("vera", "/vnflcm/v2/vnf_instances")?;
    ensure!(
        calm == testbed.fixture.calm,
        "it starts and is ready, and a list is another one: {calm}"
    );
    let path = format!("/vnfm/v1/vims/{}/check", testbed.fixture.cloud);
    let check = testbed.clients.send("ann", ("POST", &path), None)?;
    ensure!(
        check.status == 200,
        "a stored login cannot be used: {}",
        check.text()
    );
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = std::process::Command::new("cp");
    let done = command
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .context("cannot start cp")?;
    ensure!(done.success(), "the data folder cannot be copied");
    Ok(())
}

/// Writes would be lost: no change may be acknowledged.
fn remove_data_folder(testbed: &mut Testbed) -> Result<()> {
    let (data, remove) = (testbed.data(), testbed.folder().join("away"));
    std::fs::rename(&data, &remove)?;
    let created = testbed
        .clients
        .json("ann", ("POST", "/vnfpkgm/v2/vnf_packages"), &json!({}));
    let ready = testbed.clients.send("", ("GET", "/readyz"), None);
    std::fs::rename(&remove, &data)?;
    let (created, ready) = (created?, ready?);
    if let Some(id) = created.created_id().filter(|_| created.status == 201) {
        testbed.clients.send(
            "ann",
            ("DELETE", &format!("/vnfpkgm/v2/vnf_packages/{id}")),
            None,
        )?;
    }
    testbed.clients.found();
    ensure!(
        created.status == 503,
        "a change is {} while its folder is gone",
        created.status
    );
    ensure!(
        ready.status == 503,
        "/readyz is {} while its folder is gone",
        ready.status
    );
    // The result is cached for two seconds.
    let began = std::time::Instant::now();
    while testbed.clients.send("", ("GET", "/readyz"), None)?.status != 200 {
        ensure!(
            began.elapsed() < TIMEOUT,
            "the folder is back, and the server is not ready"
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

fn start_second_server(testbed: &mut Testbed) -> Result<()> {
    let lock = testbed.data().join("vnfm.db.lock");
    let backup = testbed.folder().join("lock");
    std::fs::rename(&lock, &backup)?;
    let start_second_server = start_server(testbed.folder(), testbed.limits, ANYWHERE);
    std::fs::rename(&backup, &lock)?;
    if let Ok((mut child, line)) = start_second_server {
        let _ = child.kill(); // it may have ended by itself
        let _ = child.wait();
        bail!("a second server opens the same database: {line}");
    }
    Ok(())
}

fn open_permissions(testbed: &mut Testbed) -> Result<()> {
    testbed.kill()?;
    let data = testbed.data();
    let mode = |path: &Path| anyhow::Ok(path.metadata()?.permissions().mode() & 0o777);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755))?;
    if let Err(why) = testbed.begin() {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700))?;
        testbed.begin()?;
        ensure!(
            format!("{why:#}").contains("0755"),
            "it refuses to start for another reason: {why:#}"
        );
        return Ok(());
    }
    let left = mode(&data)? & 0o077;
    ensure!(
        left == 0,
        "the data folder stays open for others: {left:03o}"
    );
    Ok(())
}

/// Kills the server at any moment of a key rotation or backup: the next one removes all leftovers.
fn kill_during_maintenance(testbed: &mut Testbed, rng: &mut SeededRng) -> Result<()> {
    let before = file_names(&testbed.data())?;
    for path in [
        "/vnfm/v1/secrets/rotate",
        "/vnfm/v1/backups",
        "/vnfm/v1/secrets/rotate",
    ] {
        let process = testbed.process();
        let wait = Duration::from_millis(1 + rng.below(40) as u64);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::park_timeout(wait);
                let mut kill = std::process::Command::new("kill");
                let _ = kill.args(["-9", &process.to_string()]).status(); // it may have ended by itself
            });
            // The response depends on timing.
            drop(testbed.clients.send("root", ("POST", path), None));
        });
        testbed.kill()?;
        testbed
            .begin()
            .with_context(|| format!("after a kill in POST {path}"))?;
    }
    testbed.clients.found();
    let known = |name: &String| {
        before
            .iter()
            .any(|old| name_pattern(old) == name_pattern(name))
    };
    let left: Vec<PathBuf> = file_names(&testbed.data())?
        .into_iter()
        .filter(|name| !known(name))
        .map(PathBuf::from)
        .collect();
    ensure!(left.is_empty(), "crashes leave {left:?} behind");
    testbed.fixture.keys = testbed.clients.page("root", "/vnfm/v1/secrets")?["keys"].clone();
    check_complete(testbed)
}

/// What a client can fill the disk with.
const FILLERS: &[&str] = &["packages", "instances", "files", "audit"];

/// Each way to fill a disk, while an operation runs.
pub(crate) fn full_disk() -> Vec<Case> {
    let mut all = Vec::new();
    for way in FILLERS {
        let what = format!("a disk of {SMALL_DISK} MiB is filled with {way}");
        let mut case = Case::new("disk", what, move |testbed, rng| {
            fill_during_operation(testbed, way, rng)
        });
        case.limits = Limits {
            disk: Some(SMALL_DISK),
            ..Limits::default()
        };
        all.push(case);
    }
    all
}

fn fill_during_operation(testbed: &mut Testbed, way: &str, rng: &mut SeededRng) -> Result<()> {
    let found = testbed
        .samples
        .iter()
        .find(|(sample, _)| sample.is_kubernetes());
    let (sample, vnfd) = found.context("no sample for Kubernetes")?.clone();
    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
    let request = sample.request("instantiate", &vim_of(testbed, &sample));
    let begun = lifecycle::begin(testbed, "olga", (&instance, "instantiate"), &request)?;
    let BeginOutcome::Op(op) = begun else {
        bail!("the operation is refused")
    };
    let (created, refused) = fill_disk(testbed, way, rng)?;
    ensure!(
        refused != 500,
        "on a full disk a request is answered {refused}"
    );
    ensure!(
        way == "audit" || refused == 507,
        "a full disk is answered {refused}"
    );
    // Reads still work.
    testbed
        .clients
        .page("vera", "/vnflcm/v2/vnf_instances")
        .context("I9, on a full disk")?;
    testbed.check_alive()?;
    for path in created {
        if path.contains("vnf_packages") {
            let disable = json!({"operationalState": "DISABLED"});
            testbed.clients.json("olga", ("PATCH", &path), &disable)?;
        }
        let deleted = testbed.clients.send("olga", ("DELETE", &path), None)?;
        ensure!(
            deleted.is_success(),
            "on a full disk DELETE is {}: {}",
            deleted.status,
            deleted.text()
        );
    }
    lifecycle::wait_for_end(testbed, "olga", &op, TIMEOUT)?;
    // A database does not shrink: the operator enlarges the disk.
    testbed.grow_disk(LARGER_DISK)?;
    lifecycle::remove(testbed, "olga", &instance, rng)
}

/// Fills the disk; the created resources, and the status of the first refusal.
fn fill_disk(testbed: &Testbed, way: &str, rng: &mut SeededRng) -> Result<(Vec<String>, u16)> {
    let (packages, instances) = ("/vnfpkgm/v2/vnf_packages", "/vnflcm/v2/vnf_instances");
    let mut created = Vec::new();
    match way {
        "packages" => {
            for _ in 0..MAX_PACKAGES {
                let id = testbed
                    .clients
                    .json("olga", ("POST", packages), &json!({}))?;
                let Some(id) = id.created_id().filter(|_| id.status == 201) else {
                    return Ok((created, id.status));
                };
                created.push(format!("{packages}/{id}"));
                let body = padded_package(testbed, PACKAGE_BYTES, rng)?;
                let path = format!("{packages}/{id}/package_content");
                let body = Some(("application/zip", body.as_slice()));
                let put = testbed.clients.send("olga", ("PUT", &path), body)?;
                if !put.is_success() {
                    return Ok((created, put.status));
                }
            }
            Ok((created, 200))
        }
        "files" => {
            let body = json!({"vnfdId": testbed.fixture.calm_vnfd});
            let id = testbed.create("olga", instances, &body)?;
            created.push(format!("{instances}/{id}"));
            let content = vec![7; STORED_BYTES];
            for number in 0..MAX_STORED {
                let path = format!("/vnfm/v1/vnf_instances/{id}/files/{number}");
                let body = Some(("application/octet-stream", content.as_slice()));
                let put = testbed.clients.send("olga", ("PUT", &path), body)?;
                if !put.is_success() {
                    return Ok((created, put.status));
                }
            }
            Ok((created, 200))
        }
        "instances" => {
            let text = "x".repeat(400_000);
            for _ in 0..480 {
                let body = json!({"vnfdId": testbed.fixture.calm_vnfd,
                    "vnfInstanceDescription": text, "metadata": {"more": text}});
                let answer = testbed.clients.json("olga", ("POST", instances), &body)?;
                let Some(id) = answer.created_id().filter(|_| answer.status == 201) else {
                    return Ok((created, answer.status));
                };
                created.push(format!("{instances}/{id}"));
            }
            Ok((created, 200))
        }
        _ => {
            let path = format!("{instances}/{}", "0".repeat(4000));
            for _ in 0..400 {
                let answer = testbed.clients.send("rita", ("DELETE", &path), None)?;
                ensure!(!answer.is_success(), "a reader deletes");
            }
            Ok((created, 403))
        }
    }
}
