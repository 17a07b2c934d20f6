//! What `--explain` shows is true: lint says the code of the wrong example, and does not of the mended one, which
//! brings no error either.
//!
//! An example is a few lines; `explained/examples` says where in a package they stand, at `§`. Before they are put
//! there, what a reader knows to skip is left out (a remark in parentheses, three spaces behind the text), and what is
//! abbreviated is written out (`SPELLED`).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "explained/examples/mod.rs"]
mod examples;
#[path = "explained/packages.rs"]
mod packages;

use examples::UNTESTED;
use packages::{TEST, TEST_2, TEST_3};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vnfm_descriptor::{EXPLANATIONS, Explanation, Finding, Limits, Severity, explain, lint};

/// A change of a package: in this file, this text (all of it where that is empty) becomes this one.
type Edit = (&'static str, &'static str, &'static str);

/// Where the examples of a code stand.
struct Example {
    code: &'static str,
    wrong: &'static [Edit],
    right: &'static [Edit],
}

const fn same(code: &'static str, edits: &'static [Edit]) -> Example {
    Example {
        code,
        wrong: edits,
        right: edits,
    }
}

const fn each(code: &'static str, wrong: &'static [Edit], right: &'static [Edit]) -> Example {
    Example { code, wrong, right }
}

/// The file whose lines are the names of files: in each the text of the edit.
const NAMED: &str = "*";

/// What stands before a file of the samples that is taken as it is.
const SAMPLE: char = '@';
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");

/// What explanations abbreviate.
const SPELLED: &[(&str, &str)] = &[
    ("9f86d0…", TEST),
    ("60303a…", TEST_2),
    ("4e0740…", TEST_3),
    ("ghp_…", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"),
    ("EF BB BF 74 6F 73 63 61 …", "\u{feff}tosca"),
    ("74 6F 73 63 61 …", "tosca"),
    ("\\r\\n", "\r\n"),
    ("\\n", "\n"),
];

/// The lines of an example, without remarks, written out.
fn lines(example: &str) -> Vec<String> {
    let said = example.lines().map(|line| {
        let remark = line
            .split_once("   (")
            .filter(|(_, remark)| remark.ends_with(')'));
        remark.map_or(line, |(text, _)| text)
    });
    let kept = |line: &&str| !(line.starts_with('(') && line.ends_with(')'));
    let spelled = said.filter(kept).map(|line| {
        SPELLED.iter().fold(line.to_owned(), |line, (short, long)| {
            line.replace(short, long)
        })
    });
    spelled.collect()
}

/// The text with the lines where it says `§`, all of them as far in as the first.
fn filled(text: &str, lines: &[String]) -> String {
    let with = |line: &str| {
        let Some((before, behind)) = line.split_once('§') else {
            return line.to_owned();
        };
        let indent = " ".repeat(before.chars().count());
        format!("{before}{}{behind}", lines.join(&format!("\n{indent}")))
    };
    text.split('\n').map(with).collect::<Vec<_>>().join("\n")
}

/// What lint says of the package that the edits make of an example.
fn findings(code: &str, edits: &[Edit], example: &str) -> Vec<Finding> {
    let lines = lines(example);
    let mut files = BTreeMap::from([("vnfd.yaml".to_owned(), packages::WEB.to_owned())]);
    for (file, find, put) in edits {
        if *file == NAMED {
            files.extend(lines.iter().map(|name| (name.clone(), (*put).to_owned())));
            continue;
        }
        let text = files.entry((*file).to_owned()).or_default();
        assert!(text.contains(find), "{code}: `{file}` has no `{find}`");
        *text = if find.is_empty() {
            (*put).to_owned()
        } else {
            text.replacen(find, put, 1)
        };
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let written = match text.strip_prefix(SAMPLE) {
            Some(sample) => std::fs::copy(Path::new(SAMPLES).join(sample), path).map(drop),
            None => std::fs::write(path, filled(text, &lines)),
        };
        written.unwrap();
    }
    lint(folder.path(), &Limits::default()).findings
}

/// What is untrue of an explanation.
fn untrue(example: &Example, explanation: &Explanation) -> Vec<String> {
    let Explanation {
        code, wrong, right, ..
    } = explanation;
    let says = |finding: &Finding| finding.code == *code;
    let told = findings(code, example.wrong, wrong);
    let mended = findings(code, example.right, right);
    let mut untrue = Vec::new();
    if !told.iter().any(says) {
        untrue.push(format!("{code}: the wrong one is told {}", listed(&told)));
    }
    if mended
        .iter()
        .any(|finding| says(finding) || finding.severity == Severity::Error)
    {
        untrue.push(format!(
            "{code}: the mended one is told {}",
            listed(&mended)
        ));
    }
    untrue
}

fn listed(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |all, finding| {
        format!("{all}\n    {finding}")
    })
}

#[test]
fn examples_are_wrong_and_mended_as_the_explanation_says() {
    let untrue: Vec<_> = examples::all()
        .flat_map(|example| {
            let told =
                explain(example.code).unwrap_or_else(|| panic!("`{}` is no code", example.code));
            untrue(example, told)
        })
        .collect();
    assert!(untrue.is_empty(), "{}", untrue.join("\n"));
}

#[test]
fn every_example_is_tried_here_or_named_with_the_reason() {
    let tried: Vec<_> = examples::all().map(|example| example.code).collect();
    let named = UNTESTED.iter().map(|(code, _)| *code);
    let known: BTreeSet<_> = tried.iter().copied().chain(named).collect();
    assert_eq!(
        known.len(),
        tried.len() + UNTESTED.len(),
        "a code is there twice"
    );
    let all = EXPLANATIONS
        .iter()
        .flat_map(|(_, family)| *family)
        .map(|told| told.code);
    assert_eq!(known, all.collect::<BTreeSet<_>>());
}

#[test]
fn what_is_abbreviated_is_known() {
    for example in examples::all() {
        let told = explain(example.code).unwrap();
        for line in lines(told.wrong).into_iter().chain(lines(told.right)) {
            assert!(!line.contains('…'), "{}: `{line}`", example.code);
        }
    }
}

#[test]
fn packages_around_the_examples_have_no_errors() {
    for (name, edits) in examples::BASE_PACKAGES {
        let said = findings(name, edits, "");
        let errors = said
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        assert_eq!(errors.count(), 0, "{name}: {}", listed(&said));
    }
    let missing = lint(Path::new("no/such/package"), &Limits::default());
    assert!(
        !missing.findings.is_empty(),
        "lint says something of what is wrong"
    );
}
