//! `vnfmctl package`: disabling, downloads, and packages that the server fetches.

use crate::stub::{Stub, ok, problem};
use serde_json::json;
use std::io::Write as _;
use std::path::Path;

/// The lookup of a package by its id.
const FOUND: &str = "GET /vnfpkgm/v2/vnf_packages/p%2D1";

/// A server with one package and its parts.
async fn package_stub() -> Stub {
    let package =
        json!({"id": "p-1", "vnfProductName": "Web server", "onboardingState": "ONBOARDED"});
    let one = "/vnfpkgm/v2/vnf_packages/p-1";
    Stub::new([
        (FOUND, ok(&package)),
        (
            &*format!("PATCH {one}"),
            ok(&json!({"operationalState": "DISABLED"})),
        ),
        (
            &*format!("GET {one}/package_content"),
            ok(&json!("the archive")),
        ),
        (
            &*format!("GET {one}/artifacts/Files/a%2Eyaml"),
            ok(&json!("an artifact")),
        ),
        (
            &*format!("GET {one}/manifest?include_signatures"),
            ok(&json!("a manifest")),
        ),
    ])
    .await
}

#[tokio::test]
async fn a_package_is_disabled_and_downloaded() {
    let stub = package_stub().await;
    let ended = stub.run(&["package", "disable", "p-1"]).await;
    assert_eq!(
        (ended.code, ended.data.as_str()),
        (0, "package p-1 is DISABLED\n"),
        "{ended:?}"
    );
    let requests = stub.requests();
    assert_eq!(
        requests.last().unwrap().body,
        json!({"operationalState": "DISABLED"})
    );
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let file = out.to_str().unwrap();
    for (args, content) in [
        (vec!["p-1", "--out", file], "\"the archive\""),
        (
            vec!["p-1", "--artifact", "Files/a.yaml", "--out", file],
            "\"an artifact\"",
        ),
        (
            vec!["p-1", "--part", "manifest", "--signatures", "--out", file],
            "\"a manifest\"",
        ),
    ] {
        let ended = stub
            .run(&[vec!["package", "download"], args].concat())
            .await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), content);
        assert_eq!(
            ended.data,
            format!("wrote {} bytes to `{file}`\n", content.len())
        );
    }
    let ended = stub
        .run(&[
            "package", "download", "p-1", "--part", "vnfd", "--out", file,
        ])
        .await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert_eq!(
        std::fs::read_to_string(&out).unwrap(),
        "\"a manifest\"",
        "a failed download does not touch the file"
    );
}

/// A copy of a sample without its parameter mapping.
fn without_mapping(from: &Path, to: &Path) {
    const MAPPING: &str = "Files/openstack/parameters.yaml";
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            without_mapping(&path, &to);
        } else if !path.ends_with(MAPPING) {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(to, text.replace(&format!("Source: {MAPPING}\n"), "")).unwrap();
        }
    }
}

#[tokio::test]
async fn a_first_mapping_is_written_and_never_over_another_file() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    let sample = samples.join("vnf-nested-groups");
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("bare");
    without_mapping(&sample, &bare);
    let stub = Stub::new([]).await;
    let bare = bare.to_str().unwrap();
    let printed = stub.run(&["package", "mapping", bare]).await;
    assert_eq!(printed.code, 0, "{printed:?}");
    let beginning = "# A first version of Files/openstack/parameters.yaml.";
    assert!(printed.data.starts_with(beginning), "{printed:?}");
    assert!(
        printed.data.contains("  nodes: vdu.node.count\n"),
        "{printed:?}"
    );

    let out = folder.path().join("mapping.yaml");
    let file = out.to_str().unwrap();
    let write = ["package", "mapping", bare, "--out", file];
    let written = stub.run(&write).await;
    assert_eq!(written.code, 0, "{written:?}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), printed.data);
    std::fs::write(&out, "corrected by hand").unwrap();
    let again = stub.run(&write).await;
    assert_ne!(again.code, 0, "{again:?}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "corrected by hand");

    let filled = stub
        .run(&["package", "mapping", sample.to_str().unwrap()])
        .await;
    assert_eq!((filled.code, filled.data.as_str()), (0, ""), "{filled:?}");
}

#[tokio::test]
async fn the_objects_of_an_instantiation_are_printed_without_a_cluster() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    let sample = samples.join("cnf-tosca-only");
    let (sample, stub) = (sample.to_str().unwrap(), Stub::new([]).await);
    let words = ["package", "render", sample, "--param", "greeting=one: two"];
    let printed = stub.run(&words).await;
    assert_eq!(printed.code, 0, "{printed:?}");
    let kinds: Vec<&str> = printed
        .data
        .lines()
        .filter_map(|line| line.strip_prefix("kind: "))
        .collect();
    assert_eq!(
        kinds,
        ["ConfigMap", "Service", "Deployment", "Ingress"],
        "{printed:?}"
    );
    assert!(printed.data.starts_with("---\n"), "{printed:?}");
    assert!(printed.data.contains("greeting: 'one: two'"), "{printed:?}");
    assert!(printed.data.contains("replicas: 2"), "{printed:?}");

    let words = [
        "-o",
        "json",
        "package",
        "render",
        sample,
        "--flavour",
        "simple",
    ];
    let listed = stub.run(&words).await;
    let objects: serde_json::Value = serde_json::from_str(&listed.data).unwrap();
    assert_eq!(objects.as_array().unwrap().len(), 4, "{listed:?}");

    for (words, message) in [
        (&["--flavour", "other"][..], "no flavour `other`"),
        (&["--param", "greeting=[1]"], "additionalParams.greeting"),
        (&["--level", "large"], "no instantiation level `large`"),
    ] {
        let refused = stub
            .run(&[&["package", "render", sample], words].concat())
            .await;
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(format!("{refused:?}").contains(message), "{refused:?}");
    }
    let servers = samples.join("vnf-ha-pair");
    let refused = stub
        .run(&["package", "render", servers.to_str().unwrap()])
        .await;
    assert_ne!(refused.code, 0, "{refused:?}");
}

#[tokio::test]
async fn a_package_is_disabled_for_its_deletion_and_enabled_again_if_that_fails() {
    let one = "/vnfpkgm/v2/vnf_packages/p-1";
    let (patch, delete) = (format!("PATCH {one}"), format!("DELETE {one}"));
    for (usage, deleted, code, expected, requests) in [
        (
            "NOT_IN_USE",
            ok(&json!(null)),
            0,
            "p-1 is now DISABLED",
            vec!["DISABLED", ""],
        ),
        (
            "NOT_IN_USE",
            problem(409, "taken"),
            3,
            "ENABLED again",
            vec!["DISABLED", "", "ENABLED"],
        ),
        ("IN_USE", problem(409, "taken"), 3, "taken", vec![""]),
    ] {
        let package = json!({"id": "p-1", "onboardingState": "ONBOARDED", "operationalState": "ENABLED",
            "usageState": usage});
        let switched = ok(&json!({"operationalState": "DISABLED"}));
        let stub = Stub::new([
            (FOUND, ok(&package)),
            (&*patch, switched),
            (&*delete, deleted),
        ])
        .await;
        let ended = stub.run(&["package", "delete", "p-1"]).await;
        assert_eq!(
            (ended.code, ended.messages.contains(expected)),
            (code, true),
            "{ended:?}"
        );
        let states = stub.requests().into_iter().skip(1);
        let states = states.map(|request| {
            request.body["operationalState"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        assert_eq!(states.collect::<Vec<_>>(), requests, "{usage}");
    }
}

#[tokio::test]
async fn the_server_fetches_a_package_with_a_password_from_a_file() {
    let one = "/vnfpkgm/v2/vnf_packages/p-1";
    let upload = format!("POST {one}/package_content/upload_from_uri");
    let onboarded = json!({"id": "p-1", "vnfdId": "d", "vnfProductName": "Web", "onboardingState": "ONBOARDED"});
    let stub = Stub::new([
        ("POST /vnfpkgm/v2/vnf_packages", ok(&json!({"id": "p-1"}))),
        (&*upload, ok(&json!(null))),
        (&*format!("GET {one}"), ok(&onboarded)),
    ])
    .await;
    let mut password = tempfile::NamedTempFile::new().unwrap();
    writeln!(password, "planted-password").unwrap();
    let file = password.path().to_str().unwrap();
    let uri = "https://files.example.com/web.csar";
    let args = [
        "package",
        "onboard",
        "--from-uri",
        uri,
        "--user",
        "u",
        "--password-file",
        file,
    ];
    let ended = stub.run(&args).await;
    assert_eq!(
        (ended.code, ended.data.as_str()),
        (0, "onboarded Web as package p-1, vnfdId d\n")
    );
    let sent = stub
        .requests()
        .into_iter()
        .find(|request| request.target == upload)
        .unwrap()
        .body;
    let expected = json!({"addressInformation": uri, "authType": "BASIC",
        "paramsBasic": {"userName": "u", "password": "planted-password"}});
    assert_eq!(sent, expected);
    assert!(!ended.messages.contains("planted"), "{ended:?}");
    let nothing = stub.run(&["package", "onboard"]).await;
    assert_eq!(nothing.code, 2, "{nothing:?}");
}

#[tokio::test]
async fn the_hint_of_a_failed_onboarding_follows_from_its_reason() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples/vnf-b-cnf");
    let all = "/vnfpkgm/v2/vnf_packages";
    let lint = format!("hint: `vnfmctl lint {sample}` shows");
    for (details, expected) in [
        (
            json!({"code": "package.refused", "detail": "a finding"}),
            Some(&*lint),
        ),
        (
            json!({"code": "package.refused", "detail": "in use", "next": "delete it"}),
            Some("hint: delete it"),
        ),
        (
            json!({"code": "package.not-written", "detail": "the disk is full"}),
            None,
        ),
    ] {
        let record =
            json!({"id": "p-1", "onboardingState": "ERROR", "onboardingFailureDetails": details});
        let stub = Stub::new([
            (&*format!("POST {all}"), ok(&json!({"id": "p-1"}))),
            (&*format!("PUT {all}/p-1/package_content"), ok(&json!({}))),
            (&*format!("GET {all}/p-1"), ok(&record)),
            (&*format!("DELETE {all}/p-1"), ok(&json!({}))),
        ])
        .await;
        let ended = stub.run(&["package", "onboard", sample]).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.messages.contains(details["detail"].as_str().unwrap()),
            "{ended:?}"
        );
        match expected {
            Some(hint) => assert!(ended.messages.contains(hint), "{ended:?}"),
            None => assert!(!ended.messages.contains("hint:"), "{ended:?}"),
        }
    }
}
