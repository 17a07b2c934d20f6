//! Placeholders in manifests: `$name` and `${name}` become a value, `$$` becomes `$`.
//!
//! ```text
//! text ── Marked::new ──> the same text with a plain word (a mark) in place of each placeholder
//!              │ the caller parses it
//!              ▼
//!         scalars with marks ── fill ──> the values as text      whole ──> the value itself
//! ```
//! Values are inserted into scalars after parsing, so a value is never parsed as YAML. Only names that the
//! order file declares are variables; every other `$` is unchanged, so that shell scripts in a ConfigMap
//! keep theirs. `$name` extends as far as possible: with `port` declared, `$ports` is not a variable.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Declared variables by name; `None` has neither a value nor a default.
pub type Variables = BTreeMap<String, Option<Value>>;

/// A manifest uses a declared variable that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "variable `{name}`, used on line {line}, has no value: set it in the request, or set a default in the order file"
)]
pub struct MissingVariable {
    /// Name of the variable, without `$`.
    pub name: String,
    /// Line of its first use, from 1.
    pub line: usize,
}

/// A text whose placeholders are replaced by marks: words of ASCII letters and digits that do not occur in the text.
#[derive(Debug, Clone)]
pub struct Marked {
    text: String,
    stem: String,
    marks: Vec<Mark>,
}

/// The placeholder of a mark, and its line, from 1.
#[derive(Debug, Clone)]
struct Mark {
    /// Name of the variable; `None` for the escape `$$`.
    name: Option<String>,
    line: usize,
}

/// Ends a mark, after its number.
const END: char = 'z';

impl Marked {
    /// Replaces the placeholders of declared variables by marks.
    pub fn new(text: &str, is_declared: impl Fn(&str) -> bool) -> Self {
        let mut stem = "vnfmvalue".to_owned();
        while text.contains(&stem) {
            stem.push('q');
        }
        let mut marked = Self {
            text: String::with_capacity(text.len()),
            stem,
            marks: Vec::new(),
        };
        let (mut rest, mut line) = (text, 1);
        while let Some(at) = rest.find('$') {
            marked.text.push_str(&rest[..at]);
            line += rest[..at].matches('\n').count();
            rest = &rest[at..];
            let (length, name) = placeholder(rest);
            if name.is_none_or(&is_declared) && length > 1 {
                let mark = marked.mark(marked.marks.len());
                marked.text.push_str(&mark);
                marked.marks.push(Mark {
                    name: name.map(str::to_owned),
                    line,
                });
                rest = &rest[length..];
            } else {
                marked.text.push('$');
                rest = &rest[1..];
            }
        }
        marked.text.push_str(rest);
        marked
    }

    /// The text with marks, for the caller to parse.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn mark(&self, number: usize) -> String {
        format!("{}{number}{END}", self.stem)
    }

    /// The number of the placeholder if `scalar` consists of a single variable.
    pub fn single_placeholder(&self, scalar: &str) -> Option<usize> {
        let (number, rest) = self.leading(scalar)?;
        (rest.is_empty() && self.marks[number].name.is_some()).then_some(number)
    }

    /// `text` with the marks of these numbers replaced by `words`.
    pub fn with_words(&self, words: &BTreeMap<usize, String>, text: &str) -> String {
        self.replaced(text, |number, mark| {
            words
                .get(&number)
                .map_or_else(|| mark.to_owned(), Clone::clone)
        })
    }

    /// The value for placeholder `number`.
    ///
    /// # Errors
    /// The variable has no value.
    pub fn value<'a>(
        &self,
        number: usize,
        variables: &'a Variables,
    ) -> Result<&'a Value, MissingVariable> {
        let Mark { name, line } = &self.marks[number];
        let name = name.as_deref().unwrap_or_default();
        let missing = || MissingVariable {
            name: name.to_owned(),
            line: *line,
        };
        variables
            .get(name)
            .and_then(Option::as_ref)
            .ok_or_else(missing)
    }

    /// The name of the variable of placeholder `number`.
    pub fn name(&self, number: usize) -> &str {
        self.marks[number].name.as_deref().unwrap_or_default()
    }

    /// Replaces the marks in `scalar` by the values as text.
    ///
    /// # Errors
    /// A variable in it has no value.
    pub fn fill(&self, scalar: &str, variables: &Variables) -> Result<String, MissingVariable> {
        let mut missing = None;
        let filled = self.replaced(scalar, |number, _| match &self.marks[number].name {
            None => "$".to_owned(),
            Some(_) => match self.value(number, variables) {
                Ok(value) => text_of(value).into_owned(),
                Err(error) => {
                    missing.get_or_insert(error);
                    String::new()
                }
            },
        });
        missing.map_or(Ok(filled), Err)
    }

    /// Replaces the marks in `text` by the original placeholders, for messages.
    pub fn as_written(&self, text: &str) -> String {
        self.replaced(text, |number, _| match &self.marks[number].name {
            Some(name) => format!("${name}"),
            None => "$$".to_owned(),
        })
    }

    fn replaced(&self, text: &str, mut replacement: impl FnMut(usize, &str) -> String) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.stem) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some((number, after)) = self.leading(rest) {
                out.push_str(&replacement(number, &rest[..rest.len() - after.len()]));
                rest = after;
            } else {
                out.push_str(&self.stem);
                rest = &rest[self.stem.len()..];
            }
        }
        out.push_str(rest);
        out
    }

    /// The number of the mark at the start of `text`, and the rest.
    fn leading<'a>(&self, text: &'a str) -> Option<(usize, &'a str)> {
        let (number, rest) = text.strip_prefix(&self.stem)?.split_once(END)?;
        let number: usize = number.parse().ok()?;
        (number < self.marks.len()).then_some((number, rest))
    }
}

/// Replaces the placeholders in a scalar by values as text.
///
/// # Errors
/// A declared variable is used but has no value.
pub fn substitute(scalar: &str, variables: &Variables) -> Result<String, MissingVariable> {
    let marked = Marked::new(scalar, |name| variables.contains_key(name));
    marked.fill(marked.text(), variables)
}

/// A value as text: strings unchanged, everything else as JSON.
pub fn text_of(value: &Value) -> Cow<'_, str> {
    value
        .as_str()
        .map_or_else(|| value.to_string().into(), Into::into)
}

/// Whether a name is valid for a variable: letters, digits and `_`, not starting with a digit.
pub fn is_name(name: &str) -> bool {
    name_length(name) == name.len() && !name.is_empty()
}

/// Length in bytes and name of the placeholder at the start of `text`. `$$` has no name; a `$` that starts
/// no placeholder has length 1.
fn placeholder(text: &str) -> (usize, Option<&str>) {
    let after = &text[1..];
    if after.starts_with('$') {
        return (2, None);
    }
    match after
        .strip_prefix('{')
        .and_then(|inner| inner.split_once('}'))
    {
        Some((name, _)) => (name.len() + 3, Some(name)),
        None => (name_length(after) + 1, Some(&after[..name_length(after)])),
    }
}

/// Length in bytes of the name at the start of `text`.
fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        [
            ("name", Some("web")),
            ("port", Some("80")),
            ("later", None),
            ("cost", Some("$name")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.map(Value::from)))
        .collect()
    }

    #[test]
    fn only_declared_names_are_replaced() {
        for (text, expected) in [
            ("name: $name", "name: web"),
            ("${name}-$port", "web-80"),
            (
                "$names $1 $ ${HOME} $HOME ${",
                "$names $1 $ ${HOME} $HOME ${",
            ),
            ("$$name $$$name $$$$", "$name $web $$"),
            ("$cost", "$name"),
            ("${name", "${name"),
            ("ü$nameü", "üwebü"),
            ("", ""),
        ] {
            assert_eq!(
                substitute(text, &variables()).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn a_missing_value_is_named_with_its_line() {
        let missing = substitute("a: 1\nb: ${later}\n", &variables()).unwrap_err();
        assert_eq!((missing.name.as_str(), missing.line), ("later", 2));
        assert_eq!(substitute("$$later", &variables()).as_deref(), Ok("$later"));
    }

    #[test]
    fn marks_do_not_occur_in_the_text() {
        let text = "vnfmvalue0z vnfmvalueq $name $$";
        let marked = Marked::new(text, |name| name == "name");
        assert!(!marked.text().contains('$'), "{marked:?}");
        let filled = marked.fill(marked.text(), &variables());
        assert_eq!(filled.as_deref(), Ok("vnfmvalue0z vnfmvalueq web $"));
        assert_eq!(marked.as_written(marked.text()), text);
    }

    #[test]
    fn a_single_placeholder_is_distinguished_from_one_in_a_text() {
        let marked = Marked::new("$name|${port}x|$$", |name| variables().contains_key(name));
        let parts: Vec<_> = marked
            .text()
            .split('|')
            .map(|part| marked.single_placeholder(part))
            .collect();
        assert_eq!(parts, [Some(0), None, None]);
        assert_eq!(marked.value(0, &variables()), Ok(&Value::from("web")));
    }

    #[test]
    fn variable_names_are_identifiers() {
        assert!(
            is_name("a_1") && is_name("_") && !is_name("1a") && !is_name("") && !is_name("a-b")
        );
    }
}
