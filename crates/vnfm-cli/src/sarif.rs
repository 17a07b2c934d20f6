//! Lint findings as SARIF 2.1.0, for code scanners.
//!
//! In a folder each file is an artifact. An archive is one artifact, and a file in it a logical location. An allowed
//! finding is a result that is suppressed in the source.

use crate::commands::{Linted, file_path};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use std::path::Path;
use vnfm_descriptor::{Finding, Severity};
use vnfm_lint::{EXPLANATIONS, Explanation, Report};

/// The JSON Schema of SARIF.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Characters that are percent-encoded in the path of a URI.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`');

/// The SARIF log of one lint run.
pub fn log(all: &[Linted]) -> Value {
    let mut results = Vec::new();
    for (path, report) in all {
        for finding in &report.findings {
            results.push(result(path, report, finding));
        }
        for allowed in &report.allowed {
            let mut result = result(path, report, &allowed.finding);
            result["suppressions"] = json!([{"kind": "inSource", "justification": allowed.reason}]);
            results.push(result);
        }
    }
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "vnfmctl lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": EXPLANATIONS.iter().map(rule).collect::<Value>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(known: &Explanation) -> Value {
    let help = format!(
        "Wrong:\n{}\n\nRight:\n{}\n\nBy: {}",
        known.wrong, known.right, known.clause
    );
    json!({
        "id": known.code,
        "shortDescription": {"text": known.meaning},
        "defaultConfiguration": {"level": level(known.code.starts_with("E-"))},
        "fullDescription": {"text": known.expected},
        "help": {"text": help},
    })
}

fn level(error: bool) -> &'static str {
    if error { "error" } else { "warning" }
}

fn result(path: &Path, report: &Report, finding: &Finding) -> Value {
    let text = match &finding.hint {
        Some(hint) => format!("{} ({hint})", finding.message),
        None => finding.message.clone(),
    };
    json!({
        "ruleId": finding.code,
        "ruleIndex": EXPLANATIONS.iter().position(|code| code.code == finding.code),
        "level": level(finding.severity == Severity::Error),
        "message": {"text": text},
        "locations": [location(path, report, finding)],
    })
}

fn location(path: &Path, report: &Report, finding: &Finding) -> Value {
    let uri = |text: &str| {
        let text = text.replace('\\', "/");
        json!({"uri": utf8_percent_encode(text.trim_start_matches("./"), PATH).to_string()})
    };
    let Some(span) = &finding.span else {
        return json!({"physicalLocation": {"artifactLocation": uri(&path.display().to_string())}});
    };
    let packed = path.is_file() && path.file_name().is_some_and(|name| name != &*span.file);
    let file = if packed {
        path.display().to_string()
    } else {
        file_path(path, &span.file)
    };
    let mut physical = json!({"artifactLocation": uri(&file)});
    if span.line > 0 && !packed {
        physical["region"] = json!({"startLine": span.line, "startColumn": span.column});
        if let Some(line) = report.line(span) {
            physical["region"]["snippet"] = json!({"text": line});
        }
    }
    let mut location = json!({"physicalLocation": physical});
    if packed {
        let name = span.to_string();
        location["logicalLocations"] = json!([{"fullyQualifiedName": name, "kind": "resource"}]);
    }
    location
}
