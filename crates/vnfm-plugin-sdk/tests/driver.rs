//! A driver on the test kit: parameters, steps, faults, many hosts, waiting, secrets.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::testkit::{Reply, TestHost, TestRequest, request};

/// Initializes one host and joins the others to it.
struct Cluster;

#[derive(Deserialize, JsonSchema)]
struct Login {
    username: String,
    password: Secret,
}

impl MgmtDriver for Cluster {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
            .on("instantiate_end", Self::instantiate_end)
            .on("terminate_end", Self::terminate_end)
    }
}

impl Cluster {
    async fn instantiate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Login>,
    ) -> Result<Effects, DriverError> {
        let Login { username, password } = &request.additional_params;
        let ssh = |vnfc: &Vnfc| -> Result<Ssh, DriverError> {
            Ok(cx.ssh(vnfc.ssh("CP1", username)?.password(password.clone())))
        };
        let control_planes = request.vnfcs_of("master")?;
        let [master] = control_planes[..] else {
            return Err(DriverError::new(
                "control-planes",
                "exactly one is required",
            ));
        };
        let master = ssh(master)?;
        let init = async {
            Ok(master
                .check("init", Command::new("init").sudo())
                .await?
                .stdout)
        };
        let token: String = cx.step("init", init).await?;
        cx.progress(50, "initialised").await;
        let workers = request.vnfcs_of("worker")?.into_iter().map(|vnfc| {
            let (cx, ssh, token) = (&cx, ssh(vnfc), &token);
            async move {
                let join = async {
                    let join = Command::new("join")
                        .stdin(token.as_str())
                        .timeout(Duration::from_secs(60));
                    ssh?.check("join", join).await.map(|_| ())
                };
                cx.step(&format!("join/{}", vnfc.name()), join).await
            }
        });
        join_all_limited(2, workers)
            .await
            .into_iter()
            .collect::<Result<Vec<()>, _>>()?;
        let nodes = request.vnfcs().len();
        let ready = || async {
            let seen = master.check("ready", "count").await?.stdout;
            Ok((seen == nodes.to_string()).then_some(seen))
        };
        cx.wait_until(
            "nodes to be ready",
            Duration::from_secs(2),
            Duration::from_secs(20),
            ready,
        )
        .await?;
        cx.info("the cluster is ready");
        let vim = NewVim::new("cluster", "ETSINFV.KUBERNETES.V_1")
            .interface("endpoint", "https://10.0.0.1:6443")
            .access("bearer_token", token);
        Ok(Effects::none().register_vim(vim))
    }

    async fn terminate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let seen = cx
            .http(HttpRequest::new("GET", "https://registry.test/x").header("a", "b"))
            .await?;
        let listed = cx.artifacts().await?;
        let file = cx.artifact(&listed[0]).await?;
        let text = format!("{} {}", seen.status, String::from_utf8_lossy(&file));
        Ok(request
            .vims
            .iter()
            .fold(Effects::none().message(text), |effects, vim| {
                effects.unregister_vim(&vim.name)
            }))
    }
}

const PASSWORD: &str = "correct-horse";

fn three_nodes() -> TestRequest {
    request("instantiate_end")
        .vnfc("master", "m-1", &[("CP1", "10.0.0.1"), ("CP2", "fd00::1")])
        .vnfc("worker", "w-1", &[("CP1", "10.0.0.2")])
        .vnfc("worker", "w-2", &[("CP1", "10.0.0.3")])
        .params(json!({"username": "ubuntu", "password": PASSWORD}))
}

fn world() -> TestHost {
    TestHost::new()
        .ssh("10.0.0.1", "init", Reply::ok("t0k3n-of-the-cluster"))
        .ssh("*", "join", Reply::ok(""))
        .ssh_each("10.0.0.1", "count", [Reply::ok("1"), Reply::ok("3")])
}

#[test]
fn a_hook_runs_its_commands_once_and_in_order() {
    let host = world();
    let effects = host.run::<Cluster>(three_nodes()).unwrap();
    assert_eq!(
        effects.register_vims[0].interface_info["endpoint"],
        "https://10.0.0.1:6443"
    );
    let commands = host.commands();
    assert_eq!(
        commands,
        [
            "10.0.0.1: init",
            "10.0.0.2: join",
            "10.0.0.3: join",
            "10.0.0.1: count",
            "10.0.0.1: count"
        ]
    );
    assert_eq!(host.progress(), [(50, "initialised".to_owned())]);
    assert_eq!(host.waiting(), ["nodes to be ready"]);
    assert_eq!(host.logs(), ["Info: the cluster is ready"]);
    assert_eq!(host.checkpoints().len(), 3);
    for secret in [PASSWORD, "t0k3n-of-the-cluster"] {
        assert_eq!(host.find_leaks(secret), [""; 0]);
        assert!(!format!("{effects:?} {:?}", three_nodes()).contains(secret));
    }
}

#[test]
fn a_failed_step_is_named_and_a_retry_repeats_only_that_step() {
    let host = world().ssh_each(
        "10.0.0.3",
        "join",
        [
            Reply::exit(3, "first line\n\nno route to the control plane\n"),
            Reply::ok(""),
        ],
    );
    let error = host.run::<Cluster>(three_nodes()).unwrap_err();
    assert_eq!(error.code, "join-failed");
    assert_eq!(
        (
            error.host.as_deref(),
            error.phase.as_deref(),
            error.exit_code
        ),
        (Some("w-2"), Some("join"), Some(3))
    );
    assert_eq!(
        error.last_lines,
        ["first line", "no route to the control plane"]
    );

    host.run::<Cluster>(three_nodes().attempt(2)).unwrap();
    let all = host.commands();
    let commands: Vec<_> = all.iter().filter(|line| !line.contains("count")).collect();
    assert_eq!(
        commands,
        [
            "10.0.0.1: init",
            "10.0.0.2: join",
            "10.0.0.3: join",
            "10.0.0.3: join"
        ]
    );
}

#[test]
fn after_any_failed_call_a_retry_ends_in_the_same_state() {
    let clean = world();
    clean.run::<Cluster>(three_nodes()).unwrap();
    let calls = clean.calls().len();
    for n in 1..=calls {
        for after in [false, true] {
            let host = world();
            if after {
                host.fail_after(n);
            } else {
                host.fail_before(n);
            }
            if let Err(error) = host.run::<Cluster>(three_nodes()) {
                assert!(error.retryable, "call {n}: {error}");
                host.run::<Cluster>(three_nodes().attempt(2)).unwrap();
            }
            assert_eq!(host.checkpoints(), clean.checkpoints(), "call {n}");
        }
    }
}

#[test]
fn waiting_ends_on_cancellation_and_on_timeout() {
    let never = || world().ssh("10.0.0.1", "count", Reply::ok("1"));
    let error = never().run::<Cluster>(three_nodes()).unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("timed-out", true));
    assert!(error.detail.contains("nodes to be ready"), "{error}");
    let cancelled = never();
    cancelled.cancel_after(0);
    assert_eq!(
        cancelled.run::<Cluster>(three_nodes()).unwrap_err().code,
        "cancelled"
    );
}

#[test]
fn unreachable_hosts_rejected_logins_and_missing_addresses_have_different_codes() {
    let host = world().ssh("10.0.0.1", "init", Reply::unreachable());
    let error = host.run::<Cluster>(three_nodes()).unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("host-unavailable", true)
    );
    assert_eq!(
        (error.host.as_deref(), error.phase.as_deref()),
        (Some("m-1"), Some("init"))
    );
    let host = world().ssh("10.0.0.1", "init", Reply::login_refused());
    let error = host.run::<Cluster>(three_nodes()).unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("host-refused", false)
    );
    let error = world().run::<Cluster>(three_nodes().vnfc("worker", "w-3", &[("X", "10.0.0.4")]));
    let error = error.unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.host.as_deref()),
        ("no-address", Some("w-3"))
    );
}

#[test]
fn invalid_parameters_and_unknown_hooks_are_named() {
    let host = world();
    let error = host
        .run::<Cluster>(three_nodes().params(json!({"username": "u"})))
        .unwrap_err();
    assert_eq!(error.code, "bad-parameters");
    assert!(error.detail.contains("password"), "{error}");
    let error = host.run::<Cluster>(request("heal_end")).unwrap_err();
    assert_eq!(error.code, "unknown-hook");
    assert!(
        error.detail.contains("`instantiate_end`, `terminate_end`"),
        "{error}"
    );
    assert!(host.calls().is_empty());
}

/// Drains a node, and undoes that.
struct Drain;

impl MgmtDriver for Drain {
    type Config = NoConfig;

    fn new(_: NoConfig) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
            .on("heal_start", |_, _, _: HookRequest<NoParams>| async {
                Ok(Effects::none().message("drained"))
            })
            .on_undo(
                "heal_start",
                |_, _, request: HookRequest<NoParams>| async move {
                    assert!(request.undo);
                    Ok(Effects::none().message("back in service"))
                },
            )
            .on("heal_end", |_, _, _: HookRequest<NoParams>| async {
                Ok(Effects::none())
            })
    }
}

#[test]
fn only_a_hook_with_an_undo_handler_can_be_undone() {
    let declaration = Hooks::<Drain>::declared().declaration();
    assert_eq!(declaration["hooks"]["heal_start"]["undo"], true);
    assert!(declaration["hooks"]["heal_end"].get("undo").is_none());
    let host = TestHost::new();
    let done = host.run::<Drain>(request("heal_start")).unwrap();
    assert_eq!(done.message.as_deref(), Some("drained"));
    let undone = host.run::<Drain>(request("heal_start").undo()).unwrap();
    assert_eq!(undone.message.as_deref(), Some("back in service"));
    let error = host.run::<Drain>(request("heal_end").undo()).unwrap_err();
    assert_eq!(error.code, "unknown-hook");
    assert!(
        error.detail.contains("`heal_end` has no undo handler"),
        "{error}"
    );
}

#[test]
fn http_requests_and_package_files_are_served() {
    let request = request("terminate_end").vim("id-1", "cluster", "ETSINFV.KUBERNETES.V_1");
    let host = TestHost::new()
        .http("GET", "https://registry.test/", 200, "ok")
        .file("Scripts/install.sh", "#!/bin/sh\n");
    let effects = host.run::<Cluster>(request.clone()).unwrap();
    assert_eq!(effects.message.as_deref(), Some("200 #!/bin/sh\n"));
    assert_eq!(effects.unregister_vims, ["cluster"]);
    let error = TestHost::new().run::<Cluster>(request).unwrap_err();
    assert!(
        error
            .detail
            .contains("no rule matches `GET https://registry.test/x`"),
        "{error}"
    );
}

#[test]
fn a_declaration_lists_hooks_and_marks_secrets() {
    let declaration = Hooks::<Cluster>::declared().declaration();
    let login = &declaration["hooks"]["instantiate_end"]["parameters"];
    assert_eq!(
        login["properties"]["password"],
        json!({"type": "string", "writeOnly": true})
    );
    assert_eq!(login["required"], json!(["username", "password"]));
    assert!(declaration["hooks"]["terminate_end"].is_object() && declaration["schemaVersion"] == 1);
}

#[test]
fn messages_have_the_documented_json_form() {
    let effects = Effects::none()
        .register_vim(NewVim::new("a", "T").extra("k", 1))
        .unregister_vim("b")
        .metadata("m", true)
        .message("done");
    assert_eq!(
        serde_json::to_value(effects).unwrap(),
        json!({
            "schemaVersion": 1,
            "registerVims": [
                {"name": "a", "vimType": "T", "interfaceInfo": {}, "accessInfo": {}, "extra": {"k": 1}}
            ],
            "unregisterVims": ["b"],
            "metadata": {"m": true},
            "message": "done",
        })
    );
    let error = DriverError::new("c", "d")
        .retryable()
        .host("h")
        .phase("p")
        .exit_code(1)
        .last_lines("l");
    assert_eq!(
        serde_json::to_value(error).unwrap(),
        json!({
            "code": "c", "detail": "d", "retryable": true, "host": "h", "phase": "p", "exitCode": 1,
            "lastLines": ["l"],
        })
    );
    let jump = SshTarget::new("s0", "10.0.0.9", "j").private_key("PEM");
    let target = SshTarget::new("s1", "10.0.0.1", "u")
        .password("pw")
        .port(2222)
        .jump(jump);
    assert_eq!(
        serde_json::to_value(target).unwrap(),
        json!({
            "serverId": "s1", "address": "10.0.0.1", "port": 2222, "username": "u", "password": "pw",
            "jump": {
                "serverId": "s0", "address": "10.0.0.9", "port": 22, "username": "j", "privateKey": "PEM"
            },
        })
    );
}

/// A driver that requires a configuration.
struct Configured;

#[derive(Deserialize, JsonSchema)]
struct Port {
    #[expect(dead_code, reason = "only its shape matters")]
    port: u16,
}

impl MgmtDriver for Configured {
    type Config = Port;

    fn new(_: Port) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
    }
}

#[test]
fn errors_of_invalid_messages_name_the_member() {
    let host = world();
    let error = host
        .run::<Configured>(three_nodes().config(json!({"port": "80"})))
        .unwrap_err();
    assert_eq!(error.code, "bad-config");
    assert!(error.detail.contains("u16"), "{error}");

    let mut newer = three_nodes().json().clone();
    newer["schemaVersion"] = json!(2);
    let error = host
        .run::<Cluster>(TestRequest::recorded(newer))
        .unwrap_err();
    assert_eq!(error.code, "schema-version");
    assert!(
        error.detail.contains('2') && error.detail.contains('1'),
        "{error}"
    );

    let mut invalid = three_nodes().json().clone();
    invalid["instance"] = json!(7);
    let error = host
        .run::<Cluster>(TestRequest::recorded(invalid))
        .unwrap_err();
    assert_eq!(error.code, "bad-request");
    assert!(error.detail.contains("Instance"), "{error}");
}

#[test]
fn an_unreadable_response_is_host_broken() {
    use vnfm_plugin_sdk::testkit::block_on;
    let cx = TestHost::new().context();
    block_on(cx.save_checkpoint("n", &"text")).unwrap();
    let error = DriverError::from(block_on(cx.checkpoint::<u32>("n")).unwrap_err());
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("host-broken", false)
    );
    assert!(error.detail.contains("`n`"), "{error}");
}

#[test]
fn a_vdu_that_the_flavour_does_not_have_is_an_error_that_names_the_vdus() {
    let built = vnfm_plugin_sdk::testkit::request("instantiate_end")
        .vdus(&["db", "web"])
        .vnfc("web", "web-1", &[]);
    let request: HookRequest =
        vnfm_plugin_sdk::serde_json::from_value(built.json().clone()).unwrap();
    assert_eq!(request.vnfcs_of("web").unwrap().len(), 1);
    assert!(request.vnfcs_of("db").unwrap().is_empty(), "scaled to zero");
    let error = request.vnfcs_of("webb").unwrap_err();
    assert_eq!(error.code, "no-such-vdu");
    assert!(
        error
            .detail
            .contains(r#"`webb`; the VDUs are ["db", "web"]"#),
        "{}",
        error.detail
    );
    let old = vnfm_plugin_sdk::testkit::request("instantiate_end").vnfc("web", "web-1", &[]);
    let request: HookRequest = vnfm_plugin_sdk::serde_json::from_value(old.json().clone()).unwrap();
    assert!(
        request.vnfcs_of("webb").unwrap().is_empty(),
        "an older host does not send the VDUs"
    );
}
