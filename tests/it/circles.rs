//! Files of one crate do not import each other in circles: a reader can start at the bottom, and a change of one file
//! does not reach all others.
//!
//! A circle of three files is accepted: a type, what builds it, and what they share. The files of the engine also stand
//! on floors, and import nothing from a floor above ([architecture](../../docs/architecture.md)).

use vnfm_tests::imports::Imports;
use vnfm_tests::sources::{files, root};

/// Files that may import each other in a circle.
const MAX_FILES: usize = 3;

#[test]
fn files_of_a_crate_do_not_import_each_other_in_large_circles() {
    let mut wrong = Vec::new();
    for folder in crates() {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let circles = Imports::read(&folder).unwrap().circles();
        let largest = circles.first().map_or(0, Vec::len);
        if largest > MAX_FILES {
            let files = circles[0].join(", ");
            wrong.push(format!(
                "{name}: {largest} files, {MAX_FILES} allowed: {files}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The floors of the engine, the lowest first. A file imports files of its own floor and of those below.
const CORE_FLOORS: &[&[&str]] = &[
    &[
        "ports",
        "cluster_match",
        "cluster_match_tests",
        "deployment",
        "exclusive",
        "in_progress",
        "json",
        "limits",
        "query",
        "redact",
        "vim_limiter",
        "vnfd_match",
    ],
    &[
        "context",
        "drivers",
        "overrides",
        "refusal",
        "running_ops",
        "static_plugins",
        "stored_files",
    ],
    &["hooks", "patch", "vims"],
    &["lcm"],
    &["engine"],
    &[
        "abandon",
        "events",
        "instances",
        "links",
        "notification_delivery",
        "orphans",
        "plan",
        "plugin_uses",
        "policy_check",
        "restore_check",
        "schedules",
        "snapshots",
        "subscriptions",
        "tenant",
        "tenant_vim",
        "vim_events",
        "volumes",
    ],
    &["the root"],
];

#[test]
fn files_of_the_engine_import_nothing_from_a_floor_above() {
    let floor = |module: &str| {
        let first = module.split("::").next().unwrap_or_default();
        let found = CORE_FLOORS.iter().position(|floor| floor.contains(&first));
        found.unwrap_or_else(|| panic!("`{first}` stands on no floor of CORE_FLOORS"))
    };
    let edges = Imports::read("crates/vnfm-core").unwrap().edges();
    assert!(edges.len() > 100, "the imports were not found");
    let upwards = edges.iter().filter(|(from, to)| floor(from) < floor(to));
    let upwards: Vec<_> = upwards
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect();
    assert!(
        upwards.is_empty(),
        "imports upwards: {}",
        upwards.join(", ")
    );
}

/// The folder of every crate with sources.
fn crates() -> Vec<String> {
    let manifests = files(
        &["crates", "plugins", "xtask", "benches", "tests"],
        "Cargo.toml",
    );
    let folders = manifests.unwrap().into_iter().filter_map(|manifest| {
        let folder = manifest.path.strip_suffix("/Cargo.toml")?.to_owned();
        root().join(&folder).join("src").is_dir().then_some(folder)
    });
    let folders: Vec<_> = folders.collect();
    assert!(folders.len() > 20, "the crates were not found");
    folders
}
