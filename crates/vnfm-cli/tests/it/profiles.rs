//! Profiles: which server is called, with which login.

use crate::stub::{Stub, ok};
use serde_json::json;
use std::path::Path;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const LIST: &str = "GET /vnfm/v1/vims";

/// Runs `vnfmctl` with the profiles of this file, without other server settings. Returns exit code and all output.
async fn ctl(file: &Path, args: &[&str], input: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command.args(args).env("VNFM_PROFILES", file);
    for variable in [
        "VNFM_SERVER",
        "VNFM_TOKEN",
        "VNFM_USER",
        "VNFM_PASSWORD",
        "VNFM_PROFILE",
        "VNFM_CA",
    ] {
        command.env_remove(variable);
    }
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut process = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = process.wait_with_output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("planted"), "a secret was printed: {text}");
    (output.status.code().unwrap(), text)
}

/// The `Authorization` header of each request.
fn logins(stub: &Stub) -> Vec<Option<String>> {
    let login = |headers: &axum::http::HeaderMap| {
        headers
            .get("authorization")
            .map(|login| login.to_str().unwrap().to_owned())
    };
    stub.requests()
        .iter()
        .map(|request| login(&request.headers))
        .collect()
}

#[tokio::test]
async fn a_profile_selects_the_server_and_the_login() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vnfmctl.yaml");
    let (lab, dc1) = (
        Stub::new([(LIST, ok(&json!([])))]).await,
        Stub::new([(LIST, ok(&json!([])))]).await,
    );
    let set = async |name: &str, stub: &Stub, login: &[&str], secret: &str| {
        let args = [&["profile", "set", name, "--url", stub.url()], login].concat();
        ctl(&file, &args, secret).await
    };
    let (code, output) = set("lab", &lab, &["--by-token"], "planted-token\n").await;
    assert_eq!(code, 0, "{output}");
    assert_eq!(
        set("dc1", &dc1, &["--user", "anne"], "planted-password\n")
            .await
            .0,
        0
    );
    let (_, listed) = ctl(&file, &["profile", "list"], "").await;
    assert!(
        listed.contains("user anne") && listed.contains("token"),
        "{listed}"
    );

    assert_eq!(ctl(&file, &["vim", "list"], "").await.0, 0);
    assert_eq!(
        logins(&lab),
        [Some("Bearer planted-token".to_owned())],
        "the first profile is the current one"
    );
    assert_eq!(
        ctl(&file, &["--profile", "dc1", "vim", "list"], "").await.0,
        0
    );
    assert_eq!(ctl(&file, &["profile", "use", "dc1"], "").await.0, 0);
    assert_eq!(ctl(&file, &["vim", "list"], "").await.0, 0);
    let anne = Some("Basic YW5uZTpwbGFudGVkLXBhc3N3b3Jk".to_owned());
    assert_eq!(logins(&dc1), [anne.clone(), anne]);
    assert_eq!(
        ctl(&file, &["--server", lab.url(), "vim", "list"], "")
            .await
            .0,
        0
    );
    assert_eq!(
        logins(&lab)[1],
        None,
        "the login of a profile is not sent to another server"
    );

    let (code, output) = ctl(&file, &["--profile", "dc2", "vim", "list"], "").await;
    assert!(
        code == 1 && output.contains("existing profiles: dc1, lab"),
        "{code} {output}"
    );
    assert_eq!(ctl(&file, &["profile", "delete", "dc1"], "").await.0, 0);
    let (_, listed) = ctl(&file, &["profile", "list"], "").await;
    assert!(!listed.contains("dc1"), "{listed}");
}

#[tokio::test]
async fn what_works_offline_reads_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.yaml");
    std::fs::write(&file, "current: {").unwrap();
    let (code, output) = ctl(&file, &["vim", "list"], "").await;
    assert_eq!(code, 1, "{output}");
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples/cnf-chart");
    let (code, output) = ctl(&file, &["lint", package, "--ca", "missing.pem"], "").await;
    assert_eq!((code, output.as_str()), (0, ""));
}
