//! How a program is started, bounded and ended, with scripts in the place of helm: what a chart makes the real one do is
//! not reproducible enough. The program `live` runs the real ones.

use rustix::process::{Pid, test_kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use vnfm_helm::{Apply, Cluster, Helm, HelmError, Limits, Release};

/// A program that answers `version`, and does `otherwise` for anything else.
fn program(otherwise: &str) -> (TempDir, Helm) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("helm");
    write(&path, otherwise);
    (folder, Helm::new(path, None))
}

fn write(path: &Path, otherwise: &str) {
    let script = format!("#!/bin/sh\n[ \"$1\" != version ] || exec echo v3.0.0\n{otherwise}\n");
    let new = path.with_extension("new");
    std::fs::write(&new, script).unwrap();
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

const RELEASE: Release<'_> = Release {
    name: "web",
    namespace: "mine",
    chart: b"a chart",
    values: b"{\"password\":\"hunter2\"}",
};

async fn template(helm: &Helm) -> Result<String, HelmError> {
    let cluster = Cluster {
        version: "v1.36.2".into(),
        apis: vec!["apps/v1".into()],
    };
    let rendered = helm.template(&RELEASE, &cluster).await?;
    Ok(String::from_utf8(rendered).unwrap())
}

async fn install(helm: &Helm, time: Duration) -> Result<(), HelmError> {
    let apply = Apply {
        kubeconfig: b"a login",
        labels: &[("vnfm.dev/instance", "vnf-1")],
        description: "vnfm operation op-1",
        hooks: true,
        time,
        render: Box::new(|rendered| Ok(rendered.to_vec())),
    };
    helm.install(&RELEASE, apply).await
}

/// Waits until the process whose id is in `file` has ended.
async fn ended(file: &Path) {
    let id: i32 = std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let id = Pid::from_raw(id).unwrap();
    let deleted = async {
        while test_kill_process(id).is_ok() && !is_zombie(id) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), deleted)
        .await
        .expect("it has ended");
}

fn is_zombie(id: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    status.is_ok_and(|status| status.contains(") Z "))
}

#[tokio::test]
async fn a_program_with_another_hash_is_never_started() {
    let (folder, helm) = program("echo rendered");
    let pinned = Helm::new(helm.path(), Some("00".repeat(32)));
    write(helm.path(), "echo rendered\n: >\"${0%/*}/started\"");
    let refused = pinned.version().await.unwrap_err();
    assert!(
        matches!(&refused, HelmError::WrongHash { found, .. } if found.len() == 64),
        "{refused}"
    );
    let HelmError::WrongHash { found, .. } = refused else {
        return;
    };
    let pinned = Helm::new(helm.path(), Some(found.to_uppercase()));
    assert_eq!(pinned.version().await.unwrap().to_string(), "v3.0.0");
    write(helm.path(), ": >\"${0%/*}/started\"");
    let refused = template(&pinned).await.unwrap_err();
    assert!(
        matches!(refused, HelmError::WrongHash { .. }),
        "a changed file is checked again: {refused}"
    );
    assert!(!folder.path().join("started").exists());
}

#[tokio::test]
async fn a_program_that_is_not_helm_is_refused_with_what_it_says() {
    let missing = Helm::new("/no/such/helm", None)
        .version()
        .await
        .unwrap_err();
    assert!(
        matches!(&missing, HelmError::Unreadable { path, .. } if path.as_path() == Path::new("/no/such/helm"))
    );
    let other = Helm::new("/bin/echo", None).version().await.unwrap_err();
    assert_eq!(
        other.to_string(),
        "`/bin/echo` says that its version is `version --template {{.Version}}`; Helm 3 or 4 is required"
    );
}

#[tokio::test]
async fn values_login_and_chart_are_files_in_memory_and_nowhere_else() {
    let (_folder, helm) = program("echo \"$@\"; env; cat \"$3\"; shift 6; cat \"$1\"");
    let seen = template(&helm).await.unwrap();
    assert!(
        seen.ends_with("a chart{\"password\":\"hunter2\"}"),
        "{seen}"
    );
    let visible = seen.trim_end_matches("a chart{\"password\":\"hunter2\"}");
    assert!(
        !visible.contains("hunter2")
            && visible.contains("--kube-version v1.36.2 --api-versions apps/v1"),
        "{visible}"
    );
    let names = visible
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once('=')?.0));
    let mut names: Vec<&str> = names
        .filter(|name| *name != "PWD" && *name != "_")
        .collect();
    names.sort_unstable();
    let expected = [
        "GOMEMLIMIT",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
        "HELM_PLUGINS",
        "HOME",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(
        names, expected,
        "the environment of this process is not passed on"
    );
}

#[tokio::test]
async fn what_helm_says_last_is_quoted() {
    let (_folder, helm) =
        program("for line in a b c 'Error: no such chart'; do echo \"$line\" >&2; done; exit 1");
    let failed = template(&helm).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "helm cannot render the chart of release `web`: b; c; Error: no such chart"
    );
    let (_folder, helm) = program("exit 7");
    assert!(
        template(&helm)
            .await
            .unwrap_err()
            .to_string()
            .ends_with(": exit status: 7")
    );
    let (_folder, helm) = program("kill -KILL $$");
    let killed = template(&helm).await.unwrap_err().to_string();
    assert!(killed.contains("signal: 9"), "{killed}");
}

#[tokio::test]
async fn output_without_end_is_cut_off_and_its_process_ended() {
    let (folder, helm) = program("echo $$ >\"${0%/*}/id\"; exec cat /dev/zero");
    let mut limits = Limits::default();
    limits.output = 1 << 20;
    let refused = template(&helm.with_limits(limits)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "helm wrote more than 1048576 bytes to render the chart of release `web` and was ended"
    );
    ended(&folder.path().join("id")).await;
}

#[tokio::test]
async fn standard_error_without_end_takes_no_memory() {
    let (_folder, helm) =
        program("head -c 50000000 /dev/zero >&2; echo; echo 'Error: too bad' >&2; exit 1");
    let failed = template(&helm).await.unwrap_err().to_string();
    assert!(
        failed.ends_with("Error: too bad") && failed.len() < 4000,
        "{}",
        failed.len()
    );
}

#[tokio::test]
async fn a_run_that_does_not_end_is_ended_with_what_it_started() {
    let (folder, helm) = program("sleep 600 & echo $! >\"${0%/*}/id\"; wait");
    let late = install(&helm, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(
        late.to_string(),
        "helm did not install release `web` within 1 s and was ended"
    );
    ended(&folder.path().join("id")).await;
}

#[tokio::test]
async fn a_run_that_is_no_longer_waited_for_is_ended() {
    let (folder, helm) =
        program("sleep 600 & echo $! >\"${0%/*}/new\"; mv \"${0%/*}/new\" \"${0%/*}/id\"; wait");
    let id = folder.path().join("id");
    let started = async {
        while !id.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = install(&helm, Duration::from_mins(1)) => panic!("{ended:?}"),
        () = started => {}
    }
    ended(&id).await;
}

/// The program that this test runs in a copy of itself, which it then kills.
const IN_A_COPY: &str = "VNFM_TEST_HELM_IN_A_COPY";

#[tokio::test]
async fn a_run_ends_when_this_process_is_killed() {
    if let Some(path) = std::env::var_os(IN_A_COPY) {
        let ended = install(&Helm::new(path, None), Duration::from_mins(1)).await;
        panic!("the copy is killed before: {ended:?}");
    }
    let (folder, helm) =
        program("sleep 600 & echo $! >\"${0%/*}/new\"; mv \"${0%/*}/new\" \"${0%/*}/id\"; wait");
    let mut copy = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs::a_run_ends_when_this_process_is_killed"])
        .env(IN_A_COPY, helm.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let id = folder.path().join("id");
    while !id.exists() {
        assert!(
            copy.try_wait().unwrap().is_none(),
            "it runs until it is killed"
        );
        tokio::task::yield_now().await;
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    ended(&id).await;
}

#[tokio::test]
async fn processor_time_and_files_are_limited() {
    let (_folder, helm) = program("while :; do :; done");
    let mut limits = Limits::default();
    limits.cpu_seconds = 1;
    let killed = template(&helm.with_limits(limits))
        .await
        .unwrap_err()
        .to_string();
    assert!(killed.contains("signal: "), "{killed}");
    let (_folder, helm) = program("head -c 20000000 /dev/zero >\"$TMPDIR/large\"");
    let killed = template(&helm).await.unwrap_err().to_string();
    assert!(
        killed.contains("signal: ") || killed.contains("File"),
        "{killed}"
    );
}
