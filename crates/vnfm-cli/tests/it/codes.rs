//! Exit codes, and errors that say what to do next.

use crate::stub::{Ended, OP, Stub, VNF, accepted, events, hinted, ok, progress, run};
use serde_json::json;

const NAMED: &str = "GET /vnflcm/v2/vnf_instances/vnf%2Da";

fn named() -> serde_json::Value {
    json!({"id": VNF, "vnfInstanceName": "vnf-a"})
}

fn ended_with(ended: &Ended, code: i32, said: &str) {
    assert_eq!(
        (ended.code, ended.said.as_str(), ended.data.as_str()),
        (code, said, "")
    );
}

#[tokio::test]
async fn what_the_server_refuses_is_3_with_its_hint() {
    let detail = "1 live VNF instance runs on the cluster: vnf-b";
    let task = format!("POST /vnflcm/v2/vnf_instances/{VNF}/terminate");
    let stub = Stub::new([
        (NAMED, ok(&named())),
        (&task, hinted(409, detail, "terminate it first")),
    ])
    .await;
    let ended = stub
        .run(&["vnf", "terminate", "vnf-a", "--graceful", "30"])
        .await;
    let said = "error: 1 live VNF instance runs on the cluster: vnf-b\nhint: terminate it first\n";
    ended_with(&ended, 3, said);
    let wanted = json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 30});
    assert_eq!(stub.asked().last().unwrap().body, wanted);
}

#[tokio::test]
async fn a_name_that_nobody_has_is_3_and_one_that_several_have_is_1_with_their_ids() {
    let twice =
        json!([{"id": "i-1", "vnfInstanceName": "x"}, {"id": "i-2", "vnfInstanceName": "x"}]);
    let named = |name: &str| {
        format!(
            "GET /vnflcm/v2/vnf_instances?all_fields&filter=%28eq%2CvnfInstanceName%2C%27{name}%27%29"
        )
    };
    let stub = Stub::new([(&*named("x"), ok(&twice)), (&*named("y"), ok(&json!([])))]).await;
    let none = stub.run(&["vnf", "show", "y"]).await;
    let said = "error: there is no vnf `y`\nhint: `vnfmctl vnf list` shows those that there are\n";
    ended_with(&none, 3, said);
    ended_with(
        &stub.run(&["vnf", "show", "x"]).await,
        1,
        "error: several vnfs are named `x`: i-1, i-2\n",
    );
}

#[tokio::test]
async fn a_server_that_fails_or_is_not_there_is_4() {
    let stub = Stub::new([("GET /vnfm/v1/vims", hinted(500, "a bug", "read its log"))]).await;
    let said = "error: the server failed with status 500: a bug\nhint: read its log\n";
    ended_with(&stub.run(&["vim", "list"]).await, 4, said);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let ended = run(&["--server", &url, "vim", "list"], "").await;
    let said = format!(
        "error: cannot reach {url}: Connection refused (os error 111)\n\
         hint: is vnfm-server running there? --server or VNFM_SERVER says where it is\n"
    );
    ended_with(&ended, 4, &said);
}

#[tokio::test]
async fn an_operation_that_stops_is_1_with_the_ways_on() {
    let end = progress(
        "FAILED_TEMP",
        &json!({
            "step": "allocate",
            "error": {"status": 500, "detail": "allocate: no host was found", "next": "make room"},
            "waysOn": [{"task": "retry", "allowed": true, "what": "goes on"},
                       {"task": "cancel", "allowed": false, "what": "it does not run"}],
        }),
    );
    let stub = Stub::new([
        (NAMED, ok(&named())),
        (
            &format!("POST /vnflcm/v2/vnf_instances/{VNF}/terminate"),
            accepted(),
        ),
        (
            &format!("GET /vnfm/v1/op_occs/{OP}/events"),
            events(std::slice::from_ref(&end)),
        ),
        (&format!("GET /vnfm/v1/op_occs/{OP}/progress"), ok(&end)),
    ])
    .await;
    let ended = stub.run(&["vnf", "terminate", "vnf-a", "--watch"]).await;
    let said = format!(
        "FAILED_TEMP allocate\n\
         error: operation `{OP}` is FAILED_TEMP: allocate: no host was found\n  vnfmctl op retry {OP}   goes on\n\
         hint: make room\n"
    );
    ended_with(&ended, 1, &said);
}

#[test]
fn where_nothing_temporary_can_be_written_it_says_what_it_wanted_to_pack_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command
        .args(["package", "onboard"])
        .arg(folder.path())
        .env("TMPDIR", "/nonexistent");
    let ended = command.output().unwrap();
    let said = format!(
        "error: cannot pack `{}` into a file in `/nonexistent`: No such file or directory (os error 2)\n\
         hint: name another folder in the environment variable TMPDIR\n",
        folder.path().display()
    );
    assert_eq!(
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stderr).as_ref()
        ),
        (Some(1), &*said)
    );
}

#[tokio::test]
async fn what_is_wrong_here_is_1_and_a_wrong_command_line_is_2() {
    let ended = run(&["package", "onboard", "/does/not/exist"], "").await;
    let said = "error: cannot read `/does/not/exist`: No such file or directory (os error 2)\n";
    ended_with(&ended, 1, said);
    let ended = run(&["vim", "register", "--name", "x"], "").await;
    let said = "error: give --config-file (clouds.yaml, kubeconfig, VIM file) or --from-vnf\n";
    ended_with(&ended, 1, said);
    for words in [
        &["vnf"][..],
        &["vnf", "create"],
        &["nothing"],
        &["vnf", "show"],
    ] {
        assert_eq!(run(words, "").await.code, 2, "{words:?}");
    }
}

#[tokio::test]
async fn a_policy_is_a_mapping_in_a_file_of_bounded_size() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |policy: &str| {
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, policy).unwrap();
        let ended = run(
            &["vim", "update", "x", "--policy", file.to_str().unwrap()],
            "",
        )
        .await;
        assert_eq!(ended.code, 1, "{}", ended.said);
        ended.said
    };
    let list = refused("[]").await;
    assert!(
        list.contains("cannot read the policy") && list.contains("not a mapping"),
        "{list}"
    );
    let slip = refused("podsecurity: baseline").await;
    assert!(slip.contains("podsecurity"), "{slip}");
    let large = refused(&format!("# {}", "a".repeat(1 << 20))).await;
    assert!(large.contains("larger than 1048576 bytes"), "{large}");
    let endless = run(&["vim", "update", "x", "--policy", "/dev/zero"], "").await;
    assert!(
        endless.said.contains("larger than 1048576 bytes"),
        "{}",
        endless.said
    );
}

#[tokio::test]
async fn help_shows_the_codes() {
    let ended = run(&["--help"], "").await;
    for line in [
        "0  done",
        "2  the command line is wrong",
        "3  the server refused",
        "4  the server cannot",
    ] {
        assert!(
            ended.data.contains(line),
            "`{line}` is missing in\n{}",
            ended.data
        );
    }
}
