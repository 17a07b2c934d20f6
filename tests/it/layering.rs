//! Crates depend inward only, and unsafe code, third-party crates and network access stay in their wrappers.
//!
//! ```text
//! outbound <- { openstack kubernetes nfvo ssh }; types <- descriptor <- core <- { store openstack kubernetes nfvo plugin-host ssh } <- { server cli vnfm }
//! { plugin-abi plugin-messages } <- plugin-sdk <- plugins/*; plugin-messages <- core
//! ```

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use vnfm_tests::sources::{Source, files, root};

/// Which of our crates each may depend on. A crate that is missing here fails the test.
const ALLOWED: &[(&str, &[&str])] = &[
    ("vnfm-types", &[]),
    ("vnfm-schema", &[]),
    ("vnfm-descriptor", &["vnfm-types"]),
    ("vnfm-signature", &["vnfm-descriptor"]),
    ("vnfm-lint", &["vnfm-descriptor"]),
    (
        "vnfm-core",
        &["vnfm-types", "vnfm-descriptor", "vnfm-plugin-messages"],
    ),
    (
        "vnfm-conformance",
        &["vnfm-types", "vnfm-schema", "vnfm-descriptor", "vnfm-core"],
    ),
    ("vnfm-memory", INNER),
    ("vnfm-store", INNER),
    ("vnfm-outbound", &[]),
    ("vnfm-registry", &["vnfm-types", "vnfm-outbound"]),
    ("vnfm-openstack", CALLING),
    ("vnfm-helm", &[]),
    (
        "vnfm-kubernetes",
        &[
            "vnfm-types",
            "vnfm-descriptor",
            "vnfm-core",
            "vnfm-outbound",
            "vnfm-registry",
            "vnfm-helm",
        ],
    ),
    ("vnfm-nfvo", CALLING),
    ("vnfm-ssh", CALLING),
    (
        "vnfm-hosts",
        &[
            "vnfm-types",
            "vnfm-descriptor",
            "vnfm-core",
            "vnfm-outbound",
            "vnfm-ssh",
        ],
    ),
    ("vnfm-plugin-abi", &[]),
    ("vnfm-plugin-messages", &[]),
    (
        "vnfm-plugin-sdk",
        &["vnfm-plugin-abi", "vnfm-plugin-messages"],
    ),
    (
        "vnfm-plugin-host",
        &[
            "vnfm-types",
            "vnfm-schema",
            "vnfm-descriptor",
            "vnfm-core",
            "vnfm-plugin-abi",
            "vnfm-plugin-messages",
        ],
    ),
    ("vnfm-sim", &["vnfm-types"]),
    (
        "vnfm-cli",
        &[
            "vnfm-types",
            "vnfm-descriptor",
            "vnfm-lint",
            "vnfm-signature",
            "vnfm-plugin-host",
            "vnfm",
        ],
    ),
    ("vnfm-server", COMPOSED),
    ("vnfm", COMPOSED),
    ("kubernetes-cluster", &["vnfm-plugin-sdk"]),
    ("cluster-api", &["vnfm-plugin-sdk"]),
    ("mgmt-script", &["vnfm-plugin-sdk"]),
    ("mgmt-template", &["vnfm-plugin-sdk"]),
    ("fixture-misbehaving", &["vnfm-plugin-sdk"]),
    ("vnfm-spans", &[]),
    ("xtask", &["vnfm-spans", "vnfm-types"]),
];
const INNER: &[&str] = &["vnfm-types", "vnfm-descriptor", "vnfm-core"];
/// What exchanges bytes with neighbours does so through `vnfm-outbound`.
const CALLING: &[&str] = &[
    "vnfm-types",
    "vnfm-descriptor",
    "vnfm-core",
    "vnfm-outbound",
];
const COMPOSED: &[&str] = &[
    "vnfm-types",
    "vnfm-conformance",
    "vnfm-memory",
    "vnfm-schema",
    "vnfm-descriptor",
    "vnfm-signature",
    "vnfm-core",
    "vnfm-store",
    "vnfm-openstack",
    "vnfm-kubernetes",
    "vnfm-helm",
    "vnfm-hosts",
    "vnfm-nfvo",
    "vnfm-outbound",
    "vnfm-ssh",
    "vnfm-plugin-host",
    "vnfm-sim",
    // The server is the first embedder.
    "vnfm",
];
/// Crates that may look at everything.
const FREE: &[&str] = &["vnfm-tests", "vnfm-benches"];
/// Tests may use these in addition to what the crate may use: simulated neighbours, and crates to test plugins with.
const FOR_TESTS: &[&str] = &[
    "vnfm-outbound",
    "vnfm-conformance",
    "vnfm-memory",
    "vnfm-schema",
    "vnfm-sim",
    "vnfm-types",
    "vnfm-core",
    "vnfm-ssh",
    "vnfm-plugin-sdk",
    "vnfm-plugin-host",
    "mgmt-script",
    "mgmt-template",
    "fixture-misbehaving",
    "kubernetes-cluster",
    "vnfm-store",
    "vnfm-openstack",
    "vnfm-kubernetes",
];
/// Crates of others that only these of ours may use, tests apart: (crate, who).
const WRAPPED: &[(&str, &[&str])] = &[
    ("kube", &["vnfm-kubernetes"]),
    ("k8s-openapi", &["vnfm-kubernetes"]),
    ("russh", &["vnfm-ssh", "vnfm-sim"]),
    ("libloading", &["vnfm-plugin-host"]),
    ("cms", &["vnfm-signature"]),
    ("rusqlite", &["vnfm-store"]),
    ("axum", &["vnfm-server", "vnfm-sim"]),
    // Neighbours are called through vnfm-outbound. Exceptions: the command line calls our own server, the simulated
    // world is the neighbour, and the server's span exporter calls the configured collector.
    (
        "reqwest",
        &["vnfm-outbound", "vnfm-cli", "vnfm-server", "vnfm-sim"],
    ),
];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    metadata["packages"].as_array().unwrap().clone()
}

/// A package's dependencies as (name, whether it is one of ours, whether tests alone use it).
fn dependencies(package: &Value) -> Vec<(&str, bool, bool)> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.map(|one| {
        (
            one["name"].as_str().unwrap(),
            one["path"].is_string(),
            one["kind"] == "dev",
        )
    })
    .collect()
}

#[test]
fn crates_depend_only_inward() {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        if FREE.contains(&name) {
            continue;
        }
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("`{name}` is not in the table of layers"));
        for (dependency, ours, in_tests) in dependencies(&package) {
            // A crate's tests enable its own features.
            let for_tests = FOR_TESTS.contains(&dependency) || dependency == name;
            let fine = allowed.contains(&dependency) || in_tests && for_tests;
            if ours && !fine {
                wrong.push(format!("{name} -> {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the layers: {}", wrong.join(", "));
}

#[test]
fn third_party_crates_are_used_by_their_wrappers_only() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        for (dependency, _, in_tests) in dependencies(&package) {
            let Some((_, keepers)) = WRAPPED.iter().find(|(wrapped, _)| *wrapped == dependency)
            else {
                continue;
            };
            if !in_tests && !FREE.contains(&name) && !keepers.contains(&name) {
                wrong.push(format!(
                    "{name} -> {dependency} (only {})",
                    keepers.join(", ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "wrapped crates: {}", wrong.join("; "));
}

fn code_with(sources: &[Source], marks: &[&str], but_in: &[&str]) -> Vec<String> {
    let requested = |source: &&Source| {
        !source.is_test() && !but_in.iter().any(|place| source.path.starts_with(place))
    };
    let found = sources.iter().filter(requested).flat_map(|source| {
        source
            .code()
            .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)))
            .map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    });
    found.collect()
}

#[test]
fn unsafe_code_is_confined_to_the_plugin_boundary() {
    let sources = files(&["crates", "plugins", "xtask", "benches"], ".rs").unwrap();
    let border = [
        "crates/vnfm-plugin-abi/",
        "crates/vnfm-plugin-sdk/",
        "crates/vnfm-plugin-host/",
    ];
    let found = code_with(
        &sources,
        &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
        &border,
    );
    assert!(found.is_empty(), "unsafe code:\n{}", found.join("\n"));
}

#[test]
fn core_crates_spawn_no_tasks_or_threads() {
    let sources = files(
        &[
            "crates/vnfm-core",
            "crates/vnfm-types",
            "crates/vnfm-descriptor",
        ],
        ".rs",
    )
    .unwrap();
    assert!(sources.len() > 10, "the sources were not found");
    let found = code_with(
        &sources,
        &["tokio::spawn", "thread::spawn", "block_on("],
        &[],
    );
    assert!(
        found.is_empty(),
        "the embedder owns the runtime:\n{}",
        found.join("\n")
    );
}

/// `disallowed-methods` of clippy cannot tell a client's method from ours with the same name; a source can.
#[test]
fn outbound_connections_go_through_vnfm_outbound() {
    let sources = files(&["crates", "plugins"], ".rs").unwrap();
    let calling = [
        "crates/vnfm-outbound/",
        "crates/vnfm-cli/",
        "crates/vnfm-sim/",
        "crates/vnfm-server/src/logs.rs",
    ];
    let marks = [
        "reqwest::",
        "lookup_host",
        "to_socket_addrs",
        "HttpConnector::new()",
        "TcpStream::connect",
    ];
    let found = code_with(&sources, &marks, &calling);
    assert!(
        found.is_empty(),
        "call neighbours through vnfm-outbound:\n{}",
        found.join("\n")
    );
}

/// A client's own readers accept a response of any size. `vnfm_outbound::read` and `Pieces` limit it. Line breaks
/// by rustfmt do not matter.
#[test]
fn response_bodies_are_read_with_a_size_limit() {
    const READERS: [&str; 6] = [
        ".text().await",
        ".bytes().await",
        ".chunk().await",
        ".json().await",
        ".json::<",
        ".bytes_stream(",
    ];
    // They read answers of our own server, of the world itself, or do the bounding.
    let apart = [
        "crates/vnfm-outbound/",
        "crates/vnfm-cli/",
        "crates/vnfm-sim/",
    ];
    let sources = files(&["crates", "plugins"], ".rs").unwrap();
    let read = |source: &&Source| {
        !source.is_test() && !apart.iter().any(|place| source.path.starts_with(place))
    };
    let unbounded = |source: &Source| {
        let text: String = source.code().map(|(_, line)| line.trim()).collect();
        let found = READERS.iter().find(|reader| text.contains(**reader))?;
        Some(format!("{}: `{found}`", source.path))
    };
    let found: Vec<_> = sources.iter().filter(read).filter_map(unbounded).collect();
    assert!(
        found.is_empty(),
        "read answers with vnfm_outbound:\n{}",
        found.join("\n")
    );
}

#[test]
fn vim_type_names_are_defined_once() {
    let sources = files(&["crates"], ".rs").unwrap();
    let found = code_with(
        &sources,
        &["\"ETSINFV.", "\"VNFM.HOSTS."],
        &["crates/vnfm-types/src/vim.rs"],
    );
    assert!(
        found.is_empty(),
        "use the names of `vnfm_types::vim`:\n{}",
        found.join("\n")
    );
}

#[test]
fn library_crates_do_not_read_the_environment() {
    let sources = files(&["crates"], ".rs").unwrap();
    // what a plugin is linked with is its own copy of the standard library
    let programs = [
        "crates/vnfm-server/",
        "crates/vnfm-cli/",
        "crates/vnfm-sim/src/main.rs",
        "crates/vnfm-plugin-sdk/",
    ];
    let marks = [
        "std::env::var",
        "env::current_dir",
        "env::set_var",
        "set_global_default",
        "panic::set_hook",
    ];
    let found = code_with(&sources, &marks, &programs);
    assert!(
        found.is_empty(),
        "libraries get their configuration from the caller:\n{}",
        found.join("\n")
    );
}
