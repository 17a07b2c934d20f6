//! Style rules that no lint covers.

use vnfm_tests::sources::files;

const CODE: &[&str] = &["crates", "plugins", "xtask", "benches", "tests"];

#[test]
fn every_file_starts_with_a_module_comment() {
    let sources = files(CODE, ".rs").unwrap();
    assert!(sources.len() > 50, "the sources were not found");
    let mute: Vec<_> = sources
        .iter()
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| &source.path)
        .collect();
    assert!(mute.is_empty(), "without a `//!` at the top: {mute:?}");
}

#[test]
fn sources_contain_no_todo_markers() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
    ];
    let mut found = Vec::new();
    for source in files(CODE, ".rs").unwrap() {
        for (number, line) in source.text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
