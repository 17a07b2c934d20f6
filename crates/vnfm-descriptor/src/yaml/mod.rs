//! YAML to nodes that know where they were written.
//!
//! The event stream of the parser becomes a tree of [`Node`]s: scalars keep their raw text, so
//! that `version: 1.10` stays `1.10` where a string is declared; anchors are expanded within a
//! budget; duplicate keys (the first counts), excess depth and alias bombs are findings. What YAML 1.1 (PyYAML, so
//! other VNFMs) reads differently is a warning, since the package would mean two things.

mod builder;
mod node;

use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use builder::Builder;
pub(crate) use node::{Node, Value, float, integer};
use saphyr_parser::Parser;
use std::sync::Arc;

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
    let mut builder = Builder::new(file, limits, sink);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.event(event, span.start.line(), span.start.col() + 1)?,
            Err(error) => {
                let marker = *error.marker();
                builder.syntax_error(error.info(), marker.line(), marker.col() + 1);
                return None;
            }
        }
    }
    Some(builder.into_documents())
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
