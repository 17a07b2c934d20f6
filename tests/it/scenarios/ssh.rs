//! Failures of SSH during an operation: it stops as FAILED_TEMP with step, host, last output and whether a retry may help,
//! and completes once the cause is fixed.

use serde_json::{Value, json};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use super::{testbed, testbed_with};

/// A fault and the expected error.
struct Case {
    fault: Value,
    code: &'static str,
    /// Words that its text must contain.
    words: &'static [&'static str],
    /// Whether the same call may succeed later without any change.
    retryable: bool,
}

/// The host with the faults.
const HOST: &str = "workerNode-1";

fn on(call: &str, subject: &str, fault: &Value) -> Value {
    json!({"call": call, "subject": subject, "times": 1000, "fault": fault})
}

/// Stops as expected with the fault; without it a retry completes.
fn assert_fails_then_retries(sim: &Simulator, testbed: &mut Testbed, case: &Case) {
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    sim.arm(&case.fault);
    let op = testbed.instantiate(VNF_A, &request);
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    let error = &end["error"];
    assert_eq!(error["code"], case.code, "{error:#}");
    assert_eq!(error["step"], "instantiate_end", "{error:#}");
    assert_eq!(error["retryable"], case.retryable, "{error:#}");
    let detail = error["detail"].as_str().unwrap();
    let next = error["next"].as_str().unwrap_or_default();
    assert!(!next.is_empty(), "what to do next is not said: {error:#}");
    for part in case.words {
        let has = detail.to_lowercase().contains(&part.to_lowercase());
        assert!(has, "no `{part}` in {detail}");
    }
    assert!(
        detail.len() < TIMEOUT,
        "{} bytes are no sentence",
        detail.len()
    );
    assert!(
        !detail.chars().any(|c| c.is_control() && c != '\n'),
        "{detail:?}"
    );
    sim.disarm();
    restore_timeouts(testbed);
    let retried = testbed.server.run(&["op", "retry", &op]);
    assert_eq!(retried.code, 0, "{retried:?}");
    let ended = testbed.server.ended(&op, LONG);
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    assert_eq!(
        sim.calls("heat.stack_create", "").len(),
        1,
        "the stack is not touched"
    );
    testbed.assert_a_up(3);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

/// Restarts the server with its usual timeouts.
fn restore_timeouts(testbed: &mut Testbed) {
    let file = testbed.server.folder().join("server.yaml");
    if std::fs::read_to_string(&file).unwrap() == SHORT_TIMEOUTS {
        std::fs::write(file, "limits: {lease_seconds: 2}").unwrap();
        testbed.server.kill();
        testbed.server.begin();
    }
}

/// A server configuration with short hook timeouts.
const SHORT_TIMEOUTS: &str = "limits: {lease_seconds: 2, hook_seconds: 8}";
/// Maximum length of an error.
const TIMEOUT: usize = 10_000;

fn case(case: &Case) {
    let (sim, mut testbed) = testbed(&[], "info");
    assert_fails_then_retries(&sim, &mut testbed, case);
}

#[test]
fn an_ssh_login_that_is_refused() {
    case(&Case {
        fault: on("ssh.login", HOST, &json!({"status": 401})),
        code: "host-refused",
        words: &[
            "workernode-1",
            "`preflight`",
            "the host refused password",
            "ubuntu",
        ],
        retryable: false,
    });
}

#[test]
fn an_ssh_host_key_that_differs_from_the_console() {
    case(&Case {
        fault: on("ssh.key", HOST, &json!({"status": 401})),
        code: "host-refused",
        words: &[
            "workernode-1",
            "`preflight`",
            "the host key of server",
            "is pinned",
        ],
        retryable: false,
    });
}

#[test]
fn an_ssh_connection_dropped_during_a_command() {
    case(&Case {
        fault: on(
            "ssh.run",
            &format!("{HOST}: sudo -n -- sh -c 'modprobe"),
            &json!({"drop": "before"}),
        ),
        code: "host-unavailable",
        words: &[
            "workernode-1",
            "`runtime`",
            "the connection ended before the command did",
        ],
        retryable: true,
    });
}

#[test]
fn an_ssh_connection_dropped_during_an_upload() {
    case(&Case {
        fault: on(
            "ssh.put",
            &format!("{HOST}: /run/vnfm/join.yaml"),
            &json!({"drop": "before"}),
        ),
        code: "host-unavailable",
        words: &[
            "`join`",
            "/run/vnfm/join.yaml",
            "the connection ended before the command did",
        ],
        retryable: true,
    });
}

#[test]
fn a_sudo_that_asks_for_a_password() {
    let words = "sudo: a password is required\n";
    case(&Case {
        fault: on("ssh.put", HOST, &json!({"exit": 1, "stderr": words})),
        code: "host-refused",
        words: &[
            "`preflight`",
            "sudo: a password is required",
            "may use `sudo` without a password",
        ],
        retryable: false,
    });
}

#[test]
fn a_host_that_does_not_answer() {
    let (sim, mut testbed) = testbed_with(SHORT_TIMEOUTS);
    let fault = on("ssh.connect", HOST, &json!({"status": 503}));
    let words = &[
        "did not end within",
        "no response by then: `ssh.wait` on 127.",
    ];
    assert_fails_then_retries(
        &sim,
        &mut testbed,
        &Case {
            fault,
            code: "plugin.deadline",
            words,
            retryable: true,
        },
    );
}

#[test]
fn a_command_that_never_ends() {
    let (sim, mut testbed) = testbed_with(SHORT_TIMEOUTS);
    let fault = on(
        "ssh.run",
        &format!("{HOST}: sudo -n -- sh -c 'modprobe"),
        &json!({"hang": true}),
    );
    let words = &[
        "did not end within",
        "no response by then: `ssh.run` on 127.",
    ];
    assert_fails_then_retries(
        &sim,
        &mut testbed,
        &Case {
            fault,
            code: "plugin.deadline",
            words,
            retryable: true,
        },
    );
}

/// Output of a command before it fails.
const FLOOD: usize = 100_000_000;

#[test]
fn a_command_with_excessive_output() {
    case(&Case {
        fault: on(
            "ssh.run",
            &format!("{HOST}: sudo -n -- sh -c 'modprobe"),
            &json!({"flood": FLOOD, "exit": 4}),
        ),
        code: "runtime-failed",
        words: &[
            "workernode-1",
            "`runtime`",
            "exit code 4",
            "and here the flood ended",
        ],
        retryable: true,
    });
}

#[test]
fn a_join_with_excessive_log_output() {
    case(&Case {
        fault: on(
            "host.exec",
            &format!("{HOST}: kubeadm join"),
            &json!({"flood": FLOOD, "exit": 3}),
        ),
        code: "join-failed",
        words: &[
            "workernode-1",
            "`join`",
            "exit code 3",
            "and here the flood ended",
        ],
        retryable: true,
    });
}
