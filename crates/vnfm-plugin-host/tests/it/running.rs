//! Hooks that succeed, fail, panic, hang or are cancelled, in the engine's process: none affects another.

use crate::c;
use crate::world::{AMPLE, Folder, RUNNERS, RealClock, Remembering, built, request};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Effects, ErrorKind, HookRequest, MgmtDriver, MgmtDrivers, PortError};
use vnfm_plugin_host::{Config, PluginHost, Runner};
use vnfm_plugin_sdk::static_driver;

const MISBEHAVING: &str = "fixture-misbehaving";

/// A plugin, the host of its hooks, and its folder.
struct Stage {
    plugins: PluginHost,
    driver: Arc<dyn MgmtDriver>,
    host: Arc<Remembering>,
    _folder: Folder,
}

impl Stage {
    fn new(folder: Folder, plugins: PluginHost, file: &str) -> Self {
        let pin = plugins.allow(file).unwrap();
        let driver = plugins.resolve(&pin.name.as_str().into()).unwrap();
        Self {
            plugins,
            driver,
            host: Arc::default(),
            _folder: folder,
        }
    }

    fn misbehaving() -> Self {
        Self::misbehaving_in(Runner::InProcess)
    }

    fn misbehaving_in(runner: Runner) -> Self {
        let folder = Folder::new();
        folder.put(&built(MISBEHAVING), "m.so");
        let plugins = folder.host_of(runner);
        Self::new(folder, plugins, "m.so")
    }

    fn in_c(defines: &[&str], runner: Runner) -> Self {
        let folder = Folder::new();
        c::plugin(folder.path(), "c.so", defines);
        let plugins = folder.host_of(runner);
        Self::new(folder, plugins, "c.so")
    }

    async fn run(&self, request: HookRequest) -> Result<Effects, PortError> {
        self.driver.call(request, self.host.clone()).await
    }

    async fn hook(&self, hook: &str) -> Result<Effects, PortError> {
        self.run(request(hook, AMPLE)).await
    }

    /// Waits until the number of abandoned threads is `expected`.
    async fn left_behind(&self, wanted: usize) {
        let until = async {
            while self.plugins.abandoned_threads() != wanted {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AMPLE, until).await.unwrap();
    }
}

fn with(hook: &str, limit: Duration, params: Value) -> HookRequest {
    let mut request = request(hook, limit);
    request.additional_params = serde_json::from_value(params).unwrap();
    request
}

#[tokio::test]
async fn unsupported_effects_are_logged_and_the_rest_is_applied() {
    for runner in RUNNERS {
        let stage = Stage::in_c(&["NEWER_EFFECTS"], runner);
        let effects = stage.hook("instantiate_end").await.unwrap();
        assert_eq!(effects.message.as_deref(), Some("done in C"));
        let logs = stage.host.logs();
        let is_warning = |line: &String| line.starts_with("warn: ") && line.contains("`scaleTo`");
        assert_eq!(
            logs.iter().filter(|line| is_warning(line)).count(),
            1,
            "{logs:?}"
        );
    }
}

#[tokio::test]
async fn the_template_works_through_the_abi() {
    let folder = Folder::new();
    folder.put(&built("mgmt-template"), "t.so");
    let plugins = folder.host();
    let stage = Stage::new(folder, plugins, "t.so");
    let params = json!({"sshCp": "CP1", "username": "u", "password": "p", "text": "hello"});
    let effects = stage
        .run(with("instantiate_end", AMPLE, params))
        .await
        .unwrap();
    assert_eq!(effects.metadata["welcomed"], 1);
    assert_eq!(
        stage.host.services(),
        ["progress", "ssh.wait", "ssh.put", "ssh.run", "progress"]
    );
    let calls = stage.host.calls.lock().unwrap();
    assert_eq!(calls[3].1["host"]["address"], "10.0.0.7");
    assert_eq!(calls[3].1["host"]["serverId"], "server-1");
}

#[tokio::test]
async fn a_plugin_in_c_runs_and_waits_for_a_service() {
    for runner in RUNNERS {
        let stage = Stage::in_c(&[], runner);
        let effects = stage.hook("instantiate_end").await.unwrap();
        assert_eq!(effects.message.as_deref(), Some("done in C"));
        assert_eq!(stage.host.logs(), ["info: hello from C"]);
        let calls = stage.host.calls.lock().unwrap().clone();
        assert_eq!(
            calls,
            [(
                "progress".to_owned(),
                json!({"percent": 50, "message": "half"})
            )]
        );
        assert_eq!(
            Arc::strong_count(&stage.host),
            1,
            "the plugin gave its host back"
        );
    }
}

#[tokio::test]
async fn malformed_effects_are_an_error() {
    for runner in RUNNERS {
        let cases = [
            ("WRONG_JSON", "plugin.bad-answer", "EOF"),
            ("WRONG_SHAPE", "plugin.bad-answer", "expected a sequence"),
            (
                "WRONG_SCHEMA_VERSION",
                "plugin.bad-answer",
                "schemaVersion 9",
            ),
            ("WRONG_VIM", "plugin.bad-answer", "missing field `vimType`"),
            ("WRONG_ERROR", "plugin.bad-answer", "its error is malformed"),
            ("WRONG_STATUS", "plugin.protocol", "77"),
            ("WRONG_NULL_POLL", "plugin.protocol", "poll"),
            ("WRONG_NULL_CALL", "plugin.protocol", "lacks `call`"),
            (
                "WRONG_CREATE",
                "plugin.create-failed",
                "the licence ran out",
            ),
            ("WRONG_CREATE_STATUS", "plugin.protocol", "42"),
        ];
        for (define, name, word) in cases {
            let stage = Stage::in_c(&[define], runner);
            let error = stage.hook("instantiate_end").await.unwrap_err();
            assert_eq!(error.name(), name, "{define}: {error}");
            assert!(error.to_string().contains(word), "{define}: {error}");
            assert!(
                error.to_string().contains("c-plugin@1.0.0"),
                "{define}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_panic_fails_its_hook_and_names_its_location() {
    for runner in RUNNERS {
        let stage = Stage::misbehaving_in(runner);
        for (hook, text) in [
            ("instantiate_start", "a bug on attempt 1"),
            ("instantiate_end", "a bug after a call"),
        ] {
            let error = stage.hook(hook).await.unwrap_err();
            assert_eq!(
                (error.name(), error.kind()),
                ("plugin.panicked", ErrorKind::Broken)
            );
            assert!(error.detail().contains(text), "{error}");
            assert!(
                error.detail().contains("src/lib.rs:"),
                "the place is named: {error}"
            );
        }
        assert_eq!(
            stage
                .hook("terminate_start")
                .await
                .map(|_| ())
                .map_err(|e| e.to_string()),
            Ok(())
        );
        stage.left_behind(0).await;
    }
}

#[tokio::test]
async fn a_driver_that_cannot_be_created_fails_one_hook() {
    for (how, name, word) in [
        ("refuse", "plugin.create-failed", "I will not"),
        ("panic", "plugin.create-panicked", "no driver today"),
    ] {
        let folder = Folder::new();
        folder.put(&built(MISBEHAVING), "m.so");
        let plugins = folder.configured(MISBEHAVING, json!({"create": how}));
        let stage = Stage::new(folder, plugins, "m.so");
        for _ in 0..2 {
            let error = stage.hook("heal_start").await.unwrap_err();
            assert_eq!(error.name(), name);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

#[tokio::test]
async fn a_hooks_error_keeps_its_code_host_phase_and_last_lines() {
    for runner in RUNNERS {
        let error = Stage::misbehaving_in(runner)
            .hook("heal_start")
            .await
            .unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("join-failed", ErrorKind::Unavailable)
        );
        assert_eq!(error.resource(), Some("worker1"));
        assert_eq!(
            error.to_string(),
            "cannot run hook `heal_start` of plugin `fixture-misbehaving@0.1.0`: on `worker1` in phase `join`, exit \
             code 1: the join ended with an error; last lines:\none\ntwo"
        );
    }
}

#[tokio::test]
async fn an_undeclared_hook_or_a_past_deadline_runs_nothing() {
    for runner in RUNNERS {
        let stage = Stage::misbehaving_in(runner);
        let error = stage
            .hook("change_external_connectivity_end")
            .await
            .unwrap_err();
        assert_eq!(error.name(), "plugin.undeclared-hook");
        assert!(
            error.to_string().contains("heal_start"),
            "it says what there is: {error}"
        );
        let mut late = request("heal_start", AMPLE);
        late.deadline = "2020-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(stage.run(late).await.unwrap_err().name(), "plugin.deadline");
        assert!(stage.host.services().is_empty());
    }
}

#[tokio::test]
async fn a_hook_past_its_deadline_is_dropped() {
    let stage = Stage::misbehaving();
    let error = stage
        .run(request("scale_start", Duration::from_millis(300)))
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.deadline", ErrorKind::Unavailable)
    );
    assert_eq!(
        stage.host.logs(),
        ["info: dropped"],
        "what it held was dropped"
    );
    let error = stage
        .run(request("heal_end", Duration::from_millis(100)))
        .await
        .unwrap_err();
    assert_eq!(
        error.name(),
        "plugin.deadline",
        "a panic in drop changes nothing"
    );
    stage.left_behind(0).await;
}

#[tokio::test]
async fn a_service_call_after_the_end_of_the_hook_is_refused() {
    let stage = Stage::misbehaving();
    let pipe = stage.plugins.dir().join("late");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let hook = with(
        "instantiate_start",
        AMPLE,
        json!({"how": "late", "path": &pipe}),
    );
    stage.run(hook).await.unwrap();
    std::fs::write(&pipe, "it is over").unwrap();
    let answer = pipe.with_extension("answer");
    let answered = async {
        loop {
            match std::fs::read_to_string(&answer) {
                Ok(said) if !said.is_empty() => break said,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let message = tokio::time::timeout(AMPLE, answered).await.unwrap();
    for word in [
        "the hook has ended",
        "instantiate_start",
        "fixture-misbehaving@0.1.0",
    ] {
        assert!(message.contains(word), "{message}");
    }
    assert!(
        stage.host.services().is_empty() && stage.host.logs().is_empty(),
        "nothing is served"
    );
    assert_eq!(Arc::strong_count(&stage.host), 1, "the host is not kept");
}

#[tokio::test]
async fn a_caller_that_is_dropped_cancels_the_hook() {
    let stage = Stage::misbehaving();
    let mut running = Box::pin(stage.hook("scale_start"));
    tokio::select! {
        ended = &mut running => panic!("it never ends: {ended:?}"),
        () = stage.host.asked.notified() => {}
    }
    drop(running);
    let dropped = async {
        while stage.host.logs().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AMPLE, dropped).await.unwrap();
    stage.left_behind(0).await;
}

#[tokio::test]
async fn the_thread_of_a_hook_stuck_in_poll_is_abandoned_and_counted() {
    let stage = Stage::misbehaving();
    let pipe = stage.plugins.dir().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let stuck = with(
        "scale_end",
        Duration::from_millis(100),
        json!({"path": &pipe}),
    );
    let error = stage.run(stuck).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.stuck", ErrorKind::Unavailable)
    );
    assert_eq!(stage.plugins.abandoned_threads(), 1);
    assert_eq!(
        stage.hook("heal_start").await.unwrap_err().name(),
        "join-failed"
    );
    std::fs::write(&pipe, "go on").unwrap();
    stage.left_behind(0).await;
}

#[tokio::test]
async fn a_hook_can_read_the_error_of_a_service() {
    for runner in RUNNERS {
        let effects = Stage::misbehaving_in(runner)
            .hook("terminate_start")
            .await
            .unwrap();
        let message = effects.message.unwrap();
        assert!(
            message.contains("`ssh.rum`") && message.contains("unknown"),
            "{message}"
        );
        assert!(message.contains("hint: ask for another"), "{message}");
    }
}

#[tokio::test]
async fn a_completed_step_is_not_repeated() {
    for runner in RUNNERS {
        let stage = Stage::misbehaving_in(runner);
        let error = stage.hook("terminate_end").await.unwrap_err();
        assert_eq!(error.name(), "first-time");
        let mut again = request("terminate_end", AMPLE);
        again.attempt = 2;
        let effects = stage.run(again).await.unwrap();
        assert_eq!(effects.message.as_deref(), Some("counted in attempt 1"));
        assert_eq!(effects.unregister_vims, ["cluster"]);
    }
}

#[tokio::test]
async fn a_linked_driver_behaves_like_a_loaded_one() {
    let folder = Folder::new();
    let config = Config {
        dir: folder.path().join("absent"),
        ..Config::default()
    };
    let plugins = PluginHost::new(config, Arc::new(RealClock));
    plugins
        .register(static_driver::<fixture_misbehaving::Misbehaving>())
        .unwrap();
    plugins
        .register(static_driver::<mgmt_template::Template>())
        .unwrap();
    assert_eq!(plugins.list().len(), 2);
    let driver = plugins
        .resolve(&"fixture-misbehaving@0.1.0".into())
        .unwrap();
    let host = Arc::new(Remembering::default());
    let error = driver
        .call(request("heal_start", AMPLE), host.clone())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "join-failed");
    let error = driver
        .call(request("instantiate_start", AMPLE), host)
        .await
        .unwrap_err();
    assert_eq!(error.name(), "plugin.panicked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_hooks_run_concurrently() {
    let stage = Stage::in_c(&[], Runner::InProcess);
    let many = (0..200).map(|_| stage.hook("instantiate_end"));
    let ended = futures::future::join_all(many).await;
    assert!(ended.iter().all(Result::is_ok));
    assert_eq!(stage.host.services().len(), 200);
}

#[test]
fn a_call_without_a_runtime_is_an_error() {
    let stage = Stage::misbehaving();
    let error = futures::executor::block_on(stage.hook("heal_start")).unwrap_err();
    assert_eq!(error.name(), "plugin.no-runtime");
}

#[tokio::test]
async fn messages_match_the_published_schemas() {
    let schemas = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/plugin");
    let schema = |name: &str| {
        let text = std::fs::read_to_string(schemas.join(format!("{name}.schema.json"))).unwrap();
        jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
    };
    let fits = |name: &str, value: Value| {
        let validator = schema(name);
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    };
    fits(
        "hook-request",
        serde_json::to_value(request("instantiate_end", AMPLE)).unwrap(),
    );
    let stage = Stage::misbehaving();
    stage.hook("terminate_end").await.unwrap_err();
    let mut again = request("terminate_end", AMPLE);
    again.attempt = 2;
    let effects = stage.run(again).await.unwrap();
    fits("effects", serde_json::to_value(effects).unwrap());
    fits("driver-error", json!({"code": "c", "detail": "d"}));
    assert!(!schema("effects").is_valid(&json!({"schemaVersion": 1, "registerVims": "all"})));
    assert!(!schema("driver-error").is_valid(&json!({"detail": "no code"})));
}
