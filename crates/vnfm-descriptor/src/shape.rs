//! Checks the kind of a node: text, list, or mapping with known keys; anything else becomes a finding.

use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::Node;

/// The text of a scalar, unless it is null.
pub(crate) fn text(node: &Node, subject: &str, sink: &mut Sink) -> Option<String> {
    if node.as_str().is_none() {
        report(node, subject, "text", sink);
    }
    node.as_str().map(str::to_owned)
}

/// The items of a list; null counts as an empty list.
pub(crate) fn list<'a>(node: &'a Node, subject: &str, sink: &mut Sink) -> &'a [Node] {
    if !node.is_sequence() && !node.is_null() {
        report(node, subject, "a list", sink);
    }
    node.items()
}

/// The entries of a mapping; null counts as an empty mapping.
pub(crate) fn mapping<'a>(node: &'a Node, subject: &str, sink: &mut Sink) -> &'a [(Node, Node)] {
    if !node.is_mapping() && !node.is_null() {
        report(node, subject, "a mapping", sink);
    }
    node.entries()
}

/// Reports the keys of a mapping that are not among `known`.
pub(crate) fn keys(node: &Node, known: &[&str], subject: &str, sink: &mut Sink) {
    for (key, _) in mapping(node, subject, sink) {
        let name = key.as_str().unwrap_or("~");
        if !known.contains(&name) {
            let finding = Finding::new(
                codes::KEY_UNKNOWN,
                key.span.clone(),
                format!("{subject} has no key `{name}`"),
            );
            sink.add(finding.did_you_mean(name, known.iter().copied()));
        }
    }
}

fn report(node: &Node, subject: &str, expected: &str, sink: &mut Sink) {
    sink.add(Finding::new(
        codes::SHAPE,
        node.span.clone(),
        format!("{subject} is {}, not {expected}", node.kind()),
    ));
}
