//! The examples of `--explain` are correct: lint reports the code for the wrong example, but not for the fixed
//! one, which has no errors either.
//!
//! An example is a few lines; `explained/examples` defines where in a package they are inserted, at `§`. Remarks
//! (in parentheses, after three spaces) are removed first, and abbreviations are expanded (`ABBREVIATIONS`).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "explained/examples/mod.rs"]
mod examples;
#[path = "explained/packages.rs"]
mod packages;

use examples::UNTESTED;
use packages::{TEST, TEST_2, TEST_3};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vnfm_descriptor::{Finding, Limits, Severity};
use vnfm_lint::{EXPLANATIONS, Explanation, explain, lint};

/// An edit of a package: the file, the text to replace (if empty, the entire file), the replacement.
type Edit = (&'static str, &'static str, &'static str);

/// The edits that insert the examples of a code.
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

/// In place of a file: the example lists file names, and each of these files gets the replacement.
const NAMED: &str = "*";

/// Prefix of a text that is the path of a file in the samples, to be copied.
const SAMPLE: char = '@';
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");

/// Abbreviations that the explanations may use.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("9f86d0…", TEST),
    ("60303a…", TEST_2),
    ("4e0740…", TEST_3),
    ("ghp_…", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"),
    ("EF BB BF 74 6F 73 63 61 …", "\u{feff}tosca"),
    ("74 6F 73 63 61 …", "tosca"),
    ("\\r\\n", "\r\n"),
    ("\\n", "\n"),
];

/// The lines of an example, without remarks and abbreviations.
fn lines(example: &str) -> Vec<String> {
    let without_remarks = example.lines().map(|line| {
        let remark = line
            .split_once("   (")
            .filter(|(_, remark)| remark.ends_with(')'));
        remark.map_or(line, |(text, _)| text)
    });
    let is_content = |line: &&str| !(line.starts_with('(') && line.ends_with(')'));
    let expanded = without_remarks.filter(is_content).map(|line| {
        ABBREVIATIONS
            .iter()
            .fold(line.to_owned(), |line, (short, long)| {
                line.replace(short, long)
            })
    });
    expanded.collect()
}

/// Inserts the lines at `§`, all with the indentation of the first.
fn insert(text: &str, lines: &[String]) -> String {
    let with = |line: &str| {
        let Some((before, after)) = line.split_once('§') else {
            return line.to_owned();
        };
        let indent = " ".repeat(before.chars().count());
        format!("{before}{}{after}", lines.join(&format!("\n{indent}")))
    };
    text.split('\n').map(with).collect::<Vec<_>>().join("\n")
}

/// The findings of the package that results from the edits.
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
            None => std::fs::write(path, insert(text, &lines)),
        };
        written.unwrap();
    }
    lint(folder.path(), &Limits::default()).findings
}

/// Checks the examples of an explanation; returns what is wrong.
fn errors_in(example: &Example, explanation: &Explanation) -> Vec<String> {
    let Explanation {
        code, wrong, right, ..
    } = explanation;
    let has_code = |finding: &Finding| finding.code == *code;
    let before = findings(code, example.wrong, wrong);
    let fixed = findings(code, example.right, right);
    let mut errors = Vec::new();
    if !before.iter().any(has_code) {
        errors.push(format!(
            "{code}: the wrong example gets {}",
            listed(&before)
        ));
    }
    if fixed
        .iter()
        .any(|finding| has_code(finding) || finding.severity == Severity::Error)
    {
        errors.push(format!("{code}: the fixed example gets {}", listed(&fixed)));
    }
    errors
}

fn listed(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |all, finding| {
        format!("{all}\n    {finding}")
    })
}

#[test]
fn examples_match_their_explanations() {
    let errors: Vec<_> = examples::all()
        .flat_map(|example| {
            let explanation =
                explain(example.code).unwrap_or_else(|| panic!("unknown code `{}`", example.code));
            errors_in(example, explanation)
        })
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn every_example_is_tested_or_listed_with_the_reason() {
    let tested: Vec<_> = examples::all().map(|example| example.code).collect();
    let named = UNTESTED.iter().map(|(code, _)| *code);
    let known: BTreeSet<_> = tested.iter().copied().chain(named).collect();
    assert_eq!(
        known.len(),
        tested.len() + UNTESTED.len(),
        "a code is listed twice"
    );
    let all = EXPLANATIONS.iter().map(|explanation| explanation.code);
    assert_eq!(known, all.collect::<BTreeSet<_>>());
}

#[test]
fn every_abbreviation_is_expanded() {
    for example in examples::all() {
        let explanation = explain(example.code).unwrap();
        for line in lines(explanation.wrong)
            .into_iter()
            .chain(lines(explanation.right))
        {
            assert!(!line.contains('…'), "{}: `{line}`", example.code);
        }
    }
}

#[test]
fn base_packages_have_no_errors() {
    for (name, edits) in examples::BASE_PACKAGES {
        let found = findings(name, edits, "");
        let errors = found
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        assert_eq!(errors.count(), 0, "{name}: {}", listed(&found));
    }
    let missing = lint(Path::new("no/such/package"), &Limits::default());
    assert!(
        !missing.findings.is_empty(),
        "lint reports a missing package"
    );
}
