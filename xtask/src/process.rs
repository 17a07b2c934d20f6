//! Other programs: run to their end with their words shown and kept, or started and looked after.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{interrupt, terminal::Busy};

/// How many of a program's last words an error repeats.
const LAST_WORDS: usize = 12;
/// How long our own Ctrl-C may take to be noted after a child has died of it.
const NOTED: Duration = Duration::from_secs(2);

/// Which of its two outputs a program used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Data.
    Data,
    /// What it told about its work.
    Words,
}

/// Runs a program to its end and hands over each line as it comes.
///
/// # Errors
/// When it cannot be started or somebody interrupted us.
pub(crate) fn follow(
    command: &mut Command,
    mut hear: impl FnMut(Output, &str),
) -> Result<ExitStatus> {
    interrupt::check()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", line_of(command)))?;
    let bound = interrupt::bind(&child);
    let (sender, lines) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        pump(out, Output::Data, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        pump(err, Output::Words, sender);
    }
    for (output, line) in lines {
        hear(output, &line);
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{}`", line_of(command)))?;
    drop(bound);
    heed(status)?;
    Ok(status)
}

/// Ctrl-C reaches us and our children at once: where a child has died of it, ours is only not noted yet.
fn heed(status: ExitStatus) -> Result<()> {
    match status.signal() {
        Some(SIGINT | SIGTERM) => interrupt::pause(NOTED),
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

/// Runs a program under a label; its data is returned, its last words are in the error.
///
/// # Errors
/// When it cannot be started, ends badly, or somebody interrupted us.
pub(crate) fn run(label: &str, command: &mut Command) -> Result<String> {
    let busy = Busy::begin(label);
    let (mut data, mut last) = (String::new(), VecDeque::new());
    let status = follow(command, |output, line| {
        busy.say(line);
        if output == Output::Data {
            data.push_str(line);
            data.push('\n');
        }
        last.push_back(line.to_owned());
        if last.len() > LAST_WORDS {
            last.pop_front();
        }
    });
    match status {
        Ok(status) if status.success() => {
            busy.done();
            Ok(data)
        }
        Ok(status) => {
            busy.failed();
            let words: Vec<_> = last.into_iter().collect();
            bail!(
                "`{}` ended with {status}:\n  {}",
                line_of(command),
                words.join("\n  ")
            )
        }
        Err(error) => {
            busy.failed();
            Err(error)
        }
    }
}

/// Runs a program with our own terminal; says whether it ended well.
///
/// # Errors
/// When it cannot be started or somebody interrupted us.
pub(crate) fn foreground(command: &mut Command) -> Result<bool> {
    interrupt::check()?;
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", line_of(command)))?;
    let bound = interrupt::bind(&child);
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{}`", line_of(command)))?;
    drop(bound);
    heed(status)?;
    Ok(status.success())
}

/// What a quick question to a program answers; nothing where it is absent or ends badly.
pub(crate) fn ask(program: impl AsRef<Path>, arguments: &[&str]) -> Option<String> {
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

/// The program's path, if the search path has it.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Ends a child politely, and waits until it is gone.
pub(crate) fn end(child: &mut Child) {
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::TERM,
    );
    let _ = child.wait();
}

/// The command as one would type it.
fn line_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
