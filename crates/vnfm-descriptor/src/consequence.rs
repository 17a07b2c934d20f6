//! Findings that only follow from another one: who mends the cause has mended them too.
//!
//! ```text
//! imports: [type.yaml]           E-IMPORT        the cause
//! type: samples.nodes.Small      E-TYPE-UNKNOWN  its consequence: the type would be in that file
//! ```
//! A consequence is dropped only where its cause stays, so that nothing that was refused is taken.

use crate::finding::{Finding, codes};
use std::collections::BTreeSet;

/// How a consequence hangs together with its cause.
#[derive(Clone, Copy)]
enum Tie {
    /// Wherever it is.
    Anywhere,
    /// Both are about the same name, the first in backticks.
    Subject,
    /// The cause's hint names the consequence's subject: "did you mean `link`?".
    Hint,
    /// Both are at the same place.
    Place,
    /// Both are about a call of the same function on one line.
    Call,
    /// Both have the same subject, and the cause's hint names the consequence's last name.
    Member,
}

/// What cannot be told where a file of types is not there.
const TYPES: &[&str] = &[
    codes::VNF_MISSING,
    codes::VNF_PROPERTY,
    codes::VNF_REQUIRED,
    codes::SUBSTITUTION,
];

const TIES: &[(&[&str], Tie, &[&str])] = &[
    (
        &[codes::IMPORT, codes::YAML, codes::YAML_BOMB],
        Tie::Anywhere,
        TYPES,
    ),
    (
        &[codes::IMPORT, codes::YAML, codes::YAML_BOMB],
        Tie::Anywhere,
        &[
            codes::TYPE_UNKNOWN,
            codes::INTERFACE_UNKNOWN,
            codes::OPERATION_UNKNOWN,
        ],
    ),
    (
        &[codes::TYPE_UNKNOWN, codes::TYPE_CYCLE],
        Tie::Anywhere,
        TYPES,
    ),
    (
        &[codes::TYPE_UNKNOWN],
        Tie::Anywhere,
        &[
            codes::HOT_PARAMETER,
            codes::WORKLOAD,
            codes::VDU_INITIAL,
            codes::POLICY,
        ],
    ),
    (&[codes::TYPE_UNKNOWN], Tie::Anywhere, UNUSED),
    (
        &[codes::PROPERTY_UNKNOWN],
        Tie::Member,
        &[codes::PROPERTY_MISSING],
    ),
    (
        &[codes::REQUIREMENT_UNKNOWN],
        Tie::Subject,
        &[codes::OCCURRENCES, codes::CP_BINDING, codes::CP_LINK],
    ),
    (
        &[
            codes::REQUIREMENT_UNKNOWN,
            codes::NODE_UNKNOWN,
            codes::NODE_KIND,
        ],
        Tie::Anywhere,
        UNUSED,
    ),
    (
        &[codes::NODE_UNKNOWN],
        Tie::Hint,
        &[codes::ASPECT_DELTAS, codes::VDU_INITIAL],
    ),
    (
        &[codes::POLICY],
        Tie::Hint,
        &[codes::ASPECT_DELTAS, codes::LEVEL_DEFAULT],
    ),
    (
        &[codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING],
        Tie::Subject,
        &[codes::VDU_INITIAL],
    ),
    (&[codes::ASPECT_STEPS], Tie::Subject, &[codes::DELTA_UNUSED]),
    (&[codes::VNF_MISSING], Tie::Anywhere, &[codes::CP_LINK]),
    (&[codes::MANIFEST], Tie::Subject, &[codes::MANIFEST_HASHES]),
    (&[codes::YAML_11], Tie::Place, &[codes::YAML_NUMBER]),
    (
        &[codes::PROPERTY_MISSING],
        Tie::Subject,
        &[codes::ASPECT_DELTAS, codes::ASPECT_STEPS],
    ),
    (&[codes::INPUT_UNKNOWN], Tie::Hint, &[codes::INPUT_UNUSED]),
    (&[codes::INPUT_UNKNOWN], Tie::Place, &[codes::FUNCTION]),
    (
        &[codes::NODE_UNKNOWN],
        Tie::Call,
        &[codes::FUNCTION, codes::REFERENCE],
    ),
    (&[codes::FUNCTION], Tie::Call, &[codes::REFERENCE]),
    (
        &[codes::IMPLEMENTATION_UNKNOWN],
        Tie::Hint,
        &[codes::ARTIFACT_UNUSED],
    ),
    (
        &[codes::ORDER_MANIFEST],
        Tie::Hint,
        &[codes::MANIFEST_UNUSED],
    ),
    (
        &[codes::ORDER_MANIFEST, codes::ORDER_FILE],
        Tie::Anywhere,
        &[codes::VARIABLE_UNUSED],
    ),
    (
        &[
            codes::ORDER_MANIFEST,
            codes::ORDER_FILE,
            codes::MANIFEST_YAML,
            codes::K8S_KIND,
        ],
        Tie::Anywhere,
        &[codes::WORKLOAD],
    ),
    (&[codes::MANIFEST], Tie::Hint, &[codes::FILE_UNNAMED]),
    (
        &[codes::META, codes::META_KEY],
        Tie::Hint,
        &[codes::META_KEY],
    ),
    (
        &[codes::META, codes::ENTRY],
        Tie::Anywhere,
        &[codes::MANIFEST_NONE],
    ),
    (&[codes::HOT_PARAMETER], Tie::Hint, &[codes::HOT_UNMAPPED]),
    (&[codes::HOT_REFERENCE], Tie::Hint, &[codes::HOT_UNUSED]),
    (
        &[codes::VARIABLE_UNKNOWN],
        Tie::Hint,
        &[codes::VARIABLE_UNUSED],
    ),
    (
        &[codes::MANIFEST_METADATA],
        Tie::Hint,
        &[codes::MANIFEST_METADATA],
    ),
    (
        &[codes::NODE_UNKNOWN],
        Tie::Anywhere,
        &[codes::AFFINITY_ONE],
    ),
];

const UNUSED: &[&str] = &[
    codes::LINK_UNUSED,
    codes::STORAGE_UNUSED,
    codes::CONTAINER_UNUSED,
];

/// Leaves out what follows from something else.
pub(crate) fn drop_consequences(findings: &mut Vec<Finding>) {
    let mut dropped = BTreeSet::new();
    for (causes, tie, consequences) in TIES {
        let causes: Vec<&Finding> = findings
            .iter()
            .filter(|finding| causes.contains(&finding.code))
            .collect();
        if causes.is_empty() {
            continue;
        }
        for (index, finding) in findings.iter().enumerate() {
            let follows = |cause: &&Finding| tied(cause, finding, *tie);
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
    // Two rules see such a number; who knows its declaration says more, and comes first.
    findings.dedup_by(|second, first| {
        second.code == codes::YAML_NUMBER
            && (second.code, &second.span) == (first.code, &first.span)
    });
}

fn tied(cause: &Finding, consequence: &Finding, tie: Tie) -> bool {
    if std::ptr::eq(cause, consequence) {
        return false;
    }
    let hint = cause
        .hint
        .as_deref()
        .filter(|hint| hint.starts_with("did you mean"));
    let hinted = hint.and_then(|hint| names(hint).next());
    // A name that is near to one that is known is a slip of the pen, not a missing file.
    let slip = consequence.code == codes::TYPE_UNKNOWN
        && consequence
            .hint
            .as_deref()
            .is_some_and(|hint| hint.starts_with("did you mean"));
    let (subject, other) = (
        names(&cause.message).next(),
        names(&consequence.message).next(),
    );
    match tie {
        Tie::Anywhere => !slip,
        Tie::Place => cause.span == consequence.span,
        Tie::Call => {
            let called = function(cause).is_some() && function(cause) == function(consequence);
            called && line(cause) == line(consequence)
        }
        Tie::Subject => root(subject) == root(other),
        Tie::Hint => hinted.is_some() && hinted == other,
        Tie::Member => subject == other && hinted == names(&consequence.message).last(),
    }
}

/// File and line.
fn line(finding: &Finding) -> Option<(&str, usize)> {
    finding.span.as_ref().map(|span| (&*span.file, span.line))
}

/// The function that a finding is about.
fn function(finding: &Finding) -> Option<&str> {
    names(&finding.message).find(|name| name.starts_with("get_"))
}

/// `port` of `port.virtual_binding`.
fn root(name: Option<&str>) -> Option<&str> {
    name.and_then(|name| name.split('.').next())
}

/// What stands in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Span;

    fn left(findings: &[(&'static str, &str, &str)]) -> Vec<&'static str> {
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
    fn a_call_that_fails_is_told_once() {
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
            "`get_property` names `x`, which is no node template",
        );
        let open = at(
            codes::FUNCTION,
            4,
            "`n.p` cannot be told: `get_property` has no value yet",
        );
        let named = at(
            codes::REFERENCE,
            6,
            "`get_property` names `x`, which is no node template",
        );
        let other = at(
            codes::REFERENCE,
            9,
            "`get_attribute` names `y`, which is no node template",
        );
        let mut all = vec![open.clone(), node, named.clone(), other.clone()];
        drop_consequences(&mut all);
        let left: Vec<&str> = all.iter().map(|finding| finding.code).collect();
        assert_eq!(left, [codes::NODE_UNKNOWN, codes::REFERENCE]);
        let mut all = vec![open, named];
        drop_consequences(&mut all);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].code, codes::FUNCTION);
    }

    #[test]
    fn what_follows_is_left_out_and_what_does_not_stays() {
        let unknown = (
            codes::TYPE_UNKNOWN,
            "node type `a` is not declared",
            "import the file",
        );
        let slip = (
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
            left(&[import, unknown, slip]),
            [codes::IMPORT, codes::TYPE_UNKNOWN]
        );
        assert_eq!(left(&[unknown]), [codes::TYPE_UNKNOWN]);
        let misspelt = (
            codes::PROPERTY_UNKNOWN,
            "`n` has no property `nam`",
            "did you mean `name`?",
        );
        let missing = (codes::PROPERTY_MISSING, "`n` lacks the property `name`", "");
        let other = (codes::PROPERTY_MISSING, "`m` lacks the property `name`", "");
        assert_eq!(
            left(&[misspelt, missing, other]),
            [codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING]
        );
        let target = (
            codes::REQUIREMENT_UNKNOWN,
            "`port` has no requirement `link`",
            "",
        );
        let loose = (codes::CP_LINK, "`port` is on no link", "");
        assert_eq!(left(&[target, loose]), [codes::REQUIREMENT_UNKNOWN]);
    }
}
