//! `vnfmctl lint …`: checks packages for errors and warnings, without a server.

use super::package_files::{self, Local};
use crate::args::{Format, Lint};
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, print, print_rendered, tell};
use crate::{excerpt, sarif};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Finding, Limits, Severity};
use vnfm_lint::{EXPLANATIONS, Explanation, Report};

/// A package's path and its lint report.
pub type Linted = (PathBuf, Report);

pub(super) fn run(output: Output, args: &Lint) -> Outcome<()> {
    if let Some(code) = &args.explain {
        return explain(output, code);
    }
    let all: Vec<Linted> = args
        .paths
        .iter()
        .map(|path| check(path))
        .collect::<Outcome<_>>()?;
    match output.0 {
        Format::Table => print_text(&all),
        Format::Sarif => {
            print(&serde_json::to_string_pretty(&sarif::log(&all)).map_err(local)?);
        }
        Format::Json | Format::Yaml => {
            let reports: Vec<Value> = all.iter().map(report_json).collect();
            output.value(&Value::Array(reports))?;
        }
    }
    verdict(&all)
}

/// Checks one package, including its signatures.
fn check(path: &Path) -> Outcome<Linted> {
    let package = Local::at(path, None)?;
    let mut report = vnfm_lint::lint(package.path(), &Limits::default());
    package_files::check_signatures(&package, &mut report.findings);
    Ok((path.to_owned(), report))
}

fn print_text(all: &[Linted]) {
    for (path, report) in all {
        let text = excerpt::text(path, report);
        if !text.is_empty() {
            print_rendered(text.trim_end());
        }
        if !report.allowed.is_empty() {
            let count = report.allowed.len();
            let plural = if count == 1 { "" } else { "s" };
            tell(&format!(
                "{}: {count} finding{plural} suppressed by comments (see -o json)",
                path.display()
            ));
        }
    }
}

/// Fails if there are findings; the most severe one decides.
fn verdict(all: &[Linted]) -> Outcome<()> {
    let count = |severity| {
        let findings = all.iter().flat_map(|(_, report)| &report.findings);
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let counted = |count: usize, noun: &str| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {noun}{plural}"))
    };
    let parts: Vec<String> = [counted(errors, "error"), counted(warnings, "warning")]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    Err(Failure::Found {
        message: format!("lint found {}", parts.join(" and ")),
        errors: errors > 0,
    })
}

fn report_json((path, report): &Linted) -> Value {
    let one = |finding: &Finding| {
        let mut value = json!(finding);
        if let Some(members) = value.as_object_mut() {
            let span = members.remove("span").unwrap_or_default();
            for key in ["file", "line", "column"] {
                members.insert(key.to_owned(), span[key].clone());
            }
            let explanation = vnfm_lint::explain(finding.code);
            members.insert(
                "expected".to_owned(),
                json!(explanation.map(|known| known.expected)),
            );
            members.insert(
                "clause".to_owned(),
                json!(explanation.map(|known| known.clause)),
            );
            let line = finding.span.as_ref().and_then(|span| report.line(span));
            members.insert("source".to_owned(), json!(line));
        }
        value
    };
    let allowed: Vec<Value> = report
        .allowed
        .iter()
        .map(|allowed| json!({"finding": one(&allowed.finding), "reason": allowed.reason}))
        .collect();
    let findings: Vec<Value> = report.findings.iter().map(one).collect();
    json!({"path": path.display().to_string(), "findings": findings, "allowed": allowed})
}

fn explain(output: Output, code: &str) -> Outcome<()> {
    let chosen: Vec<&Explanation> = EXPLANATIONS
        .iter()
        .filter(|known| code.eq_ignore_ascii_case("all") || known.code.eq_ignore_ascii_case(code))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::Hinted {
            message: format!("unknown lint code `{code}`"),
            hint: "`vnfmctl lint --explain all` lists every code".to_owned(),
        });
    }
    if output.0 != Format::Table {
        return output.value(&json!(chosen));
    }
    for explanation in chosen {
        print(&explained(explanation));
    }
    Ok(())
}

fn explained(explanation: &Explanation) -> String {
    let Explanation {
        code,
        meaning,
        expected,
        wrong,
        right,
        clause,
        ..
    } = explanation;
    let severity = if code.starts_with("E-") {
        "An error: onboarding rejects the package."
    } else {
        "A warning: the package is accepted. `# vnfm-lint: allow CODE reason` suppresses it on a line."
    };
    let indented = |text: &str| text.replace('\n', "\n    ");
    format!(
        "{code}\n  {meaning}\n  {severity}\n\n  Expected: {expected}\n\n  Wrong:\n    {}\n\n  Right:\n    {}\n\n  By: {clause}\n",
        indented(wrong),
        indented(right),
    )
}

/// The path of a finding's file: the package's path joined with the file's, or the path itself for a single file.
pub fn file_path(path: &Path, file: &str) -> String {
    let is_single_file = path.is_file() && path.file_name().is_some_and(|name| name == file);
    if is_single_file {
        path.display().to_string()
    } else {
        path.join(file).display().to_string()
    }
}
