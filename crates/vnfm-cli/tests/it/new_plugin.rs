//! `vnfmctl plugin new`: the scaffolded crate is built outside of our tree, tested, and run.

use crate::stub::{Ended, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::process::Command;

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vnfm-plugin-sdk");

async fn new(name: &str, sdk: &str, dir: &Path) -> Ended {
    run(
        &[
            "plugin",
            "new",
            name,
            "--sdk",
            sdk,
            "--dir",
            dir.to_str().unwrap(),
        ],
        "",
    )
    .await
}

/// Runs cargo in the crate, with a target folder that is reused between runs.
async fn cargo(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(args)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target());
    let output = command.output().await.unwrap();
    let text = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
    assert!(
        output.status.success(),
        "cargo {args:?}: {}",
        text.join("\n")
    );
    text.join("\n")
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-plugin")
}

#[tokio::test]
async fn a_new_plugin_is_built_tested_and_run_outside_of_our_tree() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("web-page");
    let ended = new("web-page", SDK, &made).await;
    assert!(
        ended.code == 0 && ended.data.contains("README.md"),
        "{ended:?}"
    );
    // Offline, only the versions of our own lock file are sure to be available.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, made.join("Cargo.lock")).unwrap();
    let tested = cargo(&made, &["test", "--offline", "--lib"]).await;
    assert!(tested.contains("test result: ok. 3 passed"), "{tested}");
    cargo(&made, &["build", "--offline"]).await;

    let library = target().join("debug/libweb_page.so");
    std::fs::write(made.join("password"), "planted-password").unwrap();
    let hosts = std::fs::read_to_string(made.join("hosts.yaml")).unwrap();
    let hosts = hosts.replace("{env: LAB_PASSWORD}", "{file: password}");
    assert!(hosts.contains("file: password"));
    std::fs::write(made.join("hosts.yaml"), hosts).unwrap();
    let file = |name: &str| made.join(name).to_str().unwrap().to_owned();
    let (request, hosts) = (file("request.json"), file("hosts.yaml"));
    let args = [
        "plugin",
        "run",
        library.to_str().unwrap(),
        "instantiate_end",
    ];
    let files = ["--request", request.as_str(), "--hosts", hosts.as_str()];
    let ended = run(&[args, files].concat(), "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let effects: Value = serde_json::from_str(&ended.data).unwrap();
    assert_eq!(effects["metadata"]["pages"][1], "http://192.0.2.12:8080/");
}

#[tokio::test]
async fn a_new_plugin_comes_with_a_package_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("web-page");
    let dir = made.to_str().unwrap();
    let args = [
        "plugin", "new", "web-page", "--sdk", SDK, "--dir", dir, "--hook", "heal_end",
    ];
    let ended = run(&args, "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let code = std::fs::read_to_string(made.join("src/lib.rs")).unwrap();
    assert!(
        code.contains("hooks.on(\"heal_end\", Self::heal_end)"),
        "{code}"
    );
    assert!(
        !code.contains('@') && !code.contains("instantiate_end"),
        "{code}"
    );
    let package = made.join("web-page-vnf");
    let vnfd = package.join("Definitions/web-page-vnf.yaml");
    let vnfd: Value = serde_yaml::from_str(&std::fs::read_to_string(vnfd).unwrap()).unwrap();
    let node = &vnfd["topology_template"]["node_templates"]["VNF"];
    let hook = &node["interfaces"]["Vnflcm"]["operations"]["heal_end"];
    assert_eq!(hook["implementation"]["primary"], "web-page");
    assert_eq!(
        node["artifacts"]["web-page"]["properties"]["plugin"],
        "web-page"
    );
    let linted = run(&["lint", package.to_str().unwrap()], "").await;
    assert_eq!(linted.code, 0, "{linted:?}");
}

#[tokio::test]
async fn a_new_package_has_the_hooks_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["vm", "cnf"] {
        let made = folder.path().join(kind);
        let dir = made.to_str().unwrap();
        let hooks = [
            "--hook",
            "instantiate_end=web-page",
            "--hook",
            "terminate_start=web-page",
        ];
        let args = [
            &["new", "vnfd", "shop", "--kind", kind, "--dir", dir][..],
            &hooks,
        ]
        .concat();
        let ended = run(&args, "").await;
        assert_eq!(ended.code, 0, "{ended:?}");
        let linted = run(&["lint", dir], "").await;
        assert_eq!(linted.code, 0, "{linted:?}");
        let shown = run(&["package", "show", dir], "").await;
        assert!(shown.data.contains("terminate_start"), "{shown:?}");
    }
    for (hook, word) in [
        (
            "instantiate_ende=web-page",
            "did you mean `instantiate_end`?",
        ),
        ("instantiate_end", "--hook instantiate_end=web-page"),
    ] {
        let free = folder.path().join("free");
        let ended = run(
            &[
                "new",
                "vnfd",
                "shop",
                "--dir",
                free.to_str().unwrap(),
                "--hook",
                hook,
            ],
            "",
        )
        .await;
        assert!(
            ended.code == 1 && ended.messages.contains(word),
            "{ended:?}"
        );
        assert!(!free.exists());
    }
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_anything_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let free = folder.path().join("free");
    let no_sdk = folder.path().to_str().unwrap();
    for (name, sdk, word) in [
        ("Web Page", SDK, "is not a valid plugin name"),
        ("web-page", no_sdk, "is not vnfm-plugin-sdk"),
    ] {
        let ended = new(name, sdk, &free).await;
        assert!(
            ended.code == 1 && ended.messages.contains(word),
            "{ended:?}"
        );
        assert!(!free.exists());
    }
    let ended = new("web-page", SDK, folder.path()).await;
    assert!(
        ended.code == 1 && ended.messages.contains("already exists"),
        "{ended:?}"
    );
}
