//! Reads `explain/CODE.md` into the constants of `codes` and the table `EXPLANATIONS`, so that a new code is
//! its rule and its file.
//!
//! ````text
//! ---
//! group: a section of docs/lint.md, one of GROUPS
//! by: the clause of the standard, or `ours: …` for our own conventions
//! ---
//! # CODE
//! What the code means, in one sentence.
//!
//! *Expected:* What a correct package looks like, in one sentence.
//!
//! Wrong:
//! ```text
//! a few lines, with remarks in parentheses
//! ```
//! Right:
//! ```text
//! the same lines, fixed
//! ```
//! ````

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The sections of `docs/lint.md`, in their order.
const GROUPS: [&str; 5] = [
    "Archives",
    "SOL004 files and secrets",
    "YAML and TOSCA",
    "SOL001",
    "Heat, Kubernetes and lint itself",
];

/// What stands before each part of a file, in this order; the end of the file follows the last part.
const MARKS: [&str; 7] = [
    "---\ngroup: ",
    "\nby: ",
    "\n---\n# ",
    "\n",
    "\n\n*Expected:* ",
    "\n\nWrong:\n```text\n",
    "\n```\nRight:\n```text\n",
];
const END: &str = "\n```\n";

/// Group, clause, code, meaning, expected, wrong, right.
type Parts<'a> = [&'a str; MARKS.len()];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=explain");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("explain");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        files.push((fs::read_to_string(&path)?, path));
    }
    let mut explained = Vec::new();
    for (text, path) in &files {
        let wrong = |why| format!("{}: {why}", path.display());
        let parts = parts(text).map_err(wrong)?;
        let group = GROUPS.iter().position(|group| *group == parts[0]);
        let group = group.ok_or_else(|| wrong(format!("unknown group `{}`", parts[0])))?;
        if path.file_stem().and_then(|stem| stem.to_str()) != Some(parts[2]) {
            return Err(wrong(format!("the heading is `{}`", parts[2])).into());
        }
        explained.push((group, parts[2], parts));
    }
    explained.sort_unstable();
    let to = PathBuf::from(env::var("OUT_DIR")?).join("codes.rs");
    Ok(fs::write(
        to,
        generated(explained.iter().map(|(.., parts)| parts))?,
    )?)
}

fn parts(text: &str) -> Result<Parts<'_>, String> {
    let mut rest = text
        .strip_suffix(END)
        .ok_or("it does not end with a code block")?;
    let mut parts = [""; MARKS.len()];
    let mut before = None;
    for (index, mark) in MARKS.iter().enumerate() {
        let missing = || format!("{mark:?} is missing");
        let (part, after) = rest.split_once(mark).ok_or_else(missing)?;
        match before {
            Some(before) => parts[before] = part,
            None if part.is_empty() => {}
            None => return Err(missing()),
        }
        (before, rest) = (Some(index), after);
    }
    parts[MARKS.len() - 1] = rest;
    Ok(parts)
}

fn generated<'a>(all: impl Iterator<Item = &'a Parts<'a>>) -> Result<String, std::fmt::Error> {
    let (mut codes, mut table) = (String::new(), String::new());
    for [group, clause, code, meaning, expected, wrong, right] in all {
        let name = code.get(2..).unwrap_or_default().replace('-', "_");
        writeln!(
            codes,
            "    #[doc = {meaning:?}]\n    pub const {name}: &str = {code:?};"
        )?;
        writeln!(
            table,
            "    Explanation {{ code: codes::{name}, group: {group:?}, meaning: {meaning:?}, expected: {expected:?}, \
             wrong: {wrong:?}, right: {right:?}, clause: {clause:?} }},"
        )?;
    }
    Ok(format!(
        "/// The codes of all findings.\npub mod codes {{\n{codes}}}\n\n\
         /// Every code, by group.\npub const EXPLANATIONS: &[Explanation] = &[\n{table}];\n"
    ))
}
