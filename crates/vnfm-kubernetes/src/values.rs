//! The values of a chart: a file of the package, and single values by their keys, as `helm --set` reads them.
//!
//! | key | value |
//! |---|---|
//! | `image.tag` | member `tag` of `image` |
//! | `annotations.example\.com/owner` | member `example.com/owner` of `annotations` |
//! | `servers[0]` | refused: a list is given as the value of `servers` |

use crate::template::{self, BytesLeft, TemplateError};
use serde_json::{Map, Value};
use vnfm_descriptor::{Marked, Variables};

/// The levels of a key that helm accepts.
const MAX_DEPTH: usize = 30;

/// Sets the value of a key; objects on the way to it are created.
///
/// # Errors
///
/// Why the key cannot be one of a value.
pub(crate) fn set(values: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), String> {
    let mut path = path_of(key)?;
    let last = path.pop().unwrap_or_default();
    let mut at = values;
    for member in path {
        let inner = at.entry(member).or_insert(Value::Null);
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        let Value::Object(inner) = inner else {
            return Err(format!("`{key}` cannot be set"));
        };
        at = inner;
    }
    at.insert(last, value);
    Ok(())
}

/// The members that a key names, outermost first.
fn path_of(key: &str) -> Result<Vec<String>, String> {
    let mut path = vec![String::new()];
    let mut letters = key.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '.' => {
                path.push(String::new());
                continue;
            }
            '[' => return Err("its key has an index: give the list as one value".to_owned()),
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        };
        path.last_mut()
            .into_iter()
            .for_each(|part| part.push(letter));
    }
    if path.iter().any(String::is_empty) {
        return Err("its key has an empty part".to_owned());
    }
    if path.len() > MAX_DEPTH {
        return Err(format!("its key has more than {MAX_DEPTH} parts"));
    }
    Ok(path)
}

/// Text as `--set` understands it: a boolean, an integer, null, or the text itself.
pub(crate) fn typed(text: &str) -> Value {
    let word = text.to_ascii_lowercase();
    match word.as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "null" => return Value::Null,
        _ => {}
    }
    let is_octal = text.len() > 1 && text.starts_with('0');
    match text.parse::<i64>() {
        Ok(number) if !is_octal => number.into(),
        _ => text.into(),
    }
}

/// The assignments of `key=value,key=value`: a comma or a backslash in a value has a backslash before it.
///
/// # Errors
///
/// A part has no `=`, or its value is a list in braces.
pub(crate) fn assignments(text: &str) -> Result<Vec<(String, Value)>, String> {
    let mut all = Vec::new();
    for part in split_unescaped(text) {
        let Some((key, value)) = part.split_once('=') else {
            return Err("it is not of the form `key=value`".to_owned());
        };
        if value.starts_with('{') && value.ends_with('}') {
            return Err(format!(
                "the value of `{key}` is a list in braces: give it in a file of values"
            ));
        }
        all.push((key.to_owned(), typed(&unescaped(value))));
    }
    Ok(all)
}

/// The parts between commas that have no backslash before them; the backslashes stay.
fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        if letter == ',' && !is_escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        });
    }
    plain
}

/// Puts values over others: members of objects one by one, everything else as a whole.
pub(crate) fn merge(values: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (values.get_mut(&name), value) {
            (Some(Value::Object(own)), Value::Object(value)) => merge(own, value),
            (_, value) => drop(values.insert(name, value)),
        }
    }
}

/// Replaces the variables in the texts of `value`. A text that is a single variable becomes the value of that, of any type.
///
/// # Errors
///
/// A variable has no value, or the result exceeds what is left.
pub(crate) fn fill(
    value: &Value,
    variables: &Variables,
    left: &mut BytesLeft,
) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) => {
            let marked = Marked::new(text, |name| variables.contains_key(name));
            let filled = match marked.single_placeholder(marked.text()) {
                Some(number) => marked.value(number, variables).cloned(),
                None => marked.fill(marked.text(), variables).map(Value::String),
            };
            let filled = filled.map_err(TemplateError::Missing)?;
            left.spend(filled.to_string().len())?;
            Ok(filled)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| fill(item, variables, left));
            items.collect()
        }
        Value::Object(members) => {
            let members = members.iter();
            let filled = members.map(|(name, member)| {
                let filled = fill(member, variables, left)?;
                Ok((name.clone(), filled))
            });
            filled.collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        scalar => Ok(scalar.clone()),
    }
}

/// The values in a YAML file, which has at most `max` bytes with its aliases expanded.
///
/// # Errors
///
/// Why it is not a file of values.
pub(crate) fn read(bytes: Vec<u8>, max: u64) -> Result<Map<String, Value>, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let marked = Marked::new(&text, |_| false);
    let (variables, mut left) = (Variables::new(), BytesLeft::new(max));
    match template::parse(marked.text(), &marked, &variables, &mut left) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("it is no object of values".to_owned()),
        Err(TemplateError::Yaml(line, reason)) => Err(format!("line {}: {reason}", line + 1)),
        Err(_) => Err("it is too large".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setting(pairs: &[(&str, Value)]) -> Value {
        let mut values = json!({"image": {"name": "web"}, "plain": 1});
        for (key, value) in pairs {
            set(values.as_object_mut().unwrap(), key, value.clone()).unwrap();
        }
        values
    }

    #[test]
    fn dots_nest_and_escaped_dots_do_not() {
        let values = setting(&[
            ("image.tag", json!("2")),
            ("plain.inner", json!(true)),
            (r"labels.example\.com/owner", json!("us")),
        ]);
        let expected = json!({"image": {"name": "web", "tag": "2"}, "plain": {"inner": true},
            "labels": {"example.com/owner": "us"}});
        assert_eq!(values, expected);
    }

    #[test]
    fn keys_that_name_no_member_are_refused() {
        let deep = ["a"; MAX_DEPTH + 1].join(".");
        for key in ["", "a..b", ".a", "a.", "a[0]", "a[0].b", &deep] {
            assert!(set(&mut Map::new(), key, Value::Null).is_err(), "{key}");
        }
    }

    #[test]
    fn text_has_the_type_that_set_gives_it() {
        for (text, value) in [
            ("8080", json!(8080)),
            ("-1", json!(-1)),
            ("0", json!(0)),
            ("0755", json!("0755")),
            ("1.10", json!("1.10")),
            ("TRUE", json!(true)),
            ("null", Value::Null),
            ("", json!("")),
        ] {
            assert_eq!(typed(text), value, "{text}");
        }
    }

    #[test]
    fn assignments_are_separated_by_commas_without_a_backslash() {
        let found = assignments(r"service.port=8081,motd=a\,b\\c=d").unwrap();
        let expected = [
            ("service.port".to_owned(), json!(8081)),
            ("motd".to_owned(), json!(r"a,b\c=d")),
        ];
        assert_eq!(found, expected);
        for text in ["port", "a=1,b", "hosts={a,b}"] {
            assert!(assignments(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_of_values_is_one_object_and_is_bounded() {
        let values = |text: &str| read(text.as_bytes().to_vec(), 200);
        let merged = values("base: &b {x: 1}\nmore: {<<: *b, y: two}\n").unwrap();
        assert_eq!(merged["more"], json!({"x": 1, "y": "two"}));
        assert_eq!(values("# nothing\n").unwrap(), Map::new());
        assert!(values("- a\n").unwrap_err().contains("no object"));
        assert!(values("a: 1\nb: c: d\n").unwrap_err().contains("line 2"));
        let bomb = format!("a: &a {}\nb: [*a, *a, *a, *a, *a, *a]\n", "x".repeat(50));
        assert!(values(&bomb).unwrap_err().contains("too large"));
    }

    #[test]
    fn variables_in_values_keep_their_type_and_are_bounded() {
        let variables = Variables::from([
            ("n".to_owned(), Some(json!(3))),
            ("hosts".to_owned(), Some(json!(["a"]))),
            ("none".to_owned(), None),
        ]);
        let filled = |value: Value, max| fill(&value, &variables, &mut BytesLeft::new(max));
        let value =
            json!({"count": "$n", "name": "web-${n}", "hosts": ["$hosts"], "home": "$HOME $$n"});
        let expected = json!({"count": 3, "name": "web-3", "hosts": [["a"]], "home": "$HOME $n"});
        assert_eq!(filled(value, 100), Ok(expected));
        let missing = filled(json!("$none"), 100);
        assert!(
            matches!(missing, Err(TemplateError::Missing(_))),
            "{missing:?}"
        );
        let large = filled(json!(["$hosts", "$hosts"]), 8);
        assert_eq!(large, Err(TemplateError::TooLarge));
    }

    #[test]
    fn values_are_merged_member_by_member() {
        let mut values = json!({"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3});
        let over = json!({"a": {"y": 3}, "b": [4], "d": {"z": 1}});
        merge(
            values.as_object_mut().unwrap(),
            over.as_object().unwrap().clone(),
        );
        let expected = json!({"a": {"x": 1, "y": 3}, "b": [4], "c": 3, "d": {"z": 1}});
        assert_eq!(values, expected);
    }
}
