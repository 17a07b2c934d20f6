//! The crates as libraries in a foreign program: types are `Send` and `Sync`, engines are independent, features link only
//! what they need, and there is no global state.

use crate::engine::fakes::FakeWorld;
use crate::engine::setup::{engine, instance, on, store};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use vnfm_core::lcm::Begin;
use vnfm_tests::sources::{files, root};

fn crosses<T: Send + Sync + 'static + ?Sized>() {}

/// The types that an embedder stores or passes on; the test is that this compiles.
#[test]
fn public_types_are_send_and_sync() {
    use vnfm_core::ports as p;
    crosses::<vnfm::Engine>();
    crosses::<vnfm::EngineParts>();
    crosses::<vnfm::Drivers>();
    crosses::<vnfm::Limits>();
    crosses::<vnfm::StaticPlugins>();
    crosses::<vnfm::Notifier>();
    crosses::<vnfm::Plan>();
    crosses::<vnfm::Refusal>();
    crosses::<vnfm::VimChange>();
    crosses::<vnfm::Hosts>();
    crosses::<vnfm::SystemClock>();
    crosses::<dyn p::Store>();
    crosses::<dyn p::Packages>();
    crosses::<dyn p::InfraDriver>();
    crosses::<dyn p::MgmtDriver>();
    crosses::<dyn p::MgmtDrivers>();
    crosses::<dyn p::HostServices>();
    crosses::<dyn p::HookHost>();
    crosses::<dyn p::Nfvo>();
    crosses::<dyn p::Schemas>();
    crosses::<dyn p::Subscribers>();
    crosses::<dyn p::Clock>();
    crosses::<dyn p::Observer>();
    crosses::<p::PortError>();
    crosses::<p::StoreError>();
    crosses::<p::Change>();
    crosses::<p::VimSlot>();
    crosses::<p::Allocation>();
    crosses::<vnfm::query::Query>();
    crosses::<vnfm::descriptor::Package>();
    crosses::<vnfm::descriptor::Findings>();
    crosses::<vnfm::memory::MemoryStore>();
    crosses::<vnfm::memory::MemoryPackages>();
    crosses::<vnfm::memory::MemoryVim>();
    crosses::<vnfm::store::SqliteStore>();
    crosses::<vnfm::store::PackageDir>();
    crosses::<vnfm::store::SecretKeys>();
    crosses::<vnfm::openstack::OpenStack>();
    crosses::<vnfm::kubernetes::KubernetesDriver>();
    crosses::<vnfm::plugins::PluginHost>();
    crosses::<vnfm_nfvo::Grants>();
    crosses::<vnfm_nfvo::Callbacks>();
    crosses::<vnfm_conformance::Broken>();
}

/// Futures of the engine can be spawned on any runtime.
#[test]
fn engine_futures_are_send() {
    fn sent<T: Send>(_: impl Fn(&'static vnfm::Engine) -> T) {}
    sent(|engine| engine.drive(""));
    sent(vnfm::Engine::resume_all);
    sent(|engine| engine.events(0));
    sent(|engine| engine.progress("", ""));
    let begin = || Begin::new(&vnfm_core::lcm::heal::OPERATION, Value::Null);
    sent(|engine| engine.plan("", "", begin()));
    sent(|engine| engine.begin("", "", begin()));
}

#[tokio::test]
async fn two_engines_in_one_process_are_independent() {
    let (one, two) = (FakeWorld::default().into(), FakeWorld::default().into());
    let (first, second) = (engine(store().await, &one), engine(store().await, &two));
    let id = instance(&first).await;
    let op = first
        .instantiate("default", &id, on(crate::engine::fakes::CLOUD))
        .await
        .unwrap();
    second.resume_all().await.unwrap();
    second.drive(&op).await.unwrap();
    assert!(
        two.calls().is_empty(),
        "the other engine's world was touched: {:?}",
        two.calls()
    );
    assert!(second.store().instance("default", &id).await.is_err());
    second.leave();
    first.drive(&op).await.unwrap();
    let state = first
        .progress("default", &op)
        .await
        .unwrap()
        .operation_state;
    assert_eq!(
        state,
        vnfm_types::LcmOperationState::Completed,
        "leaving one stops the other"
    );
    assert_ne!(
        first.store().installation_id(),
        second.store().installation_id()
    );
}

/// The crates linked by features of `vnfm`.
fn tree(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "vnfm",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--features",
            features,
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    names
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(Into::into)
        .collect()
}

#[test]
fn features_link_only_the_crates_they_need() {
    let without = |features: &str, crates: &[&str]| {
        let tree = tree(features);
        let found: Vec<_> = crates.iter().filter(|name| tree.contains(**name)).collect();
        assert!(found.is_empty(), "`{features}` brings {found:?}");
    };
    let heavy = [
        "tokio",
        "reqwest",
        "kube",
        "russh",
        "rusqlite",
        "libsqlite3-sys",
        "rustls",
        "libloading",
    ];
    without("", &[&heavy[..], &["jsonschema"]].concat());
    without("schema", &heavy);
    without("memory", &heavy);
    // One `libsqlite3-sys` is linked by a program: an embedder's own must not meet ours.
    without(
        "memory,clock,openstack,kubernetes,plugins,hosts,conformance",
        &["rusqlite", "libsqlite3-sys"],
    );
    assert!(
        tree("sqlite").contains("libsqlite3-sys"),
        "the test looks for another name"
    );
    let core = tree("");
    assert!(
        core.len() <= 61,
        "the engine alone is {} crates, its aim 60",
        core.len() - 1
    );
}

#[test]
fn library_crates_have_no_global_state() {
    let sources = files(&["crates"], ".rs").unwrap();
    // What has one place in a program: what reads it, and what a program or a test may have for itself.
    let free = [
        "crates/vnfm-plugin-abi/",
        "crates/vnfm-server/",
        "crates/vnfm-cli/",
        "crates/vnfm-sim/",
        "crates/vnfm-plugin-sdk/",
    ];
    let marks = [
        "static mut ",
        "thread_local!",
        "lazy_static!",
        "install_default(",
        "ctrl_c(",
        "signal::",
    ];
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        if free.iter().any(|folder| source.path.starts_with(folder))
            || source.path.contains("/examples/")
        {
            continue;
        }
        for (number, line) in source.code() {
            if marks.iter().any(|mark| line.contains(mark)) {
                found.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "an embedder's process has its own:\n{}",
        found.join("\n")
    );
}
