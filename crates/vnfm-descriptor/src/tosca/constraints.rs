//! TOSCA's constraints, and whether a value satisfies one.
//!
//! Comparison depends on the declared type: `1.10` is after `1.9` as a version and before it as a float,
//! and `1 GiB` is more than `1 GB`. Values that cannot be compared are reported elsewhere and satisfy
//! every constraint here. A pattern must match the entire value.

use super::scalars::{self, UNBOUNDED};
use super::types::Types;
use super::units;
use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::{Node, Value, float};
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;

const KNOWN: &[&str] = &[
    "equal",
    "greater_than",
    "greater_or_equal",
    "less_than",
    "less_or_equal",
    "in_range",
    "valid_values",
    "length",
    "min_length",
    "max_length",
    "pattern",
    "schema",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Maximum size of a compiled pattern in bytes; the compiler refuses larger ones.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A pattern that matches entire values; `None` if it is not supported.
pub(super) fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(&anchored(pattern))
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .ok()
}

/// The pattern, anchored at both ends.
pub(super) fn anchored(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

/// Checks the constraints of a declaration.
pub(super) fn check_written(types: &Types<'_>, declared: &Node, sink: &mut Sink) {
    let Some(constraints) = declared.get("constraints") else {
        return;
    };
    for constraint in crate::shape::list(constraints, "`constraints`", sink) {
        for (key, bound) in crate::shape::mapping(constraint, "a constraint", sink) {
            let name = key.as_str().unwrap_or("~");
            if !is_known(name) {
                let message = format!("unknown constraint `{name}`");
                let finding = Finding::new(codes::KEY_UNKNOWN, key.span.clone(), message);
                sink.add(finding.did_you_mean(name, KNOWN.iter().copied()));
            } else if name == "pattern"
                && bound
                    .as_str()
                    .and_then(|pattern| types.pattern(pattern))
                    .is_none()
            {
                let message = format!(
                    "the pattern `{}` is not supported, so values are not checked against it",
                    bound.as_str().unwrap_or("~")
                );
                let hint = "write a regular expression without look-around and backreferences; a package may have at most 200";
                sink.add(Finding::new(codes::PATTERN, bound.span.clone(), message).hint(hint));
            }
        }
    }
}

/// Whether a value of a type satisfies the constraint `name: bound`.
pub(super) fn holds(types: &Types<'_>, kind: &str, node: &Node, name: &str, bound: &Node) -> bool {
    let compared =
        |bound: &Node, accepts: fn(Ordering) -> bool| match (node.as_str(), bound.as_str()) {
            (_, Some(UNBOUNDED)) => true,
            (Some(value), Some(bound)) => order(kind, value, bound).is_none_or(accepts),
            _ => true,
        };
    match name {
        "valid_values" => bound
            .items()
            .iter()
            .any(|allowed| same(kind, node, allowed)),
        "equal" => same(kind, node, bound),
        "greater_or_equal" => compared(bound, Ordering::is_ge),
        "greater_than" => compared(bound, Ordering::is_gt),
        "less_or_equal" => compared(bound, Ordering::is_le),
        "less_than" => compared(bound, Ordering::is_lt),
        "in_range" => match (bound.items(), scalars::range(node), scalars::range(bound)) {
            (_, Some((from, to)), Some((low, high))) => low <= from && to <= high,
            ([low, high], _, _) => {
                compared(low, Ordering::is_ge) && compared(high, Ordering::is_le)
            }
            _ => true,
        },
        "min_length" => bound.as_i64().is_none_or(|bound| length(node) >= bound),
        "max_length" => bound.as_i64().is_none_or(|bound| length(node) <= bound),
        "length" => bound.as_i64().is_none_or(|bound| length(node) == bound),
        "pattern" => match (node.as_str(), bound.as_str()) {
            (Some(value), Some(pattern)) => types.matches(pattern, value),
            _ => true,
        },
        _ => true,
    }
}

fn same(kind: &str, node: &Node, other: &Node) -> bool {
    match (node.as_str(), other.as_str()) {
        (Some(value), Some(bound)) => {
            value == bound || order(kind, value, bound) == Some(Ordering::Equal)
        }
        _ => node.to_json() == other.to_json(),
    }
}

/// Compares two values of a type; `None` if they cannot be compared.
fn order(kind: &str, value: &str, bound: &str) -> Option<Ordering> {
    let by = |read: fn(&str) -> Option<f64>| read(value)?.partial_cmp(&read(bound)?);
    match kind {
        "version" => scalars::Version::read(value)?.compare(&scalars::Version::read(bound)?),
        "timestamp" => by(scalars::timestamp),
        "scalar-unit.size" => Some(units::bytes(value)?.cmp(&units::bytes(bound)?)),
        "scalar-unit.time" => by(units::seconds),
        "scalar-unit.frequency" => by(units::hertz),
        "scalar-unit.bitrate" => by(units::bits_per_second),
        "integer" | "float" => by(float),
        _ => None,
    }
}

fn length(node: &Node) -> i64 {
    let length = match &node.value {
        Value::Scalar { text, .. } => text.chars().count(),
        Value::Sequence(items) => items.len(),
        Value::Mapping(entries) => entries.len(),
    };
    i64::try_from(length).unwrap_or(i64::MAX)
}
