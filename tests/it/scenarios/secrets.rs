//! What was planted is nowhere to be found: no log at its loudest, no answer, no page of the database, no command line
//! or environment, no file on a host. What lets hosts join a cluster is worthless at the end.

use serde_json::{Value, json};
use vnfm_tests::planted::{Planted, Processes, key_pair};
use vnfm_tests::programs::until;
use vnfm_tests::secret_search::{ask_for_everything, is_found_in_the_open, written};
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{LONG, Stage, VIM, VNF_A};

use super::stage;

const VIM_PASSWORD: &str = "planted-vim-password-1f0c";
const SSH_PASSWORD: &str = "planted-ssh-password-7b21";
const REFUSED: &str = "planted-refused-password-c05a";
const PROXY_PASSWORD: &str = "planted-proxy-password-9d3e";

/// Files on hosts that hold a secret, as `host:path`.
fn on_hosts(sim: &Simulated, planted: &Planted) -> Vec<String> {
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

/// The secrets that are known before anything begins.
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

/// Instantiates VNF-A and looks at every process until that has ended.
fn watched(stage: &Stage, request: &Value, state: &str, seen: &mut Processes) -> String {
    let op = stage.instantiate(VNF_A, request);
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    until("the end of the operation", LONG, || {
        seen.look();
        let now = stage.server.get(&path)["operationState"].clone();
        (now != "STARTING" && now != "PROCESSING").then_some(())
    });
    stage.ends_as(&op, state);
    op
}

#[test]
fn planted_secrets_leak_nowhere() {
    let (sim, stage) = stage(&[], "trace");
    let (private_key, public_key) = key_pair(stage.server.folder());
    let (mut planted, mut seen) = (planted(&private_key), Processes::default());
    sim.act(
        "set-login",
        &json!({"password": SSH_PASSWORD, "authorizedKey": public_key}),
    );
    let (_, mut request) = stage.create_a("vnf-a-k8s-cluster");
    sim.act(
        "set-password",
        &json!({"user": "nfv", "password": VIM_PASSWORD}),
    );
    let updated = stage
        .server
        .feed(&["vim", "update", VIM, "--password-stdin"], VIM_PASSWORD);
    assert_eq!(updated.code, 0, "{updated:?}");
    let params = cluster_params(&mut request);
    params["proxy"] = json!({"http_proxy": format!("http://user:{PROXY_PASSWORD}@127.0.0.1:1"), "no_proxy": "127.0.0.0/8"});
    params["master_node"]["password"] = json!(SSH_PASSWORD);
    // A host refuses this one: its error is looked at as well.
    params["worker_node"]["password"] = json!(REFUSED);
    let failed = watched(&stage, &request, "FAILED_TEMP", &mut seen);
    let end = stage
        .server
        .get(&format!("/vnfm/v1/op_occs/{failed}/progress"));
    let why = end["error"]["detail"].as_str().unwrap();
    assert!(
        why.contains("workerNode") && why.contains("refused password"),
        "{why}"
    );
    let rolled = stage.server.run(&["op", "rollback", &failed, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");

    let worker = &mut cluster_params(&mut request)["worker_node"];
    worker.as_object_mut().unwrap().remove("password");
    worker["private_key"] = json!(private_key);
    let op = watched(&stage, &request, "COMPLETED", &mut seen);
    stage.a_is_up(3);
    for token in sim.page("tokens") {
        let what = if token.as_str().unwrap().starts_with("eyJ") {
            "bearer"
        } else {
            "bootstrap"
        };
        planted.add(what, token.as_str().unwrap());
    }
    assert!(
        format!("{planted:?}").contains("bootstrap"),
        "no host has joined by a token"
    );
    let mut with_proxy = planted.clone();
    with_proxy.add("proxy password", PROXY_PASSWORD);

    let answers = ask_for_everything(&stage, &[&failed, &op]);
    assert_eq!(
        with_proxy.within(answers.as_bytes()),
        [""; 0],
        "in an answer"
    );
    assert_eq!(
        written(&stage, &with_proxy),
        [""; 0],
        "in a file of the server"
    );
    let commands = json!(sim.page("calls")).to_string();
    assert_eq!(
        with_proxy.within(commands.as_bytes()),
        [""; 0],
        "in a host's command line"
    );
    assert!(seen.saw("vnfm-server"), "the server was not looked at");
    assert_eq!(seen.with(&with_proxy), [""; 0], "in a process");
    assert_eq!(on_hosts(&sim, &planted), [""; 0], "on a host");

    found_where_they_are_let_through(&sim, &stage, &with_proxy);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

/// A host has to know its proxy, and what is sent as a description is shown as such: there the search finds.
fn found_where_they_are_let_through(sim: &Simulated, stage: &Stage, planted: &Planted) {
    let known = on_hosts(sim, planted);
    assert!(
        known
            .iter()
            .any(|file| file.ends_with("/90-vnfm-proxy.conf")),
        "{known:?}"
    );
    is_found_in_the_open(stage, planted, SSH_PASSWORD, "SSH password");
}
