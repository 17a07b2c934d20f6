//! Findings: what is wrong or doubtful in a package, its position, and how to fix it.
//!
//! ```text
//! Definitions/vnfd.yaml:41:5: error[E-NODE-UNKNOWN]: no node template `workerNod` (hint: did you mean `workerNode`?)
//! ```
//! All findings of a package are collected before it is refused; errors refuse it, warnings do
//! not. Every code of this crate is in `codes.rs`; `vnfm-lint` explains them.
//! Findings that merely follow from another one are dropped (`consequences.rs`).

use crate::codes;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A position in a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Path in the package; `builtin:…` for this crate's own types.
    pub file: Arc<str>,
    /// Line, from 1; 0 means the entire file.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// The entire file, without a line.
    pub fn file(path: &str) -> Self {
        Span {
            file: Arc::from(path),
            line: 0,
            column: 0,
        }
    }

    /// Column 1 of a line, for files that are not YAML.
    pub fn line(path: &str, line: usize) -> Self {
        Span {
            file: Arc::from(path),
            line,
            column: 1,
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// Whether a finding makes the package unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The package cannot be onboarded until this is fixed.
    Error,
    /// The package is accepted; its vendor should check this.
    Warning,
}

/// One error or warning about a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its code, such as `E-NODE-UNKNOWN`.
    pub code: &'static str,
    /// Errors refuse the package, warnings do not.
    pub severity: Severity,
    /// Its position; absent if it concerns the entire package.
    pub span: Option<Span>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// How to fix it, if that is known.
    pub hint: Option<String>,
    /// What it is about; decides whether it is a consequence of another finding.
    #[serde(skip)]
    pub subject: Box<Subject>,
}

/// What a finding is about, which tells the findings that follow from another one (`consequences.rs`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subject {
    /// The node template, aspect, input or file; for a property of a template, with its path: `web.vdu_profile`.
    pub name: Option<String>,
    /// The property of `name` that is missing.
    pub member: Option<String>,
    /// The TOSCA function that is called.
    pub function: Option<String>,
    /// The known name that the hint suggests: "did you mean …?"
    pub suggestion: Option<String>,
}

impl Finding {
    /// A finding with a code; the code's first letter (`E` or `W`) gives the severity.
    pub fn new(
        code: &'static str,
        span: impl Into<Option<Span>>,
        message: impl Into<String>,
    ) -> Self {
        let severity = if code.starts_with('W') {
            Severity::Warning
        } else {
            Severity::Error
        };
        Finding {
            code,
            severity,
            span: span.into(),
            message: message.into(),
            hint: None,
            subject: Box::default(),
        }
    }

    /// The finding for a file or folder that the system does not let us read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let message = format!("cannot read `{}`: {error}", path.display());
        Self::new(codes::IO, None, message)
    }

    /// Sets what it is about.
    #[must_use]
    pub fn about(mut self, name: impl Into<String>) -> Self {
        self.subject.name = Some(name.into());
        self
    }

    /// Sets the property that is missing in what it is about.
    #[must_use]
    pub fn member(mut self, member: impl Into<String>) -> Self {
        self.subject.member = Some(member.into());
        self
    }

    /// Sets the TOSCA function whose call it is about.
    #[must_use]
    pub fn calling(mut self, function: impl Into<String>) -> Self {
        self.subject.function = Some(function.into());
        self
    }

    /// Sets the hint on how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint "did you mean …?" if a known name is similar to `name`.
    #[must_use]
    pub fn did_you_mean<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match crate::suggest::nearest(name, known) {
            Some(near) => self.suggest(near),
            None => self,
        }
    }

    /// Sets the hint "did you mean …?" for a known name.
    #[must_use]
    pub fn suggest(mut self, name: &str) -> Self {
        self.subject.suggestion = Some(name.to_owned());
        self.hint(format!("did you mean `{name}`?"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            write!(f, "{span}: ")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// All findings of a package that was refused, errors and warnings, in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// A list of one finding.
    pub fn one(finding: Finding) -> Self {
        Findings(vec![finding])
    }

    /// Errors and warnings, in the order of the files.
    pub fn as_slice(&self) -> &[Finding] {
        &self.0
    }

    /// Only the findings that refuse the package.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.0
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
    }
}

impl From<Vec<Finding>> for Findings {
    fn from(mut findings: Vec<Finding>) -> Self {
        sort(&mut findings);
        Findings(findings)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// Sorts findings by position and drops duplicates, since a file may be read twice.
pub fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.span, a.severity, a.code, &a.message).cmp(&(&b.span, b.severity, b.code, &b.message))
    });
    findings.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_displayed_like_a_compiler_error() {
        let span = Span {
            file: Arc::from("Definitions/vnfd.yaml"),
            line: 41,
            column: 5,
        };
        let finding = Finding::new(codes::NODE_UNKNOWN, span, "no node template `workerNod`")
            .did_you_mean("workerNod", ["workerNode", "masterNode"]);
        assert_eq!(
            finding.to_string(),
            "Definitions/vnfd.yaml:41:5: error[E-NODE-UNKNOWN]: no node template `workerNod` (hint: did you mean `workerNode`?)"
        );
    }
}
