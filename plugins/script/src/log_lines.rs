//! Standard error of a script: lines for the operation's log, and progress.
//!
//! | line starts with | becomes |
//! |---|---|
//! | `40%` | progress, with the rest as its message |
//! | `error:`, `warning:`, `debug:` | a log line of that level |
//! | anything else | a log line of level info |

use futures::executor::block_on;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use vnfm_plugin_sdk::{HookContext, Level};

/// Maximum number of lines in the log; further lines are only counted.
const MAX_LINES: usize = 1000;
const MAX_LINE_LEN: usize = 1000;
/// Number of last lines that an error shows.
const LAST_LINES: usize = 40;

/// Splits a script's standard error into lines.
pub(crate) struct LineLogger {
    cx: HookContext,
    rest: Vec<u8>,
    count: usize,
}

/// The last lines of a script.
#[derive(Default)]
pub(crate) struct LastLines(VecDeque<String>);

impl LastLines {
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

impl LineLogger {
    pub(crate) fn new(cx: HookContext) -> Self {
        Self {
            cx,
            rest: Vec::new(),
            count: 0,
        }
    }

    /// Logs all lines until the end, and keeps the last ones in `last`.
    pub(crate) fn log_all(mut self, mut from: impl Read, last: &Mutex<LastLines>) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            for byte in &bytes[..count] {
                match byte {
                    b'\n' => self.line(last),
                    // The rest of a line that is too long is dropped.
                    _ if self.rest.len() < MAX_LINE_LEN => self.rest.push(*byte),
                    _ => {}
                }
            }
        }
        self.line(last);
        if self.count > MAX_LINES {
            let more = self.count - MAX_LINES;
            self.cx.warn(&format!(
                "the script wrote {more} more lines, which are not logged"
            ));
        }
    }

    fn line(&mut self, last: &Mutex<LastLines>) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest))
            .trim_end()
            .to_owned();
        if line.is_empty() {
            return;
        }
        last.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&line);
        self.count += 1;
        if self.count > MAX_LINES {
            return;
        }
        match LogLine::parse(&line) {
            LogLine::Progress(percent, text) => block_on(self.cx.progress(percent, text)),
            LogLine::Line(level, text) => self.cx.log(level, text),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LogLine<'a> {
    Progress(u8, &'a str),
    Line(Level, &'a str),
}

impl<'a> LogLine<'a> {
    fn parse(line: &'a str) -> Self {
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
    use super::{LastLines, LineLogger, LogLine};
    use std::sync::Mutex;
    use vnfm_plugin_sdk::Level;
    use vnfm_plugin_sdk::testkit::TestHost;

    #[test]
    fn a_line_is_progress_a_level_or_plain() {
        assert_eq!(
            LogLine::parse("40% installing"),
            LogLine::Progress(40, "installing")
        );
        assert_eq!(
            LogLine::parse("400% too much"),
            LogLine::Line(Level::Info, "400% too much")
        );
        assert_eq!(
            LogLine::parse("Warning: disk"),
            LogLine::Line(Level::Warn, "disk")
        );
        assert_eq!(
            LogLine::parse("errors: 0"),
            LogLine::Line(Level::Info, "errors: 0")
        );
        assert_eq!(
            LogLine::parse("ünïcode"),
            LogLine::Line(Level::Info, "ünïcode")
        );
    }

    #[test]
    fn the_log_is_limited_and_the_last_lines_are_kept() {
        let host = TestHost::new();
        let long = "x".repeat(5000);
        let mut text = format!("{long}\n");
        text.extend((0..1500).map(|n| format!("line {n}\n")));
        text.push_str("no end of line");
        let last = Mutex::new(LastLines::default());
        LineLogger::new(host.context()).log_all(text.as_bytes(), &last);
        let last = last.into_inner().unwrap().text();
        assert!(last.ends_with("line 1499\nno end of line"), "{last}");
        let logs = host.logs();
        assert_eq!(
            logs.len(),
            1001,
            "a thousand lines, and the number of further ones"
        );
        assert!(logs[0].len() < 1100, "{}", logs[0].len());
        assert!(logs[1000].contains("502 more lines"), "{}", logs[1000]);
    }
}
