//! What a hook in its own process can see, and the user that it runs as.

use crate::processes::{Stage, running_processes};
use crate::world::{AMPLE, Folder, RealClock};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use vnfm_plugin_host::{PluginHost, Runner, Users};

#[tokio::test]
async fn a_hook_sees_nothing_of_the_engine() {
    let stage = Stage::small();
    let text = stage
        .misbehave("look around", AMPLE)
        .await
        .unwrap()
        .message
        .unwrap();
    let line = |begin: &str| {
        let line = text.lines().find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("no `{begin}` in {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        line("environment"),
        ["environment", "[\"TMPDIR\"]"],
        "its own folder and no more"
    );
    assert_eq!(line("folder"), ["folder", "/"]);
    let files = line("files").join(" ");
    let sockets: BTreeSet<_> = line("files")
        .into_iter()
        .filter(|file| file.contains("socket:"))
        .collect();
    assert_eq!(sockets.len(), 1, "its own and no other: {files}");
    assert!(
        files.starts_with("files [\"/dev/null\", \"pipe:"),
        "{files}"
    );
    assert_eq!(line("NoNewPrivs:")[1], "1");
    assert_eq!(line("Seccomp:")[1], "2");
    assert_eq!(line("Max core")[4..6], ["0", "0"]);
    assert_eq!(line("Max address")[3], (1_u64 << 30).to_string());
    assert_eq!(line("Max cpu")[3..5], ["1", "6"]);
    if rustix::process::geteuid().is_root() {
        let uid: u32 = line("Uid:")[1].parse().unwrap();
        assert!((2_000_000_000..2_000_010_000).contains(&uid), "{uid}");
        assert_eq!(line("Groups:").len(), 1, "{text}");
        assert_eq!(line("Max processes")[2], "40");
    }
}

/// The users of the processes in a PID namespace.
fn users_in(namespace: &str) -> BTreeSet<String> {
    let ids = running_processes(namespace).into_iter();
    let ids = ids.map(|stat| stat.split_whitespace().next().unwrap().to_owned());
    let uid = |id: String| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        Some(
            status
                .lines()
                .find(|line| line.starts_with("Uid:"))?
                .to_owned(),
        )
    };
    ids.filter_map(uid).collect()
}

/// One hook runs while others start and end: a free user ID may be reused, so two hooks that merely start together
/// could get the same one.
#[tokio::test]
async fn concurrent_hooks_have_different_processes_and_users() {
    let stage = Stage::new(|_| {});
    let mut running = Box::pin(stage.misbehave("spin", AMPLE));
    let others = async {
        while stage.host.logs().is_empty() {
            tokio::task::yield_now().await;
        }
        let users = users_in(&stage.pid_namespace());
        assert!(!users.is_empty());
        for others in 1..=3 {
            let text = stage
                .misbehave("look around", AMPLE)
                .await
                .unwrap()
                .message
                .unwrap();
            let own = text.lines().find(|line| line.starts_with("Uid:")).unwrap();
            let logs = stage.host.logs();
            let groups = logs
                .iter()
                .filter(|line| line.starts_with("info: process "));
            let groups: BTreeSet<_> = groups.collect();
            assert_eq!(
                groups.len(),
                others + 1,
                "each has a namespace of its own: {logs:?}"
            );
            if rustix::process::geteuid().is_root() {
                assert!(!users.contains(own), "{own} is a user of {users:?}");
            }
        }
    };
    tokio::select! {
        ended = &mut running => panic!("it never ends: {ended:?}"),
        () = others => {}
    }
}

#[tokio::test]
async fn a_user_id_with_running_processes_is_not_used() {
    use std::os::unix::process::CommandExt as _;
    const FIRST: u32 = 2_100_000_000;
    if !rustix::process::geteuid().is_root() {
        return; // without root, all hooks have the same user
    }
    let sleeping = |uid: u32| {
        let mut command = Command::new("/bin/sleep");
        command
            .arg("600")
            .uid(uid)
            .current_dir("/")
            .spawn()
            .unwrap()
    };
    let mut sleepers = [FIRST, FIRST + 1].map(sleeping);
    let stage = Stage::new(|config| {
        config.process.as_mut().unwrap().users = Users {
            first: FIRST,
            count: 12,
        };
    });
    for _ in 0..24 {
        let text = stage
            .misbehave("look around", AMPLE)
            .await
            .unwrap()
            .message
            .unwrap();
        let line = text.lines().find(|line| line.starts_with("Uid:")).unwrap();
        let uid: u32 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!((FIRST + 2..FIRST + 12).contains(&uid), "{uid}");
    }
    let folder = Folder::new();
    let mut config = folder.config_of(Runner::Process);
    config.process.as_mut().unwrap().users = Users {
        first: FIRST,
        count: 2,
    };
    let plugins = PluginHost::new(config, Arc::new(RealClock));
    let text = plugins.isolation().unwrap_err().to_string();
    assert!(
        text.contains("each of the users") && text.contains("2100000000"),
        "{text}"
    );
    for sleeper in &mut sleepers {
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
    plugins.isolation().unwrap();
}
