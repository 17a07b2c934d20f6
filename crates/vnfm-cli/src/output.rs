//! Results as people (tables) and scripts (JSON, YAML) want them. Data goes to standard output, everything else to
//! standard error.

use crate::args::Format;
use crate::client::{Outcome, local};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::Value;
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
            table.add_row(columns.iter().map(|(_, place)| cell(entry.pointer(place))));
        }
        let lines = table.to_string();
        lines.lines().for_each(|line| print(line.strip_prefix(' ').unwrap_or(line).trim_end()));
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
        let Some(fields) = fields else { return self.list(entries, columns) };
        let places: Vec<_> = fields
            .split(',')
            .map(|field| (field, format!("/{}", field.trim_matches('/'))))
            .collect();
        let chosen: Vec<Column> =
            places.iter().map(|(head, place)| (*head, place.as_str())).collect();
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
        let widest = columns.iter().map(|(head, _)| head.len()).max().unwrap_or(0);
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
        let text = match self.0 {
            Format::Yaml => serde_yaml::to_string(value).map_err(local)?,
            _ => serde_json::to_string_pretty(value).map_err(local)?,
        };
        print(text.trim_end());
        Ok(())
    }
}

/// A value in a cell of a table.
pub fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
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
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shortened(value))).collect()
        }
        other => other.clone(),
    }
}

/// A line of data.
///
/// Whoever reads may have seen enough (`| head`): that is no failure of the command.
pub fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line about what goes on.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
