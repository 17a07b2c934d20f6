//! Names and errors from a server or package cannot send control sequences to the user's terminal.

use crate::stub::{Stub, hinted, ok};
use serde_json::json;
use std::path::Path;

const EVIL: &str = "a\u{1b}]0;pwned\u{7}\r\u{9b}31m\u{202e}b\u{7f}";

fn has_evil(text: &str) -> bool {
    text.chars()
        .any(|c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c))
}

#[tokio::test]
async fn control_characters_in_names_and_errors_of_the_server_are_escaped() {
    let list = "GET /vnfpkgm/v2/vnf_packages";
    let package =
        json!({"id": "p-1", "vnfdId": "d", "vnfProductName": EVIL, "onboardingState": EVIL});
    let stub = Stub::new([(list, ok(&json!([package])))]).await;
    for format in ["table", "json", "yaml"] {
        let ended = stub.run(&["package", "list", "--output", format]).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(!has_evil(&ended.data), "{format}: {:?}", ended.data);
        assert!(ended.data.contains("pwned"), "{ended:?}");
        if format != "table" {
            let parsed: serde_json::Value = serde_yaml::from_str(&ended.data).unwrap();
            assert_eq!(
                parsed[0]["vnfProductName"], EVIL,
                "{format}: a script reads the original text"
            );
        }
    }
    let stub = Stub::new([(list, hinted(409, EVIL, EVIL))]).await;
    let ended = stub.run(&["package", "list"]).await;
    assert!(
        ended.messages.contains("pwned") && !has_evil(&ended.messages),
        "{:?}",
        ended.messages
    );
}

/// Clippy denies `println!` in this crate; this test finds direct writes to the streams.
#[test]
fn only_output_rs_writes_to_the_terminal() {
    fn look(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                look(&path, found);
            } else if path.file_name().unwrap() != "output.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let writes = |line: &&str| {
                    let stream = ["stdout()", "stderr()"]
                        .iter()
                        .any(|name| line.contains(name));
                    let prints = [
                        "println!",
                        "print!",
                        "/dev/tty",
                        "/dev/stdout",
                        "set_draw_target",
                    ];
                    let prints = prints.iter().any(|name| line.contains(name));
                    prints || stream && !line.contains(".is_terminal()")
                };
                let lines = text.lines().filter(writes);
                found.extend(lines.map(|line| format!("{}: {line}", path.display())));
            }
        }
    }
    let mut found = Vec::new();
    look(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    assert_eq!(
        found,
        Vec::<String>::new(),
        "print with `output::print` or `output::tell`"
    );
}
