//! Planted secrets leak nowhere: not into TRACE logs, responses, the database, command lines, environments or files on
//! hosts. Join tokens are invalid at the end.

use serde_json::{Value, json};
use vnfm_tests::planted::{Planted, Processes, key_pair};
use vnfm_tests::programs::until;
use vnfm_tests::secret_search::{assert_search_finds, fetch_everything, files_with_secrets};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VIM, VNF_A};

use super::testbed;

const VIM_PASSWORD: &str = "planted-vim-password-1f0c";
const SSH_PASSWORD: &str = "planted-ssh-password-7b21";
const REFUSED: &str = "planted-refused-password-c05a";
const PROXY_PASSWORD: &str = "planted-proxy-password-9d3e";

/// Files on hosts that contain a secret, as `host:path`.
fn on_hosts(sim: &Simulator, planted: &Planted) -> Vec<String> {
    let files = sim.files();
    assert!(
        files
            .iter()
            .any(|(_, path, _)| path == "/etc/kubernetes/admin.conf"),
        "no hosts"
    );
    let with = files
        .iter()
        .filter(|(_, _, content)| !planted.within(content).is_empty());
    with.map(|(host, path, _)| format!("{host}:{path}"))
        .collect()
}

/// The secrets known at the start.
fn planted(private_key: &str) -> Planted {
    let mut planted = Planted::default();
    planted.add("VIM password", VIM_PASSWORD);
    planted.add("SSH password", SSH_PASSWORD);
    planted.add("refused password", REFUSED);
    planted.add("private key", private_key);
    planted
}

fn cluster_params(request: &mut Value) -> &mut Value {
    &mut request["additionalParams"]["k8s_cluster_installation_param"]
}

/// Instantiates VNF-A and inspects every process until the end.
fn watched(testbed: &Testbed, request: &Value, state: &str, seen: &mut Processes) -> String {
    let op = testbed.instantiate(VNF_A, request);
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    until("the end of the operation", LONG, || {
        seen.look();
        let now = testbed.server.get(&path)["operationState"].clone();
        (now != "STARTING" && now != "PROCESSING").then_some(())
    });
    testbed.wait_for_state(&op, state);
    op
}

/// Adds the tokens that the cluster issued.
fn add_cluster_tokens(planted: &mut Planted, sim: &Simulator) {
    for token in sim.page("tokens") {
        let kind = if token.as_str().unwrap().starts_with("eyJ") {
            "bearer"
        } else {
            "bootstrap"
        };
        planted.add(kind, token.as_str().unwrap());
    }
}

fn assert_server_shows_no_secret(testbed: &Testbed, ops: &[&str], planted: &Planted) {
    let responses = fetch_everything(testbed, ops);
    assert_eq!(
        planted.within(responses.as_bytes()),
        [""; 0],
        "in a response"
    );
    assert_eq!(
        files_with_secrets(testbed, planted),
        [""; 0],
        "in a file of the server"
    );
}

#[test]
fn planted_secrets_leak_nowhere() {
    let (sim, testbed) = testbed(&[], "trace");
    let (private_key, public_key) = key_pair(testbed.server.folder());
    let (mut planted, mut seen) = (planted(&private_key), Processes::default());
    sim.act(
        "set-login",
        &json!({"password": SSH_PASSWORD, "authorizedKey": public_key}),
    );
    let (_, mut request) = testbed.create_a("vnf-a-k8s-cluster");
    sim.act(
        "set-password",
        &json!({"user": "nfv", "password": VIM_PASSWORD}),
    );
    let updated = testbed
        .server
        .run_with_input(&["vim", "update", VIM, "--password-stdin"], VIM_PASSWORD);
    assert_eq!(updated.code, 0, "{updated:?}");
    let params = cluster_params(&mut request);
    params["proxy"] = json!({"http_proxy": format!("http://user:{PROXY_PASSWORD}@127.0.0.1:1"), "no_proxy": "127.0.0.0/8"});
    params["master_node"]["password"] = json!(SSH_PASSWORD);
    // A host refuses this one; its error is searched too.
    params["worker_node"]["password"] = json!(REFUSED);
    let failed = watched(&testbed, &request, "FAILED_TEMP", &mut seen);
    let end = testbed
        .server
        .get(&format!("/vnfm/v1/op_occs/{failed}/progress"));
    let why = end["error"]["detail"].as_str().unwrap();
    assert!(
        why.contains("workerNode") && why.contains("refused password"),
        "{why}"
    );
    let rolled = testbed.server.run(&["op", "rollback", &failed, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");

    let worker = &mut cluster_params(&mut request)["worker_node"];
    worker.as_object_mut().unwrap().remove("password");
    worker["private_key"] = json!(private_key);
    let op = watched(&testbed, &request, "COMPLETED", &mut seen);
    testbed.assert_a_up(3);
    add_cluster_tokens(&mut planted, &sim);
    assert!(
        format!("{planted:?}").contains("bootstrap"),
        "no host has joined by a token"
    );
    let mut with_proxy = planted.clone();
    with_proxy.add("proxy password", PROXY_PASSWORD);

    assert_server_shows_no_secret(&testbed, &[&failed, &op], &with_proxy);
    let commands = json!(sim.page("calls")).to_string();
    assert_eq!(
        with_proxy.within(commands.as_bytes()),
        [""; 0],
        "in a host's command line"
    );
    assert!(seen.saw("vnfm-server"), "the server was not looked at");
    assert_eq!(seen.with(&with_proxy), [""; 0], "in a process");
    assert_eq!(on_hosts(&sim, &planted), [""; 0], "on a host");

    assert_known_secrets_are_found(&sim, &testbed, &with_proxy);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

/// A host must know its proxy, and a description is displayed: the search must find these.
fn assert_known_secrets_are_found(sim: &Simulator, testbed: &Testbed, planted: &Planted) {
    let known = on_hosts(sim, planted);
    assert!(
        known
            .iter()
            .any(|file| file.ends_with("/90-vnfm-proxy.conf")),
        "{known:?}"
    );
    assert_search_finds(testbed, planted, SSH_PASSWORD, "SSH password");
}
