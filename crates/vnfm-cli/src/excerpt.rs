//! Lint findings as a compiler shows its diagnostics: the line, a caret, what was expected, a hint.
//!
//! ```text
//! warning[W-LINK-UNUSED]: no connection point is on link `net`
//!   --> vnf/Definitions/vnfd.yaml:41:5
//!    |
//! 41 |     net:
//!    |     ^^^
//!    |
//!    = expected: Each virtual link has a connection point.
//!    = clause: SOL001 6.8 (node types)
//! ```
//! `expected` and `clause` are shown only at the first occurrence of each code.

use crate::commands::file_path;
use crate::output::plain;
use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use vnfm_descriptor::{Finding, Severity};
use vnfm_lint::Report;

/// All findings of a report.
pub fn text(path: &Path, report: &Report) -> String {
    let renderer = if std::io::stdout().is_terminal() {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut seen = BTreeSet::new();
    let mut all = String::new();
    for finding in &report.findings {
        let first = seen.insert(finding.code);
        // Writing into a String cannot fail.
        let _ = writeln!(all, "{}\n", one(path, report, finding, (&renderer, first)));
    }
    all
}

fn one(
    path: &Path,
    report: &Report,
    finding: &Finding,
    (renderer, first): (&Renderer, bool),
) -> String {
    let level = if finding.severity == Severity::Error {
        Level::ERROR
    } else {
        Level::WARNING
    };
    let span = finding.span.as_ref();
    let file = span.map_or_else(
        || path.display().to_string(),
        |span| file_path(path, &span.file),
    );
    // The report quotes the package, so control characters are escaped: only our colours reach the terminal.
    let file = plain(&file).into_owned();
    let line = span.and_then(|span| report.line(span)).map(plain);
    let (message, hint) = (plain(&finding.message), finding.hint.as_deref().map(plain));
    let mut elements: Vec<Element<'_>> = Vec::new();
    match (span, line.as_deref()) {
        (Some(span), Some(line)) => {
            let mark = AnnotationKind::Primary.span(word_at(line, span.column));
            let snippet = Snippet::source(line)
                .line_start(span.line)
                .path(file.as_str());
            elements.push(snippet.annotation(mark).into());
        }
        (Some(span), None) if span.line > 0 => {
            let origin = Origin::path(file.as_str())
                .line(span.line)
                .char_column(span.column);
            elements.push(origin.into());
        }
        _ => elements.push(Origin::path(file.as_str()).into()),
    }
    let explanation = vnfm_lint::explain(finding.code).filter(|_| first);
    if let Some(explanation) = explanation {
        let expected = Level::NOTE
            .with_name("expected")
            .message(explanation.expected);
        elements.push(expected.into());
    }
    if let Some(hint) = &hint {
        elements.push(Level::HELP.with_name("hint").message(hint.as_ref()).into());
    }
    if let Some(explanation) = explanation {
        elements.push(
            Level::NOTE
                .with_name("clause")
                .message(explanation.clause)
                .into(),
        );
    }
    let title = level.primary_title(message.as_ref()).id(finding.code);
    renderer.render(&[title.elements(elements)])
}

/// The byte range of the word at a column, which counts characters from 1.
fn word_at(line: &str, column: usize) -> std::ops::Range<usize> {
    let start = line
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line.len(), |(at, _)| at);
    let rest = &line[start..];
    let quote = rest
        .chars()
        .next()
        .filter(|first| ['\'', '"'].contains(first));
    let end = match quote {
        Some(quote) => rest[1..].find(quote).map(|at| at + 2),
        None => rest.find(|c: char| c.is_whitespace() || ",]}".contains(c)),
    };
    let word = &rest[..end.unwrap_or(rest.len())];
    let word = word.strip_suffix(':').unwrap_or(word);
    let one_char = rest.chars().next().map_or(0, char::len_utf8);
    start..start + word.len().max(one_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marked_range_is_the_complete_word() {
        for (line, column, word) in [
            ("    net: {a: b}", 5, "net"),
            ("a: [ipv4, ipv6]", 5, "ipv4"),
            ("a: 'x y', b", 4, "'x y'"),
            ("ü: wörd", 4, "wörd"),
            ("a: {b: c}", 4, "{b"),
            ("a", 9, ""),
        ] {
            assert_eq!(&line[word_at(line, column)], word, "{line}");
        }
    }
}
