//! Hooks in separate processes: whatever one does, it affects no other, and leaves nothing running.

use crate::c;
use crate::world::{AMPLE, Folder, RUNNER, RealClock, Remembering, built, request};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnfm_core::ports::{Effects, ErrorKind, HookRequest, MgmtDriver, MgmtDrivers, PortError};
use vnfm_plugin_host::{Config, PluginHost, ProcessConfig, ProcessLimits, Runner, Users};

const MISBEHAVING: &str = "fixture-misbehaving";

/// A plugin whose hooks run in processes.
pub(crate) struct Stage {
    plugins: PluginHost,
    driver: Arc<dyn MgmtDriver>,
    pub(crate) host: Arc<Remembering>,
    _folder: Folder,
}

/// Low enough to be reached quickly.
const LIMITS: ProcessLimits = ProcessLimits {
    memory_mib: 1024,
    cpu_seconds: 1,
    processes: 40,
    open_files: 64,
    file_mib: 1,
};

impl Stage {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with(
            |folder| _ = std::fs::copy(built(MISBEHAVING), folder.join("m.so")).unwrap(),
            change,
        )
    }

    fn with(put: impl FnOnce(&Path), change: impl FnOnce(&mut Config)) -> Self {
        let folder = Folder::new();
        put(folder.path());
        let mut config = folder.config_of(Runner::Process);
        change(&mut config);
        let plugins = PluginHost::new(config, Arc::new(RealClock));
        let pin = plugins.allow("m.so").unwrap();
        let driver = plugins.resolve(&pin.name.as_str().into()).unwrap();
        Self {
            plugins,
            driver,
            host: Arc::default(),
            _folder: folder,
        }
    }

    pub(crate) fn small() -> Self {
        Self::new(|config| config.process.as_mut().unwrap().limits = LIMITS)
    }

    pub(crate) async fn misbehave(&self, how: &str, limit: Duration) -> Result<Effects, PortError> {
        self.driver
            .call(misbehaving_request(how, limit), self.host.clone())
            .await
    }

    /// The PID namespace of the last hook that logged it.
    pub(crate) fn pid_namespace(&self) -> String {
        let logs = self.host.logs();
        let text = logs
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix("info: process "));
        text.unwrap_or_else(|| panic!("no process in {logs:?}"))
            .to_owned()
    }

    /// Checks that no process of the last hook is left, and that the next hook runs.
    async fn assert_next_hook_runs(&self) {
        assert_no_process_left(&self.pid_namespace());
        let error = self
            .driver
            .call(request("heal_start", AMPLE), self.host.clone())
            .await;
        assert_eq!(error.unwrap_err().name(), "join-failed");
        assert_eq!(self.plugins.abandoned_threads(), 0);
    }
}

fn misbehaving_request(how: &str, limit: Duration) -> HookRequest {
    let mut hook_request = request("instantiate_start", limit);
    hook_request
        .additional_params
        .insert("how".into(), json!(how));
    hook_request
}

/// The running processes in a PID namespace, as `pid (name) state …`.
pub(crate) fn running_processes(namespace: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let within = processes.filter(|process| {
        let link = std::fs::read_link(process.path().join("ns/pid"));
        link.is_ok_and(|link| link.to_str() == Some(namespace))
    });
    let stats = within.filter_map(|p| std::fs::read_to_string(p.path().join("stat")).ok());
    let lives = |stat: &String| {
        let state = stat.rsplit(')').next().unwrap().split_whitespace().next();
        !matches!(state, Some("Z" | "X"))
    };
    stats.filter(lives).collect()
}

/// Waits until no process is left, because killed processes take a moment to end.
fn assert_no_process_left(pid_namespace: &str) {
    let begun = Instant::now();
    while !running_processes(pid_namespace).is_empty() {
        assert!(
            begun.elapsed() < AMPLE,
            "left: {:?}",
            running_processes(pid_namespace)
        );
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_crash_or_an_exceeded_limit_fails_one_hook_with_the_cause() {
    let stage = Stage::small();
    for (how, name, kind, words) in [
        (
            "abort",
            "plugin.crashed",
            ErrorKind::Broken,
            &["SIGABRT", "first words", "last words"][..],
        ),
        (
            "exit",
            "plugin.crashed",
            ErrorKind::Broken,
            &["exit code 7"],
        ),
        (
            "spin",
            "plugin.limit",
            ErrorKind::Refused,
            &["SIGXCPU", "more than 1 s of CPU time"],
        ),
        (
            "allocate",
            "plugin.limit",
            ErrorKind::Refused,
            &["10737418240", "1024 MiB"],
        ),
        (
            "large file",
            "plugin.limit",
            ErrorKind::Refused,
            &["SIGXFSZ", "1 MiB"],
        ),
    ] {
        let error = stage.misbehave(how, AMPLE).await.unwrap_err();
        assert_eq!((error.name(), error.kind()), (name, kind), "{how}: {error}");
        let text = error.to_string();
        let always = [
            "hook `instantiate_start`",
            "fixture-misbehaving@0.1.0",
            "during the hook",
        ];
        for word in always.iter().chain(words) {
            assert!(text.contains(word), "{how}: `{word}` is not in: {text}");
        }
        stage.assert_next_hook_runs().await;
    }
}

#[tokio::test]
async fn a_segfault_does_not_affect_other_hooks() {
    let folder = Folder::new();
    c::plugin(folder.path(), "c.so", &["WRONG_SEGFAULT"]);
    let plugins = folder.host_of(Runner::Process);
    plugins.allow("c.so").unwrap();
    let crashing = plugins.resolve(&"c-plugin".into()).unwrap();
    let other = Stage::small();
    let mut running = Box::pin(
        other
            .driver
            .call(request("scale_start", AMPLE), other.host.clone()),
    );
    tokio::select! {
        ended = &mut running => panic!("it never ends: {ended:?}"),
        () = other.host.asked.notified() => {}
    }
    for _ in 0..3 {
        let host = Arc::new(Remembering::default());
        let error = crashing
            .call(request("instantiate_end", AMPLE), host)
            .await
            .unwrap_err();
        assert_eq!(error.name(), "plugin.crashed");
        assert!(error.to_string().contains("c-plugin@1.0.0"), "{error}");
        assert!(error.detail().contains("SIGSEGV"), "{error}");
        assert!(futures::poll!(&mut running).is_pending());
    }
}

#[tokio::test]
async fn an_endless_loop_is_killed_at_the_deadline() {
    let stage = Stage::new(|_| {});
    let error = stage
        .misbehave("spin", Duration::from_millis(500))
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.deadline", ErrorKind::Unavailable)
    );
    let expected = "it did not end within 0.5 s; it was killed during the hook";
    assert_eq!(error.detail(), expected);
    stage.assert_next_hook_runs().await;
}

#[tokio::test]
async fn a_fork_bomb_is_limited_and_killed_at_the_deadline() {
    let stage = Stage::with(
        |folder| _ = c::plugin(folder, "m.so", &["WRONG_FORK"]),
        |config| {
            config.process.as_mut().unwrap().limits = ProcessLimits {
                cpu_seconds: 60,
                ..LIMITS
            }
        },
    );
    let limit = Duration::from_secs(4);
    let call = stage
        .driver
        .call(request("instantiate_end", limit), stage.host.clone());
    let mut running = Box::pin(call);
    let limited = async {
        while !stage.host.logs().iter().any(|line| line == "info: no more") {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = &mut running => panic!("it comes to no limit: {ended:?}"),
        () = limited => {}
    }
    let error = running.await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.deadline", ErrorKind::Unavailable)
    );
    let many = error
        .detail()
        .split("with ")
        .nth(1)
        .unwrap_or_else(|| panic!("{error}"));
    let (many, rest) = many.split_once(' ').unwrap();
    let many: u64 = many.parse().unwrap();
    // Processes that have ended count until they are reaped.
    assert!((2..=LIMITS.processes).contains(&many), "{error}");
    assert_eq!(rest, "processes (its limit is 40)");
    assert_no_process_left(&stage.pid_namespace());
}

#[tokio::test]
async fn dropping_the_call_kills_the_process() {
    let stage = Stage::new(|_| {});
    let mut running = Box::pin(stage.misbehave("spin", AMPLE));
    let logged = async {
        while stage.host.logs().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = &mut running => panic!("it never ends: {ended:?}"),
        () = logged => {}
    }
    assert_eq!(
        running_processes(&stage.pid_namespace()).len(),
        2,
        "its own, and the first of its namespace"
    );
    drop(running);
    stage.assert_next_hook_runs().await;
}

#[tokio::test]
async fn processes_that_a_hook_leaves_running_are_killed() {
    let stage = Stage::small();
    stage.misbehave("daemon", AMPLE).await.unwrap();
    stage.assert_next_hook_runs().await;
}

#[tokio::test]
async fn many_hook_processes_call_services_concurrently() {
    let folder = Folder::new();
    c::plugin(folder.path(), "c.so", &[]);
    let plugins = folder.host_of(Runner::Process);
    plugins.allow("c.so").unwrap();
    let driver = plugins.resolve(&"c-plugin".into()).unwrap();
    let host = Arc::new(Remembering::default());
    let many = (0..20).map(|_| driver.call(request("instantiate_end", AMPLE), host.clone()));
    let ended = futures::future::join_all(many).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(host.services().len(), 20);
    assert_eq!(Arc::strong_count(&host), 1);
}

#[tokio::test]
async fn a_driver_that_aborts_in_create_fails_each_hook() {
    let stage = Stage::new(|config| {
        config.plugins.get_mut(MISBEHAVING).unwrap().config = json!({"create": "abort"});
    });
    for _ in 0..2 {
        let error = stage
            .driver
            .call(request("heal_start", AMPLE), stage.host.clone())
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.name(), "plugin.crashed");
        assert!(
            error
                .detail()
                .contains("killed by SIGABRT while creating its driver"),
            "{error}"
        );
    }
}

#[test]
fn a_library_that_crashes_in_its_initialiser_is_refused() {
    let folder = Folder::new();
    c::plugin(folder.path(), "c.so", &["WRONG_INITIALISER"]);
    let error = folder.host_of(Runner::Process).allow("c.so").unwrap_err();
    assert_eq!(error.name(), "plugin.crashed");
    assert!(
        error
            .to_string()
            .contains("killed by SIGABRT while opening its library"),
        "{error}"
    );
}

#[test]
fn a_missing_or_wrong_runner_program_is_named() {
    let cases: [(ProcessConfig, &str, &str); 3] = [
        (
            ProcessConfig::with_program("/no/such/runner"),
            "plugin.no-process",
            "`/no/such/runner`",
        ),
        (
            by_shell("echo I am none >&2; exit 3"),
            "plugin.crashed",
            "exit code 3; last lines:\nI am none",
        ),
        (
            by_shell("printf '\\377\\377\\377\\377\\377' >&0; cat <&0 >&2"),
            "plugin.protocol",
            "not a message",
        ),
    ];
    for (process, name, word) in cases {
        let folder = Folder::new();
        folder.put(&built(MISBEHAVING), "m.so");
        let config = Config {
            process: Some(process),
            ..folder.config_of(Runner::Process)
        };
        let error = PluginHost::new(config, Arc::new(RealClock))
            .allow("m.so")
            .unwrap_err();
        assert_eq!(error.name(), name, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let folder = Folder::new();
    folder.put(&built(MISBEHAVING), "m.so");
    folder.host().allow("m.so").unwrap();
    let none = Config {
        process: None,
        ..folder.config_of(Runner::Process)
    };
    let plugins = PluginHost::new(none, Arc::new(RealClock));
    let error = plugins
        .resolve(&MISBEHAVING.into())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.name(), "plugin.no-process");
}

fn by_shell(script: &str) -> ProcessConfig {
    let arguments = vec!["-c".into(), script.into()];
    ProcessConfig {
        arguments,
        users: Users { first: 0, count: 0 },
        ..ProcessConfig::with_program("/bin/sh")
    }
}

#[test]
fn the_runner_cannot_be_run_by_hand() {
    let ran = Command::new(RUNNER).stdin(Stdio::null()).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("vnfm starts it"),
        "{ran:?}"
    );
}

/// Not a test by itself: prints the PID namespace of an endless hook, then waits to be killed.
#[tokio::test]
#[ignore = "started by the test below"]
async fn an_engine_with_an_endless_hook() {
    let stage = Stage::new(|_| {});
    let mut running = Box::pin(stage.misbehave("spin", AMPLE));
    let logged = async {
        while stage.host.logs().is_empty() {
            tokio::task::yield_now().await;
        }
        println!("\ngroup {}", stage.pid_namespace());
    };
    tokio::select! {
        ended = &mut running => panic!("it never ends: {ended:?}"),
        () = logged => {}
    }
    running.await.unwrap();
}

#[test]
fn killing_the_engine_kills_the_hook_process() {
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::an_engine_with_an_endless_hook",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let pid_namespace = lines
        .find_map(|line| Some(line.strip_prefix("group ")?.to_owned()))
        .unwrap();
    assert_eq!(
        running_processes(&pid_namespace).len(),
        2,
        "its own, and the first of its namespace"
    );
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert_no_process_left(&pid_namespace);
}
