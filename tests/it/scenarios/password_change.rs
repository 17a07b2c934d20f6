//! The VIM's password changes during an instantiation.

use serde_json::json;
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{LONG, VIM, VNF_A};

use super::testbed;

#[test]
fn an_operation_continues_after_the_vim_password_is_updated() {
    let (sim, testbed) = testbed(&["--server-build", "1500"], "info");
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    let op = testbed.instantiate(VNF_A, &request);
    let created = || {
        sim.calls("heat.stack_create", "")
            .iter()
            .any(|call| call["status"] == 201)
    };
    until("the stack", LONG, || created().then_some(()));
    sim.act(
        "set-password",
        &json!({"user": "nfv", "password": "another-password"}),
    );
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    let waits = until("the operation waits for a login", LONG, || {
        let now = testbed.server.get(&path);
        assert_eq!(now["operationState"], "PROCESSING", "{now:#}");
        let what = now["waiting"]["for"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase();
        (what.contains("password") || what.contains("login") || what.contains("credential"))
            .then_some(what)
    });
    assert!(
        waits.contains("vim update"),
        "it does not say what to do: {waits}"
    );
    let wrong = testbed
        .server
        .run_with_input(&["vim", "update", VIM, "--password-stdin"], "a-wrong-one\n");
    assert_eq!(wrong.code, 3, "{wrong:?}");
    let right = testbed.server.run_with_input(
        &["vim", "update", VIM, "--password-stdin"],
        "another-password\n",
    );
    assert_eq!(right.code, 0, "{right:?}");
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(sim.touched_stacks(), 1);
    testbed.assert_a_up(3);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}
