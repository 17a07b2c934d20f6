//! Results as tables for people, and as JSON or YAML for scripts. Data goes to standard
//! output, messages to standard error.
//!
//! Nothing else in this program writes to a terminal. Control and bidi characters in foreign text are escaped: by
//! [`plain`] for people, and by the rules of JSON for scripts.

use crate::args::Format;
use crate::client::{Outcome, local};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

/// The output in the format of the command line.
#[derive(Debug, Clone, Copy)]
pub struct Output(pub Format);

/// A column: its heading, and the JSON pointer of its cells.
pub type Column<'a> = (&'a str, &'a str);

impl Output {
    /// Whether the output is for people.
    pub fn is_table(self) -> bool {
        self.0 == Format::Table
    }

    /// Prints a table with these columns, or JSON or YAML with all members.
    ///
    /// # Errors
    ///
    /// If it cannot be serialized as YAML.
    pub fn list(self, entries: &[Value], columns: &[Column]) -> Outcome<()> {
        if self.0 != Format::Table {
            return self.value(&Value::Array(entries.to_vec()));
        }
        for line in &lines(entries, columns) {
            print(line);
        }
        Ok(())
    }

    /// Prints a list with the requested attributes, such as `id,metadata/site`, as its columns.
    ///
    /// # Errors
    ///
    /// If it cannot be serialized as YAML.
    pub fn chosen(
        self,
        entries: &[Value],
        columns: &[Column],
        fields: Option<&str>,
    ) -> Outcome<()> {
        let Some(fields) = fields else {
            return self.list(entries, columns);
        };
        let pointers: Vec<_> = fields
            .split(',')
            .map(|field| (field, format!("/{}", field.trim_matches('/'))))
            .collect();
        let columns: Vec<Column> = pointers
            .iter()
            .map(|(head, pointer)| (*head, pointer.as_str()))
            .collect();
        self.list(entries, &columns)
    }

    /// Prints one entry: a line per non-empty column, or the entry as the server sent it.
    ///
    /// # Errors
    ///
    /// If it cannot be serialized as YAML.
    pub fn one(self, entry: &Value, columns: &[Column]) -> Outcome<()> {
        if self.0 != Format::Table {
            return self.value(entry);
        }
        let widest = columns
            .iter()
            .map(|(head, _)| head.len())
            .max()
            .unwrap_or(0);
        for (head, pointer) in columns {
            let text = cell(entry.pointer(pointer));
            if !text.is_empty() {
                print(&format!("{head:widest$}  {text}"));
            }
        }
        Ok(())
    }

    /// Prints a result: a sentence for people, the entry itself for scripts.
    ///
    /// # Errors
    ///
    /// If it cannot be serialized as YAML.
    pub fn done(self, sentence: &str, entry: &Value) -> Outcome<()> {
        if self.0 == Format::Table {
            print(sentence);
            return Ok(());
        }
        self.value(entry)
    }

    /// Prints a value as JSON or YAML.
    ///
    /// # Errors
    ///
    /// If it cannot be serialized as YAML.
    pub fn value(self, value: &Value) -> Outcome<()> {
        if self.0 == Format::Yaml {
            let text = serde_yaml::to_string(value).map_err(local)?;
            if !text.contains(acts_on_a_terminal) {
                print(text.trim_end());
                return Ok(());
            }
            // YAML can escape only in quotes; JSON is valid YAML, too.
        }
        print(&json(&serde_json::to_string_pretty(value).map_err(local)?));
        Ok(())
    }
}

/// The lines of a table: its headings, and one line per entry.
fn lines(entries: &[Value], columns: &[Column]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(columns.iter().map(|(head, _)| head.to_uppercase()));
    for entry in entries {
        // Escape before the widths are measured: some of these characters have no width.
        let cells = columns
            .iter()
            .map(|(_, pointer)| cell(entry.pointer(pointer)));
        table.add_row(cells.map(|cell| plain(&cell).into_owned()));
    }
    let trimmed = |line: &str| {
        let line = line.strip_prefix(' ').unwrap_or(line);
        line.trim_end().to_owned()
    };
    table.to_string().lines().map(trimmed).collect()
}

/// Prints a table whose rows have colours (`\u{1b}[…m`), if standard output is a terminal and `NO_COLOR` is not set.
pub fn coloured(entries: &[Value], columns: &[Column], colour: impl Fn(&Value) -> &'static str) {
    let lines = lines(entries, columns);
    let is_coloured = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none()
        && lines.len() == entries.len() + 1;
    if !is_coloured {
        return lines.iter().for_each(|line| print(line));
    }
    print(&lines[0]);
    for (line, entry) in lines[1..].iter().zip(entries) {
        print_rendered(&format!("{}{}\u{1b}[0m", colour(entry), plain(line)));
    }
}

/// A value as the text of a table cell: a list of texts is joined, any other list is counted.
pub fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => items
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        Some(Value::Array(items)) => items.len().to_string(),
        Some(other) => shortened(other).to_string(),
    }
}

/// Cuts texts of several lines, such as certificates, to the first line.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.trim_end().split_once('\n') {
            Some((first, _)) => Value::String(format!("{first} …")),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shortened(value)))
            .collect(),
        other => other.clone(),
    }
}

/// Prints a line of data.
///
/// A closed pipe (`| head`) is not an error of the command.
pub fn print(line: &str) {
    print_rendered(&plain(line));
}

/// Prints data that contains our own colours; all other text in it must have gone through [`plain`].
pub fn print_rendered(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a message to standard error.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(line));
}

/// Whether a terminal interprets the character instead of showing it: control characters except line feed and tab,
/// bidi controls, and Unicode line separators.
fn acts_on_a_terminal(c: char) -> bool {
    let is_whitespace = matches!(c, '\n' | '\t');
    let changes_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (c.is_control() && !is_whitespace) || changes_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Escapes characters that act on a terminal, as in `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| format!("\\u{{{:x}}}", u32::from(c)))
}

/// Escapes those characters as JSON does. They can only occur in its strings.
fn json(document: &str) -> Cow<'_, str> {
    escaped(document, |c| format!("\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(acts_on_a_terminal) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts_on_a_terminal(c) {
            all.push_str(&escape(c));
        } else {
            all.push(c);
        }
    }
    Cow::Owned(all)
}

#[cfg(test)]
mod tests {
    use super::{acts_on_a_terminal, json, plain};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn escaped_text_does_not_act_on_a_terminal(text in any::<String>(), evil in "[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202a}-\u{202e}]{1,8}") {
            let escaped = plain(&format!("{text}{evil}")).into_owned();
            prop_assert!(!escaped.contains(acts_on_a_terminal), "{escaped:?}");
        }

        #[test]
        fn harmless_text_is_unchanged(text in "[a-zA-Z0-9 äß€漢\n\t\\\\]*") {
            prop_assert_eq!(plain(&text), text.as_str());
        }

        #[test]
        fn escaped_json_parses_to_the_same_value(text in any::<String>(), evil in "[\u{7f}-\u{9f}\u{2066}-\u{2069}]{1,8}") {
            let value = serde_json::json!({"name": format!("{text}{evil}")});
            let document = serde_json::to_string_pretty(&value).unwrap();
            let printed = json(&document);
            prop_assert!(!printed.contains(acts_on_a_terminal), "{printed:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
        }
    }
}
