//! SQLite's spelling of the JSON operations in filters; another database would need its own version of this file.
//!
//! A `path` consists only of attribute names from the standard; every other name is a bound value.

/// The path of the document itself.
pub(crate) const ROOT: &str = "$";

/// The path of a member of the value at `path`.
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

/// The document with a member that has this JSON text as its value.
pub(crate) fn with_member(document: &str, name: &str, text: &str) -> String {
    format!(
        "json_set({document}, '{}', json({text}))",
        member(ROOT, name)
    )
}

/// The document without a member.
pub(crate) fn without_member(document: &str, name: &str) -> String {
    format!("json_remove({document}, '{}')", member(ROOT, name))
}

/// The value of a row of [`each`].
pub(crate) fn value(row: &str) -> String {
    format!("{row}.value")
}

/// The type of a row's value: [`TEXT`], [`NUMBERS`], [`TRUE`], [`FALSE`] or another.
pub(crate) fn kind(row: &str) -> String {
    format!("{row}.type")
}

/// The key of a row: a member's name or an index.
pub(crate) fn key(row: &str) -> String {
    format!("{row}.key")
}

/// Rows of the objects in a row's value: the value itself, or the entries of a list.
pub(crate) fn objects(row: &str) -> String {
    format!(
        "json_each(CASE {row}.type WHEN 'array' THEN {row}.value WHEN 'object' THEN '[' || {row}.value || ']' ELSE '[]' END)"
    )
}

/// Rows of the members of a row's value; none unless it is an object.
pub(crate) fn members(row: &str) -> String {
    format!("json_each(CASE {row}.type WHEN 'object' THEN {row}.value ELSE '{{}}' END)")
}

/// Rows of the entries of a row's value; none unless it is a list.
pub(crate) fn entries(row: &str) -> String {
    format!("json_each(CASE {row}.type WHEN 'array' THEN {row}.value ELSE '[]' END)")
}

/// A JSON list of the values of `column` in these rows.
pub(crate) fn list(column: &str, rows: &str) -> String {
    format!("(SELECT json_group_array({column}) FROM {rows})")
}

pub(crate) const TEXT: &str = "'text'";
pub(crate) const NUMBERS: &str = "'integer', 'real'";
pub(crate) const TRUE: &str = "'true'";
pub(crate) const FALSE: &str = "'false'";

/// True if the text `value` contains `part`.
pub(crate) fn contains(value: &str, part: &str) -> String {
    format!("instr({value}, {part}) > 0")
}

pub(crate) fn as_text(value: &str) -> String {
    format!("CAST({value} AS TEXT)")
}

/// The sort key of a time: its text without the zone, so that `…:00.5Z` sorts after `…:00Z`.
pub(crate) fn time(value: &str) -> String {
    format!("rtrim({value}, 'Z')")
}
