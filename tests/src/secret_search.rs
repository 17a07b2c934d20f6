//! Everything in which the server could show a secret: responses, the output of `vnfmctl`, its log, database and files.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use crate::planted::Planted;
use crate::testbed::{Testbed, VIM, VNF_A};

/// Gets every page, also by `vnfmctl`, whose output is recorded; the responses.
pub fn fetch_everything(testbed: &Testbed, ops: &[&str]) -> String {
    let server = &testbed.server;
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
        answers += &server
            .get(&format!("/vnfm/v1/op_occs/{op}/progress"))
            .to_string();
        answers += &server
            .get(&format!("/vnfm/v1/op_occs/{op}/log"))
            .to_string();
        for words in [["op", "show", op], ["op", "explain", op], ["op", "log", op]] {
            assert_eq!(server.run(&words).code, 0);
        }
    }
    for words in [
        ["vim", "show", VIM],
        ["vim", "show", "cluster"],
        ["vnf", "show", VNF_A],
    ] {
        let table = server.run(&words);
        let json = server.run(&[&["-o", "json"], words.as_slice()].concat());
        assert!(table.code == json.code, "{table:?}");
    }
    answers + &server.get("/vnfm/v1/plugins").to_string()
}

/// The server's files that contain a secret, except for the requests that the test has written.
pub fn files_with_secrets(testbed: &Testbed, planted: &Planted) -> Vec<String> {
    let folder = testbed.server.folder();
    for expected in [
        "server.log",
        "vnfmctl.log",
        "data/vnfm.db",
        "data/vnfm.db-wal",
    ] {
        assert!(
            folder.join(expected).is_file(),
            "{expected} was not searched"
        );
    }
    let log = std::fs::read(folder.join("server.log")).unwrap();
    assert!(
        String::from_utf8_lossy(&log).contains("TRACE"),
        "the log level is not TRACE"
    );
    let mut found = planted.files(&[folder.to_owned()], &["world"]);
    found.retain(|file| !file.ends_with(&format!("/{VNF_A}.json")));
    found
}

/// Proves that the search works: a secret sent as a description is shown, and must be found.
pub fn assert_search_finds(testbed: &Testbed, planted: &Planted, secret: &str, what: &str) {
    let package = testbed.server.ctl(&["package", "list"])[0]["id"].clone();
    let visible = ["--name", "shown", "--description", secret];
    let words = [
        &["vnf", "create", "--package", package.as_str().unwrap()],
        &visible[..],
    ]
    .concat();
    testbed.server.ctl(&words);
    let answer = testbed.server.get("/vnflcm/v2/vnf_instances").to_string();
    assert_eq!(planted.within(answer.as_bytes()), [what]);
    let files = files_with_secrets(testbed, planted);
    for name in ["/vnfmctl.log", "/data/vnfm.db"] {
        assert!(
            files.iter().any(|file| file.contains(name)),
            "not in {name}: {files:?}"
        );
    }
    testbed.server.ctl(&["vnf", "delete", "shown"]);
}
