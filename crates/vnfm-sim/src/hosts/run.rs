//! Runs a command line or script: words, quotes, variables, `;`, `&&`, `||`, `|`, `>`, `>>`, `<`.
//!
//! Loops, functions and substitutions are not simulated: a script that uses them fails with exit code 2 and a message.

use super::shell::Shell;
use super::shell_syntax::{Connector, SimpleCommand, Token, commands, tokens};
use super::stdio::{Input, Output};
use super::{kubeadm, programs};
use crate::faults::{Fault, When};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

impl Shell {
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
                Some(Fault::Hang { .. }) => {
                    programs::leave_partial_effect(self, argv);
                    std::future::pending().await
                }
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
