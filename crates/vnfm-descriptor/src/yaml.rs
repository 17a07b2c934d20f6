//! YAML to nodes that know where they were written.
//!
//! The event stream of the parser becomes a tree of [`Node`]s: scalars keep their raw text, so
//! that `version: 1.10` stays `1.10` where a string is declared; anchors are expanded within a
//! budget; duplicate keys (the first counts), excess depth and alias bombs are findings. What YAML 1.1 (PyYAML, so
//! other VNFMs) reads differently is a warning, since the package would mean two things.

use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value as Json};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// What it is.
    pub(crate) value: Value,
    /// Where it begins.
    pub(crate) span: Span,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Text; `plain` if it was written without quotes, so that it may be a number, boolean or null.
    Scalar {
        /// As it is written, quotes and folding resolved.
        text: String,
        /// Whether it was written without quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// A mapping, in the order of the file.
    Mapping(Vec<(Node, Node)>),
}

impl Node {
    /// A scalar's text, whatever it looks like; `None` for null, lists and mappings.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether it is YAML's null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// A boolean of YAML 1.2; a quoted one counts, as in TOSCA parsers.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.as_str()? {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// A whole number; a quoted one counts.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        integer(self.as_str()?)
    }

    /// The items of a list; none for everything else.
    pub(crate) fn items(&self) -> &[Node] {
        if let Value::Sequence(items) = &self.value {
            items
        } else {
            &[]
        }
    }

    /// The entries of a mapping; none for everything else.
    pub(crate) fn entries(&self) -> &[(Node, Node)] {
        if let Value::Mapping(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// The entries of a mapping whose keys are text.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries()
            .iter()
            .filter_map(|(key, value)| Some((key.as_str()?, value)))
    }

    /// The value of a key; null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.named()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// The value at the end of a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Whether it is a mapping.
    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self.value, Value::Mapping(_))
    }

    /// Whether it is a list.
    pub(crate) fn is_sequence(&self) -> bool {
        matches!(self.value, Value::Sequence(_))
    }

    /// The node as JSON, scalars by YAML 1.2's core schema.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar { text, plain } => scalar_json(text, *plain),
            Value::Sequence(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Mapping(entries) => {
                let key = |key: &Node| key.as_str().unwrap_or("null").to_owned();
                Json::Object(
                    entries
                        .iter()
                        .map(|(name, value)| (key(name), value.to_json()))
                        .collect::<Map<_, _>>(),
                )
            }
        }
    }

    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Mapping(_) => "a mapping",
            Value::Sequence(_) => "a list",
            Value::Scalar { .. } if self.is_null() => "nothing",
            Value::Scalar { .. } => "a single value",
        }
    }
}

fn scalar_json(text: &str, plain: bool) -> Json {
    if !plain {
        return Json::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        _ => match integer(text) {
            Some(whole) => Json::from(whole),
            None => float(text)
                .and_then(Number::from_f64)
                .map_or_else(|| Json::String(text.to_owned()), Json::Number),
        },
    }
}

/// A whole number of YAML 1.2's core schema.
pub(crate) fn integer(text: &str) -> Option<i64> {
    if let Some(octal) = text.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8)
            .ok()
            .filter(|_| !octal.starts_with(['+', '-']));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with(['+', '-']));
    }
    text.parse().ok()
}

/// A floating point number of YAML 1.2's core schema.
pub(crate) fn float(text: &str) -> Option<f64> {
    let starts = text
        .trim_start_matches(['+', '-'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if starts && text.contains(|c: char| c.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Reads the only document of a file; `None` if it cannot be read, with the reason in `sink`.
pub(crate) fn parse(text: &str, file: &str, limits: &Limits, sink: &mut Sink) -> Option<Node> {
    let mut documents = parse_all(text, file, limits, sink)?;
    if documents.len() > 1 {
        let span = documents[1].span.clone();
        sink.add(
            Finding::new(
                codes::YAML,
                span,
                "the file has more than one YAML document",
            )
            .hint("one file describes one thing"),
        );
        return None;
    }
    let empty = || Node {
        value: Value::Scalar {
            text: String::new(),
            plain: true,
        },
        span: Span {
            file: Arc::from(file),
            line: 1,
            column: 1,
        },
    };
    Some(documents.pop().unwrap_or_else(empty))
}

/// Reads every document of a file.
pub(crate) fn parse_all(
    text: &str,
    file: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<Vec<Node>> {
    if text.len() > limits.yaml_bytes {
        let message = format!(
            "the file has {} bytes, more than the {} that are read",
            text.len(),
            limits.yaml_bytes
        );
        sink.add(Finding::new(codes::YAML_BOMB, Span::file(file), message));
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        file: Arc::from(file),
        limits,
        sink,
        stack: Vec::new(),
        anchors: HashMap::new(),
        documents: Vec::new(),
        nodes: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.event(event, span.start.line(), span.start.col() + 1)?,
            Err(error) => {
                let at = *error.marker();
                let span = Span {
                    file: Arc::clone(&builder.file),
                    line: at.line(),
                    column: at.col() + 1,
                };
                builder.sink.add(Finding::new(
                    codes::YAML,
                    span,
                    format!("this is not YAML: {}", error.info()),
                ));
                return None;
            }
        }
    }
    Some(builder.documents)
}

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

struct Builder<'a> {
    file: Arc<str>,
    limits: &'a Limits,
    sink: &'a mut Sink,
    stack: Vec<Open>,
    /// Anchored nodes with how many nodes and levels they have.
    anchors: HashMap<usize, (Node, (usize, usize))>,
    documents: Vec<Node>,
    nodes: usize,
}

impl Builder<'_> {
    /// Takes one event; `None` stops the reading.
    fn event(&mut self, event: Event<'_>, line: usize, column: usize) -> Option<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> (Option<Node>, Vec<String>) {
        let mut sink = Sink::default();
        let node = parse(text, "a.yaml", &Limits::default(), &mut sink);
        let findings = match sink.finish() {
            Ok(warnings) => warnings,
            Err(findings) => findings.as_slice().to_vec(),
        };
        (node, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn scalars_keep_their_text_and_have_a_place() {
        let (node, findings) = read("version: 1.10\nlist:\n  - {deep: 'x'}\n");
        let node = node.unwrap();
        assert_eq!(findings, [""; 0]);
        assert_eq!(node.get("version").unwrap().as_str(), Some("1.10"));
        let deep = node.get("list").unwrap().items()[0].get("deep").unwrap();
        assert_eq!((deep.span.line, deep.span.column), (3, 12));
        assert_eq!(
            node.to_json(),
            json!({"version": 1.1, "list": [{"deep": "x"}]})
        );
    }

    #[test]
    fn json_follows_yaml_1_2() {
        let (node, _) =
            read("[~, null, True, yes, 12, 0x1f, 0o17, -3, 1e3, .5, '1', nan, inf, 0xzz, '~']");
        assert_eq!(
            node.unwrap().to_json(),
            json!([
                null, null, true, "yes", 12, 31, 15, -3, 1000.0, 0.5, "1", "nan", "inf", "0xzz",
                "~"
            ])
        );
    }

    #[test]
    fn what_yaml_1_1_reads_differently_is_a_warning() {
        let (_, findings) = read(
            "a: yes\nb: 012\nc: 22:22\nd: 1_000\non: 1\nf: 'yes'\ng: 10.10.0.0/24\nh: 2001:db8::1\ni: 00:0c:29:aa:bb:cc\n",
        );
        assert_eq!(findings.len(), 5, "{findings:#?}");
        assert_eq!(
            findings[0],
            "a.yaml:1:4: warning[W-YAML-11]: unquoted `yes` is a boolean to readers of YAML 1.1 (hint: write `true` or `false`, or quote it)"
        );
    }

    #[test]
    fn duplicate_keys_are_named_with_both_places() {
        let (node, findings) = read("a: 1\nb: 2\na: 3\n");
        assert_eq!(
            node.unwrap().get("a").and_then(Node::as_i64),
            Some(1),
            "read on by the first"
        );
        assert_eq!(
            findings,
            ["a.yaml:3:1: error[E-YAML-DUPLICATE]: key `a` occurs twice, first on line 1"]
        );
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let below = format!("*a{}, ", level - 1).repeat(9);
            let line = format!("a{level}: &a{level} [{}]\n", below.trim_end_matches(", "));
            bomb.push_str(&line);
        }
        let deep_flow = "[".repeat(20_000);
        let deep_block = "- ".repeat(20_000);
        let mut deep_alias = "a0: &a0 x\n".to_owned();
        for level in 1..200 {
            let line = format!("a{level}: &a{level} [*a{}]\n", level - 1);
            deep_alias.push_str(&line);
        }
        for text in [bomb, deep_flow, deep_block, deep_alias] {
            let (node, findings) = read(&text);
            assert_eq!(node, None);
            assert!(findings[0].contains("E-YAML"), "{}", findings[0]);
        }
        let (node, findings) = read("a: &a [*a]");
        assert!(
            node.is_none() && findings[0].contains("E-YAML"),
            "{findings:?}"
        );
    }

    #[test]
    fn anchors_and_merges_are_expanded() {
        let (node, findings) = read("base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nagain: *b\n");
        assert_eq!(
            node.unwrap().to_json(),
            json!({"base": {"x": 1, "y": 2}, "own": {"y": 3, "x": 1}, "again": {"x": 1, "y": 2}})
        );
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn byte_order_marks_windows_lines_and_empty_files_are_read() {
        assert_eq!(
            read("\u{feff}a: 1\r\nb: 2\r\n").0.unwrap().to_json(),
            json!({"a": 1, "b": 2})
        );
        assert!(read("").0.unwrap().is_null());
        assert!(read("a: 1\n---\nb: 2\n").0.is_none());
    }
}
