//! Builds nodes from the events of the parser: anchors, merges, duplicate keys and limits.

use super::{Node, Value};
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use saphyr_parser::{Event, ScalarStyle};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// A collection that is being read.
enum Open {
    Sequence {
        span: Span,
        anchor: usize,
        items: Vec<Node>,
    },
    Mapping {
        span: Span,
        anchor: usize,
        entries: Vec<(Node, Node)>,
        key: Option<Node>,
        seen: HashMap<String, usize>,
        twice: bool,
    },
}

pub(super) struct Builder<'a> {
    file: Arc<str>,
    limits: &'a Limits,
    sink: &'a mut Sink,
    stack: Vec<Open>,
    /// Anchored nodes with how many nodes and levels they have.
    anchors: HashMap<usize, (Node, (usize, usize))>,
    documents: Vec<Node>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(file: &str, limits: &'a Limits, sink: &'a mut Sink) -> Self {
        Builder {
            file: Arc::from(file),
            limits,
            sink,
            stack: Vec::new(),
            anchors: HashMap::new(),
            documents: Vec::new(),
            nodes: 0,
        }
    }

    pub(super) fn into_documents(self) -> Vec<Node> {
        self.documents
    }

    /// Reports why the parser cannot go on.
    pub(super) fn syntax_error(&mut self, reason: &str, line: usize, column: usize) {
        let span = Span {
            file: Arc::clone(&self.file),
            line,
            column,
        };
        let message = format!("this is not YAML: {reason}");
        self.sink.add(Finding::new(codes::YAML, span, message));
    }

    /// Takes one event; `None` stops the reading.
    pub(super) fn event(&mut self, event: Event<'_>, line: usize, column: usize) -> Option<()> {
        let span = Span {
            file: Arc::clone(&self.file),
            line,
            column,
        };
        match event {
            Event::Scalar(text, style, anchor, _tag) => {
                let plain = style == ScalarStyle::Plain;
                let node = Node {
                    value: Value::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                    span,
                };
                self.lint(&node);
                self.count(1, &node.span)?;
                self.finished(node, anchor);
                Some(())
            }
            Event::Alias(anchor) => {
                let Some((size, depth)) = self.anchors.get(&anchor).map(|(_, extent)| *extent)
                else {
                    self.sink.add(Finding::new(
                        codes::YAML,
                        span,
                        "an alias is used inside its own anchor",
                    ));
                    return None;
                };
                self.count(size, &span)?;
                self.fits(depth, &span)?;
                let node = self.anchors.get(&anchor).map(|(node, _)| node.clone())?;
                self.finished(node, 0);
                Some(())
            }
            Event::SequenceStart(anchor, _tag) => self.open(Open::Sequence {
                span,
                anchor,
                items: Vec::new(),
            }),
            Event::MappingStart(anchor, _tag) => {
                // Most mappings have one entry, and a vector begins with room for four.
                let (entries, seen) = (Vec::with_capacity(1), HashMap::new());
                self.open(Open::Mapping {
                    span,
                    anchor,
                    entries,
                    key: None,
                    seen,
                    twice: false,
                })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::StreamStart
            | Event::StreamEnd
            | Event::Nothing => Some(()),
        }
    }

    fn open(&mut self, open: Open) -> Option<()> {
        let (Open::Sequence { span, .. } | Open::Mapping { span, .. }) = &open;
        let span = span.clone();
        self.fits(1, &span)?;
        self.count(1, &span)?;
        self.stack.push(open);
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let (node, anchor) = match self.stack.pop()? {
            Open::Sequence {
                span,
                anchor,
                mut items,
            } => {
                items.shrink_to_fit();
                (
                    Node {
                        value: Value::Sequence(items),
                        span,
                    },
                    anchor,
                )
            }
            Open::Mapping {
                span,
                anchor,
                mut entries,
                twice,
                ..
            } => {
                if twice {
                    first_of_each(&mut entries);
                }
                let mut entries = self.merged(entries);
                entries.shrink_to_fit();
                (
                    Node {
                        value: Value::Mapping(entries),
                        span,
                    },
                    anchor,
                )
            }
        };
        self.finished(node, anchor);
        Some(())
    }

    /// A node is complete: it goes into the collection around it.
    fn finished(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            let extent = extent(&node);
            self.anchors.insert(anchor, (node.clone(), extent));
        }
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping {
                entries,
                key,
                seen,
                twice,
                ..
            }) => {
                if let Some(name) = key.take() {
                    entries.push((name, node));
                    return;
                }
                if let Some(first) = first_of(&node, entries, seen) {
                    let name = node.as_str().unwrap_or_default();
                    let message = format!("key `{name}` occurs twice, first on line {first}");
                    self.sink.add(Finding::new(
                        codes::YAML_DUPLICATE,
                        node.span.clone(),
                        message,
                    ));
                    *twice = true;
                }
                *key = Some(node);
            }
        }
    }

    /// Whether `depth` more levels fit.
    fn fits(&mut self, depth: usize, span: &Span) -> Option<()> {
        if self.stack.len() + depth <= self.limits.yaml_depth {
            return Some(());
        }
        let message = format!("the file is nested deeper than {}", self.limits.yaml_depth);
        self.sink
            .add(Finding::new(codes::YAML_BOMB, span.clone(), message));
        None
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Option<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= self.limits.yaml_nodes {
            return Some(());
        }
        let message = format!(
            "the file grows to more than {} nodes",
            self.limits.yaml_nodes
        );
        self.sink.add(
            Finding::new(codes::YAML_BOMB, span.clone(), message)
                .hint("an alias `*…` repeats everything below its anchor"),
        );
        None
    }

    /// Merges what `<<` names; keys that are written win.
    fn merged(&mut self, entries: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        if !entries.iter().any(|(key, _)| is_merge(key)) {
            return entries;
        }
        let (merges, mut own): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(key, _)| is_merge(key));
        for (key, value) in merges {
            self.sink.add(
                Finding::new(codes::YAML_MERGE, key.span, "`<<` is not part of YAML 1.2")
                    .hint("write the keys out"),
            );
            let sources = if value.is_sequence() {
                value.items().to_vec()
            } else {
                vec![value]
            };
            for (name, inner) in sources.iter().flat_map(Node::entries) {
                if !own.iter().any(|(other, _)| other.as_str() == name.as_str()) {
                    own.push((name.clone(), inner.clone()));
                }
            }
        }
        own
    }

    fn lint(&mut self, node: &Node) {
        let Value::Scalar { text, plain: true } = &node.value else {
            return;
        };
        if let Some(other) = crate::yaml_11::meaning(text) {
            let message = format!("unquoted `{text}` is {other} to readers of YAML 1.1");
            let hint = if other == "a boolean" {
                "write `true` or `false`, or quote it"
            } else {
                "quote it, or write the number plainly"
            };
            self.sink
                .add(Finding::new(codes::YAML_11, node.span.clone(), message).hint(hint));
        }
    }
}

/// Entries up to which a key is looked for among them; from there on names are remembered.
const FEW: usize = 16;

/// The line on which a mapping has this key already; `seen` are the keys of one with many entries.
fn first_of(
    key: &Node,
    entries: &[(Node, Node)],
    seen: &mut HashMap<String, usize>,
) -> Option<usize> {
    let name = key.as_str()?;
    if entries.len() < FEW {
        let known = entries
            .iter()
            .find(|(other, _)| other.as_str() == Some(name));
        return known.map(|(other, _)| other.span.line);
    }
    if seen.is_empty() {
        for (other, _) in entries {
            let Some(other_name) = other.as_str() else {
                continue;
            };
            seen.entry(other_name.to_owned()).or_insert(other.span.line);
        }
    }
    match seen.entry(name.to_owned()) {
        Entry::Occupied(known) => Some(*known.get()),
        Entry::Vacant(new) => {
            new.insert(key.span.line);
            None
        }
    }
}

/// Of keys that occur twice the first counts, so that nothing is said of the second.
fn first_of_each(entries: &mut Vec<(Node, Node)>) {
    let mut seen = std::collections::HashSet::new();
    entries.retain(|(key, _)| key.as_str().is_none_or(|name| seen.insert(name.to_owned())));
}

fn is_merge(key: &Node) -> bool {
    matches!(&key.value, Value::Scalar { text, plain: true } if text == "<<")
}

/// How many nodes, and how many levels of collections.
fn extent(node: &Node) -> (usize, usize) {
    let add = |(size, depth): (usize, usize), node| {
        let (more, below) = extent(node);
        (size + more, depth.max(below))
    };
    let (size, below) = match &node.value {
        Value::Scalar { .. } => return (1, 0),
        Value::Sequence(items) => items.iter().fold((1, 0), add),
        Value::Mapping(entries) => entries
            .iter()
            .flat_map(|(key, value)| [key, value])
            .fold((1, 0), add),
    };
    (size, below + 1)
}
