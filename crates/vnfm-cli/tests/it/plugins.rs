//! `vnfmctl plugin inspect`, `allow` and `list`, with a real library.

use crate::stub::{Stub, ok, run};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A copy of the template's library, which cargo builds next to this test because the test depends on it.
fn library(folder: &Path) -> PathBuf {
    use mgmt_template as _;
    let built = std::env::current_exe()
        .unwrap()
        .with_file_name("libmgmt_template.so");
    let copy = folder.join("libmine.so");
    std::fs::copy(&built, &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[tokio::test]
async fn an_allowed_library_is_copied_and_pinned_by_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let (file, dir) = (library.to_str().unwrap(), folder.path().join("plugins"));
    let inspected = run(&["-o", "json", "plugin", "inspect", file], "").await;
    assert_eq!(inspected.code, 0, "{inspected:?}");
    let inspected: Value = serde_json::from_str(&inspected.data).unwrap();
    let shown = run(&["plugin", "inspect", file], "").await.data;
    for line in [
        "abi      1.0",
        "configuration    loginSeconds  integer",
        "password      string, secret  yes",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }

    for _again in 0..2 {
        let allowed = run(
            &["plugin", "allow", file, "--dir", dir.to_str().unwrap()],
            "",
        )
        .await;
        assert_eq!(allowed.code, 0, "{allowed:?}");
        assert!(
            allowed.data.contains(inspected["sha256"].as_str().unwrap()),
            "{allowed:?}"
        );
    }
    let lock = std::fs::read_to_string(dir.join("plugins.lock")).unwrap();
    let pins: Value = serde_json::from_str(&lock).unwrap();
    let (name, version) = (
        inspected["name"].as_str().unwrap(),
        inspected["version"].as_str().unwrap(),
    );
    let expected = json!([{"name": name, "version": version, "file": format!("{name}-{version}.so"), "sha256": inspected["sha256"]}]);
    assert_eq!(pins["plugins"], expected);
    assert_eq!(
        std::fs::read_dir(&dir).unwrap().count(),
        2,
        "nothing but the library and the lock file"
    );
}

#[tokio::test]
async fn the_libraries_of_a_package_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let (package, dir) = (folder.path().join("web"), folder.path().join("plugins"));
    let path = package.to_str().unwrap();
    assert_eq!(
        run(&["new", "vnfd", "web", "--dir", path], "").await.code,
        0
    );
    let allow = [
        "plugin",
        "allow",
        "--package",
        path,
        "--dir",
        dir.to_str().unwrap(),
    ];
    let none = run(&allow, "").await;
    assert!(
        none.code == 1 && none.messages.contains("names a library or script"),
        "{none:?}"
    );
    assert!(!dir.exists(), "nothing is written");

    let vnfd = package.join("Definitions/web.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let library = library(folder.path());
    std::fs::create_dir_all(package.join("Files/mgmt")).unwrap();
    std::fs::copy(&library, package.join("Files/mgmt/libmine.so")).unwrap();
    let hook = "
      interfaces:
        Vnflcm:
          operations:
            instantiate_end: {implementation: mine}
      artifacts:
        mine: {type: tosca.artifacts.Implementation.SharedLibrary, file: ../Files/mgmt/libmine.so}
";
    let (before, after) = text.split_once("\n\n    server:\n").unwrap();
    std::fs::write(&vnfd, format!("{before}{hook}\n    server:\n{after}")).unwrap();
    let allowed = run(&allow, "").await;
    assert!(
        allowed.code == 0 && allowed.data.contains("allowed mgmt-template@"),
        "{allowed:?}"
    );
    let lock = std::fs::read_to_string(dir.join("plugins.lock")).unwrap();
    assert!(lock.contains("mgmt-template"), "{lock}");
    assert_eq!(
        run(&["plugin", "allow"], "").await.code,
        2,
        "either a file or a package is required"
    );
}

#[tokio::test]
async fn the_protocol_of_scripts_is_allowed_explicitly() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("plugins");
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vnfd-samples/vnf-tacker-script"
    );
    let dir_argument = dir.to_str().unwrap();
    let allow = [
        "plugin",
        "allow",
        "--package",
        sample,
        "--dir",
        dir_argument,
    ];
    let pin = || {
        let text = std::fs::read_to_string(dir.join("plugins.lock")).unwrap();
        let lock: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(lock["packages"].as_array().unwrap().len(), 1, "{lock}");
        lock["packages"][0].clone()
    };
    let without = run(&allow, "").await;
    assert!(
        without.code == 0 && without.messages.contains("add `--protocol tacker`"),
        "{without:?}"
    );
    assert!(pin().get("protocol").is_none());
    let tacker = [&allow[..], &["--protocol", "tacker"]].concat();
    let with = run(&tacker, "").await;
    assert!(
        with.code == 0 && !with.messages.contains("pickled"),
        "{with:?}"
    );
    assert_eq!(pin()["protocol"], "tacker");
    run(&allow, "").await;
    assert!(pin().get("protocol").is_none(), "revoked");
    let library = ["plugin", "allow", "lib.so", "--protocol", "tacker"];
    assert_eq!(run(&library, "").await.code, 2, "only for a package");
}

#[tokio::test]
async fn a_server_with_another_plugin_folder_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (library, dir) = (library(folder.path()), folder.path().join("plugins"));
    let args = [
        "plugin",
        "allow",
        library.to_str().unwrap(),
        "--dir",
        dir.to_str().unwrap(),
    ];
    let inspected = run(
        &["-o", "json", "plugin", "inspect", library.to_str().unwrap()],
        "",
    )
    .await;
    let inspected: Value = serde_json::from_str(&inspected.data).unwrap();
    let known =
        json!([{"name": inspected["name"], "version": inspected["version"], "usable": true}]);
    for (plugins, warned) in [(json!([]), true), (known, false)] {
        let stub = Stub::new([("GET /vnfm/v1/plugins", ok(&plugins))]).await;
        let allowed = stub.run(&args).await;
        assert_eq!(
            (allowed.code, allowed.messages.contains("another folder")),
            (0, warned),
            "{allowed:?}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_plugin_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lib.so");
    std::fs::write(&file, "no library").unwrap();
    let dir = folder.path().join("plugins");
    let args = [
        "plugin",
        "allow",
        file.to_str().unwrap(),
        "--dir",
        dir.to_str().unwrap(),
    ];
    let refused = run(&args, "").await;
    assert!(
        refused.code == 1 && refused.messages.contains("hint: "),
        "{refused:?}"
    );
    assert_eq!(
        std::fs::read_dir(&dir).unwrap().count(),
        0,
        "the folder is empty"
    );
}

#[tokio::test]
async fn the_list_shows_why_a_plugin_is_unusable() {
    let all = json!([
        {"name": "a", "version": "1.0.0", "hooks": {"heal_end": {}, "instantiate_end": {}}, "file": "a.so", "usable": true,
            "usedBy": [{"vnfPkgId": "p-1", "vnfProductName": "Web", "usageState": "IN_USE"}, {"vnfPkgId": "p-2", "usageState": "NOT_IN_USE"}],
            "instances": [{"id": "i-1", "vnfInstanceName": "web"}, {"id": "i-2"}]},
        {"name": "b", "version": "2.0.0", "file": "b.so", "sha256": "0", "usable": false, "problem": {"status": 422, "detail": "it was changed"}},
    ]);
    let stub = Stub::new([("GET /vnfm/v1/plugins", ok(&all))]).await;
    let expected = "\
NAME  VERSION  USABLE  HOOKS                      USED BY            INSTANCES  FILE  PROBLEM
a     1.0.0    true    heal_end, instantiate_end  Web (in use), p-2  web, i-2   a.so
b     2.0.0    false                                                            b.so  it was changed
";
    assert_eq!(stub.run(&["plugin", "list"]).await.data, expected);
}
