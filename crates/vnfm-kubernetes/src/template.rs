//! Inserts the values of variables into one document of a manifest: the document is parsed with a plain word for each
//! placeholder, then values replace the words in its scalars.
//!
//! | where the placeholder stands | what is inserted |
//! |---|---|
//! | alone, without quotes: `replicas: $replicas` | the value, as a number, boolean or text |
//! | alone, in quotes or in a block: `value: "$port"` | the value as text; lists and objects as JSON |
//! | among other characters: `image: registry/$name:1` | the value as text |
//! | in a key | the value as text; two equal keys are refused |
//!
//! Inserting values never changes the structure: lists, objects and their members stay the same.

use crate::errors::VARIABLE;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::PortError;
use vnfm_descriptor::{Marked, MissingVariable, ORDER_FILE, Package, Variables, type_of};

/// Why the values cannot be inserted into a document.
#[derive(Debug, PartialEq)]
pub(crate) enum TemplateError {
    /// Invalid YAML: line within the document, from 0, and the reason.
    Yaml(usize, String),
    /// A variable has no value.
    Missing(MissingVariable),
    /// An unquoted placeholder whose value is a list or an object.
    NotScalar { name: String, given: &'static str },
    /// Two keys of one object became equal.
    DuplicateKey(String),
    /// The result exceeds the remaining budget.
    TooLarge,
}

/// The error for a variable without a value in a file of the package.
pub(crate) fn missing_value(package: &Package, file: &str, missing: &MissingVariable) -> PortError {
    let location = format!("{file}:{}", missing.line);
    // An ASD cannot define defaults.
    let default = match package.asd() {
        Some(_) => String::new(),
        None => format!(", or a default in `{ORDER_FILE}`"),
    };
    PortError::new(
        &VARIABLE,
        format!("fill `{location}`"),
        format!("variable `{}` has no value", missing.name),
    )
    .on(format!("additionalParams.{}", missing.name))
    .hint(format!(
        "give `{}` in the request's `additionalParams`{default}",
        missing.name
    ))
}

/// The remaining budget of inserted bytes.
#[derive(Debug)]
pub(crate) struct BytesLeft(u64);

impl BytesLeft {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// # Errors
    ///
    /// Less than that is left.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), TemplateError> {
        self.0 = self
            .0
            .checked_sub(bytes as u64)
            .ok_or(TemplateError::TooLarge)?;
        Ok(())
    }
}

/// Placeholders that are a complete scalar are numbered from here: YAML parses an unquoted one as a number.
const FIRST_NUMBER: u64 = 9_100_000_000_000_000_000;

/// Parses one document and inserts its values.
pub(crate) fn parse(
    document: &str,
    marked: &Marked,
    values: &Variables,
    left: &mut BytesLeft,
) -> Result<Value, TemplateError> {
    let tree = read(document, marked)?;
    let mut placeholders = Placeholders::default();
    placeholders.collect(&tree, marked);
    let alone: Vec<usize> = placeholders
        .alone
        .difference(&placeholders.in_keys)
        .copied()
        .collect();
    let bare = find_unquoted(document, marked, (&tree, &alone))?;
    Template {
        marked,
        values,
        bare,
        left,
    }
    .fill(tree)
}

fn read(document: &str, marked: &Marked) -> Result<Value, TemplateError> {
    let wrong = |error: serde_yaml::Error| {
        let line = error
            .location()
            .map_or(0, |position| position.line().saturating_sub(1));
        TemplateError::Yaml(line, marked.as_written(&error.to_string()))
    };
    let mut value: serde_yaml::Value = serde_yaml::from_str(document).map_err(wrong)?;
    value.apply_merge().map_err(wrong)?;
    Value::deserialize(value).map_err(wrong)
}

/// Which placeholders are a complete scalar, and which are in a key.
#[derive(Default)]
struct Placeholders {
    alone: BTreeSet<usize>,
    in_keys: BTreeSet<usize>,
}

impl Placeholders {
    fn collect(&mut self, value: &Value, marked: &Marked) {
        match value {
            Value::String(text) => self.alone.extend(marked.single_placeholder(text)),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, marked)),
            Value::Object(members) => {
                for (key, member) in members {
                    self.in_keys.extend(marked.single_placeholder(key));
                    self.collect(member, marked);
                }
            }
            _ => {}
        }
    }
}

/// Those of `alone` that are unquoted: replaced by a number, such a scalar parses as a number.
fn find_unquoted(
    document: &str,
    marked: &Marked,
    (tree, alone): (&Value, &[usize]),
) -> Result<BTreeSet<usize>, TemplateError> {
    if alone.is_empty() {
        return Ok(BTreeSet::new());
    }
    let word = |number: usize| (FIRST_NUMBER + number as u64).to_string();
    let words: BTreeMap<usize, String> = alone
        .iter()
        .map(|number| (*number, word(*number)))
        .collect();
    let numbered = read(&marked.with_words(&words, document), marked)?;
    let mut bare = BTreeSet::new();
    compare((tree, &numbered), marked, &mut bare);
    Ok(bare)
}

/// Compares the document parsed with words and parsed with numbers.
fn compare((worded, numbered): (&Value, &Value), marked: &Marked, bare: &mut BTreeSet<usize>) {
    match (worded, numbered) {
        (Value::String(text), Value::Number(_)) => bare.extend(marked.single_placeholder(text)),
        (Value::Array(some), Value::Array(others)) => {
            some.iter()
                .zip(others)
                .for_each(|pair| compare(pair, marked, bare));
        }
        (Value::Object(some), Value::Object(others)) => {
            let pairs = some
                .iter()
                .filter_map(|(key, one)| Some((one, others.get(key)?)));
            pairs.for_each(|pair| compare(pair, marked, bare));
        }
        _ => {}
    }
}

struct Template<'a> {
    marked: &'a Marked,
    values: &'a Variables,
    bare: BTreeSet<usize>,
    left: &'a mut BytesLeft,
}

impl Template<'_> {
    fn fill(&mut self, value: Value) -> Result<Value, TemplateError> {
        match value {
            Value::String(text) => self.scalar(&text),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.fill(item))
                .collect::<Result<_, _>>(),
            Value::Object(members) => {
                let mut filled = Map::new();
                for (key, member) in members {
                    let key = self.text(&key)?;
                    let member = self.fill(member)?;
                    if filled.contains_key(&key) {
                        return Err(TemplateError::DuplicateKey(key));
                    }
                    filled.insert(key, member);
                }
                Ok(Value::Object(filled))
            }
            scalar => Ok(scalar),
        }
    }

    fn scalar(&mut self, text: &str) -> Result<Value, TemplateError> {
        let Some(number) = self
            .marked
            .single_placeholder(text)
            .filter(|number| self.bare.contains(number))
        else {
            return self.text(text).map(Value::String);
        };
        let value = self
            .marked
            .value(number, self.values)
            .map_err(TemplateError::Missing)?;
        match value {
            Value::Array(_) | Value::Object(_) => Err(TemplateError::NotScalar {
                name: self.marked.name(number).to_owned(),
                given: type_of(value),
            }),
            Value::String(text) => {
                self.left.spend(text.len())?;
                Ok(value.clone())
            }
            _ => Ok(value.clone()),
        }
    }

    fn text(&mut self, text: &str) -> Result<String, TemplateError> {
        let filled = self
            .marked
            .fill(text, self.values)
            .map_err(TemplateError::Missing)?;
        self.left.spend(filled.len())?;
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::{BytesLeft, TemplateError, parse};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use vnfm_descriptor::{Marked, Variables};

    fn filled(document: &str, values: Value) -> Result<Value, TemplateError> {
        let Value::Object(values) = values else {
            panic!("no object")
        };
        let value =
            |(name, value): (String, Value)| (name, Some(value).filter(|one| !one.is_null()));
        let values: Variables = values.into_iter().map(value).collect();
        let marked = Marked::new(document, |name| values.contains_key(name));
        parse(
            marked.text(),
            &marked,
            &values,
            &mut BytesLeft::new(1 << 20),
        )
    }

    /// The structure of a tree: its lists and objects, with every scalar replaced by null.
    fn shape(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(shape).collect(),
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(key, one)| (key.clone(), shape(one)))
                    .collect(),
            ),
            _ => Value::Null,
        }
    }

    const EVERYWHERE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: $v, y: '${v}', z: \"a${v}b\"}}\n\
        list: [$v, \"$v\", 1, ${v}]\nbare: $v\nbraced: ${v}\nsingle: '$v'\nlong: a $v b ${v}\nliteral: |-\n  $v\nfolded: >\n  $v\n  and $v\n\
        anchor: &a $v\nalias: *a\nbase: &b {k: $v}\nmerged: {<<: *b, m: '$$v'} # $v\n";

    /// Values with a meaning in YAML, JSON, shells or templates, or that are hard to display.
    const EVIL: &[&str] = &[
        "x\n---\napiVersion: v1\nkind: Secret\n#",
        "x\n  y: z",
        "\n- a\n- b",
        "{a: b}",
        "[a, b]",
        "a: b",
        "a: b: c",
        "- a",
        "? a\n: b",
        "&anchor x",
        "*a",
        "!!int 5",
        "!!binary aGk=",
        "!foo {a: 1}",
        "<<: *b",
        "| \n x",
        "> x",
        "# comment",
        "x # comment",
        "'",
        "\"",
        "' \"",
        "\\",
        "\"}, {\"a\": \"",
        "%YAML 1.1",
        "---",
        "...",
        "--- x",
        "@at",
        "`tick`",
        "$v",
        "${v}",
        "$$",
        "$(id)",
        "`id`; rm -rf / && x | y > z",
        "{{ .Values.x }}",
        "{% x %}",
        "<%= x %>",
        "vnfmvalue0z",
        "vnfmvalue1z",
        "9100000000000000000",
        "null",
        "~",
        "true",
        "yes",
        "0x1f",
        "1e999",
        ".inf",
        ".nan",
        "012",
        "2026-01-01",
        "",
        " ",
        "\t",
        "\r\n",
        "\0",
        "\u{feff}",
        "\u{2028}",
        "\u{202e}gnp.exe",
        "\u{85}",
        "\u{1b}]0;x\u{7}",
        "e\u{301}",
        "\u{10ffff}",
    ];

    fn stays_a_value(value: &str) {
        let plain = filled(EVERYWHERE, json!({"v": "plain"})).unwrap();
        let evil = filled(EVERYWHERE, json!({"v": value})).unwrap();
        assert_eq!(shape(&evil), shape(&plain), "{value:?}");
        for pointer in [
            "/bare", "/braced", "/single", "/literal", "/alias", "/list/0", "/list/3",
        ] {
            assert_eq!(
                evil.pointer(pointer),
                Some(&json!(value)),
                "{pointer} of {value:?}"
            );
        }
        assert_eq!(evil["metadata"]["labels"]["z"], json!(format!("a{value}b")));
        assert_eq!(evil["long"], json!(format!("a {value} b {value}")));
        assert_eq!(evil["folded"], json!(format!("{value} and {value}\n")));
        assert_eq!(evil["merged"], json!({"k": value, "m": "$v"}));
    }

    #[test]
    fn a_value_with_syntax_stays_a_value() {
        for value in EVIL {
            stays_a_value(value);
        }
    }

    proptest! {
        #[test]
        fn any_text_stays_a_value(value in any::<String>()) {
            stays_a_value(&value);
        }

        #[test]
        fn any_mixture_stays_a_value(parts in proptest::collection::vec(0..EVIL.len(), 0..5)) {
            stays_a_value(&parts.iter().map(|part| EVIL[*part]).collect::<String>());
        }
    }

    #[test]
    fn a_placeholder_alone_keeps_the_type_of_its_value() {
        let text = "a: $v\nb: \"$v\"\nc: '${v}'\nd: $v$v\ne: |-\n  $v\nf: -$v\ng: !!str $v\n";
        let found = filled(text, json!({"v": 3})).unwrap();
        assert_eq!(
            found,
            json!({"a": 3, "b": "3", "c": "3", "d": "33", "e": "3", "f": "-3", "g": "3"})
        );
        assert_eq!(
            filled("a: ${v}", json!({"v": true})),
            Ok(json!({"a": true}))
        );
        assert_eq!(
            filled("[$v, 1.5]", json!({"v": 0.5})),
            Ok(json!([0.5, 1.5]))
        );
        assert_eq!(filled("a: $v", json!({"v": "3"})), Ok(json!({"a": "3"})));
    }

    #[test]
    fn a_list_or_an_object_is_inserted_as_text_or_refused() {
        for value in [json!([1, {"a": "b"}]), json!({"kind": "Secret"})] {
            let given = vnfm_descriptor::type_of(&value);
            let refused = filled("a: $v", json!({"v": value})).unwrap_err();
            assert_eq!(
                refused,
                TemplateError::NotScalar {
                    name: "v".into(),
                    given
                }
            );
            let quoted = filled("a: \"$v\"", json!({"v": value})).unwrap();
            assert_eq!(quoted, json!({"a": value.to_string()}));
        }
    }

    #[test]
    fn keys_become_strings_and_must_differ() {
        assert_eq!(filled("$v: 1", json!({"v": 5})), Ok(json!({"5": 1})));
        assert_eq!(
            filled("{$v: 1}", json!({"v": "a: {b"})),
            Ok(json!({"a: {b": 1}))
        );
        assert_eq!(
            filled("{$v: 1, <<: {c: 2}}", json!({"v": "<<"})),
            Ok(json!({"<<": 1, "c": 2}))
        );
        let twin = filled("{$v: 1, a: 2}", json!({"v": "a"})).unwrap_err();
        assert_eq!(twin, TemplateError::DuplicateKey("a".into()));
    }

    #[test]
    fn a_missing_value_is_reported_with_name_and_line() {
        let TemplateError::Missing(missing) =
            filled("# $v\na: 1\nb: \"${v}\"\n", json!({"v": null})).unwrap_err()
        else {
            panic!("something else is wrong");
        };
        assert_eq!((missing.name.as_str(), missing.line), ("v", 3));
        assert_eq!(
            filled("# $v\na: 1\n", json!({"v": null})),
            Ok(json!({"a": 1}))
        );
    }

    #[test]
    fn the_size_of_repeated_values_is_limited() {
        let big = "x".repeat(1 << 19);
        assert_eq!(
            filled("[$v, $v, $v]", json!({"v": big})),
            Err(TemplateError::TooLarge)
        );
        let aliases = "a: &a $v\nb: [*a, *a, *a, *a]";
        assert_eq!(
            filled(aliases, json!({"v": big})),
            Err(TemplateError::TooLarge)
        );
    }

    #[test]
    fn a_yaml_error_quotes_the_original_text() {
        let TemplateError::Yaml(line, reason) =
            filled("a: 1\n$v: 1\n$v: 2\n: :", json!({"v": 1})).unwrap_err()
        else {
            panic!("something else is wrong");
        };
        assert!(
            line <= 3 && !reason.contains("vnfmvalue"),
            "{line} {reason}"
        );
    }
}
