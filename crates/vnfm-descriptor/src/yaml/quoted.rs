//! Quoted scalars that continue on a line which is not indented deeper than their key.
//!
//! ```yaml
//! description: "A web server
//! on two virtual machines"
//! ```
//! YAML 1.1 parsers (PyYAML, so other VNFMs) accept this, YAML 1.2 does not. Folding drops the leading spaces of such
//! a line, so indenting it changes neither the value nor the line numbers.

/// Bytes that the indentation may add to a text, besides doubling it: many short lines below a deep key would add much.
const ADDED: usize = 4096;

/// The text with those lines indented, and the number of the first one, from 1; `None` if there is none.
pub(super) fn indented(text: &str) -> Option<(String, usize)> {
    let max = text.len().saturating_mul(2).saturating_add(ADDED);
    let mut scanner = Scanner::default();
    let mut first = None;
    let mut out = String::with_capacity(text.len() + 64);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if scanner.lacks_indentation(line) {
            first.get_or_insert(index + 1);
            out.push_str(&" ".repeat(scanner.column + 1));
        }
        out.push_str(line);
        scanner.read(line);
        if out.len() > max {
            return None;
        }
    }
    first.map(|line| (out, line))
}

/// Follows quotes, comments and block scalars from line to line.
#[derive(Default)]
struct Scanner {
    /// The quote of the scalar that is open.
    open: Option<char>,
    /// The column of the key on the line where it started, from 0.
    column: usize,
    /// The column of the key whose block scalar (`|` or `>`) is being read: deeper lines are its text.
    block: Option<usize>,
}

impl Scanner {
    /// Whether the line continues a scalar, but does not start deeper than its key.
    fn lacks_indentation(&self, line: &str) -> bool {
        self.open.is_some() && !line.trim().is_empty() && indent(line) <= self.column
    }

    fn read(&mut self, line: &str) {
        let mut rest = line;
        if self.open.is_none() {
            if line.trim().is_empty() || self.block.is_some_and(|key| indent(line) > key) {
                return;
            }
            self.block = None;
            self.column = key_column(line);
            rest = &line[self.column.min(line.len())..];
        }
        self.scan(rest);
    }

    /// Reads the tokens of a line from here on.
    fn scan(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        let mut before = ' ';
        let mut word = String::new();
        while let Some(c) = chars.next() {
            match (self.open, c) {
                (Some('"'), '\\') => drop(chars.next()),
                (Some('\''), '\'') if chars.peek() == Some(&'\'') => drop(chars.next()),
                (Some(quote), _) if c == quote => self.open = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => break,
                (None, '"' | '\'') if before.is_whitespace() || "[{,".contains(before) => {
                    self.open = Some(c);
                }
                (None, _) if c.is_whitespace() => {}
                (None, _) => {
                    if before.is_whitespace() {
                        word.clear();
                    }
                    word.push(c);
                }
            }
            before = c;
        }
        if self.open.is_none() && is_block(&word) {
            self.block = Some(self.column);
        }
    }
}

/// Whether the last word of a line announces a block scalar, such as `|` or `>-`.
fn is_block(word: &str) -> bool {
    let indicators = word.strip_prefix(['|', '>']);
    indicators.is_some_and(|rest| rest.chars().all(|c| "+-0123456789".contains(c)))
}

/// The leading spaces of a line.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The column of the line's first key or text: dashes of lists count as indentation.
fn key_column(line: &str) -> usize {
    let mut column = indent(line);
    while let Some(rest) = line[column..].strip_prefix("- ") {
        column += 2 + indent(rest);
    }
    column
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn only_continuation_lines_of_quoted_texts_are_indented() {
        let cases = [
            ("a: \"b\nc\"\nd: e\n", Some(("a: \"b\n c\"\nd: e\n", 2))),
            ("- a: 'it''s\n  b'\n", Some(("- a: 'it''s\n     b'\n", 2))),
            (
                "a: {b: \"c\\\"\n\nd\"}\n",
                Some(("a: {b: \"c\\\"\n\n d\"}\n", 3)),
            ),
            ("a: \"b\n  c\"\n", None),
            ("a: it's\nb: don't # \"no\nc: \"d\"\n", None),
            ("a: |-\n  \"open\nb: c\n", None),
            (
                "a: >\n  'open\nb: \"c\nd\"\n",
                Some(("a: >\n  'open\nb: \"c\n d\"\n", 4)),
            ),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(text, line): (&str, usize)| (text.to_owned(), line));
            assert_eq!(indented(text), expected, "{text:?}");
        }
    }

    #[test]
    fn short_lines_below_a_deep_key_do_not_multiply_the_text() {
        let text = format!("{}k: \"{}\"\n", " ".repeat(100_000), "a\n".repeat(100_000));
        assert_eq!(indented(&text), None);
    }
}
