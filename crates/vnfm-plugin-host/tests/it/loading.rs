//! Which libraries are loaded, and the error code of each refusal.

use crate::c;
use crate::world::{AMPLE, Folder, RUNNERS, RealClock, Remembering, built, request};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vnfm_core::ports::{HookDriverRef, MgmtDrivers, PortError};
use vnfm_plugin_host::{Config, LOCK_FILE, Lock, Pin, PluginHost, inspect};
use vnfm_plugin_sdk::static_driver;

fn refusal<T>(found: Result<T, PortError>) -> PortError {
    found.err().expect("it must be refused")
}

/// Pins `file` as `name@version` with its true hash.
fn pin(folder: &Folder, file: &str, name: &str, version: &str) {
    use sha2_of::sha256;
    let mut lock = Lock::read(folder.path()).unwrap();
    lock.add_plugin(Pin {
        name: name.into(),
        version: version.into(),
        file: file.into(),
        sha256: sha256(&folder.path().join(file)),
        superseded: false,
    });
    lock.write(folder.path()).unwrap();
}

mod sha2_of {
    use sha2::{Digest, Sha256};

    pub(super) fn sha256(path: &std::path::Path) -> String {
        format!("{:x}", Sha256::digest(std::fs::read(path).unwrap()))
    }
}

#[test]
fn an_allowed_plugin_is_found_by_name_version_and_mapped_implementation() {
    let folder = Folder::new();
    folder.put(&built("mgmt-template"), "mgmt-template-0.1.0.so");
    let implementations = BTreeMap::from([("drivers-of-old".into(), "mgmt-template".into())]);
    let config = Config {
        implementations,
        ..folder.config()
    };
    let host = PluginHost::new(config, Arc::new(RealClock));

    let error = refusal(host.resolve(&"mgmt-template".into()));
    assert_eq!(error.name(), "plugin.not-found");
    let pin = host.allow("mgmt-template-0.1.0.so").unwrap();
    assert_eq!(pin.to_string(), "mgmt-template@0.1.0");

    for (implementation, plugin) in [
        ("mgmt-template", None),
        ("mgmt-template@0.1.0", None),
        ("drivers-of-old", None),
        ("whatever", Some("mgmt-template")),
    ] {
        let wanted = HookDriverRef {
            plugin,
            ..implementation.into()
        };
        let driver = host.resolve(&wanted).unwrap();
        assert_eq!(
            driver.declaration().hooks.keys().collect::<Vec<_>>(),
            ["instantiate_end"]
        );
    }
    let error = refusal(host.resolve(&"mgmt-template@9.9.9".into()));
    assert!(
        error.to_string().contains("`mgmt-template@0.1.0`"),
        "it says what is there: {error}"
    );
    assert_eq!(host.list().len(), 1);
}

#[test]
fn a_declaration_has_schemas_and_marks_secrets() {
    let folder = Folder::new();
    let path = folder.put(&built("mgmt-template"), "t.so");
    let seen = inspect(&path).unwrap();
    let parameters = seen.declaration.hooks["instantiate_end"]
        .parameters
        .as_ref()
        .unwrap();
    assert_eq!(parameters["properties"]["password"]["writeOnly"], true);
    assert_eq!(
        parameters["required"],
        json!(["sshCp", "username", "password", "text"])
    );
    assert!(seen.declaration.config_schema.unwrap()["properties"]["path"].is_object());
    assert_eq!(seen.abi, "1.0");
    assert!(
        seen.sdk_version.starts_with("rust-"),
        "{}",
        seen.sdk_version
    );
    assert!(seen.glibc.unwrap().starts_with("2."));
}

#[test]
fn every_malformed_library_has_its_own_error_code() {
    let cases = [
        ("WRONG_SYMBOL", "plugin.missing-symbol", "VNFM_MGMT_DRIVER"),
        ("WRONG_TINY", "plugin.wrong-magic", "4 bytes"),
        ("WRONG_MAGIC", "plugin.wrong-magic", "0x1122334455667788"),
        ("WRONG_MAJOR", "plugin.wrong-major", "ABI 2.0"),
        ("WRONG_SIZE", "plugin.short-table", "24 bytes"),
        ("WRONG_FLAGS", "plugin.aborts-on-panic", "panics"),
        ("WRONG_NULL_CREATE", "plugin.short-table", "null"),
        (
            "WRONG_DECLARATION",
            "plugin.bad-declaration",
            "c-plugin@1.0.0",
        ),
        (
            "WRONG_UNDEFINED",
            "plugin.unloadable",
            "nobody_defines_this",
        ),
    ];
    for (define, name, word) in cases {
        let folder = Folder::new();
        c::plugin(folder.path(), "bad.so", &[define]);
        pin(&folder, "bad.so", "c-plugin", "1.0.0");
        let error = refusal(folder.host().resolve(&"c-plugin".into()));
        assert_eq!(error.name(), name, "{define}: {error}");
        assert!(error.to_string().contains(word), "{define}: {error}");
        assert_eq!(
            folder.host().status().unwrap()[0]
                .outcome
                .as_ref()
                .unwrap_err()
                .name(),
            name
        );
        assert!(folder.host().list().is_empty());
    }
}

#[test]
fn the_error_names_the_glibc_version_that_a_library_needs() {
    let folder = Folder::new();
    c::plugin_of_the_future(folder.path(), "future.so");
    pin(&folder, "future.so", "c-plugin", "1.0.0");
    let error = refusal(folder.host().resolve(&"c-plugin".into()));
    assert_eq!(error.name(), "plugin.newer-glibc");
    assert!(error.to_string().contains("needs glibc 2.999"), "{error}");
}

#[test]
fn a_file_that_is_not_a_library_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("text.so"), "#!/bin/sh\n").unwrap();
    pin(&folder, "text.so", "text", "1.0.0");
    pin(&folder, "text.so", "gone", "1.0.0");
    std::fs::write(folder.path().join("gone.so"), "").unwrap();
    pin(&folder, "gone.so", "gone", "1.0.0");
    std::fs::remove_file(folder.path().join("gone.so")).unwrap();
    assert_eq!(
        refusal(folder.host().resolve(&"text".into())).name(),
        "plugin.unloadable"
    );
    assert_eq!(
        refusal(folder.host().resolve(&"gone".into())).name(),
        "plugin.unreadable"
    );
}

#[test]
fn a_file_whose_hash_differs_from_the_pin_is_not_loaded() {
    let folder = Folder::new();
    let path = c::plugin(folder.path(), "p.so", &[]);
    folder.host().allow("p.so").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    let error = refusal(folder.host().resolve(&"c-plugin".into()));
    assert_eq!(error.name(), "plugin.hash-mismatch");
}

#[tokio::test]
async fn overwriting_the_file_of_a_loaded_plugin_does_not_affect_it() {
    let folder = Folder::new();
    let path = c::plugin(folder.path(), "p.so", &[]);
    let host = folder.host();
    host.allow("p.so").unwrap();
    let driver = host.resolve(&"c-plugin".into()).unwrap();
    std::fs::write(&path, "gone").unwrap();
    let remembering = Arc::new(Remembering::default());
    let effects = driver
        .call(request("instantiate_end", AMPLE), remembering)
        .await
        .unwrap();
    assert_eq!(effects.message.as_deref(), Some("done in C"));
    assert!(
        host.resolve(&"c-plugin".into()).is_ok(),
        "what is in use stays in use"
    );
    assert_eq!(
        refusal(folder.host().resolve(&"c-plugin".into())).name(),
        "plugin.hash-mismatch"
    );
}

#[test]
fn libraries_outside_the_folder_or_writable_by_others_are_refused() {
    let folder = Folder::new();
    let elsewhere = Folder::new();
    let real = c::plugin(elsewhere.path(), "p.so", &[]);
    std::os::unix::fs::symlink(&real, folder.path().join("link.so")).unwrap();
    pin(&folder, "link.so", "link", "1.0.0");
    folder.put(&real, "p.so");
    pin(&folder, "p.so", "c-plugin", "1.0.0");
    let mut lock = Lock::read(folder.path()).unwrap();
    let outside = format!(
        "../{}/p.so",
        elsewhere.path().file_name().unwrap().display()
    );
    lock.add_plugin(Pin {
        name: "outside".into(),
        file: outside,
        ..lock.plugins[0].clone()
    });
    lock.write(folder.path()).unwrap();

    let host = folder.host();
    assert_eq!(
        refusal(host.resolve(&"link".into())).name(),
        "plugin.not-allowed"
    );
    assert_eq!(
        refusal(host.resolve(&"outside".into())).name(),
        "plugin.not-allowed"
    );
    for path in [folder.path().join("p.so"), folder.path().to_owned()] {
        let before = path.metadata().unwrap().permissions();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o775)).unwrap();
        let error = refusal(host.resolve(&"c-plugin".into()));
        assert_eq!(error.name(), "plugin.unsafe-permissions");
        assert!(error.to_string().contains("mode 775"), "{error}");
        std::fs::set_permissions(&path, before).unwrap();
    }
    host.resolve(&"c-plugin".into()).unwrap();
}

#[test]
fn the_newest_of_several_versions_is_used() {
    let folder = Folder::new();
    for version in ["1.9.0", "1.10.0"] {
        let define = format!("PLUGIN_VERSION=\"{version}\"");
        c::plugin(folder.path(), &format!("c-{version}.so"), &[&define]);
        folder.host().allow(&format!("c-{version}.so")).unwrap();
    }
    let host = folder.host();
    let version = |name: &str| {
        host.resolve(&name.into())
            .unwrap()
            .declaration()
            .version
            .clone()
    };
    assert_eq!(
        (version("c-plugin"), version("c-plugin@1.9.0")),
        ("1.10.0".into(), "1.9.0".into())
    );
}

#[test]
fn an_instances_version_is_found_although_the_newest_cannot_be_loaded() {
    let folder = Folder::new();
    for version in ["1.9.0", "1.10.0"] {
        let define = format!("PLUGIN_VERSION=\"{version}\"");
        c::plugin(folder.path(), &format!("c-{version}.so"), &[&define]);
        folder.host().allow(&format!("c-{version}.so")).unwrap();
    }
    std::fs::write(folder.path().join("c-1.10.0.so"), "cut short").unwrap();
    let host = folder.host();
    let wanted = HookDriverRef::from("c-plugin");
    assert_eq!(
        refusal(host.resolve(&wanted)).name(),
        "plugin.hash-mismatch"
    );
    let deployed = |name: &str| host.resolve(&wanted.deployed(name));
    assert_eq!(deployed("c-plugin@1.9.0").unwrap().id().version, "1.9.0");
    assert_eq!(
        refusal(deployed("c-plugin@1.10.0")).name(),
        "plugin.hash-mismatch"
    );
    assert_eq!(
        refusal(deployed("c-plugin@1.8.0")).name(),
        "plugin.not-found"
    );
}

#[test]
fn an_operation_keeps_its_linked_driver_despite_a_newer_library() {
    let folder = Folder::new();
    let define = "PLUGIN_NAME=\"mgmt-template\"";
    c::plugin(
        folder.path(),
        "newer.so",
        &[define, "PLUGIN_VERSION=\"9.0.0\""],
    );
    let host = folder.host();
    host.register(static_driver::<mgmt_template::Template>())
        .unwrap();
    let began = host.resolve(&"mgmt-template".into()).unwrap().id();
    host.allow("newer.so").unwrap();
    assert_eq!(
        host.resolve(&"mgmt-template".into()).unwrap().id().version,
        "9.0.0"
    );
    assert_eq!(
        host.resolve(&HookDriverRef::from("mgmt-template").exact(&began))
            .unwrap()
            .id(),
        began
    );
}

#[test]
fn a_new_library_of_the_same_name_is_used_and_a_misnamed_one_is_refused() {
    let folder = Folder::new();
    c::plugin(folder.path(), "one.so", &[]);
    let host = folder.host();
    host.allow("one.so").unwrap();
    host.resolve(&"c-plugin".into()).unwrap();
    c::plugin(folder.path(), "two.so", &["WRONG_SHAPE"]);
    host.allow("two.so").unwrap();
    host.resolve(&"c-plugin".into()).unwrap();
    pin(&folder, "one.so", "other-name", "1.0.0");
    assert_eq!(
        refusal(host.resolve(&"other-name".into())).name(),
        "plugin.misnamed"
    );
}

#[test]
fn a_malformed_lock_file_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.path().join(LOCK_FILE), "plugins: all").unwrap();
    assert_eq!(
        refusal(folder.host().resolve(&"any".into())).name(),
        "plugin.lock-unreadable"
    );
    assert!(folder.host().list().is_empty());
}

#[tokio::test]
async fn a_configuration_is_validated_and_never_shown() {
    let folder = Folder::new();
    folder.put(&built("mgmt-template"), "t.so");
    folder.host().allow("t.so").unwrap();
    let host = folder.configured("mgmt-template", json!({"loginSeconds": "p4ssw0rd"}));
    let error = refusal(host.resolve(&"mgmt-template".into()));
    assert_eq!(error.name(), "plugin.bad-config");
    let text = format!("{error} {error:?} {host:?}");
    assert!(
        text.contains("config.loginSeconds") && !text.contains("p4ssw0rd"),
        "{text}"
    );

    let host = folder.configured("mgmt-template", json!({"path": "etc"}));
    let driver = host.resolve(&"mgmt-template".into()).unwrap();
    let remembering = Arc::new(Remembering::default());
    let error = refusal(
        driver
            .call(request("instantiate_end", AMPLE), remembering)
            .await,
    );
    assert_eq!(error.name(), "plugin.create-failed");
    assert!(
        error.to_string().contains("not an absolute path"),
        "{error}"
    );
}

#[test]
fn an_operation_keeps_the_library_that_it_started_with() {
    for runner in RUNNERS {
        let folder = Folder::new();
        c::plugin(folder.path(), "old.so", &[]);
        folder.host_of(runner).allow("old.so").unwrap();
        let newest = HookDriverRef::from("c-plugin");
        let began = folder.host_of(runner).resolve(&newest).unwrap().id();
        c::plugin(folder.path(), "new.so", &["WRONG_SHAPE"]);
        folder.host_of(runner).allow("new.so").unwrap();
        c::plugin(folder.path(), "newer.so", &["PLUGIN_VERSION=\"1.0.1\""]);
        folder.host_of(runner).allow("newer.so").unwrap();

        let host = folder.host_of(runner);
        let now = host.resolve(&newest).unwrap().id();
        assert_eq!(
            (now.version.as_str(), began.version.as_str()),
            ("1.0.1", "1.0.0")
        );
        for installed in [&began, &now] {
            let exact = host.resolve(&newest.exact(installed)).unwrap().id();
            assert_eq!(exact, *installed);
        }
        let same_version = host.resolve(&"c-plugin@1.0.0".into()).unwrap().id();
        assert_ne!(same_version, began, "new operations get the new file");
        assert_eq!(host.list().len(), 2);

        std::fs::remove_file(folder.path().join("old.so")).unwrap();
        let error = refusal(folder.host_of(runner).resolve(&newest.exact(&began)));
        assert_eq!(error.name(), "plugin.replaced");
        assert!(
            error.to_string().contains(began.sha256.as_deref().unwrap()),
            "{error}"
        );
        let mut lock = Lock::read(folder.path()).unwrap();
        lock.plugins.retain(|pin| pin.file != "old.so");
        lock.write(folder.path()).unwrap();
        let error = refusal(folder.host_of(runner).resolve(&newest.exact(&began))).to_string();
        let both = [
            "`c-plugin@1.0.0`",
            "`c-plugin@1.0.1`",
            now.sha256.as_deref().unwrap(),
        ];
        assert!(both.iter().all(|word| error.contains(word)), "{error}");
    }
}
