//! What lint returns: the findings, those that comments allow, and the lines of both.

use serde::Serialize;
use std::collections::BTreeMap;
use vnfm_descriptor::{Finding, Severity, Span};

/// The findings of a package or file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Sorted by file and position.
    pub findings: Vec<Finding>,
    /// Findings that comments in the package allow.
    pub allowed: Vec<Allowed>,
    /// The lines of each file with a finding.
    pub(crate) sources: BTreeMap<String, Vec<String>>,
}

/// A finding that a comment allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Allowed {
    /// A warning; errors cannot be allowed.
    pub finding: Finding,
    /// The reason that the comment gives.
    pub reason: String,
}

impl Report {
    /// The highest severity among the findings; `None` if there are none.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// The source line of a finding; `None` if the line contains a secret.
    pub fn line(&self, span: &Span) -> Option<&str> {
        let secret = self
            .findings
            .iter()
            .chain(self.allowed.iter().map(|allowed| &allowed.finding));
        let mut secret = secret.filter(|finding| finding.code.starts_with("W-SECRET"));
        let here = |finding: &Finding| {
            let position = finding.span.as_ref().map(|span| (&span.file, span.line));
            position == Some((&span.file, span.line))
        };
        if secret.any(here) {
            return None;
        }
        self.sources
            .get(&*span.file)?
            .get(span.line.checked_sub(1)?)
            .map(String::as_str)
    }
}

impl From<Vec<Finding>> for Report {
    fn from(findings: Vec<Finding>) -> Self {
        Self {
            findings,
            ..Self::default()
        }
    }
}
