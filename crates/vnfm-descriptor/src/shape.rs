//! Asking nodes for a shape: text, list, mapping with known keys; what does not fit is a finding.

use crate::finding::{Finding, Sink, codes};
use crate::yaml::Node;

/// The text of a scalar.
pub(crate) fn text(node: &Node, what: &str, sink: &mut Sink) -> Option<String> {
    if node.as_str().is_none() {
        wrong(node, what, "text", sink);
    }
    node.as_str().map(str::to_owned)
}

/// The items of a list; null is an empty one.
pub(crate) fn list<'a>(node: &'a Node, what: &str, sink: &mut Sink) -> &'a [Node] {
    if !node.is_sequence() && !node.is_null() {
        wrong(node, what, "a list", sink);
    }
    node.items()
}

/// The entries of a mapping; null is an empty one.
pub(crate) fn mapping<'a>(node: &'a Node, what: &str, sink: &mut Sink) -> &'a [(Node, Node)] {
    if !node.is_mapping() && !node.is_null() {
        wrong(node, what, "a mapping", sink);
    }
    node.entries()
}

/// Checks that a mapping has no keys but these.
pub(crate) fn keys(node: &Node, known: &[&str], what: &str, sink: &mut Sink) {
    for (key, _) in mapping(node, what, sink) {
        let name = key.as_str().unwrap_or("~");
        if !known.contains(&name) {
            let finding = Finding::new(
                codes::KEY_UNKNOWN,
                key.span.clone(),
                format!("{what} has no key `{name}`"),
            );
            sink.add(finding.did_you_mean(name, known.iter().copied()));
        }
    }
}

fn wrong(node: &Node, what: &str, expected: &str, sink: &mut Sink) {
    sink.add(Finding::new(
        codes::SHAPE,
        node.span.clone(),
        format!("{what} is {}, not {expected}", node.kind()),
    ));
}
