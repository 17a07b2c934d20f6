//! What was planted is nowhere to be found: no log at its loudest, no answer, no page of the database.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::stage::{Stage, VIM, VNF_A};

use super::stage;

const VIM_PASSWORD: &str = "planted-vim-password-1f0c";
const SSH_PASSWORD: &str = "planted-ssh-password-7b21";
const PROXY_PASSWORD: &str = "planted-proxy-password-9d3e";

/// Every file below a folder that may hold what the server or the client wrote, with what it holds.
fn written(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_ours = name == "data" || name.starts_with("vnfm") || name == "server.log";
        if path.is_dir() && (name == "data" || name == "packages") {
            found.extend(written(&path));
        } else if path.is_file() && is_ours {
            found.push((name, std::fs::read(&path).unwrap()));
        }
    }
    found
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(secret)
}

/// Asks for every page that there is; `vnfmctl` keeps what it prints.
fn ask_for_everything(stage: &Stage, ops: &[&str]) -> String {
    let server = &stage.server;
    let mut answers = String::new();
    let lists = [
        "/vnflcm/v2/vnf_instances",
        "/vnflcm/v2/vnf_lcm_op_occs",
        "/vnfm/v1/vims",
        "/vnfpkgm/v2/vnf_packages",
    ];
    for list in lists {
        for item in server.get(list).as_array().unwrap() {
            let one = server.get(&format!("{list}/{}", item["id"].as_str().unwrap()));
            answers.extend([item.to_string(), one.to_string()]);
        }
    }
    for op in ops {
        answers += &server.get(&format!("/vnfm/v1/op_occs/{op}/progress")).to_string();
        answers += &server.get(&format!("/vnfm/v1/op_occs/{op}/log")).to_string();
        for words in [["op", "show", op], ["op", "explain", op], ["op", "log", op]] {
            assert_eq!(server.run(&words).code, 0);
        }
    }
    for words in [["vim", "show", VIM], ["vim", "show", "cluster"], ["vnf", "show", VNF_A]] {
        let table = server.run(&words);
        let json = server.run(&[&["-o", "json"], words.as_slice()].concat());
        assert!(table.code == json.code, "{table:?}");
    }
    answers + &server.get("/vnfm/v1/plugins").to_string()
}

/// Fails where a secret is found; what a bearer token looks like counts as one.
fn is_clean(stage: &Stage, answers: &str) {
    let mut places = written(stage.server.folder());
    for expected in ["server.log", "vnfmctl.log", "vnfm.db"] {
        assert!(places.iter().any(|(name, _)| name == expected), "{expected} was not looked at");
    }
    let log = &places.iter().find(|(name, _)| name == "server.log").unwrap().1;
    assert!(holds(log, "TRACE"), "the log is not at its loudest");
    places.push(("answers".to_owned(), answers.as_bytes().to_vec()));
    for (name, bytes) in places {
        for secret in [VIM_PASSWORD, SSH_PASSWORD, PROXY_PASSWORD, "eyJhbGci"] {
            assert!(!holds(&bytes, secret), "`{secret}` is in {name}");
        }
    }
}

fn cluster_params(request: &mut Value) -> &mut Value {
    &mut request["additionalParams"]["k8s_cluster_installation_param"]
}

#[test]
fn planted_secrets_are_in_no_log_answer_output_or_database_page() {
    let (sim, stage) = stage(&[], "trace");
    let (_, mut request) = stage.create_a("vnf-a-k8s-cluster");
    sim.act("set-password", &json!({"user": "nfv", "password": VIM_PASSWORD}));
    let updated = stage.server.feed(&["vim", "update", VIM, "--password-stdin"], VIM_PASSWORD);
    assert_eq!(updated.code, 0, "{updated:?}");
    cluster_params(&mut request)["proxy"] = json!({"http_proxy": format!("http://user:{PROXY_PASSWORD}@127.0.0.1:1"), "no_proxy": "127.0.0.0/8"});
    // A host refuses this one: its error is looked at as well.
    cluster_params(&mut request)["worker_node"]["password"] = json!(SSH_PASSWORD);
    let failed = stage.instantiate(VNF_A, &request);
    let end = stage.ends_as(&failed, "FAILED_TEMP");
    let why = end["error"]["detail"].as_str().unwrap();
    assert!(why.contains("workerNode") && why.contains("refused password"), "{why}");
    is_clean(&stage, &ask_for_everything(&stage, &[&failed]));
    let rolled = stage.server.run(&["op", "rollback", &failed, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    cluster_params(&mut request)["worker_node"]["password"] = json!("secret");
    let op = stage.instantiate(VNF_A, &request);
    stage.ends_as(&op, "COMPLETED");
    stage.a_is_up(3);
    is_clean(&stage, &ask_for_everything(&stage, &[&failed, &op]));
    stage.bring_down(VNF_A);
    is_clean(&stage, "");
    stage.ends();
    sim.is_clean();
}
