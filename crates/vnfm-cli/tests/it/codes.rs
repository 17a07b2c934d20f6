//! Exit codes, and errors with hints.

use crate::stub::{Ended, OP, Stub, VNF, accepted, events, hinted, ok, progress, run};
use serde_json::json;

const NAMED: &str = "GET /vnflcm/v2/vnf_instances/vnf%2Da";

fn named() -> serde_json::Value {
    json!({"id": VNF, "vnfInstanceName": "vnf-a"})
}

fn assert_failed(ended: &Ended, code: i32, messages: &str) {
    assert_eq!(
        (ended.code, ended.messages.as_str(), ended.data.as_str()),
        (code, messages, "")
    );
}

#[tokio::test]
async fn a_rejected_request_exits_with_3_and_the_hint_of_the_server() {
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
    let expected =
        "error: 1 live VNF instance runs on the cluster: vnf-b\nhint: terminate it first\n";
    assert_failed(&ended, 3, expected);
    let expected = json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 30});
    assert_eq!(stub.requests().last().unwrap().body, expected);
}

#[tokio::test]
async fn an_unknown_name_exits_with_3_and_an_ambiguous_one_with_1_and_the_ids() {
    let twice =
        json!([{"id": "i-1", "vnfInstanceName": "x"}, {"id": "i-2", "vnfInstanceName": "x"}]);
    let named = |name: &str| {
        format!(
            "GET /vnflcm/v2/vnf_instances?all_fields&filter=%28eq%2CvnfInstanceName%2C%27{name}%27%29"
        )
    };
    let stub = Stub::new([(&*named("x"), ok(&twice)), (&*named("y"), ok(&json!([])))]).await;
    let none = stub.run(&["vnf", "show", "y"]).await;
    let expected =
        "error: no vnf has the name or ID `y`\nhint: `vnfmctl vnf list` shows what exists\n";
    assert_failed(&none, 3, expected);
    assert_failed(
        &stub.run(&["vnf", "show", "x"]).await,
        1,
        "error: several vnfs are named `x`, use an ID: i-1, i-2\n",
    );
}

#[tokio::test]
async fn a_failing_or_unreachable_server_exits_with_4() {
    let stub = Stub::new([("GET /vnfm/v1/vims", hinted(500, "a bug", "read its log"))]).await;
    let expected = "error: the server failed with status 500: a bug\nhint: read its log\n";
    assert_failed(&stub.run(&["vim", "list"]).await, 4, expected);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let ended = run(&["--server", &url, "vim", "list"], "").await;
    let expected = format!(
        "error: cannot reach {url}: Connection refused (os error 111)\n\
         hint: is vnfm-server running there? Set its URL with --server or VNFM_SERVER\n"
    );
    assert_failed(&ended, 4, &expected);
}

#[tokio::test]
async fn a_failed_operation_exits_with_1_and_lists_what_it_can_do_next() {
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
    let expected = format!(
        "FAILED_TEMP allocate\n\
         error: operation `{OP}` is FAILED_TEMP: allocate: no host was found\n  vnfmctl op retry {OP}   goes on\n\
         hint: make room\n"
    );
    assert_failed(&ended, 1, &expected);
}

#[test]
fn an_unwritable_tmpdir_is_reported_with_the_folder_to_pack() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command
        .args(["package", "onboard"])
        .arg(folder.path())
        .env("TMPDIR", "/nonexistent");
    let ended = command.output().unwrap();
    let expected = format!(
        "error: cannot pack `{}` into a file in `/nonexistent`: No such file or directory (os error 2)\n\
         hint: set TMPDIR to another folder\n",
        folder.path().display()
    );
    assert_eq!(
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stderr).as_ref()
        ),
        (Some(1), &*expected)
    );
}

#[tokio::test]
async fn a_local_error_exits_with_1_and_a_wrong_command_line_with_2() {
    let ended = run(&["package", "onboard", "/does/not/exist"], "").await;
    let expected = "error: cannot read `/does/not/exist`: No such file or directory (os error 2)\n";
    assert_failed(&ended, 1, expected);
    let ended = run(&["vim", "register", "--name", "x"], "").await;
    let expected =
        "error: pass --config-file (clouds.yaml, kubeconfig or VIM file) or --from-vnf\n";
    assert_failed(&ended, 1, expected);
    for args in [
        &["vnf"][..],
        &["vnf", "create"],
        &["nothing"],
        &["vnf", "show"],
    ] {
        assert_eq!(run(args, "").await.code, 2, "{args:?}");
    }
}

#[tokio::test]
async fn a_policy_must_be_a_mapping_of_limited_size() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |policy: &str| {
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, policy).unwrap();
        let ended = run(
            &["vim", "update", "x", "--policy", file.to_str().unwrap()],
            "",
        )
        .await;
        assert_eq!(ended.code, 1, "{}", ended.messages);
        ended.messages
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
        endless.messages.contains("larger than 1048576 bytes"),
        "{}",
        endless.messages
    );
}

/// Every file that a command reads into memory has a limit; the error names the file, its size if known, and the limit.
#[tokio::test]
async fn a_file_without_an_end_or_of_enormous_size_is_refused() {
    let large = tempfile::NamedTempFile::new().unwrap();
    large.as_file().set_len(100 << 30).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (folder, large) = (folder.path().to_str().unwrap(), large.path());
    for (path, expected) in [
        ("/dev/zero", "it is larger than 16777216 bytes"),
        (
            large.to_str().unwrap(),
            "it is larger than 16777216 bytes: it has 107374182400",
        ),
    ] {
        for args in [
            &["vim", "register", "--name", "x", "--config-file", path][..],
            &["vnf", "instantiate", "x", "--request", path],
            &["--ca", path, "vnf", "list"],
            &["package", "verify", folder, "--trust", path],
            &["package", "sign", folder, "--key", path, "--cert", path],
            &["plugin", "run", path, "instantiate_end", "--hosts", path],
            &[
                "package",
                "onboard",
                "--from-uri",
                "http://x/y",
                "--user",
                "u",
                "--password-file",
                path,
            ],
        ] {
            let ended = run(args, "").await;
            assert_eq!(ended.code, 1, "{args:?}: {}", ended.messages);
            let named = ended.messages.contains(&format!("`{path}`"));
            assert!(
                named && ended.messages.contains(expected),
                "{args:?}: {}",
                ended.messages
            );
        }
    }
}

#[tokio::test]
async fn help_lists_the_exit_codes() {
    let ended = run(&["--help"], "").await;
    for line in [
        "0  done",
        "2  invalid command line",
        "3  the server rejected",
        "4  the server is unreachable",
        "9  `--plan`: the operation would change something",
    ] {
        assert!(
            ended.data.contains(line),
            "`{line}` is missing in\n{}",
            ended.data
        );
    }
}
