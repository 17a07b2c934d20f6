//! The step runner itself, in the machine's own shell; the simulated hosts only imitate it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const RUNNER: &str = include_str!("../../src/vnfm-step.sh");

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("vnfm-step-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let state = folder.join("state").display().to_string();
        let runner = RUNNER.replace("/var/lib/vnfm", &state);
        std::fs::write(folder.join("vnfm-step"), runner).unwrap();
        Self(folder)
    }

    fn step(&self, words: &[&str]) -> String {
        let output = Command::new("sh")
            .arg(self.0.join("vnfm-step"))
            .args(words)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn begin(&self, name: &str, script: &str) -> String {
        self.step(&["start", "inst-1", name, "--", "sh", "-c", script])
    }
}

#[test]
fn a_step_starts_once_and_its_end_is_reported() {
    let folder = Folder::new();
    assert_eq!(folder.step(&["wait", "join", "0"]), "absent\n");
    let script = "echo out; echo 'last words' >&2; read -r _ <go; exit 3";
    let go = folder.0.join("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let script = script.replace("<go", &format!("<{}", go.display()));
    assert_eq!(folder.begin("join", &script), "started\n");
    assert_eq!(folder.begin("join", &script), "running\n");
    assert_eq!(folder.step(&["wait", "join", "0"]), "running\n");
    assert_eq!(folder.step(&["wait", "join", "1"]), "running\n");
    std::fs::write(&go, "go\n").unwrap();
    let started = Instant::now();
    assert_eq!(folder.step(&["wait", "join", "60"]), "done 3\n");
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "its end is seen at once"
    );
    assert_eq!(folder.step(&["out", "join"]), "out\n");
    assert_eq!(folder.step(&["log", "join"]), "out\nlast words\n");
    assert_eq!(folder.begin("join", "exit 0"), "started\n");
    assert_eq!(
        folder.step(&["wait", "join", "60"]),
        "done 0\n",
        "the next attempt has its own end"
    );
}

#[test]
fn a_step_that_runs_another_command_is_not_taken_for_this_one() {
    let folder = Folder::new();
    let go = folder.0.join("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let first = format!("read -r _ <{}; exit 0", go.display());
    assert_eq!(folder.begin("etcd", &first), "started\n");
    assert_eq!(folder.begin("etcd", "exit 3"), "other\n");
    assert_eq!(folder.begin("etcd", &first), "running\n");
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(folder.step(&["wait", "etcd", "60"]), "done 0\n");
    assert_eq!(folder.begin("etcd", "exit 3"), "started\n");
    assert_eq!(folder.step(&["wait", "etcd", "60"]), "done 3\n");
}

/// Names as files of a package may have them.
#[test]
fn the_files_of_a_step_are_deleted_whatever_their_names_are() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.join(name).display().to_string();
    let names = ["two words.tar", "*.tar", "a$(b)'c.tar"].map(path);
    let other = path("other.tar");
    for name in names.iter().chain([&other]) {
        std::fs::write(name, "").unwrap();
    }
    let mut words = vec!["start", "inst-1", "images"];
    words.extend(names.iter().map(String::as_str));
    words.extend(["--", "false"]);
    assert_eq!(folder.step(&words), "started\n");
    assert_eq!(folder.step(&["wait", "images", "60"]), "done 1\n");
    for name in &names {
        assert!(!Path::new(name).exists(), "{name}");
    }
    assert!(Path::new(&other).exists(), "`*` is a name");
}

/// A power cut empties the runner's folder.
#[test]
fn a_node_that_is_half_set_up_is_known_after_a_power_cut() {
    let folder = Folder::new();
    let is_unfinished = || folder.step(&["facts"]).contains("unfinished=yes\n");
    let end = |step: &str, code: u8| {
        folder.begin(step, &format!("exit {code}"));
        let done = format!("done {code}\n");
        assert_eq!(folder.step(&["wait", step, "60"]), done);
    };
    end("packages", 1);
    assert!(!is_unfinished());
    assert!(folder.step(&["facts"]).ends_with("owner=\n"));
    end("join", 1);
    assert!(folder.step(&["facts"]).ends_with("owner=inst-1\n"));
    std::fs::remove_dir_all(folder.0.join("join")).unwrap();
    assert!(is_unfinished());
    end("reset", 1);
    assert!(is_unfinished());
    end("reset", 0);
    assert!(!is_unfinished());
    end("join", 1);
    end("join", 0);
    assert!(!is_unfinished());
}

#[test]
fn a_step_that_was_forgotten_has_not_ended() {
    let folder = Folder::new();
    folder.begin("join", "exit 0");
    assert_eq!(folder.step(&["wait", "join", "60"]), "done 0\n");
    assert_eq!(folder.step(&["forget", "join"]), "");
    assert_eq!(folder.step(&["wait", "join", "60"]), "lost\n");
    assert_eq!(folder.step(&["forget", "never"]), "");
}

#[test]
fn a_secret_file_is_deleted_when_its_step_ends() {
    let folder = Folder::new();
    for (code, name) in [("0", "well"), ("3", "badly")] {
        let file = folder.0.join(format!("{name}.yaml"));
        std::fs::write(&file, "token: planted").unwrap();
        let (path, script) = (
            file.to_str().unwrap(),
            format!("cat {}; exit {code}", file.display()),
        );
        folder.step(&["start", "inst-1", name, path, "--", "sh", "-c", &script]);
        assert_eq!(folder.step(&["wait", name, "60"]), format!("done {code}\n"));
        assert_eq!(
            folder.step(&["out", name]),
            "token: planted",
            "it was there for the command"
        );
        assert!(!file.exists(), "{name}");
    }
}

#[test]
fn a_daemon_left_by_a_step_holds_no_lock() {
    let folder = Folder::new();
    let pid = folder.0.join("pid");
    let script = format!(
        "setsid sleep 60 >/dev/null 2>&1 & echo $! >{}",
        pid.display()
    );
    folder.begin("init", &script);
    let started = Instant::now();
    assert_eq!(folder.step(&["wait", "init", "50"]), "done 0\n");
    assert_eq!(folder.begin("next", "true"), "started\n");
    assert_eq!(folder.step(&["wait", "next", "50"]), "done 0\n");
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "nobody waits for the daemon"
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(
        Command::new("kill")
            .arg(pid.trim())
            .status()
            .unwrap()
            .success()
    );
}

fn until_there(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "never: {}",
            path.display()
        );
        std::thread::yield_now();
    }
}

#[test]
fn steps_of_one_instance_run_one_at_a_time_and_a_killed_one_is_lost() {
    let folder = Folder::new();
    let go = folder.0.join("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let order = folder.0.join("order");
    let has_its_turn = folder.0.join("has-its-turn");
    folder.begin(
        "first",
        &format!(
            ": >{}; read -r _ <{}; echo first >>{}",
            has_its_turn.display(),
            go.display(),
            order.display()
        ),
    );
    until_there(&has_its_turn);
    folder.begin("second", &format!("echo second >>{}", order.display()));
    assert_eq!(folder.step(&["wait", "second", "1"]), "running\n");
    std::fs::write(&go, "go\n").unwrap();
    assert_eq!(folder.step(&["wait", "second", "60"]), "done 0\n");
    assert_eq!(std::fs::read_to_string(&order).unwrap(), "first\nsecond\n");

    let pid = folder.0.join("pid");
    // The command prints its parent's pid: the shell that would store the exit code.
    folder.begin(
        "killed",
        &format!(
            "echo $PPID >{0}.new; mv {0}.new {0}; read -r _ <{1}",
            pid.display(),
            go.display()
        ),
    );
    until_there(&pid);
    let id = std::fs::read_to_string(&pid).unwrap();
    assert!(
        Command::new("kill")
            .args(["-9", id.trim()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(folder.step(&["wait", "killed", "60"]), "lost\n");
    std::fs::write(&go, "go\n").unwrap();
}

#[test]
fn the_runner_prints_facts() {
    let facts = Folder::new().step(&["facts"]);
    let names: Vec<_> = facts
        .lines()
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    let all = [
        "hostname",
        "missing",
        "endpoint_missing",
        "kubeadm",
        "swap",
        "runtime",
        "admin",
        "kubelet",
        "bootstrap",
        "ca",
        "unfinished",
        "etcd_stopped",
        "owner",
    ];
    assert_eq!(names, all, "the same facts as on a simulated host");
}
