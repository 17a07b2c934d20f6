//! Scalars that YAML 1.1 parsers read differently, in addition to those that the YAML parser reports.
//!
//! | written | YAML 1.2 | YAML 1.1 |
//! |---|---|---|
//! | `2026-11-01` | text | a timestamp |
//! | `0o17` | 15 | text |
//! | `1e3` | 1000 | text |
//! | `1.10` | 1.1 | 1.1, although a version was intended |

use crate::explain::codes;
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Node, Sink, Value, float, integer};

/// Checks every scalar below a node, except the values of the `exempt` keys.
pub(crate) fn traps(node: &Node, exempt: &[&str], sink: &mut Sink) {
    match &node.value {
        Value::Scalar { text, plain: true } => scalar(node, text, sink),
        Value::Scalar { .. } => {}
        Value::Sequence(items) => items.iter().for_each(|item| traps(item, exempt, sink)),
        Value::Mapping(entries) => {
            for (key, value) in entries {
                if !key.as_str().is_some_and(|key| exempt.contains(&key)) {
                    traps(value, exempt, sink);
                }
            }
        }
    }
}

fn scalar(node: &Node, text: &str, sink: &mut Sink) {
    if is_date(text) {
        let message = format!("YAML 1.1 parsers read unquoted `{text}` as a timestamp");
        let finding = Finding::new(codes::YAML_DATE, node.span.clone(), message);
        sink.add(finding.hint(format!("write '{text}'")));
    } else if text.starts_with("0o") && integer(text).is_some() || is_power(text) {
        let message = format!("YAML 1.1 parsers read unquoted `{text}` as text");
        let finding = Finding::new(codes::YAML_11, node.span.clone(), message);
        sink.add(finding.hint("quote it, or write a decimal number"));
    } else if is_version(text) {
        let message = format!("unquoted `{text}` is a number and loses its last zero");
        let finding = Finding::new(codes::YAML_NUMBER, node.span.clone(), message);
        sink.add(finding.hint(format!("write '{text}'")));
    }
}

/// `2026-11-01`, with or without a time.
fn is_date(text: &str) -> bool {
    let day = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split('-').collect();
    let digits = |part: &str, min: usize, max: usize| {
        (min..=max).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let alone = digits(month, 2, 2) && digits(day, 2, 2);
    let timed = text.len() > 10 && digits(month, 1, 2) && digits(day, 1, 2) && text.contains(':');
    digits(year, 4, 4) && (text.len() == 10 && alone || timed)
}

/// `1e3`: YAML 1.1 requires a decimal point.
fn is_power(text: &str) -> bool {
    !text.contains('.')
        && text.contains(['e', 'E'])
        && !text.starts_with("0x")
        && float(text).is_some()
}

/// `1.10`: as a number, it loses the last zero.
fn is_version(text: &str) -> bool {
    let Some((whole, part)) = text.split_once('.') else {
        return false;
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(part) && part.len() > 1 && part.ends_with('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ambiguous_scalars_are_reported() {
        for text in ["2026-11-01", "2026-1-1 10:00:00", "2026-11-01T10:00:00Z"] {
            assert!(is_date(text), "{text}");
        }
        for text in ["2026-11", "20-11-2026", "2026-11-01a", "a-b-c", "1-2-3"] {
            assert!(!is_date(text), "{text}");
        }
        assert!(is_power("1e3") && !is_power("1.0e3") && !is_power("e3") && !is_power("0x1e3"));
        assert!(
            is_version("1.10") && !is_version("1.0") && !is_version("1.1") && !is_version("1.1.0")
        );
    }
}
