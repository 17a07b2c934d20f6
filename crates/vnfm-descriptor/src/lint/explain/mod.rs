//! Every code at length: what is expected, an example that is wrong, the same mended, the clause.
//!
//! `vnfmctl lint --explain CODE` prints one, `docs/lint.md` all of them. Our own conventions, such
//! as the order file, have no clause; they name the page that describes them.

mod archive;
mod files;
mod kubernetes;
mod vnfd;
mod yaml;

use serde::Serialize;

/// A code at length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The code.
    pub code: &'static str,
    /// What is expected.
    pub expected: &'static str,
    /// An example that is wrong.
    pub wrong: &'static str,
    /// The same, mended.
    pub right: &'static str,
    /// Who wants it so.
    pub clause: &'static str,
}

/// The explanations by family.
pub const EXPLANATIONS: &[(&str, &[Explanation])] = &[
    ("Archives", archive::ALL),
    ("SOL004 files and secrets", files::ALL),
    ("YAML and TOSCA", yaml::ALL),
    ("SOL001", vnfd::ALL),
    ("Heat, Kubernetes and lint itself", kubernetes::ALL),
];

/// What there is to say about a code.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    EXPLANATIONS
        .iter()
        .flat_map(|(_, family)| *family)
        .find(|explanation| explanation.code.eq_ignore_ascii_case(code))
}

/// An explanation: code, what is expected, wrong, right, clause.
const fn why(
    code: &'static str,
    expected: &'static str,
    wrong: &'static str,
    right: &'static str,
    clause: &'static str,
) -> Explanation {
    Explanation {
        code,
        expected,
        wrong,
        right,
        clause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::CODES;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_is_explained_once() {
        let all: Vec<&str> = EXPLANATIONS
            .iter()
            .flat_map(|(_, family)| *family)
            .map(|explanation| explanation.code)
            .collect();
        let explained: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(explained.len(), all.len(), "a code is explained twice");
        let known: BTreeSet<&str> = CODES.iter().map(|code| code.code).collect();
        let missing: Vec<_> = known.difference(&explained).collect();
        let strange: Vec<_> = explained.difference(&known).collect();
        assert!(
            missing.is_empty() && strange.is_empty(),
            "missing {missing:?}, strange {strange:?}"
        );
    }

    #[test]
    fn an_explanation_is_whole() {
        for explanation in EXPLANATIONS.iter().flat_map(|(_, family)| *family) {
            let code = explanation.code;
            assert!(explanation.expected.ends_with('.'), "{code}");
            assert_ne!(explanation.wrong, explanation.right, "{code}");
            assert!(
                !explanation.clause.is_empty() && !explanation.clause.ends_with('.'),
                "{code}"
            );
        }
    }
}
