//! Every code explained: what is expected, a wrong example, the same example fixed, the clause.
//!
//! The texts are the files `explain/CODE.md`; `build.rs` reads them. `vnfmctl lint --explain CODE` prints
//! one, `docs/lint.md` lists all. Our own conventions, such as the order file, have no clause; they name
//! the sample that shows them.

use serde::Serialize;

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

/// What a code means, with an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The code that is explained, one of [`codes`].
    pub code: &'static str,
    /// The section of `docs/lint.md` that lists it.
    #[serde(skip)]
    pub group: &'static str,
    /// One sentence on what is wrong.
    #[serde(skip)]
    pub meaning: &'static str,
    /// One sentence on what a correct package looks like.
    pub expected: &'static str,
    /// A wrong example: a few lines, with remarks in parentheses.
    pub wrong: &'static str,
    /// The same example with the mistake fixed.
    pub right: &'static str,
    /// The clause of the standard, or `ours: …` for our own conventions.
    pub clause: &'static str,
}

/// The explanation of a code; case does not matter.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    EXPLANATIONS
        .iter()
        .find(|explanation| explanation.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_descriptor_is_explained() {
        let explained = |code: &&&str| explain(code).is_some();
        let missing: Vec<_> = vnfm_descriptor::codes::ALL
            .iter()
            .filter(|code| !explained(code))
            .collect();
        assert!(
            missing.is_empty(),
            "without a file in explain/: {missing:?}"
        );
    }

    #[test]
    fn codes_are_unique_and_start_with_their_severity() {
        let mut seen = std::collections::BTreeSet::new();
        for Explanation { code, .. } in EXPLANATIONS {
            assert!(code.starts_with("E-") || code.starts_with("W-"), "{code}");
            assert!(seen.insert(code), "{code} twice");
        }
    }

    #[test]
    fn an_explanation_is_complete() {
        for explanation in EXPLANATIONS {
            let code = explanation.code;
            assert!(explanation.meaning.ends_with('.'), "{code}");
            assert!(explanation.expected.ends_with('.'), "{code}");
            assert_ne!(explanation.wrong, explanation.right, "{code}");
            assert!(
                !explanation.clause.is_empty() && !explanation.clause.ends_with('.'),
                "{code}"
            );
        }
    }
}
