//! Style rules that no lint covers.

use std::collections::BTreeMap;
use vnfm_tests::sources::files;

const CODE: &[&str] = &["crates", "plugins", "xtask", "benches", "tests"];
/// A doc line of so few words rarely says more than the name below it.
const FEW_WORDS: usize = 4;
/// Share of such lines that a crate may have, in percent.
const MAX_SHORT_PERCENT: usize = 10;

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

#[test]
fn doc_lines_say_more_than_the_name() {
    let mut crates: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for source in files(CODE, ".rs").unwrap() {
        let depth = if source.path.starts_with("crates/") {
            2
        } else {
            1
        };
        let folder: Vec<_> = source.path.split('/').take(depth).collect();
        let (lines, short) = crates.entry(folder.join("/")).or_default();
        for (number, line) in prose(&source.text) {
            *lines += 1;
            if line.split_whitespace().count() <= FEW_WORDS {
                short.push(format!("{}:{number}: {line}", source.path));
            }
        }
    }
    let terse = crates
        .values()
        .filter(|(lines, short)| short.len() * 100 > lines * MAX_SHORT_PERCENT);
    let terse: Vec<_> = terse.flat_map(|(_, short)| short.clone()).collect();
    assert!(
        terse.is_empty(),
        "say what a reader needs (unit, range, default, absence, error) in:\n{}",
        terse.join("\n")
    );
}

#[test]
fn the_check_of_doc_lines_skips_headings_tables_and_examples() {
    let text = "/// Its name.\n/// # Errors\n///\n/// | a | b |\n/// ```\n/// let x = 1;\n/// ```\n/// The end.\nlet x;";
    assert_eq!(prose(text), [(1, "Its name."), (8, "The end.")]);
}

/// The lines of documentation that are sentences, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut example) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(doc) = doc.map(str::trim) else {
            example = false;
            continue;
        };
        if doc.starts_with("```") {
            example = !example;
        } else if !example && !doc.is_empty() && !doc.starts_with(['#', '|']) {
            found.push((number + 1, doc));
        }
    }
    found
}
