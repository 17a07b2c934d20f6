//! What the program does when files of its data folder are gone: it does not start, or takes no more changes, and says why.

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
    let answer = request.json(&json!({})).send().await.unwrap();
    (
        answer.status().as_u16(),
        answer.json().await.unwrap_or_default(),
    )
}

/// A package that was accepted; its path.
async fn accepted(server: &Server) -> String {
    let (status, made) = call(server, Method::POST, PACKAGES).await;
    assert_eq!(status, 201, "{made}");
    format!("{PACKAGES}/{}", made["id"].as_str().unwrap())
}

/// What the program says where it does not start.
fn refused(mut command: Command) -> String {
    let ended = command.output().unwrap();
    assert!(!ended.status.success(), "it starts all the same");
    String::from_utf8(ended.stderr).unwrap()
}

/// `vnfm-server accept-loss` on a folder.
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
async fn a_server_whose_log_or_database_was_removed_does_not_start_until_the_loss_is_accepted() {
    for gone in ["vnfm.db-wal", "vnfm.db"] {
        let data = tempfile::tempdir().unwrap();
        let mut server = started(&mut command(data.path()));
        let package = accepted(&server).await;
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        drop(server);
        fs::rename(data.path().join(gone), data.path().join("elsewhere")).unwrap();
        let said = refused(command(data.path()));
        for word in [
            gone,
            "missing or empty",
            "vnfm-server restore FILE",
            "vnfm-server accept-loss",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(
            data.path().join("vnfm.db").exists(),
            gone != "vnfm.db",
            "nothing is made anew"
        );
        fs::rename(data.path().join("elsewhere"), data.path().join(gone)).unwrap();
        let mut server = started(&mut command(data.path()));
        assert_eq!(call(&server, Method::GET, &package).await.0, 200);
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        fs::remove_file(data.path().join(gone)).unwrap();
        let said = accept_loss(data.path());
        assert!(
            said.contains("vnfm.db.lost-") && said.contains("start the server"),
            "{said}"
        );
        let server = started(&mut command(data.path()));
        assert_eq!(call(&server, Method::GET, INSTANCES).await.0, 200);
    }
}

#[tokio::test]
async fn a_stop_leaves_the_database_whole_in_its_one_file() {
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
async fn a_server_whose_folder_was_removed_takes_no_changes_and_says_so() {
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
    // Reads go on, and so do changes once it is back.
    assert_eq!(call(&server, Method::GET, PACKAGES).await.0, 200);
    fs::rename(&away, &data).unwrap();
    accepted(&server).await;
}

#[tokio::test]
async fn readiness_names_files_that_are_gone() {
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

/// A folder as Kubernetes makes a volume with `fsGroup`: root's, and a group's.
fn volume(home: &Path, gid: u32, mode: u32) -> PathBuf {
    let data = home.join(format!("{gid}-{mode:o}"));
    fs::create_dir_all(data.join("lost+found")).unwrap();
    std::os::unix::fs::chown(&data, Some(0), Some(gid)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    data
}

#[test]
fn a_volume_that_root_made_for_the_group_of_the_server_is_taken_as_it_is() {
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
        let said = refused(as_pod(&volume(home.path(), gid, mode)));
        assert!(said.contains("data folder"), "{said}");
    }
}
