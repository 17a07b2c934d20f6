//! Builds nodes from the parser's events; handles anchors, merges, duplicate keys and limits.

use super::{Node, Value};
use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::sink::Sink;
use saphyr_parser::{Event, ScalarStyle};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// A collection whose end has not been read yet.
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
        has_duplicates: bool,
    },
}

pub(super) struct Builder<'a> {
    file: Arc<str>,
    limits: &'a Limits,
    sink: &'a mut Sink,
    stack: Vec<Open>,
    /// Anchored nodes, each with its numbers of nodes and levels.
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

    /// Reports an error of the parser.
    pub(super) fn syntax_error(&mut self, reason: &str, line: usize, column: usize) {
        let span = Span {
            file: Arc::clone(&self.file),
            line,
            column,
        };
        let message = format!("this is not YAML: {reason}");
        self.sink.add(Finding::new(codes::YAML, span, message));
    }

    /// Handles an event; `None` stops parsing.
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
                self.warn_about_yaml_11(&node);
                self.count_nodes(1, &node.span)?;
                self.attach(node, anchor);
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
                self.count_nodes(size, &span)?;
                self.check_depth(depth, &span)?;
                let node = self.anchors.get(&anchor).map(|(node, _)| node.clone())?;
                self.attach(node, 0);
                Some(())
            }
            Event::SequenceStart(anchor, _tag) => self.open(Open::Sequence {
                span,
                anchor,
                items: Vec::new(),
            }),
            Event::MappingStart(anchor, _tag) => {
                // Most mappings have one entry; a vector would allocate room for four.
                let (entries, seen) = (Vec::with_capacity(1), HashMap::new());
                self.open(Open::Mapping {
                    span,
                    anchor,
                    entries,
                    key: None,
                    seen,
                    has_duplicates: false,
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
        self.check_depth(1, &span)?;
        self.count_nodes(1, &span)?;
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
                has_duplicates,
                ..
            } => {
                if has_duplicates {
                    remove_duplicates(&mut entries);
                }
                let mut entries = self.apply_merges(entries);
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
        self.attach(node, anchor);
        Some(())
    }

    /// Adds a complete node to the collection that contains it.
    fn attach(&mut self, node: Node, anchor: usize) {
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
                has_duplicates,
                ..
            }) => {
                if let Some(name) = key.take() {
                    entries.push((name, node));
                    return;
                }
                if let Some(first) = first_occurrence(&node, entries, seen) {
                    let name = node.as_str().unwrap_or_default();
                    let message = format!("key `{name}` occurs twice, first on line {first}");
                    self.sink.add(Finding::new(
                        codes::YAML_DUPLICATE,
                        node.span.clone(),
                        message,
                    ));
                    *has_duplicates = true;
                }
                *key = Some(node);
            }
        }
    }

    /// Checks that `depth` more levels are within the limit.
    fn check_depth(&mut self, depth: usize, span: &Span) -> Option<()> {
        if self.stack.len() + depth <= self.limits.yaml_depth {
            return Some(());
        }
        let message = format!(
            "the file is nested more than {} levels deep",
            self.limits.yaml_depth
        );
        self.sink
            .add(Finding::new(codes::YAML_BOMB, span.clone(), message));
        None
    }

    /// Counts nodes against the limit.
    fn count_nodes(&mut self, nodes: usize, span: &Span) -> Option<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= self.limits.yaml_nodes {
            return Some(());
        }
        let message = format!(
            "the file expands to more than {} nodes",
            self.limits.yaml_nodes
        );
        self.sink.add(
            Finding::new(codes::YAML_BOMB, span.clone(), message)
                .hint("each alias `*…` repeats everything below its anchor"),
        );
        None
    }

    /// Applies merge keys (`<<`); explicit keys take precedence.
    fn apply_merges(&mut self, entries: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        if !entries.iter().any(|(key, _)| is_merge(key)) {
            return entries;
        }
        let (merges, mut own): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(key, _)| is_merge(key));
        for (key, value) in merges {
            self.sink.add(
                Finding::new(codes::YAML_MERGE, key.span, "`<<` is not part of YAML 1.2")
                    .hint("write out the merged keys"),
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

    fn warn_about_yaml_11(&mut self, node: &Node) {
        let Value::Scalar { text, plain: true } = &node.value else {
            return;
        };
        if let Some(other) = crate::yaml_11::meaning(text) {
            let message = format!("YAML 1.1 parsers read unquoted `{text}` as {other}");
            let hint = if other == "a boolean" {
                "write `true` or `false`, or quote it"
            } else {
                "quote it, or write a decimal number"
            };
            self.sink
                .add(Finding::new(codes::YAML_11, node.span.clone(), message).hint(hint));
        }
    }
}

/// Mappings with fewer entries are searched for duplicate keys linearly; larger ones use a hash map.
const LINEAR_SEARCH_ENTRIES: usize = 16;

/// The line of the same key earlier in the mapping; `seen` is used for mappings with many entries.
fn first_occurrence(
    key: &Node,
    entries: &[(Node, Node)],
    seen: &mut HashMap<String, usize>,
) -> Option<usize> {
    let name = key.as_str()?;
    if entries.len() < LINEAR_SEARCH_ENTRIES {
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

/// Removes all but the first entry of each key, so that the others cause no further findings.
fn remove_duplicates(entries: &mut Vec<(Node, Node)>) {
    let mut seen = std::collections::HashSet::new();
    entries.retain(|(key, _)| key.as_str().is_none_or(|name| seen.insert(name.to_owned())));
}

fn is_merge(key: &Node) -> bool {
    matches!(&key.value, Value::Scalar { text, plain: true } if text == "<<")
}

/// The numbers of nodes and of levels of collections.
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
