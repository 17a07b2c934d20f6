//! How this database spells what is done with JSON in a filter; another one has its own file of these functions.
//!
//! A `path` is made of attribute names of the standard alone; every other name is a bound value.

/// The path of the whole document, and of a member in it.
pub(crate) const ROOT: &str = "$";

/// The path of a member of what lies at `path`.
pub(crate) fn member(path: &str, name: &str) -> String {
    format!("{path}.\"{name}\"")
}

/// The rows (`key`, `value`, `type`) of the list or the object at a path.
pub(crate) fn each(document: &str, path: &str) -> String {
    format!("json_each({document}, '{path}')")
}

/// The value at a path: text, number, or 1 and 0.
pub(crate) fn extract(document: &str, path: &str) -> String {
    format!("json_extract({document}, '{path}')")
}

/// The value of a row, the kind of it, and its key.
pub(crate) fn value(row: &str) -> String {
    format!("{row}.value")
}

/// What kind a row's value is, one of [`TEXT`], [`NUMBERS`], [`TRUE`], [`FALSE`] and others.
pub(crate) fn kind(row: &str) -> String {
    format!("{row}.type")
}

/// The key of a row.
pub(crate) fn key(row: &str) -> String {
    format!("{row}.key")
}

/// Rows of the objects that a row's value is: itself, or the entries of the list that it is.
pub(crate) fn objects(row: &str) -> String {
    format!(
        "json_each(CASE {row}.type WHEN 'array' THEN {row}.value WHEN 'object' THEN '[' || {row}.value || ']' ELSE '[]' END)"
    )
}

/// Rows of the members of the object that a row's value is; none where it is none.
pub(crate) fn members(row: &str) -> String {
    format!("json_each(CASE {row}.type WHEN 'object' THEN {row}.value ELSE '{{}}' END)")
}

/// Rows of the entries of the list that a row's value is; none where it is none.
pub(crate) fn entries(row: &str) -> String {
    format!("json_each(CASE {row}.type WHEN 'array' THEN {row}.value ELSE '[]' END)")
}

/// The kind of texts.
pub(crate) const TEXT: &str = "'text'";
/// The kinds of numbers.
pub(crate) const NUMBERS: &str = "'integer', 'real'";
/// The kind of true.
pub(crate) const TRUE: &str = "'true'";
/// The kind of false.
pub(crate) const FALSE: &str = "'false'";

/// True where the text `value` has `part` in it.
pub(crate) fn contains(value: &str, part: &str) -> String {
    format!("instr({value}, {part}) > 0")
}

/// A number as text.
pub(crate) fn as_text(value: &str) -> String {
    format!("CAST({value} AS TEXT)")
}

/// What times are compared by: their text without the zone, so that `…:00.5Z` comes after `…:00Z`.
pub(crate) fn time(value: &str) -> String {
    format!("rtrim({value}, 'Z')")
}
