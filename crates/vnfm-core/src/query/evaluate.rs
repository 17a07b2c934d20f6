//! Evaluates a filter on an entry in memory. Databases that compile filters to their own language are tested against it.

use super::{Comparison, Filter, Hop, Leaf, Operand, Term};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

impl Filter {
    /// Whether an entry, as the API shows it, matches the filter.
    pub fn holds(&self, entry: &Value) -> bool {
        all(
            entry,
            self.0
                .iter()
                .map(|term| Path {
                    hops: &term.hops,
                    term,
                })
                .collect(),
        )
    }
}

/// A term, and the rest of its path.
#[derive(Clone, Copy)]
struct Path<'f> {
    hops: &'f [Hop],
    term: &'f Term,
}

impl<'f> Path<'f> {
    /// The hops up to and into the first list or map, if the path continues inside one of its entries.
    fn opening(self) -> Option<&'f [Hop]> {
        let members = self
            .hops
            .iter()
            .take_while(|hop| matches!(hop, Hop::Member(_)))
            .count();
        match &self.hops[members..] {
            [Hop::Each, _, ..] | [Hop::Entry(_), ..] => Some(&self.hops[..=members]),
            _ => None,
        }
    }
}

/// Whether all of `ways` hold from `value` on. Those that go into the same list must hold for the same entry.
fn all(value: &Value, mut paths: Vec<Path<'_>>) -> bool {
    while let Some(first) = paths.first().copied() {
        let Some(opening) = first.opening() else {
            if !one(value, first) {
                return false;
            }
            paths.remove(0);
            continue;
        };
        let (same, others): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .partition(|path| path.opening() == Some(opening));
        let deeper: Vec<_> = same
            .iter()
            .map(|path| remainder(path, opening.len()))
            .collect();
        if !follow(vec![value], opening)
            .iter()
            .any(|entry| all(entry, deeper.clone()))
        {
            return false;
        }
        paths = others;
    }
    true
}

fn remainder<'f>(path: &Path<'f>, hops: usize) -> Path<'f> {
    Path {
        hops: &path.hops[hops..],
        term: path.term,
    }
}

fn one(value: &Value, path: Path<'_>) -> bool {
    let mut values = follow(vec![value], path.hops);
    match path.term.leaf {
        Leaf::Hidden => return false,
        Leaf::Key | Leaf::Any => values = values.into_iter().flat_map(entries).collect(),
        _ => {}
    }
    if path.term.leaf == Leaf::Key {
        let keys = values
            .into_iter()
            .filter_map(Value::as_object)
            .flat_map(|object| object.keys());
        return keys
            .cloned()
            .map(Value::from)
            .any(|key| compares(path.term, &key));
    }
    values.into_iter().any(|value| compares(path.term, value))
}

/// The values that `hops` lead to.
fn follow<'v>(mut values: Vec<&'v Value>, hops: &[Hop]) -> Vec<&'v Value> {
    for hop in hops {
        values = values
            .into_iter()
            .flat_map(|value| step(value, hop))
            .collect();
    }
    values
}

fn step<'v>(value: &'v Value, hop: &Hop) -> Vec<&'v Value> {
    match hop {
        Hop::Member(name) => value.get(name).into_iter().collect(),
        Hop::Entry(key) => value.get(key).into_iter().collect(),
        Hop::Each => match value {
            Value::Object(map) => map.values().collect(),
            list => list.as_array().into_iter().flatten().collect(),
        },
        Hop::Free(name) => entries(value).filter_map(|one| one.get(name)).collect(),
    }
}

/// The entries of a list, or the value itself.
fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(all) => all.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}

/// Whether a simple value compares so; false for absent and structured values.
fn compares(term: &Term, value: &Value) -> bool {
    if value.is_null() || value.is_object() || value.is_array() {
        return false;
    }
    let order = |wanted: fn(Ordering) -> bool| {
        readings(term).any(|operand| ordered(term, value, &operand).is_some_and(wanted))
    };
    let equal = || {
        order(Ordering::is_eq)
            || readings(term).any(|operand| match (&*operand, value) {
                (Operand::Truth(a), Value::Bool(b)) => a == b,
                _ => false,
            })
    };
    match term.comparison {
        Comparison::Eq | Comparison::In => equal(),
        Comparison::Neq | Comparison::Nin => !equal(),
        Comparison::Gt => order(Ordering::is_gt),
        Comparison::Gte => order(Ordering::is_ge),
        Comparison::Lt => order(Ordering::is_lt),
        Comparison::Lte => order(Ordering::is_le),
        Comparison::Cont => contains(term, value),
        Comparison::Ncont => !contains(term, value),
    }
}

/// The possible interpretations of the operands.
fn readings(term: &Term) -> impl Iterator<Item = Cow<'_, Operand>> {
    term.operands
        .iter()
        .flat_map(|operand| match (term.leaf, operand) {
            (Leaf::Any, Operand::Text(text)) => Operand::readings(text)
                .into_iter()
                .map(Cow::Owned)
                .collect(),
            (_, one) => vec![Cow::Borrowed(one)],
        })
}

fn ordered(term: &Term, value: &Value, operand: &Operand) -> Option<Ordering> {
    match (operand, value) {
        // `…:00.5Z` comes after `…:00Z`.
        (Operand::Text(other), Value::String(text)) if term.leaf == Leaf::Time => {
            Some(text.trim_end_matches('Z').cmp(other.trim_end_matches('Z')))
        }
        (Operand::Text(other), Value::String(text)) => Some(text.as_str().cmp(other)),
        (Operand::Whole(other), Value::Number(number)) => {
            number.as_f64()?.partial_cmp(&real(*other))
        }
        (Operand::Real(other), Value::Number(number)) => number.as_f64()?.partial_cmp(other),
        _ => None,
    }
}

fn contains(term: &Term, value: &Value) -> bool {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number.to_string()),
        _ => return false,
    };
    term.operands
        .iter()
        .any(|part| matches!(part, Operand::Text(part) if text.contains(part.as_str())))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "JSON numbers are compared as floating point"
)]
fn real(full_entry: i64) -> f64 {
    full_entry as f64
}

#[cfg(test)]
mod tests {
    use super::Filter;
    use serde_json::json;
    use vnfm_types::shape::VNF_INSTANCES;

    #[test]
    fn terms_on_the_same_list_must_match_the_same_entry() {
        let vnfc = |id: &str, vdu: &str| json!({"id": id, "vduId": vdu});
        let entry = json!({"id": "i", "instantiatedVnfInfo": {"vnfcResourceInfo": [
            vnfc("c1", "front"), vnfc("c2", "back")]}});
        let within = "instantiatedVnfInfo/vnfcResourceInfo";
        for (filter, holds) in [
            (
                format!("(eq,{within}/id,c1);(eq,{within}/vduId,front)"),
                true,
            ),
            (
                format!("(eq,{within}/id,c1);(eq,{within}/vduId,back)"),
                false,
            ),
            ("(eq,id,i)".to_owned(), true),
            ("(neq,vnfInstanceName,x)".to_owned(), false),
        ] {
            let read = Filter::parse(&VNF_INSTANCES, &filter).unwrap();
            assert_eq!(read.holds(&entry), holds, "{filter}");
        }
    }
}
