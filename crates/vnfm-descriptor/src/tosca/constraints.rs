//! TOSCA's constraints: which there are, and whether a value keeps one.
//!
//! What a constraint compares by depends on the declared kind: `1.10` is after `1.9` as a version
//! and before it as a float, and `1 GiB` is more than `1 GB`. What cannot be compared was found
//! wrong elsewhere, so it breaks nothing here. A pattern is matched against the whole value.

use super::scalars::{self, UNBOUNDED};
use super::types::Types;
use super::units;
use crate::finding::{Finding, Sink, codes};
use crate::yaml::{Node, Value, float};
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;

/// The constraints that there are.
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

/// Whether there is a constraint of this name.
pub(super) fn known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Bytes that a compiled pattern may take; larger ones are refused by the compiler.
const PATTERN_BYTES: usize = 1 << 20;

/// A pattern that matches whole values; `None` if it cannot be used.
pub(super) fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(&whole(pattern))
        .size_limit(PATTERN_BYTES)
        .build()
        .ok()
}

/// The pattern, bound to both ends of the value.
pub(super) fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

/// Checks how constraints are written at a declaration.
pub(super) fn check_written(types: &Types<'_>, declared: &Node, sink: &mut Sink) {
    let Some(constraints) = declared.get("constraints") else {
        return;
    };
    for constraint in crate::shape::list(constraints, "`constraints`", sink) {
        for (key, bound) in crate::shape::mapping(constraint, "a constraint", sink) {
            let name = key.as_str().unwrap_or("~");
            if !known(name) {
                let message = format!("there is no constraint `{name}`");
                let finding = Finding::new(codes::KEY_UNKNOWN, key.span.clone(), message);
                sink.add(finding.did_you_mean(name, KNOWN.iter().copied()));
            } else if name == "pattern"
                && bound
                    .as_str()
                    .and_then(|pattern| types.pattern(pattern))
                    .is_none()
            {
                let message = format!(
                    "the pattern `{}` is not checked",
                    bound.as_str().unwrap_or("~")
                );
                let hint = "patterns are regular expressions without look-around and back references, at most 200";
                sink.add(Finding::new(codes::PATTERN, bound.span.clone(), message).hint(hint));
            }
        }
    }
}

/// Whether a value of a kind keeps the constraint `name: bound`.
pub(super) fn holds(types: &Types<'_>, kind: &str, node: &Node, name: &str, bound: &Node) -> bool {
    let compared = |bound: &Node, fits: fn(Ordering) -> bool| match (node.as_str(), bound.as_str())
    {
        (_, Some(UNBOUNDED)) => true,
        (Some(value), Some(bound)) => order(kind, value, bound).is_none_or(fits),
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

/// How two values of a kind compare.
fn order(kind: &str, value: &str, bound: &str) -> Option<Ordering> {
    let by = |read: fn(&str) -> Option<f64>| read(value)?.partial_cmp(&read(bound)?);
    match kind {
        "version" => scalars::Version::read(value)?.compare(&scalars::Version::read(bound)?),
        "timestamp" => by(scalars::moment),
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
