//! Collects findings while a package is read.

use crate::consequences::{Rule, drop_consequences};
use crate::finding::{Finding, Findings, Severity, sort};

/// Collects the findings of the parsers.
#[derive(Debug, Default)]
pub struct Sink {
    findings: Vec<Finding>,
}

impl Sink {
    /// Adds a finding to those collected so far.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Takes over all findings of `other`.
    pub fn append(&mut self, other: Sink) {
        self.findings.extend(other.findings);
    }

    /// Whether there is an error among the findings.
    pub(crate) fn failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether there is a finding with one of these codes.
    pub fn has(&self, codes: &[&str]) -> bool {
        self.findings
            .iter()
            .any(|finding| codes.contains(&finding.code))
    }

    /// All findings in the order of the files, without those that follow from another one.
    pub fn all(self) -> Vec<Finding> {
        self.all_with(&[])
    }

    /// As [`Sink::all`], with more rules on what follows from what.
    pub fn all_with(self, more: &[Rule]) -> Vec<Finding> {
        let mut findings = self.findings;
        sort(&mut findings);
        drop_consequences(&mut findings, more);
        findings
    }

    /// The warnings, or all findings if there is an error among them.
    pub(crate) fn finish(self) -> Result<Vec<Finding>, Findings> {
        let failed = self.failed();
        let findings = self.all();
        if failed {
            Err(Findings::from(findings))
        } else {
            Ok(findings)
        }
    }
}
