//! `vnfmctl lint …`: what is wrong or doubtful in packages, without a server.

use super::vendor::{self, Local};
use crate::args::{Format, Lint};
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, print, print_rendered, tell};
use crate::{excerpt, sarif};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vnfm_descriptor::{CODES, EXPLANATIONS, Explanation, Finding, Limits, Report, Severity};

/// A package with what lint says of it.
pub type Linted = (PathBuf, Report);

pub(super) fn run(output: Output, wanted: &Lint) -> Outcome<()> {
    if let Some(code) = &wanted.explain {
        return explain(output, code);
    }
    let all: Vec<Linted> = wanted
        .paths
        .iter()
        .map(|path| linted(path))
        .collect::<Outcome<_>>()?;
    match output.0 {
        Format::Table => print_text(&all),
        Format::Sarif => {
            print(&serde_json::to_string_pretty(&sarif::log(&all)).map_err(local)?);
        }
        Format::Json | Format::Yaml => {
            let reports: Vec<Value> = all.iter().map(shown).collect();
            output.value(&Value::Array(reports))?;
        }
    }
    ended(&all)
}

/// What is said of one package, its signatures too.
fn linted(path: &Path) -> Outcome<Linted> {
    let package = Local::at(path, None)?;
    let mut report = vnfm_descriptor::lint(package.path(), &Limits::default());
    vendor::linted(&package, &mut report.findings);
    Ok((path.to_owned(), report))
}

fn print_text(all: &[Linted]) {
    for (path, report) in all {
        let text = excerpt::text(path, report);
        if !text.is_empty() {
            print_rendered(text.trim_end());
        }
        if !report.allowed.is_empty() {
            let many = report.allowed.len();
            tell(&format!(
                "{}: {many} allowed by comments; -o json shows them",
                path.display()
            ));
        }
    }
}

/// How it ends: by the gravest finding.
fn ended(all: &[Linted]) -> Outcome<()> {
    let count = |severity| {
        let findings = all.iter().flat_map(|(_, report)| &report.findings);
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let many = |count: usize, what: &str| {
        let ending = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {what}{ending}"))
    };
    let parts: Vec<String> = [many(errors, "error"), many(warnings, "warning")]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    Err(Failure::Found {
        what: format!("lint has {}", parts.join(" and ")),
        errors: errors > 0,
    })
}

fn shown((path, report): &Linted) -> Value {
    let one = |finding: &Finding| {
        let mut value = json!(finding);
        if let Some(members) = value.as_object_mut() {
            let span = members.remove("span").unwrap_or_default();
            for key in ["file", "line", "column"] {
                members.insert(key.to_owned(), span[key].clone());
            }
            let explanation = vnfm_descriptor::explain(finding.code);
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
    let all = EXPLANATIONS.iter().flat_map(|(_, family)| *family);
    let chosen: Vec<&Explanation> = all
        .filter(|known| code.eq_ignore_ascii_case("all") || known.code.eq_ignore_ascii_case(code))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::Hinted {
            what: format!("`{code}` is no code of a finding"),
            hint: "`vnfmctl lint --explain all` shows every code".to_owned(),
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
        expected,
        wrong,
        right,
        clause,
        ..
    } = explanation;
    let meaning = CODES
        .iter()
        .find(|known| known.code == *code)
        .map_or("", |known| known.meaning);
    let grave = if code.starts_with("E-") {
        "An error: onboarding refuses the package."
    } else {
        "A warning: the package is taken. `# vnfm-lint: allow CODE reason` allows it on a line."
    };
    let indented = |text: &str| text.replace('\n', "\n    ");
    format!(
        "{code}\n  {meaning}\n  {grave}\n\n  Expected: {expected}\n\n  Wrong:\n    {}\n\n  Right:\n    {}\n\n  By: {clause}\n",
        indented(wrong),
        indented(right),
    )
}

/// Where a finding is, as people name it: the package, and the file in it.
pub fn place(path: &Path, file: &str) -> String {
    let alone = path.is_file() && path.file_name().is_some_and(|name| name == file);
    if alone {
        path.display().to_string()
    } else {
        path.join(file).display().to_string()
    }
}
