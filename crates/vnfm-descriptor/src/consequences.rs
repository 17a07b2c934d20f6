//! Drops findings that merely follow from another one: fixing the cause fixes them, too.
//!
//! ```text
//! imports: [type.yaml]           E-IMPORT        the cause
//! type: samples.nodes.Small      E-TYPE-UNKNOWN  its consequence: the type would be in that file
//! ```
//! A consequence is dropped only if its cause is reported, so a refused package stays refused.

use crate::codes;
use crate::finding::Finding;
use std::collections::BTreeSet;

/// Codes of causes, and codes of findings that follow from them if the relation holds.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    causes: &'static [&'static str],
    relation: Relation,
    consequences: &'static [&'static str],
}

impl Rule {
    /// A row of a table of rules.
    pub const fn new(
        causes: &'static [&'static str],
        relation: Relation,
        consequences: &'static [&'static str],
    ) -> Self {
        Self {
            causes,
            relation,
            consequences,
        }
    }
}

/// What the [subjects](crate::finding::Subject) of cause and consequence have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relation {
    /// Nothing: the codes suffice. A name that is similar to a known one is a typo, though, and never the
    /// consequence of a missing file.
    Any,
    /// Both are about the same name.
    SameName,
    /// The same node template: the name up to its first dot, `port` for `port.virtual_binding`.
    SameTemplate,
    /// The hint of the cause suggests what the consequence is about.
    Suggested,
    /// The hint of the cause suggests the member that the consequence misses in the same name.
    SuggestedMember,
    /// Both have the same position in the file.
    SamePosition,
    /// Calls of the same function on the same line.
    SameCall,
}

/// Cannot be determined if a file with types is missing.
const NEED_TYPES: &[&str] = &[codes::VNF_MISSING, codes::VNF_PROPERTY, codes::SUBSTITUTION];
const UNREADABLE: &[&str] = &[codes::IMPORT, codes::YAML, codes::YAML_BOMB];

const RULES: &[Rule] = &[
    Rule::new(UNREADABLE, Relation::Any, NEED_TYPES),
    Rule::new(
        UNREADABLE,
        Relation::Any,
        &[
            codes::TYPE_UNKNOWN,
            codes::INTERFACE_UNKNOWN,
            codes::OPERATION_UNKNOWN,
        ],
    ),
    Rule::new(
        &[codes::TYPE_UNKNOWN, codes::TYPE_CYCLE],
        Relation::Any,
        NEED_TYPES,
    ),
    Rule::new(
        &[codes::TYPE_UNKNOWN],
        Relation::Any,
        &[codes::HOT_PARAMETER, codes::POLICY],
    ),
    Rule::new(
        &[codes::PROPERTY_UNKNOWN],
        Relation::SuggestedMember,
        &[codes::PROPERTY_MISSING],
    ),
    Rule::new(
        &[codes::YAML_11],
        Relation::SamePosition,
        &[codes::YAML_NUMBER],
    ),
    Rule::new(
        &[codes::INPUT_UNKNOWN],
        Relation::SamePosition,
        &[codes::FUNCTION],
    ),
    Rule::new(
        &[codes::NODE_UNKNOWN],
        Relation::SameCall,
        &[codes::FUNCTION],
    ),
    Rule::new(
        &[codes::META, codes::ENTRY],
        Relation::Any,
        &[codes::MANIFEST_NONE],
    ),
    Rule::new(
        &[codes::HOT_PARAMETER],
        Relation::Suggested,
        &[codes::HOT_UNMAPPED],
    ),
];

/// Removes the consequences of other findings, by the rules of this crate and `more`.
pub(crate) fn drop_consequences(findings: &mut Vec<Finding>, more: &[Rule]) {
    // Everything follows from not being a VNF package at all.
    if findings
        .iter()
        .any(|finding| finding.code == codes::PACKAGE_KIND)
    {
        findings.retain(|finding| finding.code == codes::PACKAGE_KIND);
    }
    let mut dropped = BTreeSet::new();
    for rule in RULES.iter().chain(more) {
        let causes: Vec<&Finding> = findings
            .iter()
            .filter(|finding| rule.causes.contains(&finding.code))
            .collect();
        for (index, finding) in findings.iter().enumerate() {
            let follows = |cause: &&Finding| is_consequence(finding, cause, rule.relation);
            if rule.consequences.contains(&finding.code) && causes.iter().any(follows) {
                dropped.insert(index);
            }
        }
    }
    let mut index = 0;
    findings.retain(|_| {
        index += 1;
        !dropped.contains(&(index - 1))
    });
    // Two rules report such a number; the one that knows its declaration is more precise and comes first.
    findings.dedup_by(|second, first| {
        second.code == codes::YAML_NUMBER
            && (second.code, &second.span) == (first.code, &first.span)
    });
}

fn is_consequence(consequence: &Finding, cause: &Finding, relation: Relation) -> bool {
    if std::ptr::eq(cause, consequence) {
        return false;
    }
    let (from, to) = (&cause.subject, &consequence.subject);
    match relation {
        Relation::Any => consequence.code != codes::TYPE_UNKNOWN || to.suggestion.is_none(),
        Relation::SameName => both(from.name.as_deref(), to.name.as_deref()),
        Relation::SameTemplate => {
            both(template(from.name.as_deref()), template(to.name.as_deref()))
        }
        Relation::Suggested => both(from.suggestion.as_deref(), to.name.as_deref()),
        Relation::SuggestedMember => {
            both(from.name.as_deref(), to.name.as_deref())
                && both(from.suggestion.as_deref(), to.member.as_deref())
        }
        Relation::SamePosition => cause.span == consequence.span,
        Relation::SameCall => {
            both(from.function.as_deref(), to.function.as_deref())
                && line(cause) == line(consequence)
        }
    }
}

/// The node template of a name such as `web.vdu_profile`.
fn template(name: Option<&str>) -> Option<&str> {
    name?.split('.').next()
}

/// Whether both are there, and the same.
fn both(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_some() && one == other
}

fn line(finding: &Finding) -> Option<(&str, usize)> {
    finding.span.as_ref().map(|span| (&*span.file, span.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &'static str) -> Finding {
        Finding::new(code, None, code)
    }

    fn remaining(findings: &[&Finding]) -> Vec<&'static str> {
        let mut all: Vec<Finding> = findings.iter().copied().cloned().collect();
        drop_consequences(&mut all, &[]);
        all.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn consequences_are_dropped_and_other_findings_stay() {
        let unknown = finding(codes::TYPE_UNKNOWN).hint("import the file");
        let typo = finding(codes::TYPE_UNKNOWN).suggest("B");
        let import = finding(codes::IMPORT);
        assert_eq!(
            remaining(&[&import, &unknown, &typo]),
            [codes::IMPORT, codes::TYPE_UNKNOWN]
        );
        assert_eq!(remaining(&[&unknown]), [codes::TYPE_UNKNOWN]);
        let misspelt = finding(codes::PROPERTY_UNKNOWN).about("n").suggest("name");
        let missing = |name| finding(codes::PROPERTY_MISSING).about(name).member("name");
        assert_eq!(
            remaining(&[&misspelt, &missing("n"), &missing("m")]),
            [codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING]
        );
    }

    /// What a message says is for people: only the subject decides.
    #[test]
    fn messages_do_not_decide() {
        let misspelt = Finding::new(codes::PROPERTY_UNKNOWN, None, "`n` has no property `nam`");
        let misspelt = misspelt.hint("did you mean `name`?");
        let missing = Finding::new(codes::PROPERTY_MISSING, None, "`n` lacks `name`");
        assert_eq!(remaining(&[&misspelt, &missing]).len(), 2);
        let nothing = [
            &finding(codes::HOT_PARAMETER),
            &finding(codes::HOT_UNMAPPED),
        ];
        assert_eq!(
            remaining(&nothing).len(),
            2,
            "no subject is no common subject"
        );
    }
}
