//! A hook that keeps its promises passes a trial; one that breaks a promise is told which, and at which call.
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
    Broken, Reply, TestHost, TestRequest, Tried, request, trial, trial_each,
};

/// Installs a service, in the way that its parameters say.
struct Service;

#[derive(Deserialize, JsonSchema)]
struct Params {
    password: Secret,
    way: String,
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
        let path = match params.way.as_str() {
            "leftover" => format!("/tmp/{}", request.attempt),
            _ => "/etc/service".to_owned(),
        };
        ssh.put(Upload::new(path, "on")).await?;
        if params.way == "indiscreet" {
            cx.info(&format!("logged in with {}", params.password.reveal()));
        }
        let start = ssh
            .check("start", Command::new("systemctl start x").sudo())
            .await;
        match params.way.as_str() {
            "hopeless" => start.map_err(|e| DriverError::new("broken", e.detail.clone()))?,
            _ => start?,
        };
        if params.way == "deaf" {
            for _ in 0..60 {
                cx.sleep(Duration::from_secs(1)).await?;
            }
        }
        let is_up = || async { Ok(ssh.run("is-up").await?.ok().then_some(())) };
        let (pace, limit) = (Duration::from_secs(2), Duration::from_secs(60));
        cx.until("the service to be up", pace, limit, is_up).await?;
        Ok(Effects::none().metadata(
            "attempt",
            if params.way == "fickle" {
                request.attempt
            } else {
                0
            },
        ))
    }
}

const PASSWORD: &str = "correct-horse";

fn hook(way: &str) -> TestRequest {
    request("instantiate_end")
        .vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")])
        .params(json!({"password": PASSWORD, "way": way}))
}

fn world() -> TestHost {
    TestHost::new()
        .ssh("10.0.0.1", "systemctl start", Reply::ok(""))
        .ssh_each("10.0.0.1", "is-up", [Reply::exit(1, ""), Reply::ok("")])
}

fn broken(way: &str) -> String {
    trial::<Service>(world, hook(way))
        .secret(PASSWORD)
        .run()
        .unwrap_err()
        .to_string()
}

#[test]
fn a_hook_that_keeps_its_promises_passes() {
    let tried = trial::<Service>(world, hook("well"))
        .secret(PASSWORD)
        .run()
        .unwrap();
    // put, start, is-up, waiting, cancelled, sleep, is-up; five ways at each
    assert_eq!((tried.calls, tried.worlds), (7, 35));
    let some = trial::<Service>(world, hook("well"))
        .every(3)
        .run()
        .unwrap();
    assert_eq!((some.calls, some.worlds), (7, 15));
}

#[test]
fn a_file_that_is_left_behind_is_found() {
    let told = broken("leftover");
    assert!(
        told.contains("`10.0.0.1:/tmp/2` (it should not be there)"),
        "{told}"
    );
    assert!(
        told.contains("call 2 (ssh.run 10.0.0.1 systemctl start x) never happens"),
        "{told}"
    );
}

#[test]
fn an_error_that_denies_a_retry_after_a_fault_is_found() {
    let told = broken("hopeless");
    assert!(
        told.contains("loses its answer: and the hook says that a retry is of no use"),
        "{told}"
    );
    assert!(
        !told.contains("call 1 "),
        "only the call that it is about: {told}"
    );
}

#[test]
fn a_secret_in_a_log_is_found_and_not_told() {
    let told = broken("indiscreet");
    assert!(
        told.contains("a secret can be read: Info: logged in with [the secret]"),
        "{told}"
    );
    assert!(!told.contains(PASSWORD), "{told}");
}

#[test]
fn a_hook_that_sleeps_on_after_a_cancel_is_found() {
    let told = broken("deaf");
    assert!(
        told.contains("after the operation is cancelled: and the hook sleeps 60 s more"),
        "{told}"
    );
}

#[test]
fn effects_that_depend_on_the_attempt_are_found() {
    let told = broken("fickle");
    assert!(
        told.contains("another attempt changes `effects`, `metadata`, `attempt`"),
        "{told}"
    );
}

#[test]
fn a_world_that_does_not_know_a_command_is_no_trial() {
    let error = trial::<Service>(TestHost::new, hook("well"))
        .run()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("where nothing goes wrong it fails"),
        "{error}"
    );
    let lost = || {
        world()
            .ssh("10.0.0.1", "is-up", Reply::ok(""))
            .ssh("*", "start x", Reply::exit(1, ""))
    };
    assert_eq!(
        trial::<Service>(lost, hook("well"))
            .run()
            .unwrap_err()
            .sentences()
            .len(),
        1
    );
}

#[test]
fn a_crash_drops_the_hook_and_its_next_attempt_finds_the_checkpoints() {
    let host = world();
    host.crash_after(2);
    let error = host.run::<Service>(hook("well")).unwrap_err();
    assert_eq!((error.code.as_str(), host.commands().len()), ("crashed", 1));
    host.run::<Service>(hook("well").attempt(2)).unwrap();
}

/// Takes a host out of service before it is healed; a rollback brings it back, `way` says how well.
struct Drain;

impl MgmtDriver for Drain {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
            .on("heal_start", Self::out)
            .undone_by("heal_start", Self::back)
    }
}

impl Drain {
    async fn out(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let ssh = cx.ssh(request.vnfcs()[0].ssh("CP1", "ubuntu")?);
        ssh.put(Upload::new("/run/out", "yes")).await?;
        ssh.check("drain", "drain").await?;
        Ok(Effects::none())
    }

    async fn back(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let ssh = cx.ssh(request.vnfcs()[0].ssh("CP1", "ubuntu")?);
        if request.additional_params.way != "forgetful" {
            ssh.put(Upload::new("/run/out", "no")).await?;
        }
        Ok(Effects::none())
    }
}

fn taken_back(way: &'static str) -> Result<Tried, Broken> {
    let stage = move || {
        let request = request("heal_start").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
        let params = json!({"password": PASSWORD, "way": way});
        (
            TestHost::new().ssh("10.0.0.1", "drain", Reply::ok("")),
            request.params(params),
        )
    };
    let is_out = |host: &TestHost| {
        let last = host
            .uploads()
            .last()
            .map(vnfm_plugin_sdk::testkit::Uploaded::text);
        json!({"out": last.as_deref() == Some("yes")})
    };
    trial_each::<Drain>(stage).taken_back(is_out).run()
}

#[test]
fn a_hook_that_is_taken_back_leaves_all_as_it_was() {
    assert_eq!(taken_back("well").unwrap().calls, 2);
    let told = taken_back("forgetful").unwrap_err().to_string();
    assert!(
        told.contains("after its opposite `out` is not as it was before"),
        "{told}"
    );
    assert!(
        told.contains("call 1 (ssh.put 10.0.0.1 /run/out) loses its answer"),
        "{told}"
    );
}
