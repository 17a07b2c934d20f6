//! Which packages may run scripts.

use super::{WANTED, World};
use crate::world::{Folder, RealClock, built};
use serde_json::Value;
use std::sync::Arc;
use vnfm_core::ports::{HookDriverRef, MgmtDrivers as _};
use vnfm_plugin_host::{AllowedScripts, Lock, PackagePin, PluginHost};

#[tokio::test]
async fn scripts_run_only_if_their_package_is_allowed() {
    let world = World::with(&Value::Null, |_| {});
    let refused = || match world.plugins.resolve(&WANTED) {
        Err(error) => error,
        Ok(_) => panic!("it may run"),
    };
    let error = refused();
    assert_eq!(error.name(), "plugin.script-not-allowed");
    for word in ["Scripts/hook", "5ca1e", "plugins.lock", "pinned"] {
        assert!(error.to_string().contains(word), "no `{word}` in {error}");
    }
    let mut lock = Lock::read(world.plugins.dir()).unwrap();
    let pin = |sha256: &str| PackagePin {
        vnfd_id: "d".into(),
        sha256: sha256.into(),
        scripts: vec!["Scripts/hook".into()],
        protocol: None,
    };
    lock.add_package(pin("0ther"));
    lock.write(world.plugins.dir()).unwrap();
    refused();
    lock.add_package(pin("5CA1E"));
    lock.write(world.plugins.dir()).unwrap();
    let driver = world.plugins.resolve(&WANTED).unwrap();
    assert_eq!(driver.declaration().name, "mgmt-script");
    let began = driver.id();
    assert!(world.plugins.resolve(&WANTED.exact(&began)).is_ok());
    // Revoked, also for an operation that started with it.
    lock.packages.clear();
    lock.write(world.plugins.dir()).unwrap();
    let again = world.plugins.resolve(&WANTED.exact(&began)).err().unwrap();
    assert_eq!(again.name(), "plugin.script-not-allowed");
    let kept = format!("{}@{}", began.name, began.version);
    let kept = world
        .plugins
        .resolve(&WANTED.deployed(&kept))
        .err()
        .unwrap();
    assert_eq!(
        kept.name(),
        "plugin.script-not-allowed",
        "also where that version made it"
    );
    let never = World::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::None);
    assert!(never.plugins.resolve(&WANTED).is_err());
}

#[tokio::test]
async fn a_named_or_mapped_plugin_takes_precedence_over_a_script() {
    let world = World::new();
    let named = HookDriverRef {
        plugin: Some("gone"),
        ..WANTED
    };
    let error = world.plugins.resolve(&named).err().unwrap();
    assert!(error.to_string().contains("no plugin `gone`"), "{error}");
}

#[test]
fn scripts_without_network_never_run_in_the_servers_process() {
    use vnfm_plugin_host::Runner;
    let dir = Folder::new();
    dir.put(&built("mgmt-script"), "script.so");
    let mut all = dir.config();
    all.plugins.entry("mgmt-script".into()).or_default().runner = Runner::InProcess;
    all.scripts.allow = AllowedScripts::All;
    let plugins = PluginHost::new(all, Arc::new(RealClock));
    plugins.allow("script.so").unwrap();
    let error = plugins.resolve(&WANTED).err().unwrap();
    assert_eq!(error.name(), "plugin.no-process", "{error}");
}
