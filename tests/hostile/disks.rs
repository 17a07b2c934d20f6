//! Disks that lie: files of the data folder that are gone, cut, emptied or damaged when the server starts, what a crash
//! leaves there, a folder that is taken away from a running server, and a disk that is full.
//!
//! A server either refuses to start and names the file, or has everything that it acknowledged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use vnfm_tests::rng::Dice;

use crate::cases::Case;
use crate::testbed::Ground;
use crate::neighbours::{Learnt, vim_of};
use crate::processes::{ANYWHERE, Limits, start_server};
use crate::quotas::padded;
use crate::lifecycle::{self, Begun};

/// MiB of the disk that is full soon: nothing new is begun where less than 128 are left.
const DISK: u64 = 168;
/// MiB that it has once the operator has made room.
const LARGER: u64 = 400;
/// Bytes of a package that fills it.
const PIECE: usize = 4 << 20;
/// Pieces that are tried; less than that fill it.
const PIECES: usize = 12;
/// What is written over a damaged place.
const NOISE: usize = 8192;
/// How long an operation may take that began before the disk was full.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is done to a file.
type Harm = fn(&Path, &mut Dice) -> Result<()>;

/// What becomes of a file while no server runs.
const HARMS: &[(&str, Harm)] = &[
    ("gone", |file, _| Ok(std::fs::remove_file(file)?)),
    ("empty", |file, _| Ok(std::fs::write(file, "")?)),
    ("cut", |file, _| {
        let bytes = std::fs::read(file)?;
        Ok(std::fs::write(file, &bytes[..bytes.len() / 2])?)
    }),
    ("damaged in the middle", |file, dice| {
        let mut bytes = std::fs::read(file)?;
        let from = bytes.len() / 4 + dice.below(bytes.len() / 2);
        for byte in bytes.iter_mut().skip(from).take(NOISE) {
            *byte = u8::try_from(dice.below(256))?;
        }
        Ok(std::fs::write(file, bytes)?)
    }),
    ("somebody else's", |file, dice| {
        let bytes: Vec<_> = (0..512).flat_map(|_| dice.roll().to_le_bytes()).collect();
        Ok(std::fs::write(file, bytes)?)
    }),
];

/// The files of a data folder, below it: one for each name, whatever ids are in it.
///
/// # Errors
/// Where it cannot be listed.
pub(crate) fn listed(data: &Path) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for name in below(data, data)? {
        if !all.iter().any(|known| shape(known) == shape(&name)) {
            all.push(name);
        }
    }
    Ok(all)
}

/// A name without what differs between two files of one kind.
fn shape(name: &str) -> String {
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

/// Each file × each harm, after a stop and after a kill; and what a running server is to notice.
pub(crate) fn files(learnt: &Learnt) -> Vec<Case> {
    let mut all = Vec::new();
    for name in &learnt.files {
        for (how, harm) in HARMS {
            let wanted = shape(name);
            all.push(Case::new(
                "disk",
                format!("`{name}` is {how}"),
                move |ground, dice| {
                    let found = listed(&ground.data())?;
                    let file = found.into_iter().find(|one| shape(one) == wanted);
                    let file = file.context("the file is not there")?;
                    harmed(ground, &file, |path| harm(path, dice))
                },
            ));
        }
    }
    let mut add = |what: &str, act: fn(&mut Ground, &mut Dice) -> Result<()>| {
        all.push(Case::new("disk", what.to_owned(), act));
    };
    add("the folder is taken from a running server", |ground, _| {
        taken(ground)
    });
    add("a second server, once the lock is gone", |ground, _| {
        second(ground)
    });
    add("a folder that everybody may read", |ground, _| {
        readable(ground)
    });
    add("kills while keys are changed and backups made", leftovers);
    all
}

/// The server is killed, a file is harmed, and the next one starts or refuses to.
fn harmed(ground: &mut Ground, file: &str, harm: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    ground.kill()?;
    let (data, kept) = (ground.data(), ground.folder().join("kept"));
    copy(&data, &kept)?;
    harm(&data.join(file)).with_context(|| format!("cannot harm `{file}`"))?;
    let began = ground.begin();
    let judged = match began {
        Ok(()) => {
            let judged = complete(ground);
            ground.clients.found();
            ground.kill()?;
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
                    "it refuses to start, and does not name `{file}`: {why}"
                ))
            }
        }
    };
    std::fs::remove_dir_all(&data)?;
    std::fs::rename(&kept, &data)?;
    ground.begin().context("with the files as they were")?;
    judged
}

/// Everything that was acknowledged is there, or `/readyz` says that something is wrong.
fn complete(ground: &Ground) -> Result<()> {
    let ready = ground.clients.send("", ("GET", "/readyz"), None)?;
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
        let path = format!("{path}/{}", ground.fixture.ids[name]);
        let seen = ground.clients.send("ann", ("GET", &path), None)?;
        ensure!(
            seen.status == 200,
            "it starts and is ready, and GET {path} is {}",
            seen.status
        );
    }
    let calm = ground.clients.page("vera", "/vnflcm/v2/vnf_instances")?;
    ensure!(
        calm == ground.fixture.calm,
        "it starts and is ready, and a list is another one: {calm}"
    );
    let path = format!("/vnfm/v1/vims/{}/check", ground.fixture.cloud);
    let check = ground.clients.send("ann", ("POST", &path), None)?;
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

/// What is written goes nowhere: no change may be acknowledged.
fn taken(ground: &mut Ground) -> Result<()> {
    let (data, away) = (ground.data(), ground.folder().join("away"));
    std::fs::rename(&data, &away)?;
    let made = ground
        .clients
        .json("ann", ("POST", "/vnfpkgm/v2/vnf_packages"), &json!({}));
    let ready = ground.clients.send("", ("GET", "/readyz"), None);
    std::fs::rename(&away, &data)?;
    let (made, ready) = (made?, ready?);
    if let Some(id) = made.made().filter(|_| made.status == 201) {
        ground.clients.send(
            "ann",
            ("DELETE", &format!("/vnfpkgm/v2/vnf_packages/{id}")),
            None,
        )?;
    }
    ground.clients.found();
    ensure!(
        made.status == 503,
        "a change is {} while its folder is gone",
        made.status
    );
    ensure!(
        ready.status == 503,
        "/readyz is {} while its folder is gone",
        ready.status
    );
    // How it looked is remembered for two seconds.
    let began = std::time::Instant::now();
    while ground.clients.send("", ("GET", "/readyz"), None)?.status != 200 {
        ensure!(
            began.elapsed() < PATIENCE,
            "the folder is back, and the server is not ready"
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

fn second(ground: &mut Ground) -> Result<()> {
    let lock = ground.data().join("vnfm.db.lock");
    let kept = ground.folder().join("lock");
    std::fs::rename(&lock, &kept)?;
    let second = start_server(ground.folder(), ground.limits, ANYWHERE);
    std::fs::rename(&kept, &lock)?;
    if let Ok((mut child, line)) = second {
        let _ = child.kill(); // it may have ended by itself
        let _ = child.wait();
        bail!("a second server opens the same database: {line}");
    }
    Ok(())
}

fn readable(ground: &mut Ground) -> Result<()> {
    ground.kill()?;
    let data = ground.data();
    let mode = |path: &Path| anyhow::Ok(path.metadata()?.permissions().mode() & 0o777);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755))?;
    if let Err(why) = ground.begin() {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700))?;
        ground.begin()?;
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

/// Kills at any moment of a change of keys and of a backup: the next server leaves nothing of it behind.
fn leftovers(ground: &mut Ground, dice: &mut Dice) -> Result<()> {
    let before = listed(&ground.data())?;
    for path in [
        "/vnfm/v1/secrets/rotate",
        "/vnfm/v1/backups",
        "/vnfm/v1/secrets/rotate",
    ] {
        let process = ground.process();
        let wait = Duration::from_millis(1 + dice.below(40) as u64);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::park_timeout(wait);
                let mut kill = std::process::Command::new("kill");
                let _ = kill.args(["-9", &process.to_string()]).status(); // it may have ended by itself
            });
            // Whether it is answered is chance.
            drop(ground.clients.send("root", ("POST", path), None));
        });
        ground.kill()?;
        ground
            .begin()
            .with_context(|| format!("after a kill in POST {path}"))?;
    }
    ground.clients.found();
    let known = |name: &String| before.iter().any(|old| shape(old) == shape(name));
    let left: Vec<PathBuf> = listed(&ground.data())?
        .into_iter()
        .filter(|name| !known(name))
        .map(PathBuf::from)
        .collect();
    ensure!(left.is_empty(), "crashes leave {left:?} behind");
    ground.fixture.keys = ground.clients.page("root", "/vnfm/v1/secrets")?["keys"].clone();
    complete(ground)
}

/// What fills a disk.
const FILLS: &[&str] = &["packages", "instances", "audit"];

/// Each way to fill a disk, while an operation runs.
pub(crate) fn full() -> Vec<Case> {
    let mut all = Vec::new();
    for way in FILLS {
        let what = format!("a disk of {DISK} MiB is filled with {way}");
        let mut case = Case::new("disk", what, move |ground, dice| fill(ground, way, dice));
        case.ground = Limits {
            disk: Some(DISK),
            ..Limits::default()
        };
        all.push(case);
    }
    all
}

fn fill(ground: &mut Ground, way: &str, dice: &mut Dice) -> Result<()> {
    let found = ground
        .samples
        .iter()
        .find(|(sample, _)| sample.is_kubernetes());
    let (sample, vnfd) = found.context("no sample for Kubernetes")?.clone();
    let instance = lifecycle::create(ground, "olga", &vnfd)?;
    let request = sample.request("instantiate", &vim_of(ground, &sample));
    let begun = lifecycle::begin(ground, "olga", (&instance, "instantiate"), &request)?;
    let Begun::Op(op) = begun else {
        bail!("the operation is refused")
    };
    let (made, refused) = filled(ground, way, dice)?;
    ensure!(
        refused != 500,
        "on a full disk a request is answered {refused}"
    );
    ensure!(
        way == "audit" || refused == 507,
        "a full disk is answered {refused}"
    );
    // Reads go on.
    ground
        .clients
        .page("vera", "/vnflcm/v2/vnf_instances")
        .context("I9, on a full disk")?;
    ground.is_alive()?;
    for path in made {
        if path.contains("vnf_packages") {
            let disable = json!({"operationalState": "DISABLED"});
            ground.clients.json("olga", ("PATCH", &path), &disable)?;
        }
        let gone = ground.clients.send("olga", ("DELETE", &path), None)?;
        ensure!(
            gone.is_success(),
            "on a full disk DELETE is {}: {}",
            gone.status,
            gone.text()
        );
    }
    lifecycle::settle(ground, "olga", &op, PATIENCE)?;
    // What a database has once taken it keeps for itself: the operator makes the disk larger.
    ground.enlarge(LARGER)?;
    lifecycle::away(ground, "olga", &instance, dice)
}

/// Fills the disk; what was made, and how the first refusal was answered.
fn filled(ground: &Ground, way: &str, dice: &mut Dice) -> Result<(Vec<String>, u16)> {
    let (packages, instances) = ("/vnfpkgm/v2/vnf_packages", "/vnflcm/v2/vnf_instances");
    let mut made = Vec::new();
    match way {
        "packages" => {
            for _ in 0..PIECES {
                let id = ground
                    .clients
                    .json("olga", ("POST", packages), &json!({}))?;
                let Some(id) = id.made().filter(|_| id.status == 201) else {
                    return Ok((made, id.status));
                };
                made.push(format!("{packages}/{id}"));
                let body = padded(ground, PIECE, dice)?;
                let path = format!("{packages}/{id}/package_content");
                let body = Some(("application/zip", body.as_slice()));
                let put = ground.clients.send("olga", ("PUT", &path), body)?;
                if !put.is_success() {
                    return Ok((made, put.status));
                }
            }
            Ok((made, 200))
        }
        "instances" => {
            let text = "x".repeat(400_000);
            for _ in 0..480 {
                let body = json!({"vnfdId": ground.fixture.calm_vnfd,
                    "vnfInstanceDescription": text, "metadata": {"more": text}});
                let answer = ground.clients.json("olga", ("POST", instances), &body)?;
                let Some(id) = answer.made().filter(|_| answer.status == 201) else {
                    return Ok((made, answer.status));
                };
                made.push(format!("{instances}/{id}"));
            }
            Ok((made, 200))
        }
        _ => {
            let path = format!("{instances}/{}", "0".repeat(4000));
            for _ in 0..400 {
                let answer = ground.clients.send("rita", ("DELETE", &path), None)?;
                ensure!(!answer.is_success(), "a reader deletes");
            }
            Ok((made, 403))
        }
    }
}
