//! Lint reports all findings at once, and comments can allow warnings.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use vnfm_descriptor::{Limits, Severity, Span};
use vnfm_lint::{Report, lint};

const HEAD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3\n\
                    imports: [etsi_nfv_sol001_vnfd_types.yaml]\n";

fn package(files: &[(&str, &str)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    lint(folder.path(), &Limits::default())
}

fn codes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn one_mistake_does_not_hide_those_of_later_stages() {
    let vnfd = format!("{HEAD}topology_template: {{node_templates: {{a: {{type: No.Such}}}}}}\n");
    let report = package(&[
        ("vnfd.yaml", &vnfd),
        (
            "vnfd.mf",
            "metadata:\nSource: missing.yaml\nAlgorithm: SHA-256\nHash: 00\n",
        ),
        (
            "Files/kubernetes/order.yaml",
            "manifests: [{path: missing.yaml, order: 1}]\n",
        ),
        (
            "Files/kubernetes/web.yaml",
            "{apiVersion: v1, kind: Pd, metadata: {name: a}}\n",
        ),
        (
            "Scripts/a.sh",
            "-----BEGIN PRIVATE KEY-----\nc2FtcGxlIG9mIGEga2V5LCBub3Qgb25lYQ==\n",
        ),
    ]);
    let found = codes(&report);
    for code in [
        "E-TYPE-UNKNOWN",
        "E-MANIFEST",
        "E-ORDER-MANIFEST",
        "W-K8S-KIND",
        "W-SECRET-KEY",
        "W-FILE-UNNAMED",
    ] {
        assert!(found.contains(&code), "{code} is missing in {found:?}");
    }
    assert_eq!(report.worst(), Some(Severity::Error));
}

#[test]
fn charts_of_the_order_file_are_read_and_use_its_variables() {
    let order = "variables: {used: 1, unused: 2}\ncharts:\n- {path: Charts/web, order: 1, values: {a: $used}}\n- {path: Charts/tool.tgz, order: 1}\n";
    let report = package(&[
        ("vnfd.yaml", HEAD),
        (
            "Charts/web/Chart.yaml",
            "{apiVersion: v2, name: web, version: 1.0.0}\n",
        ),
        ("Charts/tool.tgz", "no chart"),
        ("Files/kubernetes/order.yaml", order),
    ]);
    let all = report.findings.iter();
    let messages: Vec<String> = all.map(ToString::to_string).collect();
    let about = |part: &str| messages.iter().filter(|one| one.contains(part)).count();
    assert_eq!(about("W-CHART-FILE"), 1, "{messages:#?}");
    assert_eq!(
        about("order.yaml:4:10: warning[W-CHART-FILE]"),
        1,
        "{messages:#?}"
    );
    assert_eq!(about("variable `unused`"), 1, "{messages:#?}");
    assert_eq!(about("variable `used`"), 0, "{messages:#?}");
}

/// A package with an unquoted date; `before` is inserted before its line, `behind` at its end.
fn dated(before: &str, behind: &str) -> Report {
    let head = "# vnfm-lint: allow-file W-MANIFEST-NONE a test\n";
    let vnfd = format!(
        "{head}{HEAD}node_types:\n  V:\n    derived_from: tosca.nodes.nfv.VNF\n    metadata:\n{before}      created: 2026-11-01{behind}\n"
    );
    let mut report = package(&[("vnfd.yaml", &vnfd)]);
    report
        .findings
        .retain(|finding| !finding.code.starts_with("E-VNF"));
    report
}

#[test]
fn a_comment_allows_a_finding_on_its_own_line_or_the_next() {
    assert_eq!(codes(&dated("", "")), ["W-YAML-DATE"]);
    for (before, behind) in [
        ("", " # vnfm-lint: allow W-YAML-DATE our tools read 1.2"),
        (
            "      # vnfm-lint: allow W-YAML-DATE our tools read 1.2\n",
            "",
        ),
        (
            "      # vnfm-lint: allow W-YAML-DATE our tools read 1.2\n      # and so do yours\n\n",
            "",
        ),
    ] {
        let report = dated(before, behind);
        assert_eq!(codes(&report), [""; 0], "{before}{behind}");
        let allowed = report
            .allowed
            .iter()
            .find(|allowed| allowed.finding.code == "W-YAML-DATE");
        assert_eq!(allowed.unwrap().reason, "our tools read 1.2");
    }
}

#[test]
fn a_comment_allows_only_its_code_and_line() {
    for (before, behind, expected) in [
        (
            "",
            " # vnfm-lint: allow W-YAML-DATE",
            ["W-YAML-DATE", "W-ALLOW-REASON"],
        ),
        (
            "",
            " # vnfm-lint: allow W-YAML-BOM a reason",
            ["W-YAML-DATE", "W-ALLOW-UNUSED"],
        ),
        (
            "",
            " # vnfm-lint: ignore W-YAML-DATE a reason",
            ["W-YAML-DATE", "W-ALLOW-CODE"],
        ),
        (
            "      # vnfm-lint: allow W-YAML-DATE a reason\n      other: 1\n",
            "",
            ["W-ALLOW-UNUSED", "W-YAML-DATE"],
        ),
    ] {
        assert_eq!(codes(&dated(before, behind)), expected, "{before}{behind}");
    }
}

#[test]
fn a_comment_may_name_several_codes() {
    let both = " # vnfm-lint: allow W-YAML-DATE,W-YAML-BOM a reason";
    assert_eq!(
        codes(&dated("", both)),
        ["W-ALLOW-UNUSED"],
        "the second code matches nothing"
    );
}

#[test]
fn a_line_with_a_secret_is_not_returned() {
    let vnfd = format!("{HEAD}dsl_definitions:\n  a: 1.10\n  b: {{password: planted, v: 1.10}}\n");
    let report = package(&[("vnfd.yaml", &vnfd)]);
    let line = |line| {
        report.line(&Span {
            file: "vnfd.yaml".into(),
            line,
            column: 1,
        })
    };
    assert_eq!(line(4), Some("  a: 1.10"));
    assert_eq!(line(5), None);
}

#[test]
fn a_damaged_or_missing_package_is_a_single_finding() {
    let report = lint(Path::new("no/such/package.csar"), &Limits::default());
    assert_eq!(codes(&report), ["E-IO"]);
    let report = lint(Path::new("no/such/file.yaml"), &Limits::default());
    assert_eq!(codes(&report), ["E-IO"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csar");
    std::fs::write(&file, "no archive").unwrap();
    assert_eq!(codes(&lint(&file, &Limits::default())), ["E-ZIP"]);
}
