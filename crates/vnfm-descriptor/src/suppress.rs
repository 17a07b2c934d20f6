//! Drops findings that merely follow from another one: fixing the cause fixes them, too.
//!
//! ```text
//! imports: [type.yaml]           E-IMPORT        the cause
//! type: samples.nodes.Small      E-TYPE-UNKNOWN  its consequence: the type would be in that file
//! ```
//! A consequence is dropped only if its cause is reported, so a refused package stays refused.

use crate::finding::{Finding, codes};
use std::collections::BTreeSet;

/// What must match for a finding to be a consequence of another one. A finding's subject is the first name in
/// backticks in its message.
#[derive(Clone, Copy)]
enum Relation {
    /// Only the codes, on both sides.
    Any,
    /// Both have the same subject, up to the first dot.
    SameSubject,
    /// The cause's hint, "did you mean `link`?", names the consequence's subject.
    HintedSubject,
    /// Both have the same position.
    SamePosition,
    /// Both concern a call of the same function on the same line.
    SameCall,
    /// Both have the same subject, and the cause's hint names the consequence's last name.
    HintedMember,
}

/// Cannot be determined if a file with types is missing.
const NEED_TYPES: &[&str] = &[
    codes::VNF_MISSING,
    codes::VNF_PROPERTY,
    codes::VNF_REQUIRED,
    codes::SUBSTITUTION,
];

/// The codes of causes, the relation, the codes of consequences.
const RULES: &[(&[&str], Relation, &[&str])] = &[
    (
        &[codes::IMPORT, codes::YAML, codes::YAML_BOMB],
        Relation::Any,
        NEED_TYPES,
    ),
    (
        &[codes::IMPORT, codes::YAML, codes::YAML_BOMB],
        Relation::Any,
        &[
            codes::TYPE_UNKNOWN,
            codes::INTERFACE_UNKNOWN,
            codes::OPERATION_UNKNOWN,
        ],
    ),
    (
        &[codes::TYPE_UNKNOWN, codes::TYPE_CYCLE],
        Relation::Any,
        NEED_TYPES,
    ),
    (
        &[codes::TYPE_UNKNOWN],
        Relation::Any,
        &[
            codes::HOT_PARAMETER,
            codes::WORKLOAD,
            codes::VDU_INITIAL,
            codes::POLICY,
        ],
    ),
    (&[codes::TYPE_UNKNOWN], Relation::Any, UNUSED),
    (
        &[codes::PROPERTY_UNKNOWN],
        Relation::HintedMember,
        &[codes::PROPERTY_MISSING],
    ),
    (
        &[codes::REQUIREMENT_UNKNOWN],
        Relation::SameSubject,
        &[codes::OCCURRENCES, codes::CP_BINDING, codes::CP_LINK],
    ),
    (
        &[
            codes::REQUIREMENT_UNKNOWN,
            codes::NODE_UNKNOWN,
            codes::NODE_KIND,
        ],
        Relation::Any,
        UNUSED,
    ),
    (
        &[codes::NODE_UNKNOWN],
        Relation::HintedSubject,
        &[codes::ASPECT_DELTAS, codes::VDU_INITIAL],
    ),
    (
        &[codes::POLICY],
        Relation::HintedSubject,
        &[codes::ASPECT_DELTAS, codes::LEVEL_DEFAULT],
    ),
    (
        &[codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING],
        Relation::SameSubject,
        &[codes::VDU_INITIAL],
    ),
    (
        &[codes::ASPECT_STEPS],
        Relation::SameSubject,
        &[codes::DELTA_UNUSED],
    ),
    (&[codes::VNF_MISSING], Relation::Any, &[codes::CP_LINK]),
    (
        &[codes::MANIFEST],
        Relation::SameSubject,
        &[codes::MANIFEST_HASHES],
    ),
    (
        &[codes::YAML_11],
        Relation::SamePosition,
        &[codes::YAML_NUMBER],
    ),
    (
        &[codes::PROPERTY_MISSING],
        Relation::SameSubject,
        &[codes::ASPECT_DELTAS, codes::ASPECT_STEPS],
    ),
    (
        &[codes::INPUT_UNKNOWN],
        Relation::HintedSubject,
        &[codes::INPUT_UNUSED],
    ),
    (
        &[codes::INPUT_UNKNOWN],
        Relation::SamePosition,
        &[codes::FUNCTION],
    ),
    (
        &[codes::NODE_UNKNOWN],
        Relation::SameCall,
        &[codes::FUNCTION, codes::REFERENCE],
    ),
    (&[codes::FUNCTION], Relation::SameCall, &[codes::REFERENCE]),
    (
        &[codes::IMPLEMENTATION_UNKNOWN],
        Relation::HintedSubject,
        &[codes::ARTIFACT_UNUSED],
    ),
    (
        &[codes::ORDER_MANIFEST],
        Relation::HintedSubject,
        &[codes::MANIFEST_UNUSED],
    ),
    (
        &[codes::ORDER_MANIFEST, codes::ORDER_FILE],
        Relation::Any,
        &[codes::VARIABLE_UNUSED],
    ),
    (
        &[
            codes::ORDER_MANIFEST,
            codes::ORDER_FILE,
            codes::MANIFEST_YAML,
            codes::K8S_KIND,
        ],
        Relation::Any,
        &[codes::WORKLOAD],
    ),
    (
        &[codes::MANIFEST],
        Relation::HintedSubject,
        &[codes::FILE_UNNAMED],
    ),
    (
        &[codes::META, codes::META_KEY],
        Relation::HintedSubject,
        &[codes::META_KEY],
    ),
    (
        &[codes::META, codes::ENTRY],
        Relation::Any,
        &[codes::MANIFEST_NONE],
    ),
    (
        &[codes::HOT_PARAMETER],
        Relation::HintedSubject,
        &[codes::HOT_UNMAPPED],
    ),
    (
        &[codes::HOT_REFERENCE],
        Relation::HintedSubject,
        &[codes::HOT_UNUSED],
    ),
    (
        &[codes::VARIABLE_UNKNOWN],
        Relation::HintedSubject,
        &[codes::VARIABLE_UNUSED],
    ),
    (
        &[codes::MANIFEST_METADATA],
        Relation::HintedSubject,
        &[codes::MANIFEST_METADATA],
    ),
    (
        &[codes::NODE_UNKNOWN],
        Relation::Any,
        &[codes::AFFINITY_ONE],
    ),
];

const UNUSED: &[&str] = &[
    codes::LINK_UNUSED,
    codes::STORAGE_UNUSED,
    codes::CONTAINER_UNUSED,
];

/// Removes the consequences of other findings.
pub(crate) fn drop_consequences(findings: &mut Vec<Finding>) {
    let mut dropped = BTreeSet::new();
    for (causes, relation, consequences) in RULES {
        let causes: Vec<&Finding> = findings
            .iter()
            .filter(|finding| causes.contains(&finding.code))
            .collect();
        if causes.is_empty() {
            continue;
        }
        for (index, finding) in findings.iter().enumerate() {
            let follows = |cause: &&Finding| is_consequence(finding, cause, *relation);
            if consequences.contains(&finding.code) && causes.iter().any(follows) {
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
    let hint = cause
        .hint
        .as_deref()
        .filter(|hint| hint.starts_with("did you mean"));
    let hinted = hint.and_then(|hint| quoted(hint).next());
    // A name similar to a known one is a typo, not the consequence of a missing file.
    let typo = consequence.code == codes::TYPE_UNKNOWN
        && consequence
            .hint
            .as_deref()
            .is_some_and(|hint| hint.starts_with("did you mean"));
    let (subject, other) = (
        quoted(&cause.message).next(),
        quoted(&consequence.message).next(),
    );
    match relation {
        Relation::Any => !typo,
        Relation::SamePosition => cause.span == consequence.span,
        Relation::SameCall => {
            let called = function(cause).is_some() && function(cause) == function(consequence);
            called && line(cause) == line(consequence)
        }
        Relation::SameSubject => root(subject) == root(other),
        Relation::HintedSubject => hinted.is_some() && hinted == other,
        Relation::HintedMember => subject == other && hinted == quoted(&consequence.message).last(),
    }
}

fn line(finding: &Finding) -> Option<(&str, usize)> {
    finding.span.as_ref().map(|span| (&*span.file, span.line))
}

/// The TOSCA function that a finding is about.
fn function(finding: &Finding) -> Option<&str> {
    quoted(&finding.message).find(|name| name.starts_with("get_"))
}

/// `port` of `port.virtual_binding`.
fn root(name: Option<&str>) -> Option<&str> {
    name.and_then(|name| name.split('.').next())
}

/// The names in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Span;

    fn remaining(findings: &[(&'static str, &str, &str)]) -> Vec<&'static str> {
        let mut all: Vec<Finding> = findings
            .iter()
            .map(|(code, message, hint)| {
                let finding = Finding::new(code, None, *message);
                if hint.is_empty() {
                    finding
                } else {
                    finding.hint(*hint)
                }
            })
            .collect();
        drop_consequences(&mut all);
        all.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_failing_function_call_is_reported_once() {
        let at = |code, column, message: &str| {
            let span = Span {
                file: "a".into(),
                line: 3,
                column,
            };
            Finding::new(code, span, message)
        };
        let node = at(
            codes::NODE_UNKNOWN,
            5,
            "`get_property` names `x`, which is not a node template",
        );
        let open = at(
            codes::FUNCTION,
            4,
            "`n.p` cannot be evaluated: `get_property` has no value yet",
        );
        let named = at(
            codes::REFERENCE,
            6,
            "`get_property` names `x`, which is not a node template",
        );
        let other = at(
            codes::REFERENCE,
            9,
            "`get_attribute` names `y`, which is not a node template",
        );
        let mut all = vec![open.clone(), node, named.clone(), other.clone()];
        drop_consequences(&mut all);
        let remaining: Vec<&str> = all.iter().map(|finding| finding.code).collect();
        assert_eq!(remaining, [codes::NODE_UNKNOWN, codes::REFERENCE]);
        let mut all = vec![open, named];
        drop_consequences(&mut all);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].code, codes::FUNCTION);
    }

    #[test]
    fn consequences_are_dropped_and_other_findings_stay() {
        let unknown = (
            codes::TYPE_UNKNOWN,
            "node type `a` is not declared",
            "import the file",
        );
        let typo = (
            codes::TYPE_UNKNOWN,
            "node type `b` is not declared",
            "did you mean `B`?",
        );
        let import = (
            codes::IMPORT,
            "the imported file `x` is not in the package",
            "",
        );
        assert_eq!(
            remaining(&[import, unknown, typo]),
            [codes::IMPORT, codes::TYPE_UNKNOWN]
        );
        assert_eq!(remaining(&[unknown]), [codes::TYPE_UNKNOWN]);
        let misspelt = (
            codes::PROPERTY_UNKNOWN,
            "`n` has no property `nam`",
            "did you mean `name`?",
        );
        let missing = (codes::PROPERTY_MISSING, "`n` lacks the property `name`", "");
        let other = (codes::PROPERTY_MISSING, "`m` lacks the property `name`", "");
        assert_eq!(
            remaining(&[misspelt, missing, other]),
            [codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING]
        );
        let target = (
            codes::REQUIREMENT_UNKNOWN,
            "`port` has no requirement `link`",
            "",
        );
        let unlinked = (codes::CP_LINK, "`port` is not on a link", "");
        assert_eq!(remaining(&[target, unlinked]), [codes::REQUIREMENT_UNKNOWN]);
    }
}
