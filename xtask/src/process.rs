//! Runs other programs: to completion with their output shown and collected, or in the background.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{interrupt, terminal::Progress};

/// Number of last output lines that an error repeats.
const MAX_ERROR_LINES: usize = 12;
/// Time for our own signal handler to run after a child died of the same Ctrl-C.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Standard output or standard error of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Everything written to standard output.
    Data,
    /// Everything written to standard error.
    Log,
}

/// Runs a program to completion and passes each line of output to `on_line`.
///
/// # Errors
/// If it cannot be started, or on Ctrl-C.
pub(crate) fn follow(
    command: &mut Command,
    mut on_line: impl FnMut(Output, &str),
) -> Result<ExitStatus> {
    interrupt::check()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", command_line(command)))?;
    let bound = interrupt::bind(&child);
    let (sender, lines) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        pump(out, Output::Data, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        pump(err, Output::Log, sender);
    }
    for (output, line) in lines {
        on_line(output, &line);
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{}`", command_line(command)))?;
    drop(bound);
    check_interrupt(status)?;
    Ok(status)
}

/// Ctrl-C reaches us and our children at once: if a child died of it, waits for our own handler.
fn check_interrupt(status: ExitStatus) -> Result<()> {
    match status.signal() {
        Some(SIGINT | SIGTERM) => interrupt::pause(SIGNAL_TIMEOUT),
        _ => interrupt::check(),
    }
}

fn pump(from: impl Read + Send + 'static, output: Output, to: Sender<(Output, String)>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if to.send((output, line)).is_err() {
                break;
            }
        }
    });
}

/// Runs a program with a progress label; returns its standard output. An error contains its last output lines.
///
/// # Errors
/// If it cannot be started or fails, or on Ctrl-C.
pub(crate) fn run(label: &str, command: &mut Command) -> Result<String> {
    let progress = Progress::begin(label);
    let (mut data, mut last) = (String::new(), VecDeque::new());
    let status = follow(command, |output, line| {
        progress.show(line);
        if output == Output::Data {
            data.push_str(line);
            data.push('\n');
        }
        last.push_back(line.to_owned());
        if last.len() > MAX_ERROR_LINES {
            last.pop_front();
        }
    });
    match status {
        Ok(status) if status.success() => {
            progress.done();
            Ok(data)
        }
        Ok(status) => {
            progress.failed();
            let lines: Vec<_> = last.into_iter().collect();
            bail!(
                "`{}` failed with {status}:\n  {}",
                command_line(command),
                lines.join("\n  ")
            )
        }
        Err(error) => {
            progress.failed();
            Err(error)
        }
    }
}

/// Runs a program with our own terminal; true if it succeeded.
///
/// # Errors
/// If it cannot be started, or on Ctrl-C.
pub(crate) fn foreground(command: &mut Command) -> Result<bool> {
    interrupt::check()?;
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", command_line(command)))?;
    let bound = interrupt::bind(&child);
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{}`", command_line(command)))?;
    drop(bound);
    check_interrupt(status)?;
    Ok(status.success())
}

/// Standard output of a short command; `None` if it is missing or fails.
pub(crate) fn query(program: impl AsRef<Path>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program.as_ref())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Path of the program, if `PATH` contains it.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Sends SIGTERM to a child and waits for its exit.
pub(crate) fn end(child: &mut Child) {
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::TERM,
    );
    let _ = child.wait();
}

/// The command as typed in a shell.
fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Protects a program that the clean-up needs from Ctrl-C, by its own process group.
pub(crate) fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Reads the first line that a program prints, such as its address.
///
/// # Errors
/// If its output is not piped, or cannot be read.
pub(crate) fn first_line(child: &mut Child) -> Result<String> {
    let mut line = String::new();
    let out = child.stdout.take().context("the program has no output")?;
    BufReader::new(out)
        .read_line(&mut line)
        .context("cannot read the program's first line")?;
    Ok(line.trim().to_owned())
}
