//! Strict JSON: an error names the member by its path and never quotes its value, which may be a misplaced secret. A list
//! is not accepted where a type is an object, and a member not twice.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::error::Category;
use std::fmt;

mod differences;
mod objects;
mod path;
mod write;

pub use differences::differing_paths;
pub use write::{to_json, to_json_or_log};

use path::PathError;

/// Maximum number of characters of a client's text in an error.
const MAX_QUOTED_CHARS: usize = 256;

/// Why a text or a value is not of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonError {
    /// Whether the text is JSON, only of another type.
    pub is_json: bool,
    message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JsonError {}

/// Parses a text; an error names the member, such as `vimConnectionInfo.vim1.vimId`.
///
/// # Errors
///
/// If the text is not JSON, or does not match the type.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    // serde would read a list as the members of an object, in order.
    if text.trim_ascii_start().starts_with(b"[") {
        let message =
            "the body does not match the resource's data type: it is a list instead of an object";
        return Err(JsonError {
            is_json: is_json(text),
            message: message.to_owned(),
        });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = path::deserialize(&mut deserializer).map_err(|error| JsonError {
        is_json: error.cause.is_data() && is_json(text),
        message: describe(&error),
    })?;
    deserializer.end().map_err(|error| JsonError {
        is_json: false,
        message: format!("unexpected text after the JSON body: {error}"),
    })?;
    // A text that was read as `T` is JSON.
    let body: Option<Value> = serde_json::from_slice(text).ok();
    body.as_ref().map_or(Ok(()), refuse_lists::<T>)?;
    Ok(value)
}

/// As [`parse`], for a value.
///
/// # Errors
///
/// If the value does not match the type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, JsonError> {
    let read = path::deserialize(value).map_err(|error| JsonError {
        is_json: true,
        message: describe(&error),
    })?;
    refuse_lists::<T>(value)?;
    Ok(read)
}

/// Converts a request of ours to JSON.
pub(crate) fn to_value<T: Serialize>(request: &T) -> Result<Value, JsonError> {
    serde_json::to_value(request).map_err(|_| JsonError {
        is_json: true,
        message: "the body cannot be stored as JSON".to_owned(),
    })
}

/// Refuses a list where `T` expects an object, at any depth.
fn refuse_lists<T: DeserializeOwned>(value: &Value) -> Result<(), JsonError> {
    match objects::list_for_object::<T>(value) {
        Some((path, what)) => Err(JsonError {
            is_json: true,
            message: format!("`{}`: {what}", cut(&path)),
        }),
        None => Ok(()),
    }
}

/// Whether the entire text is JSON: it may be truncated after a member with a wrong type.
fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Describes an error with the path of the member but without its value.
fn describe(error: &PathError) -> String {
    let cause = &error.cause;
    let detail = match cause.classify() {
        Category::Data => without_value(&cause.to_string()),
        // Contains position and cause, but none of the text.
        Category::Io | Category::Syntax | Category::Eof => cause.to_string(),
    };
    match error.path.as_str() {
        "." => format!("the body does not match the resource's data type: {detail}"),
        path => format!("`{}`: {detail}", cut(path)),
    }
}

/// Cuts a client's text, which may be arbitrarily long.
fn cut(text: &str) -> &str {
    text.char_indices()
        .nth(MAX_QUOTED_CHARS)
        .map_or(text, |(end, _)| &text[..end])
}

/// Removes the value from serde's message: of `invalid type: string "…", expected a map`, only the type remains. What
/// is expected is our own text, after the last `, expected `, whatever the value is.
fn without_value(message: &str) -> String {
    const NAMED: &[&str] = &["unknown field `", "missing field `", "duplicate field `"];
    let (what, position) = message.rsplit_once(" at line ").unwrap_or((message, ""));
    let position = if position.is_empty() {
        String::new()
    } else {
        format!(" at line {position}")
    };
    if NAMED.iter().any(|start| what.starts_with(start)) {
        return format!("{}{position}", cut(what));
    }
    let expected = what
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected);
    let kind = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| Some((start, what.strip_prefix(start)?)));
    match (kind, expected) {
        (Some((start, value)), Some(expected)) => {
            let value = value
                .rsplit_once(", expected ")
                .map_or(value, |(value, _)| value);
            let kind: Vec<_> = value.split(' ').take_while(|word| is_word(word)).collect();
            format!("{start}{}, expected {expected}{position}", kind.join(" "))
        }
        (None, Some(expected)) if what.starts_with("unknown variant `") => {
            format!("unknown value, expected {expected}{position}")
        }
        _ => format!("the value is not valid for this member{position}"),
    }
}

/// Whether a word is part of serde's description of a value: `string`, `floating`, `byte`.
fn is_word(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "string",
        "boolean",
        "integer",
        "floating",
        "point",
        "character",
        "byte",
        "array",
        "unit",
        "value",
        "Option",
        "newtype",
        "struct",
        "sequence",
        "map",
        "enum",
        "null",
        "variant",
        "tuple",
    ];
    WORDS.contains(&word)
}
