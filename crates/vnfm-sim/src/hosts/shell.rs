//! Runs a command line or script: words, quotes, variables, `;`, `&&`, `||`, `|`, `>`, `>>`, `<`.
//!
//! Loops, functions and substitutions are not simulated: a script that uses them fails with exit code 2 and a message.

use super::host::Host;
use super::shell_syntax::{Connector, SimpleCommand, Token, commands, tokens};
use super::{kubeadm, programs};
use crate::faults::{Fault, When};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Exit code and output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Output {
    pub(crate) fn ok(out: impl Into<Vec<u8>>) -> Self {
        Self {
            code: 0,
            out: out.into(),
            err: String::new(),
        }
    }

    pub(crate) fn fail(code: i32, err: impl Into<String>) -> Self {
        Self {
            code,
            out: Vec::new(),
            err: err.into(),
        }
    }

    /// `bytes` bytes of control characters and invalid UTF-8 in 1 MiB lines, then one readable line.
    pub(crate) fn flood(bytes: usize, code: i32) -> Self {
        let garbage = b"\x1b[31m\xff\xfe\x00garbage\x07".iter().copied().cycle();
        let mut out: Vec<u8> = garbage.take(bytes).collect();
        for line in out.chunks_mut(1 << 20) {
            line[0] = b'\n';
        }
        out.extend_from_slice(b"\nand here the flood ended\n");
        Self {
            code,
            out,
            err: String::new(),
        }
    }

    fn append(&mut self, next: Self) {
        self.code = next.code;
        self.out.extend(next.out);
        self.err.push_str(&next.err);
    }
}

/// Concatenates lines, each with its own end.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().collect::<Vec<_>>().concat()
}

/// Standard input; the first program that reads takes all of it.
pub(crate) enum Input {
    /// Input that is known in advance.
    Ready(Vec<u8>),
    /// Still arriving over a connection.
    Arriving(oneshot::Receiver<Vec<u8>>),
}

impl Input {
    pub(crate) fn empty() -> Self {
        Self::Ready(Vec::new())
    }

    /// Returns all input; empty the second time.
    pub(crate) async fn take(&mut self) -> Vec<u8> {
        match std::mem::replace(self, Self::empty()) {
            Self::Ready(bytes) => bytes,
            Self::Arriving(bytes) => bytes.await.unwrap_or_default(),
        }
    }
}

/// The host, user and variables that commands run with.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) host: Arc<Host>,
    pub(crate) user: String,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Shell {
    pub(crate) fn new(host: Arc<Host>, user: impl Into<String>) -> Self {
        Self {
            host,
            user: user.into(),
            variables: BTreeMap::new(),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user == "root"
    }

    /// Runs a script, honouring `;`, `&&` and `||` between its pipelines.
    pub(crate) fn script<'a>(
        &'a mut self,
        text: &'a str,
        input: &'a mut Input,
    ) -> Pin<Box<dyn Future<Output = Output> + Send + 'a>> {
        Box::pin(async move {
            let tokens = match tokens(text) {
                Ok(tokens) => tokens,
                Err(problem) => return Output::fail(2, format!("sh: 1: {problem}\n")),
            };
            let mut total = Output::default();
            let mut connector = Connector::Always;
            for (command, next) in commands(tokens) {
                let runs = match connector {
                    Connector::Always => true,
                    Connector::IfOk => total.code == 0,
                    Connector::IfNot => total.code != 0,
                };
                if runs && !command.is_empty() {
                    let output = self.run_pipeline(&command, input).await;
                    total.append(output);
                    if let Some(code) = self.variables.remove("\0exit") {
                        total.code = code.parse().unwrap_or(2);
                        return total;
                    }
                }
                connector = next;
            }
            total
        })
    }

    async fn run_pipeline(&mut self, tokens: &[Token], input: &mut Input) -> Output {
        let stages: Vec<_> = tokens.split(|t| *t == Token::Operator("|")).collect();
        let (last, first) = match stages.split_last() {
            Some((last, first)) => (*last, first),
            None => return Output::default(),
        };
        let mut err = String::new();
        let mut piped = None;
        for stage in first {
            let mut from = piped.take().map(Input::Ready);
            let output = self
                .run_command(stage, from.as_mut().unwrap_or(input))
                .await;
            err.push_str(&output.err);
            piped = Some(output.out);
        }
        let mut from = piped.map(Input::Ready);
        let mut output = self.run_command(last, from.as_mut().unwrap_or(input)).await;
        output.err.insert_str(0, &err);
        output
    }

    /// Runs one command with its redirections and assignments.
    async fn run_command(&mut self, tokens: &[Token], input: &mut Input) -> Output {
        let parsed = match SimpleCommand::parse(tokens, &self.variables) {
            Ok(parsed) => parsed,
            Err(problem) => return Output::fail(2, format!("sh: 1: {problem}\n")),
        };
        let mut own_input = None;
        if let Some(path) = &parsed.from {
            let Some(content) = self.host.disk().read(path) else {
                return Output::fail(2, format!("sh: 1: cannot open {path}: No such file\n"));
            };
            own_input = Some(Input::Ready(content));
        }
        if parsed.argv.is_empty() {
            self.variables.extend(parsed.assigned);
            return Output::default();
        }
        let mut shell = self.clone();
        shell.variables.extend(parsed.assigned.clone());
        let input = own_input.as_mut().unwrap_or(input);
        let mut output = shell.program(&parsed.argv, input).await;
        if let Some(code) = shell.variables.remove("\0exit") {
            self.variables.insert("\0exit".into(), code);
        }
        if shell.variables.remove("\0export").is_some() {
            self.variables.extend(shell.variables);
        }
        self.redirect(&parsed, &mut output);
        output
    }

    fn redirect(&self, parsed: &SimpleCommand, output: &mut Output) {
        if parsed.merge {
            output
                .out
                .extend(std::mem::take(&mut output.err).into_bytes());
        }
        for (path, append, is_err) in &parsed.to {
            let bytes = if *is_err {
                std::mem::take(&mut output.err).into_bytes()
            } else {
                std::mem::take(&mut output.out)
            };
            match path.as_str() {
                "/dev/null" => continue,
                "/dev/stderr" => {
                    output.err.push_str(&String::from_utf8_lossy(&bytes));
                    continue;
                }
                _ => {}
            }
            if !self.may_write(path) {
                output.err += format!("sh: 1: cannot create {path}: Permission denied\n").as_str();
                output.code = 2;
                continue;
            }
            let mut disk = self.host.disk();
            let mut content = if *append {
                disk.read(path).unwrap_or_default()
            } else {
                Vec::new()
            };
            content.extend(bytes);
            disk.write(path, content, 0o644);
        }
    }

    /// Whether the user may write to a path.
    pub(crate) fn may_write(&self, path: &str) -> bool {
        self.is_root()
            || path.starts_with("/tmp/")
            || path.starts_with(&format!("/home/{}/", self.user))
    }

    /// Runs one program, with fault injection and logging.
    pub(crate) fn program<'a>(
        &'a mut self,
        argv: &'a [String],
        input: &'a mut Input,
    ) -> Pin<Box<dyn Future<Output = Output> + Send + 'a>> {
        Box::pin(async move {
            let subject = format!("{}: {}", self.host.spec().name, argv.join(" "));
            let lan = self.host.lan.clone();
            let _lock = match kubeadm::claim(&self.host, argv) {
                Ok(lock) => lock,
                Err(output) => return output,
            };
            let fault = lan.faults.take("host.exec", &subject);
            let output = match fault {
                Some(Fault::Exit { exit, stderr }) => {
                    programs::leave_partial_effect(self, argv);
                    Output::fail(exit, stderr)
                }
                Some(Fault::Flood { flood, exit }) => {
                    programs::leave_partial_effect(self, argv);
                    Output::flood(flood, exit)
                }
                Some(Fault::Hang { .. }) => std::future::pending().await,
                Some(Fault::Drop { drop: When::Before } | Fault::Status { .. }) => {
                    Output::fail(137, "Killed\n")
                }
                fault => {
                    if let Some(Fault::Delay { delay_ms }) = fault {
                        crate::time::pause(Duration::from_millis(delay_ms)).await;
                    }
                    let output = programs::run(self, argv, input).await;
                    match fault {
                        Some(
                            Fault::Drop { drop: When::After } | Fault::ErrorAfterEffect { .. },
                        ) => Output::fail(137, "Killed\n"),
                        Some(Fault::HangAfterEffect { .. }) => std::future::pending().await,
                        _ => output,
                    }
                }
            };
            lan.books.record(
                "ssh",
                "host.exec",
                &subject,
                (i64::from(output.code), output.err.as_str()),
            );
            output
        })
    }
}
