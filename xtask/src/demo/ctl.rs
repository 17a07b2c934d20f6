//! Runs `vnfmctl` as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, Output};
use crate::terminal::Progress;

/// Exit code if the server refused the request.
const REFUSED: i32 = 3;
/// Exit code of a plan that would change something.
const PLANNED: i32 = 9;

/// `vnfmctl`, and the server that it talks to.
pub(crate) struct Ctl {
    program: PathBuf,
    server: String,
}

impl Ctl {
    /// For commands to this server.
    pub(crate) fn new(program: PathBuf, server: &str) -> Self {
        Self {
            program,
            server: server.to_owned(),
        }
    }

    /// For commands that need no server.
    pub(crate) fn local(program: PathBuf) -> Self {
        Self {
            program,
            server: String::new(),
        }
    }

    /// Runs a command; returns its JSON output.
    ///
    /// # Errors
    /// If the command fails; with its error message.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        self.document(arguments, 0, |_| {})
    }

    /// What an operation would do, which must be something.
    ///
    /// # Errors
    /// If the plan fails, or says that nothing would change.
    pub(crate) fn plan(&self, arguments: &[&str]) -> Result<Value> {
        self.document(&[arguments, &["--plan"]].concat(), PLANNED, |_| {})
    }

    /// Runs an operation to its end, and shows its progress; returns its occurrence.
    ///
    /// # Errors
    /// If it does not end as COMPLETED; with its error message.
    pub(crate) fn operate(&self, progress: &Progress, arguments: &[&str]) -> Result<Value> {
        let arguments = [arguments, &["--watch"]].concat();
        self.document(&arguments, 0, |line| progress.show(line))
    }

    /// Runs a command that must end with this exit code; returns its JSON output.
    fn document(
        &self,
        arguments: &[&str],
        expected: i32,
        mut on_log: impl FnMut(&str),
    ) -> Result<Value> {
        let with_format = [&["-o", "json"], arguments].concat();
        let (code, data, log) = Self::run(self.command(), &with_format, |output, line| {
            if output == Output::Log {
                on_log(line);
            }
        })?;
        if code != expected {
            bail!(
                "`vnfmctl {}` ended with exit code {code} instead of {expected}: {}",
                arguments.join(" "),
                reason(&log)
            );
        }
        if data.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&data)
            .with_context(|| format!("`vnfmctl {}` printed no JSON: {data}", arguments.join(" ")))
    }

    /// Runs a long command, and shows its output as progress.
    ///
    /// # Errors
    /// If the command fails; with its error message.
    pub(crate) fn watch(&self, progress: &Progress, arguments: &[&str]) -> Result<()> {
        Self::watch_command(progress, self.command(), arguments)
    }

    /// The same, with a file as standard input.
    ///
    /// # Errors
    /// If the command fails; with its error message.
    pub(crate) fn watch_with_input(
        &self,
        progress: &Progress,
        arguments: &[&str],
        input: &Path,
    ) -> Result<()> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" <\"$0\""]).arg(input);
        let command = self.command();
        shell.arg(command.get_program()).args(command.get_args());
        Self::watch_command(progress, shell, arguments)
    }

    fn watch_command(progress: &Progress, command: Command, arguments: &[&str]) -> Result<()> {
        let (code, _, log) = Self::run(command, arguments, |_, line| progress.show(line))?;
        if code != 0 {
            bail!(
                "`vnfmctl {}` failed with exit code {code}: {}",
                arguments.join(" "),
                reason(&log)
            );
        }
        Ok(())
    }

    /// Runs a command that the server must refuse; returns its reason.
    ///
    /// # Errors
    /// If it is not refused.
    pub(crate) fn refused(&self, arguments: &[&str]) -> Result<String> {
        let (code, _, log) = Self::run(self.command(), arguments, |_, _| {})?;
        if code != REFUSED {
            bail!(
                "`vnfmctl {}` must be refused with exit code {REFUSED}, but ended with {code}: {}",
                arguments.join(" "),
                log.trim()
            );
        }
        Ok(log.trim().to_owned())
    }

    /// `vnfmctl` for the server.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if !self.server.is_empty() {
            command.args(["--server", &self.server]);
        }
        command
    }

    fn run(
        mut command: Command,
        arguments: &[&str],
        mut on_line: impl FnMut(Output, &str),
    ) -> Result<(i32, String, String)> {
        command.args(arguments);
        let (mut data, mut log) = (String::new(), String::new());
        let status = process::follow(&mut command, |output, line| {
            on_line(output, line);
            let text = if output == Output::Data {
                &mut data
            } else {
                &mut log
            };
            text.push_str(line);
            text.push('\n');
        })?;
        Ok((status.code().unwrap_or(-1), data, log))
    }
}

/// The error message; the progress output before it was shown already.
fn reason(log: &str) -> &str {
    log.find("error: ").map_or(log, |at| &log[at..]).trim()
}

/// A string member of a JSON document.
///
/// # Errors
/// If the response lacks the member.
pub(crate) fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str> {
    answer[field]
        .as_str()
        .with_context(|| format!("`{field}` is missing in {answer}"))
}
