//! Results as people (tables) and scripts (JSON, YAML) want them. Data goes to standard output, everything else to
//! standard error.
//!
//! Nothing else in this program writes to a terminal. What is written here has no control or bidi character of anybody
//! else: they are escaped, as [`plain`] does it for people, and by the rules of JSON for scripts.

use crate::args::Format;
use crate::client::{Outcome, local};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::Value;
use std::borrow::Cow;
use std::io::Write as _;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub struct Output(pub Format);

/// A column: its head, and the JSON pointer of its cells.
pub type Column<'a> = (&'a str, &'a str);

impl Output {
    /// Whether it is for people.
    pub fn is_table(self) -> bool {
        self.0 == Format::Table
    }

    /// Prints a list.
    ///
    /// # Errors
    ///
    /// Where it cannot be written as YAML.
    pub fn list(self, entries: &[Value], columns: &[Column]) -> Outcome<()> {
        if self.0 != Format::Table {
            return self.value(&Value::Array(entries.to_vec()));
        }
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(columns.iter().map(|(head, _)| head.to_uppercase()));
        for entry in entries {
            // Before the widths are measured: some of these characters have none.
            let cells = columns.iter().map(|(_, place)| cell(entry.pointer(place)));
            table.add_row(cells.map(|cell| plain(&cell).into_owned()));
        }
        let lines = table.to_string();
        lines
            .lines()
            .for_each(|line| print(line.strip_prefix(' ').unwrap_or(line).trim_end()));
        Ok(())
    }

    /// Prints a list with the attributes that somebody asked for, such as `id,metadata/site`, as its columns.
    ///
    /// # Errors
    ///
    /// Where it cannot be written as YAML.
    pub fn chosen(
        self,
        entries: &[Value],
        columns: &[Column],
        fields: Option<&str>,
    ) -> Outcome<()> {
        let Some(fields) = fields else {
            return self.list(entries, columns);
        };
        let places: Vec<_> = fields
            .split(',')
            .map(|field| (field, format!("/{}", field.trim_matches('/'))))
            .collect();
        let chosen: Vec<Column> = places
            .iter()
            .map(|(head, place)| (*head, place.as_str()))
            .collect();
        self.list(entries, &chosen)
    }

    /// Prints one thing: its members a line each, or as the server sent it.
    ///
    /// # Errors
    ///
    /// Where it cannot be written as YAML.
    pub fn one(self, entry: &Value, columns: &[Column]) -> Outcome<()> {
        if self.0 != Format::Table {
            return self.value(entry);
        }
        let widest = columns
            .iter()
            .map(|(head, _)| head.len())
            .max()
            .unwrap_or(0);
        for (head, place) in columns {
            let shown = cell(entry.pointer(place));
            if !shown.is_empty() {
                print(&format!("{head:widest$}  {shown}"));
            }
        }
        Ok(())
    }

    /// Prints what was done: a sentence for people, the thing itself for scripts.
    ///
    /// # Errors
    ///
    /// Where it cannot be written as YAML.
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
    /// Where it cannot be written as YAML.
    pub fn value(self, value: &Value) -> Outcome<()> {
        if self.0 == Format::Yaml {
            let text = serde_yaml::to_string(value).map_err(local)?;
            if !text.contains(acts_on_a_terminal) {
                print(text.trim_end());
                return Ok(());
            }
            // YAML escapes in quotes alone; JSON is YAML, too.
        }
        print(&json(&serde_json::to_string_pretty(value).map_err(local)?));
        Ok(())
    }
}

/// A value in a cell of a table.
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

/// Texts of many lines, such as certificates, with the first of them alone.
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

/// A line of data.
///
/// Whoever reads may have seen enough (`| head`): that is no failure of the command.
pub fn print(line: &str) {
    print_rendered(&plain(line));
}

/// A text of data that has colours of ours, and in which everything else went through [`plain`].
pub fn print_rendered(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line about what goes on.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(line));
}

/// Whether a terminal does something other than to show the character: control characters but line feed and tab, those
/// that change the direction of what follows, and those that end a line for some.
fn acts_on_a_terminal(c: char) -> bool {
    let shown_as_it_is = matches!(c, '\n' | '\t');
    let changes_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (c.is_control() && !shown_as_it_is) || changes_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text for people, in which characters that act on a terminal are written as `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| format!("\\u{{{:x}}}", u32::from(c)))
}

/// A JSON document in which those characters are escaped as JSON does it: they occur in texts alone.
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
            all.push_str(&escape(c))
        } else {
            all.push(c)
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
        fn no_text_acts_on_a_terminal(text in any::<String>(), evil in "[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202a}-\u{202e}]{1,8}") {
            let shown = plain(&format!("{text}{evil}")).into_owned();
            prop_assert!(!shown.contains(acts_on_a_terminal), "{shown:?}");
        }

        #[test]
        fn a_text_without_such_characters_stays(text in "[a-zA-Z0-9 äß€漢\n\t\\\\]*") {
            prop_assert_eq!(plain(&text), text.as_str());
        }

        #[test]
        fn json_says_the_same_and_acts_on_no_terminal(text in any::<String>(), evil in "[\u{7f}-\u{9f}\u{2066}-\u{2069}]{1,8}") {
            let value = serde_json::json!({"name": format!("{text}{evil}")});
            let document = serde_json::to_string_pretty(&value).unwrap();
            let printed = json(&document);
            prop_assert!(!printed.contains(acts_on_a_terminal), "{printed:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
        }
    }
}
