//! `vnfmctl`, run as a person would run it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, Output};
use crate::terminal::Busy;

/// The exit code of a request that the server refused.
const REFUSED: i32 = 3;

/// The client, and the server that it talks to.
pub(crate) struct Ctl {
    program: PathBuf,
    server: String,
}

impl Ctl {
    /// A client of that server.
    pub(crate) fn new(program: PathBuf, server: &str) -> Self {
        Self {
            program,
            server: server.to_owned(),
        }
    }

    /// A client for what needs no server.
    pub(crate) fn local(program: PathBuf) -> Self {
        Self {
            program,
            server: String::new(),
        }
    }

    /// Runs a command; its data as JSON.
    ///
    /// # Errors
    /// What the command says when it fails.
    pub(crate) fn json(&self, words: &[&str]) -> Result<Value> {
        let mut arguments = vec!["-o", "json"];
        arguments.extend(words);
        let (code, data, said) = self.run(&arguments, |_| {})?;
        if code != 0 {
            bail!(
                "`vnfmctl {}` ended with {code}: {}",
                words.join(" "),
                reason(&said)
            );
        }
        if data.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&data)
            .with_context(|| format!("`vnfmctl {}` prints no JSON: {data}", words.join(" ")))
    }

    /// Runs a command that takes its time, and shows its words.
    ///
    /// # Errors
    /// What the command says when it fails.
    pub(crate) fn watch(&self, busy: &Busy, words: &[&str]) -> Result<()> {
        let (code, _, said) = self.run(words, |line| busy.say(line))?;
        if code != 0 {
            bail!(
                "`vnfmctl {}` ended with {code}: {}",
                words.join(" "),
                reason(&said)
            );
        }
        Ok(())
    }

    /// Runs a command that the server must refuse; returns its reason.
    ///
    /// # Errors
    /// When it is not refused.
    pub(crate) fn refused(&self, words: &[&str]) -> Result<String> {
        let (code, _, said) = self.run(words, |_| {})?;
        if code != REFUSED {
            bail!(
                "`vnfmctl {}` ended with {code}, not refused with {REFUSED}: {}",
                words.join(" "),
                said.trim()
            );
        }
        Ok(said.trim().to_owned())
    }

    fn run(&self, words: &[&str], mut hear: impl FnMut(&str)) -> Result<(i32, String, String)> {
        let mut command = Command::new(&self.program);
        if !self.server.is_empty() {
            command.args(["--server", &self.server]);
        }
        command.args(words);
        let (mut data, mut said) = (String::new(), String::new());
        let status = process::follow(&mut command, |output, line| {
            hear(line);
            let text = if output == Output::Data {
                &mut data
            } else {
                &mut said
            };
            text.push_str(line);
            text.push('\n');
        })?;
        Ok((status.code().unwrap_or(-1), data, said))
    }
}

/// What it said from its error on; the progress before that was shown already.
fn reason(said: &str) -> &str {
    said.find("error: ").map_or(said, |at| &said[at..]).trim()
}

/// A string of a JSON answer.
///
/// # Errors
/// When it is not there.
pub(crate) fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str> {
    answer[field]
        .as_str()
        .with_context(|| format!("`{field}` is missing in {answer}"))
}
