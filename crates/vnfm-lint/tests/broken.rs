//! Every package under `vnfd-samples/broken` has one mistake and gets exactly the findings in its
//! `expected.txt`. Together they cover every code. `VNFM_BLESS=1` rewrites the expectations.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Finding, Limits, Package, Severity};
use vnfm_lint::{EXPLANATIONS, codes, lint};

/// Codes that other tests cover: those for archives in `hostile.rs`, others in the tests of TOSCA and ASDs.
const TESTED_ELSEWHERE: &[&str] = &[
    codes::ZIP,
    codes::ZIP_PATH,
    codes::ZIP_SYMLINK,
    codes::ZIP_DUPLICATE,
    codes::ZIP_ENCRYPTED,
    codes::ZIP_BOMB,
    codes::IO,
    codes::IMPORT_CYCLE,
    codes::SOL001_VERSION,
    codes::SOL001_OTHER,
    codes::PATTERN,
    codes::NODE_FILTER,
    codes::ASD,
    codes::ASD_UNKNOWN,
    codes::TYPES_INDENT,
    // These need packages with charts: `helm_mapping.rs` of the descriptor.
    codes::HELM_RULE,
    codes::HELM_MAPPING,
    // These need cryptography: the tests of `vnfmctl lint`.
    codes::SIGNATURE_WRONG,
    codes::SIGNATURE_GAP,
];

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/broken");
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(
        folders.len() >= 80,
        "only {} broken packages",
        folders.len()
    );
    folders
}

/// The findings of lint, except for `expected.txt`, which is not part of the package.
fn lint_folder(folder: &Path) -> Vec<Finding> {
    let mut findings = lint(folder, &Limits::default()).findings;
    findings.retain(|finding| {
        finding
            .span
            .as_ref()
            .is_none_or(|span| &*span.file != "expected.txt")
    });
    findings
}

#[test]
fn broken_packages_get_exactly_the_expected_findings() {
    let mut wrong = Vec::new();
    for folder in folders() {
        let lines: Vec<String> = lint_folder(&folder)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(!lines.is_empty(), "{}: nothing is broken", folder.display());
        let found = format!("{}\n", lines.join("\n"));
        let expected = folder.join("expected.txt");
        if std::env::var_os("VNFM_BLESS").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let stated = fs::read_to_string(&expected).unwrap_or_default();
        if stated != found {
            wrong.push(format!(
                "{}\n--- expected\n{stated}--- found\n{found}",
                folder.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lint_and_onboarding_report_the_same_errors() {
    for folder in folders() {
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        let errors: Vec<Finding> = lint_folder(&folder)
            .iter()
            .filter(is_error)
            .cloned()
            .collect();
        let refused: Vec<Finding> = match Package::open(&folder, &Limits::default()) {
            Ok(_) => Vec::new(),
            Err(findings) => findings.errors().cloned().collect(),
        };
        assert_eq!(errors, refused, "{}", folder.display());
    }
}

#[test]
fn every_code_has_a_broken_package() {
    let covered: BTreeSet<&str> = folders()
        .iter()
        .flat_map(|folder| lint_folder(folder))
        .map(|finding| finding.code)
        .collect();
    let missing: Vec<&str> = EXPLANATIONS
        .iter()
        .map(|code| code.code)
        .filter(|code| !covered.contains(code) && !TESTED_ELSEWHERE.contains(code))
        .collect();
    assert!(missing.is_empty(), "no broken package has {missing:?}");
}
