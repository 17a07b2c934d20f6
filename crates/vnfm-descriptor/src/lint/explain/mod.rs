//! Every code explained: what is expected, a wrong example, the same example fixed, the clause.
//!
//! `vnfmctl lint --explain CODE` prints one, `docs/lint.md` lists all. Our own conventions, such as
//! the order file, have no clause; they name the sample that shows them.

mod archive;
mod files;
mod kubernetes;
mod vnfd;
mod yaml;

use serde::Serialize;

/// What a code means, with an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// One of [`CODES`](crate::CODES).
    pub code: &'static str,
    /// One sentence on what a correct package looks like.
    pub expected: &'static str,
    /// A wrong example: a few lines, with remarks in parentheses.
    pub wrong: &'static str,
    /// The same example, fixed.
    pub right: &'static str,
    /// The clause of the standard, or `ours: …` for our own conventions.
    pub clause: &'static str,
}

/// The explanations in groups, each with its title.
pub const EXPLANATIONS: &[(&str, &[Explanation])] = &[
    ("Archives", archive::ALL),
    ("SOL004 files and secrets", files::ALL),
    ("YAML and TOSCA", yaml::ALL),
    ("SOL001", vnfd::ALL),
    ("Heat, Kubernetes and lint itself", kubernetes::ALL),
];

/// The explanation of a code; case does not matter.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    EXPLANATIONS
        .iter()
        .flat_map(|(_, family)| *family)
        .find(|explanation| explanation.code.eq_ignore_ascii_case(code))
}

const fn explained(
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
        let codes_explained: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(
            codes_explained.len(),
            all.len(),
            "a code is explained twice"
        );
        let known: BTreeSet<&str> = CODES.iter().map(|code| code.code).collect();
        let missing: Vec<_> = known.difference(&codes_explained).collect();
        let unknown: Vec<_> = codes_explained.difference(&known).collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "missing {missing:?}, unknown {unknown:?}"
        );
    }

    #[test]
    fn an_explanation_is_complete() {
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
