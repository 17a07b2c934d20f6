//! Parses YAML into nodes with positions.
//!
//! The parser's events become a tree of [`Node`]s. Scalars keep their raw text, so that `version: 1.10`
//! remains `1.10` where a string is declared. Anchors are expanded up to a limit. Duplicate keys (the first
//! is used), excessive depth and alias bombs are findings. Scalars that YAML 1.1 parsers (PyYAML, so other
//! VNFMs) read differently are warnings, since the package would be ambiguous. A quoted scalar that continues in its
//! key's column, which only YAML 1.1 allows, is one as well ([`quoted`]).

mod builder;
mod node;
mod quoted;

use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::sink::Sink;
use builder::Builder;
pub use node::{Node, Value, float, integer};
use saphyr_parser::Parser;
use std::sync::Arc;

/// Parses a file with a single document; `None` on errors, which are added to `sink`.
pub fn parse(text: &str, file: &str, limits: &Limits, sink: &mut Sink) -> Option<Node> {
    let mut documents = parse_all(text, file, limits, sink)?;
    if documents.len() > 1 {
        let span = documents[1].span.clone();
        sink.add(
            Finding::new(
                codes::YAML,
                span,
                "the file has more than one YAML document",
            )
            .hint("write each document to a separate file"),
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

/// Parses every document of a file; `None` on errors, which are added to `sink`.
pub fn parse_all(text: &str, file: &str, limits: &Limits, sink: &mut Sink) -> Option<Vec<Node>> {
    if text.len() > limits.yaml_bytes {
        let message = format!(
            "the file has {} bytes, more than the limit of {}",
            text.len(),
            limits.yaml_bytes
        );
        sink.add(Finding::new(codes::YAML_BOMB, Span::file(file), message));
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Sink::default();
    let documents = documents(text, file, limits, &mut found);
    if documents.is_none()
        && let Some((indented, line)) = quoted::indented(text)
    {
        let mut again = Sink::default();
        if let Some(documents) = self::documents(&indented, file, limits, &mut again) {
            let message = "a quoted text continues on this line without indentation";
            let finding = Finding::new(codes::YAML_QUOTED, Span::line(file, line), message);
            again.add(finding.hint("indent the line deeper than its key: YAML 1.2 requires it"));
            sink.append(again);
            return Some(documents);
        }
    }
    sink.append(found);
    documents
}

/// The documents of a text; `None` on errors, which are added to `sink`.
fn documents(text: &str, file: &str, limits: &Limits, sink: &mut Sink) -> Option<Vec<Node>> {
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
    fn scalars_keep_their_text_and_position() {
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
    fn scalars_that_yaml_1_1_reads_differently_are_warnings() {
        let (_, findings) = read(
            "a: yes\nb: 012\nc: 22:22\nd: 1_000\non: 1\nf: 'yes'\ng: 10.10.0.0/24\nh: 2001:db8::1\ni: 00:0c:29:aa:bb:cc\n",
        );
        assert_eq!(findings.len(), 5, "{findings:#?}");
        assert_eq!(
            findings[0],
            "a.yaml:1:4: warning[W-YAML-11]: YAML 1.1 parsers read unquoted `yes` as a boolean (hint: write `true` or `false`, or quote it)"
        );
    }

    #[test]
    fn duplicate_keys_are_reported_with_both_positions() {
        let (node, findings) = read("a: 1\nb: 2\na: 3\n");
        assert_eq!(
            node.unwrap().get("a").and_then(Node::as_i64),
            Some(1),
            "the first key is used"
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
    fn byte_order_marks_windows_line_endings_and_empty_files_are_accepted() {
        assert_eq!(
            read("\u{feff}a: 1\r\nb: 2\r\n").0.unwrap().to_json(),
            json!({"a": 1, "b": 2})
        );
        assert!(read("").0.unwrap().is_null());
        assert!(read("a: 1\n---\nb: 2\n").0.is_none());
    }
}
