//! `vnfm-step`, the runner that drivers install on a host: long steps outlive the connection that started them.
//!
//! On a real host it is a shell script; here the same commands with the same output run as tasks.

use super::host::{Host, Step};
use super::manifests::stopped;
use super::shell::Shell;
use super::stdio::{Input, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Number of lines of each stream that `log` prints.
const LOG_LINES: usize = 25;
/// As long as it is on the disk, `init` or `join` has not ended well.
const UNFINISHED: &str = "/var/lib/vnfm/unfinished";
/// The instance that made the host a node.
const OWNER: &str = "/var/lib/vnfm/owner";

pub(crate) async fn vnfm_step(shell: &Shell, argv: &[String]) -> Output {
    let host = &shell.host;
    if !shell.is_root() {
        return Output::fail(1, "vnfm-step: permission denied\n");
    }
    let words: Vec<_> = argv.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        ["start", instance, name, rest @ ..] if rest.contains(&"--") => {
            let files = rest.iter().take_while(|word| **word != "--").count();
            let secrets = argv[4..4 + files].to_vec();
            let argv = argv[5 + files..].to_vec();
            start(shell, (instance, name), (secrets, argv))
        }
        ["wait", name, seconds] => match find(host, name) {
            Some(step) => wait(&step, seconds.parse().unwrap_or(0)).await,
            None => Output::ok("absent\n"),
        },
        ["log", name] => Output::ok(find(host, name).map(|step| log(&step)).unwrap_or_default()),
        ["out", name] => match find(host, name) {
            Some(step) => Output::ok(step.written().out),
            None => Output::fail(1, format!("vnfm-step: unknown step {name}\n")),
        },
        ["forget", name] => {
            let mut steps = host.steps();
            if steps.get(*name).is_some_and(|step| step.ended().is_some()) {
                steps.remove(*name);
            }
            Output::default()
        }
        ["facts"] => Output::ok(facts(host)),
        _ => Output::fail(2, "usage: vnfm-step start|wait|log|out|forget|facts …\n"),
    }
}

fn find(host: &Host, name: &str) -> Option<Arc<Step>> {
    host.steps().get(name).cloned()
}

fn start(
    shell: &Shell,
    (instance, name): (&str, &str),
    (files, argv): (Vec<String>, Vec<String>),
) -> Output {
    let host = shell.host.clone();
    let mut steps = host.steps();
    if let Some(step) = steps.get(name).filter(|step| step.ended().is_none()) {
        let is_it = step.command == argv;
        return Output::ok(if is_it { "running\n" } else { "other\n" });
    }
    let sets_up = matches!(name, "init" | "join");
    if sets_up || name == "script" {
        host.disk().write(OWNER, instance, 0o600);
    }
    if sets_up {
        host.disk().write(UNFINISHED, "", 0o600);
    }
    let clears = sets_up || name == "reset";
    let step = Arc::new(Step {
        command: argv.clone(),
        exit: watch::Sender::new(None),
        output: Mutex::default(),
    });
    steps.insert(name.to_owned(), step.clone());
    drop(steps);
    let mut shell = shell.clone();
    let task = tokio::spawn(async move {
        let host = shell.host.clone();
        let turn = host.step_lock.lock().await;
        let output = shell.program(&argv, &mut Input::empty()).await;
        let code = output.code;
        for file in &files {
            host.disk().remove(file);
        }
        if code == 0 && clears {
            host.disk().remove(UNFINISHED);
        }
        *step.output.lock().unwrap_or_else(PoisonError::into_inner) = output;
        drop(turn);
        step.exit.send_replace(Some(code));
    });
    host.register_task(task.abort_handle());
    Output::ok("started\n")
}

async fn wait(step: &Step, seconds: u64) -> Output {
    let mut exit = step.exit.subscribe();
    let ended = timeout(Duration::from_secs(seconds), exit.wait_for(Option::is_some)).await;
    match ended {
        Ok(Ok(code)) => Output::ok(format!("done {}\n", code.unwrap_or(255))),
        _ => Output::ok("running\n"),
    }
}

fn log(step: &Step) -> String {
    let Output { out, err, .. } = step.written();
    let out = String::from_utf8_lossy(&out).into_owned();
    let tail = |text: &str| {
        let lines: Vec<_> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        lines[from..].join("\n") + if lines.is_empty() { "" } else { "\n" }
    };
    tail(&out) + &tail(&err)
}

/// The host's state as `name=value` lines.
fn facts(host: &Host) -> String {
    let has = |name: &str| host.has_program(name);
    let lacks = |programs: &[&'static str]| -> Vec<&str> {
        let programs = programs.iter().copied();
        programs.filter(|program| !has(program)).collect()
    };
    let missing = lacks(&["kubeadm", "kubelet", "kubectl", "containerd"]);
    let endpoint_missing = lacks(&["haproxy", "keepalived"]);
    let installed = super::upgrade::program_version(host, "kubeadm");
    let disk = host.disk();
    let yes = |truth: bool| if truth { "yes" } else { "no" };
    let file = |path: &str| yes(disk.is_file(path));
    let hostname = disk.text("/etc/hostname").unwrap_or_default();
    let settings = host.settings();
    let version = if missing.contains(&"kubeadm") {
        ""
    } else {
        &installed
    };
    let lines = [
        format!("hostname={}", hostname.trim()),
        format!("missing={}", missing.join(" ")),
        format!("endpoint_missing={}", endpoint_missing.join(" ")),
        format!("kubeadm={version}"),
        format!("swap={}", yes(settings.swap)),
        format!("runtime={}", yes(settings.active.contains("containerd"))),
        format!("admin={}", file("/etc/kubernetes/admin.conf")),
        format!("kubelet={}", file("/etc/kubernetes/kubelet.conf")),
        format!(
            "bootstrap={}",
            file("/etc/kubernetes/bootstrap-kubelet.conf")
        ),
        format!("ca={}", file("/etc/kubernetes/pki/ca.crt")),
        format!("unfinished={}", file(UNFINISHED)),
        format!("etcd_stopped={}", file(&stopped("etcd"))),
        format!("owner={}", disk.text(OWNER).unwrap_or_default()),
    ];
    lines.map(|line| line + "\n").concat()
}
