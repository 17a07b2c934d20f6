//! Variables in manifests: `$name` and `${name}` become values, `$$` becomes `$`.
//!
//! Only declared names are variables; every other `$` stays as it is, so that a shell script in
//! a ConfigMap keeps its own. `$name` takes the longest name that could be meant: with `port`
//! declared, `$ports` is not a variable and stays.

use std::collections::BTreeMap;

/// The declared variables; `None` has neither a value nor a default.
pub type Variables = BTreeMap<String, Option<String>>;

/// A declared variable is used and has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "variable `{name}`, used on line {line}, has no value: give it in the request or a default in the order file"
)]
pub struct MissingVariable {
    /// The variable.
    pub name: String,
    /// Where it is used first, from 1.
    pub line: usize,
}

/// Whether a name can be a variable: letters, digits and `_`, no digit first.
pub(crate) fn is_name(name: &str) -> bool {
    name_length(name) == name.len() && !name.is_empty()
}

/// Puts values in the place of variables.
///
/// # Errors
/// A declared variable is used and has no value.
pub fn substitute(text: &str, variables: &Variables) -> Result<String, MissingVariable> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (taken, replacement) = one(rest, variables).map_err(|name| {
            let before = text.len() - rest.len();
            MissingVariable { name, line: 1 + text[..before].matches('\n').count() }
        })?;
        out.push_str(replacement);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Ok(out)
}

/// What the `$` at the start of `text` becomes, and how many bytes of `text` that takes.
fn one<'a>(text: &'a str, variables: &'a Variables) -> Result<(usize, &'a str), String> {
    let after = &text[1..];
    if after.starts_with('$') {
        return Ok((2, "$"));
    }
    let (name, taken) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        Some((name, _)) => (name, name.len() + 3),
        None => (&after[..name_length(after)], name_length(after) + 1),
    };
    match variables.get(name) {
        Some(Some(value)) => Ok((taken, value)),
        Some(None) => Err(name.to_owned()),
        None => Ok((1, "$")),
    }
}

/// Bytes of the name at the start of `text`.
fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        [("name", Some("web")), ("port", Some("80")), ("later", None), ("cost", Some("$name"))]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)))
            .collect()
    }

    #[test]
    fn only_declared_names_are_replaced() {
        for (text, expected) in [
            ("name: $name", "name: web"),
            ("${name}-$port", "web-80"),
            ("$names $1 $ ${HOME} $HOME ${", "$names $1 $ ${HOME} $HOME ${"),
            ("$$name $$$name $$$$", "$name $web $$"),
            ("$cost", "$name"),
            ("${name", "${name"),
            ("ü$nameü", "üwebü"),
            ("", ""),
        ] {
            assert_eq!(substitute(text, &variables()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_value_is_named_with_its_line() {
        let missing = substitute("a: 1\nb: ${later}\n", &variables()).unwrap_err();
        assert_eq!((missing.name.as_str(), missing.line), ("later", 2));
        assert_eq!(substitute("$$later", &variables()).as_deref(), Ok("$later"));
    }

    #[test]
    fn names() {
        assert!(
            is_name("a_1") && is_name("_") && !is_name("1a") && !is_name("") && !is_name("a-b")
        );
    }
}
