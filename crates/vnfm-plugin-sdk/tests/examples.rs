//! Every public item of the SDK and its messages is used in an example of its documentation. The doc tests
//! compile and run those examples.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The name of the public item that starts on this line.
fn item_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let mut words = rest
        .split_whitespace()
        .skip_while(|word| matches!(*word, "async" | "unsafe"));
    let mut kind = words.next()?;
    let mut next = words.next()?;
    if kind == "const" && next == "fn" {
        (kind, next) = (next, words.next()?);
    }
    let named = matches!(kind, "fn" | "struct" | "enum" | "trait" | "const" | "type");
    let end = next
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(next.len());
    named.then(|| &next[..end])
}

/// The public items of a file, and the words in its examples.
fn read(text: &str) -> (Vec<&str>, BTreeSet<&str>) {
    let (mut items, mut words, mut in_example) = (Vec::new(), BTreeSet::new(), false);
    for line in text.lines().map(str::trim) {
        let Some(documented) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
        else {
            items.extend(item_name(line));
            continue;
        };
        if documented.trim().starts_with("```") {
            in_example = !in_example;
        } else if in_example {
            words.extend(documented.split(|c: char| !c.is_alphanumeric() && c != '_'));
        }
    }
    (items, words)
}

#[test]
fn every_public_item_is_used_in_an_example() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = sources(&here.join("src"));
    files.extend(sources(&here.join("../vnfm-plugin-messages/src")));
    let texts: Vec<_> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let read: Vec<_> = texts.iter().map(|text| read(text)).collect();
    let used: BTreeSet<_> = read
        .iter()
        .flat_map(|(_, words)| words.iter().copied())
        .collect();
    let items: Vec<_> = read
        .iter()
        .flat_map(|(items, _)| items.iter().copied())
        .collect();
    assert!(
        items.len() > 100 && items.contains(&"join_all_limited"),
        "no public items found"
    );
    let unused: Vec<_> = items
        .into_iter()
        .filter(|item| !used.contains(item))
        .collect();
    assert!(unused.is_empty(), "no example uses {unused:?}");
}

#[test]
fn item_names_are_found_only_on_item_lines() {
    assert_eq!(
        item_name("pub const fn plugin<D: Export>() -> Plugin {"),
        Some("plugin")
    );
    assert_eq!(item_name("pub async fn wait(&self) {"), Some("wait"));
    assert_eq!(
        item_name("pub const MEANINGS: &[Meaning] = &["),
        Some("MEANINGS")
    );
    assert_eq!(item_name("pub struct Secret(String);"), Some("Secret"));
    assert_eq!(item_name("pub(crate) fn new() {"), None);
    assert_eq!(item_name("pub use ssh::Ssh;"), None);
    assert_eq!(item_name("pub code: String,"), None);
}
