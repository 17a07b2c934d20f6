//! A correct hook passes a trial; for a faulty one, the trial names the violation and the call.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::testkit::{
    Reply, TestHost, TestRequest, TrialReport, Violations, request, trial, trial_each,
};

/// Installs a service with the bug that its parameters name.
struct Service;

#[derive(Deserialize, JsonSchema)]
struct Params {
    password: Secret,
    bug: String,
}

impl MgmtDriver for Service {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks.on("instantiate_end", Self::instantiate_end)
    }
}

impl Service {
    async fn instantiate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let params = &request.additional_params;
        let target = request.vnfcs()[0]
            .ssh("CP1", "u")?
            .password(params.password.clone());
        let ssh = cx.ssh(target);
        let path = match params.bug.as_str() {
            "leaves-file" => format!("/tmp/{}", request.attempt),
            _ => "/etc/service".to_owned(),
        };
        ssh.put(Upload::new(path, "on")).await?;
        if params.bug == "leaks-secret" {
            cx.info(&format!("logged in with {}", params.password.reveal()));
        }
        let start = ssh
            .check("start", Command::new("systemctl start x").sudo())
            .await;
        match params.bug.as_str() {
            "not-retryable" => start.map_err(|e| DriverError::new("broken", e.detail.clone()))?,
            _ => start?,
        };
        if params.bug == "ignores-cancel" {
            for _ in 0..60 {
                cx.sleep(Duration::from_secs(1)).await?;
            }
        }
        let is_up = || async { Ok(ssh.run("is-up").await?.ok().then_some(())) };
        let (interval, timeout) = (Duration::from_secs(2), Duration::from_secs(60));
        cx.wait_until("the service to be up", interval, timeout, is_up)
            .await?;
        Ok(Effects::none().metadata(
            "attempt",
            if params.bug == "depends-on-attempt" {
                request.attempt
            } else {
                0
            },
        ))
    }
}

const PASSWORD: &str = "correct-horse";

fn hook(bug: &str) -> TestRequest {
    request("instantiate_end")
        .vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")])
        .params(json!({"password": PASSWORD, "bug": bug}))
}

fn new_host() -> TestHost {
    TestHost::new()
        .ssh("10.0.0.1", "systemctl start", Reply::ok(""))
        .ssh_each("10.0.0.1", "is-up", [Reply::exit(1, ""), Reply::ok("")])
}

fn violations(bug: &str) -> String {
    trial::<Service>(new_host, hook(bug))
        .secret(PASSWORD)
        .run()
        .unwrap_err()
        .to_string()
}

#[test]
fn a_correct_hook_passes() {
    let report = trial::<Service>(new_host, hook("none"))
        .secret(PASSWORD)
        .run()
        .unwrap();
    // put, start, is-up, waiting, cancelled, sleep, is-up; five faults at each
    assert_eq!((report.calls, report.faults), (7, 35));
    let some = trial::<Service>(new_host, hook("none"))
        .every_nth_call(3)
        .run()
        .unwrap();
    assert_eq!((some.calls, some.faults), (7, 15));
}

#[test]
fn a_leftover_file_is_a_violation() {
    let text = violations("leaves-file");
    assert!(text.contains("`10.0.0.1:/tmp/2` (unexpected)"), "{text}");
    assert!(
        text.contains("call 2 (ssh.run 10.0.0.1 systemctl start x) does not happen"),
        "{text}"
    );
}

#[test]
fn an_error_that_is_not_retryable_after_a_fault_is_a_violation() {
    let text = violations("not-retryable");
    assert!(
        text.contains("loses its response: then the hook returns an error that is not retryable"),
        "{text}"
    );
    assert!(
        !text.contains("call 1 "),
        "only the failing call is named: {text}"
    );
}

#[test]
fn a_leaked_secret_is_a_violation_and_is_not_shown() {
    let text = violations("leaks-secret");
    assert!(
        text.contains("leaks a secret: Info: logged in with [the secret]"),
        "{text}"
    );
    assert!(!text.contains(PASSWORD), "{text}");
}

#[test]
fn a_hook_that_ignores_a_cancel_is_a_violation() {
    let text = violations("ignores-cancel");
    assert!(
        text.contains("after the operation is cancelled: then the hook sleeps another 60 s"),
        "{text}"
    );
}

#[test]
fn effects_that_depend_on_the_attempt_are_a_violation() {
    let text = violations("depends-on-attempt");
    assert!(
        text.contains("another attempt changes `effects`, `metadata`, `attempt`"),
        "{text}"
    );
}

#[test]
fn a_hook_that_fails_without_faults_is_the_only_violation() {
    let error = trial::<Service>(TestHost::new, hook("none"))
        .run()
        .unwrap_err();
    assert!(
        error.to_string().contains("fails without any fault"),
        "{error}"
    );
    let failing = || {
        new_host()
            .ssh("10.0.0.1", "is-up", Reply::ok(""))
            .ssh("*", "start x", Reply::exit(1, ""))
    };
    assert_eq!(
        trial::<Service>(failing, hook("none"))
            .run()
            .unwrap_err()
            .messages()
            .len(),
        1
    );
}

#[test]
fn a_crash_drops_the_hook_and_the_next_attempt_finds_its_checkpoints() {
    let host = new_host();
    host.crash_after(2);
    let error = host.run::<Service>(hook("none")).unwrap_err();
    assert_eq!((error.code.as_str(), host.commands().len()), ("crashed", 1));
    host.run::<Service>(hook("none").attempt(2)).unwrap();
}

/// Drains a host before it is healed; on rollback it undoes that, if its parameters name no bug.
struct Drain;

impl MgmtDriver for Drain {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
            .on("heal_start", Self::drain)
            .on_undo("heal_start", Self::uncordon)
    }
}

impl Drain {
    async fn drain(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let ssh = cx.ssh(request.vnfcs()[0].ssh("CP1", "ubuntu")?);
        let bug = request.additional_params.bug.as_str();
        if bug == "rules-out" {
            cx.rule_out_rollback("a drained host stays so").await?;
        }
        ssh.put(Upload::new("/run/drained", "yes")).await?;
        if bug == "rules-out-late" {
            cx.rule_out_rollback("a drained host stays so").await?;
        }
        ssh.check("drain", "drain").await?;
        Ok(Effects::none())
    }

    async fn uncordon(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let ssh = cx.ssh(request.vnfcs()[0].ssh("CP1", "ubuntu")?);
        match request.additional_params.bug.as_str() {
            "none" => ssh.put(Upload::new("/run/drained", "no")).await?,
            "rules-out-in-undo" => cx.rule_out_rollback("too late").await?,
            _ => {}
        }
        Ok(Effects::none())
    }
}

fn drain(bug: &str) -> (TestHost, TestRequest) {
    let request = request("heal_start").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
    let params = json!({"password": PASSWORD, "bug": bug});
    let host = TestHost::new().ssh("10.0.0.1", "drain", Reply::ok(""));
    (host, request.params(params))
}

fn check_undo(bug: &'static str) -> Result<TrialReport, Violations> {
    let setup = move || drain(bug);
    let is_drained = |host: &TestHost| {
        let last = host
            .uploads()
            .last()
            .map(vnfm_plugin_sdk::testkit::Uploaded::text);
        json!({"drained": last.as_deref() == Some("yes")})
    };
    trial_each::<Drain>(setup).check_undo(is_drained).run()
}

#[test]
fn an_undo_handler_that_does_not_restore_the_state_is_a_violation() {
    assert_eq!(check_undo("none").unwrap().calls, 2);
    let text = check_undo("does-not-undo").unwrap_err().to_string();
    assert!(
        text.contains("after its undo handler, `drained` differs from before the hook"),
        "{text}"
    );
    assert!(
        text.contains("call 1 (ssh.put 10.0.0.1 /run/drained) loses its response"),
        "{text}"
    );
}

#[test]
fn a_hook_that_has_ruled_out_a_rollback_is_not_undone() {
    assert_eq!(check_undo("rules-out").unwrap().calls, 3);
    let text = check_undo("rules-out-late").unwrap_err().to_string();
    assert!(
        text.contains("call 1 (ssh.put 10.0.0.1 /run/drained) loses its response: after its undo"),
        "{text}"
    );
    assert!(!text.contains("call 3"), "{text}");
}

#[test]
fn an_undo_cannot_rule_out_its_rollback() {
    let (host, request) = drain("rules-out-in-undo");
    host.run::<Drain>(request.clone()).unwrap();
    let error = host.run::<Drain>(request.undo()).unwrap_err();
    assert!(!error.retryable, "{error}");
    assert!(error.to_string().contains("an undo cannot"), "{error}");
    assert_eq!(host.rollback_ruled_out(), None);
}
