//! Missing files in the data folder: the program does not start, or refuses changes, and reports the reason.

use crate::process::{Server, command, started};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";

async fn call(server: &Server, method: Method, path: &str) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .request(method, format!("{}{path}", server.url))
        .header("version", "2.3.0");
    let response = request.json(&json!({})).send().await.unwrap();
    (
        response.status().as_u16(),
        response.json().await.unwrap_or_default(),
    )
}

/// Creates a package record; returns its path.
async fn accepted(server: &Server) -> String {
    let (status, created) = call(server, Method::POST, PACKAGES).await;
    assert_eq!(status, 201, "{created}");
    format!("{PACKAGES}/{}", created["id"].as_str().unwrap())
}

/// Standard error of a program that does not start.
fn refused(mut command: Command) -> String {
    let ended = command.output().unwrap();
    assert!(!ended.status.success(), "the program must not start");
    String::from_utf8(ended.stderr).unwrap()
}

/// Runs `vnfm-server accept-loss` on a folder.
fn accept_loss(data: &Path) -> String {
    let mut command = command(data);
    let ended = command.arg("accept-loss").output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    String::from_utf8(ended.stdout).unwrap()
}

#[tokio::test]
async fn a_server_with_a_missing_wal_or_database_starts_only_after_the_loss_is_accepted() {
    for gone in ["vnfm.db-wal", "vnfm.db"] {
        let data = tempfile::tempdir().unwrap();
        let mut server = started(&mut command(data.path()));
        let package = accepted(&server).await;
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        drop(server);
        fs::rename(data.path().join(gone), data.path().join("elsewhere")).unwrap();
        let stderr = refused(command(data.path()));
        for word in [
            gone,
            "missing or empty",
            "vnfm-server restore FILE",
            "vnfm-server accept-loss",
        ] {
            assert!(stderr.contains(word), "{word}: {stderr}");
        }
        assert_eq!(
            data.path().join("vnfm.db").exists(),
            gone != "vnfm.db",
            "nothing is recreated"
        );
        fs::rename(data.path().join("elsewhere"), data.path().join(gone)).unwrap();
        let mut server = started(&mut command(data.path()));
        assert_eq!(call(&server, Method::GET, &package).await.0, 200);
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        fs::remove_file(data.path().join(gone)).unwrap();
        let stderr = accept_loss(data.path());
        assert!(
            stderr.contains("vnfm.db.lost-") && stderr.contains("start the server"),
            "{stderr}"
        );
        let server = started(&mut command(data.path()));
        assert_eq!(call(&server, Method::GET, INSTANCES).await.0, 200);
    }
}

#[tokio::test]
async fn a_shutdown_leaves_a_complete_database_in_one_file() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&mut command(data.path()));
    let package = accepted(&server).await;
    let id = rustix::process::Pid::from_child(&server.process);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::task::spawn_blocking(move || server.process.wait().unwrap())
        .await
        .unwrap();
    assert!(ended.success(), "{ended}");
    let copy = tempfile::tempdir().unwrap();
    for name in ["vnfm.db", "secrets.key"] {
        fs::copy(data.path().join(name), copy.path().join(name)).unwrap();
    }
    let server = started(&mut command(copy.path()));
    assert_eq!(call(&server, Method::GET, &package).await.0, 200);
}

#[tokio::test]
async fn a_server_with_a_deleted_data_folder_refuses_changes() {
    let home = tempfile::tempdir().unwrap();
    let (data, away) = (home.path().join("data"), home.path().join("away"));
    let server = started(&mut command(&data));
    accepted(&server).await;
    let ready = call(&server, Method::GET, "/readyz").await;
    assert_eq!(
        (ready.0, &ready.1["parts"]["files"]),
        (200, &json!("ready")),
        "{}",
        ready.1
    );
    fs::rename(&data, &away).unwrap();
    let (status, problem) = call(&server, Method::POST, PACKAGES).await;
    assert_eq!(
        (status, &problem["code"]),
        (503, &json!("server.files-lost")),
        "{problem}"
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("was removed") && detail.contains(data.to_str().unwrap()),
        "{detail}"
    );
    // Reads still work, and changes work again once the folder is back.
    assert_eq!(call(&server, Method::GET, PACKAGES).await.0, 200);
    fs::rename(&away, &data).unwrap();
    accepted(&server).await;
}

#[tokio::test]
async fn readiness_names_missing_files() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&mut command(data.path()));
    fs::remove_file(data.path().join("vnfm.db-wal")).unwrap();
    let (status, ready) = call(&server, Method::GET, "/readyz").await;
    assert_eq!(
        (status, &ready["parts"]["files"]),
        (503, &json!("not ready")),
        "{ready}"
    );
    assert_eq!(ready["parts"]["integrity"], "ready", "{ready}");
}

/// A folder like a Kubernetes volume with `fsGroup`: owned by root and a group.
fn volume(home: &Path, gid: u32, mode: u32) -> PathBuf {
    let data = home.join(format!("{gid}-{mode:o}"));
    fs::create_dir_all(data.join("lost+found")).unwrap();
    std::os::unix::fs::chown(&data, Some(0), Some(gid)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    data
}

#[test]
fn a_volume_owned_by_root_and_the_servers_group_is_accepted() {
    const GROUP: u32 = 65_532;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a folder of another group");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let as_pod = |data: &Path| {
        let mut command = command(data);
        command.uid(GROUP).gid(GROUP).env("HOME", home.path());
        command
    };
    let data = volume(home.path(), GROUP, 0o2770);
    drop(started(&mut as_pod(&data)));
    drop(started(&mut as_pod(&data)));
    assert_eq!(
        data.metadata().unwrap().mode() & 0o7777,
        0o2770,
        "OnRootMismatch compares it"
    );
    for file in ["vnfm.db", "secrets.key"] {
        assert_eq!(
            data.join(file).metadata().unwrap().mode() & 0o777,
            0o600,
            "{file}"
        );
    }
    for (gid, mode) in [(GROUP, 0o2775), (GROUP + 1, 0o2770)] {
        let stderr = refused(as_pod(&volume(home.path(), gid, mode)));
        assert!(stderr.contains("data folder"), "{stderr}");
    }
}
