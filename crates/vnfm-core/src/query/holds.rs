//! A filter held against an entry in memory: what it says, read plainly. A database that compiles filters to its own
//! language is tried against this.

use super::{Comparison, Filter, Hop, Leaf, Operand, Term};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

impl Filter {
    /// Whether all of it holds of an entry, as its resource shows it.
    pub fn holds(&self, entry: &Value) -> bool {
        all(
            entry,
            self.0
                .iter()
                .map(|term| Way {
                    hops: &term.hops,
                    term,
                })
                .collect(),
        )
    }
}

/// A term, and what is left of its way.
#[derive(Clone, Copy)]
struct Way<'f> {
    hops: &'f [Hop],
    term: &'f Term,
}

impl<'f> Way<'f> {
    /// Its hops up to the first list or map and into it, where something is to be looked for in an entry of that.
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

/// Whether all of `ways` hold from `value` on; those that go into the same list speak of the same entry of it.
fn all(value: &Value, mut ways: Vec<Way<'_>>) -> bool {
    while let Some(first) = ways.first().copied() {
        let Some(opening) = first.opening() else {
            if !one(value, first) {
                return false;
            }
            ways.remove(0);
            continue;
        };
        let (same, others): (Vec<_>, Vec<_>) = ways
            .into_iter()
            .partition(|way| way.opening() == Some(opening));
        let deeper: Vec<_> = same
            .iter()
            .map(|way| all_from(way, opening.len()))
            .collect();
        if !follow(vec![value], opening)
            .iter()
            .any(|entry| all(entry, deeper.clone()))
        {
            return false;
        }
        ways = others;
    }
    true
}

fn all_from<'f>(way: &Way<'f>, hops: usize) -> Way<'f> {
    Way {
        hops: &way.hops[hops..],
        term: way.term,
    }
}

/// Whether one term holds from `value` on.
fn one(value: &Value, way: Way<'_>) -> bool {
    let mut values = follow(vec![value], way.hops);
    match way.term.leaf {
        Leaf::Hidden => return false,
        Leaf::Key | Leaf::Any => values = values.into_iter().flat_map(entries).collect(),
        _ => {}
    }
    if way.term.leaf == Leaf::Key {
        let keys = values
            .into_iter()
            .filter_map(Value::as_object)
            .flat_map(|object| object.keys());
        return keys
            .cloned()
            .map(Value::from)
            .any(|key| compares(way.term, &key));
    }
    values.into_iter().any(|value| compares(way.term, value))
}

/// What `hops` lead to.
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

/// Of a list its entries, else itself.
fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(all) => all.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}

/// Whether a simple value compares so; what is absent, or not simple, does not.
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

/// What the operands stand for.
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
    reason = "numbers of JSON are compared as such"
)]
fn real(whole: i64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::Filter;
    use serde_json::json;
    use vnfm_types::shape::VNF_INSTANCES;

    #[test]
    fn what_goes_into_the_same_list_speaks_of_the_same_entry() {
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
