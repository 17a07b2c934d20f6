//! The syntax of names in the Kubernetes API.

use std::fmt::Write as _;

/// Longest name of an object.
const MAX_NAME_LEN: usize = 253;
/// Longest label that RFC 1123 permits.
const MAX_LABEL_LEN: usize = 63;

/// Percent-encodes a name as one path segment.
pub(crate) fn segment(name: &str) -> String {
    const PLAIN: &[u8] = b"-._~!$&'()*+,;=:@";
    let mut written = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "%{byte:02X}"); // writing to a String cannot fail
        }
    }
    written
}

/// Whether `text` is `VERSION` or `GROUP/VERSION`.
pub(crate) fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((group, version)) => is_subdomain(group) && is_label(version),
        None => is_label(text),
    }
}

/// Whether `name` is an RFC 1123 label: 1 to 63 characters.
pub(crate) fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_LABEL_LEN).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// An RFC 1123 subdomain as Kubernetes defines it: its parts may be longer than a label.
pub(crate) fn is_subdomain(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= MAX_NAME_LEN && name.split('.').all(is_part)
}

pub(crate) fn is_segment(name: &str) -> bool {
    (1..=MAX_NAME_LEN).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(['/', '%'])
        && !name.contains(char::is_control)
}

pub(crate) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_value(name),
        None => is_label_value(key),
    }
}

/// The value of a label, or the name part of a qualified name.
pub(crate) fn is_label_value(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_end = |c: char| c.is_ascii_alphanumeric();
    (1..=MAX_LABEL_LEN).contains(&name.len())
        && name.chars().all(inner)
        && name.starts_with(is_end)
        && name.ends_with(is_end)
}
