//! What a script says on standard error: lines for the operation's log, and how far it is.
//!
//! | a line that begins with | becomes |
//! |---|---|
//! | `40%` | progress, with the rest as its sentence |
//! | `error:`, `warning:`, `debug:` | a line of that level |
//! | anything else | a line of level info |

use futures::executor::block_on;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use vnfm_plugin_sdk::{HookContext, Level};

/// So many lines go to the log; of a script that says more the rest is counted.
const MOST_LINES: usize = 1000;
const LONGEST_LINE: usize = 1000;
/// So many of the last lines are kept for an error.
const LAST_LINES: usize = 40;

/// The lines of one script.
pub(crate) struct Words {
    cx: HookContext,
    rest: Vec<u8>,
    said: usize,
}

/// The last lines of a script.
#[derive(Default)]
pub(crate) struct Last(VecDeque<String>);

impl Last {
    /// One below the other.
    pub(crate) fn text(self) -> String {
        Vec::from(self.0).join("\n")
    }

    fn push(&mut self, line: &str) {
        if self.0.len() == LAST_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }
}

impl Words {
    pub(crate) fn new(cx: HookContext) -> Self {
        Self {
            cx,
            rest: Vec::new(),
            said: 0,
        }
    }

    /// Reads to the end, and keeps the last lines.
    pub(crate) fn hear(mut self, mut from: impl Read, last: &Mutex<Last>) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            for byte in &bytes[..count] {
                match byte {
                    b'\n' => self.line(last),
                    // The rest of a line that is too long is dropped.
                    _ if self.rest.len() < LONGEST_LINE => self.rest.push(*byte),
                    _ => {}
                }
            }
        }
        self.line(last);
        if self.said > MOST_LINES {
            let more = self.said - MOST_LINES;
            self.cx.warn(&format!(
                "the script said {more} lines more, which are not kept"
            ));
        }
    }

    fn line(&mut self, last: &Mutex<Last>) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest))
            .trim_end()
            .to_owned();
        if line.is_empty() {
            return;
        }
        last.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&line);
        self.said += 1;
        if self.said > MOST_LINES {
            return;
        }
        match Said::of(&line) {
            Said::Progress(percent, text) => block_on(self.cx.progress(percent, text)),
            Said::Line(level, text) => self.cx.log(level, text),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    Progress(u8, &'a str),
    Line(Level, &'a str),
}

impl<'a> Said<'a> {
    fn of(line: &'a str) -> Self {
        if let Some((number, text)) = line.trim_start().split_once('%')
            && let Ok(percent @ 0..=100) = number.parse::<u8>()
        {
            return Self::Progress(percent, text.trim());
        }
        for (word, level) in [
            ("error:", Level::Error),
            ("warning:", Level::Warn),
            ("debug:", Level::Debug),
        ] {
            let begin = line.get(..word.len());
            if begin.is_some_and(|begin| begin.eq_ignore_ascii_case(word)) {
                return Self::Line(level, line[word.len()..].trim());
            }
        }
        Self::Line(Level::Info, line)
    }
}

#[cfg(test)]
mod tests {
    use super::{Last, Said, Words};
    use std::sync::Mutex;
    use vnfm_plugin_sdk::Level;
    use vnfm_plugin_sdk::testkit::TestHost;

    #[test]
    fn a_line_is_progress_a_level_or_plain() {
        assert_eq!(Said::of("40% installing"), Said::Progress(40, "installing"));
        assert_eq!(
            Said::of("400% too much"),
            Said::Line(Level::Info, "400% too much")
        );
        assert_eq!(Said::of("Warning: disk"), Said::Line(Level::Warn, "disk"));
        assert_eq!(Said::of("errors: 0"), Said::Line(Level::Info, "errors: 0"));
        assert_eq!(Said::of("ünïcode"), Said::Line(Level::Info, "ünïcode"));
    }

    #[test]
    fn a_flood_is_bounded_and_its_end_is_kept() {
        let host = TestHost::new();
        let long = "x".repeat(5000);
        let mut text = format!("{long}\n");
        text.extend((0..1500).map(|n| format!("line {n}\n")));
        text.push_str("no end of line");
        let last = Mutex::new(Last::default());
        Words::new(host.context()).hear(text.as_bytes(), &last);
        let last = last.into_inner().unwrap().text();
        assert!(last.ends_with("line 1499\nno end of line"), "{last}");
        let logs = host.logs();
        assert_eq!(logs.len(), 1001, "a thousand, and how many more there were");
        assert!(logs[0].len() < 1100, "{}", logs[0].len());
        assert!(logs[1000].contains("502 lines more"), "{}", logs[1000]);
    }
}
