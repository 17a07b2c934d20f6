//! Runs one command: separate, bounded outputs, exit code, deadline, cancellation by drop.

use crate::connect::InUse;
use crate::errors::{self, LOST, NO_COMMANDS, NOT_COPIED};
use crate::output::BoundedOutput;
use crate::pool::Pool;
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use shell_words::quote;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use vnfm_core::ports::{CommandOutput, PinnedTarget, PortError, SshTarget};

/// SSH's extended data type of standard error (RFC 4254 5.2).
const STDERR: u32 = 1;

/// A command line with its input.
pub(crate) struct Job {
    /// The action named in errors.
    pub(crate) action: String,
    /// The line for the login shell.
    pub(crate) line: String,
    /// Sent to its standard input.
    pub(crate) stdin: Input,
    /// Receives its standard output; `None`: memory, whose middle is left out if it is too long.
    pub(crate) stdout: Option<LocalFile>,
}

/// The standard input of a command.
pub(crate) enum Input {
    Bytes(Vec<u8>),
    File(File),
    /// Parts, as they arrive.
    Parts(mpsc::Receiver<Vec<u8>>),
}

/// A local file that receives the output of a command.
pub(crate) struct LocalFile {
    pub(crate) file: File,
    /// How many bytes it may still receive.
    pub(crate) left: u64,
}

impl LocalFile {
    async fn push(&mut self, data: &[u8]) -> Result<(), String> {
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.left = (self.left.checked_sub(length)).ok_or("the file is longer than it was")?;
        let written = self.file.write_all(data).await;
        written.map_err(|error| format!("the local file cannot be written: {error}"))
    }

    /// Ends the file, which must be complete.
    async fn end(&mut self) -> Result<(), String> {
        if self.left > 0 {
            return Err(format!("{} bytes are missing", self.left));
        }
        let flushed = self.file.flush().await;
        flushed.map_err(|error| format!("the local file cannot be written: {error}"))
    }
}

/// The command line that runs `command`, as root if `sudo` is set.
pub(crate) fn command_line(target: &SshTarget, command: &str, sudo: bool) -> String {
    if sudo && target.username != "root" {
        format!("sudo -n -- sh -c {}", quote(command))
    } else {
        command.to_owned()
    }
}

/// Shortens a command for an error: its first line, at most 80 characters.
pub(crate) fn summary(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    let mut summary: String = line.chars().take(80).collect();
    if summary.len() < command.len() {
        summary.push('…');
    }
    summary
}

/// Runs `job` on `target` for at most `limit`.
pub(crate) async fn run_within(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    job: Job,
    limit: Duration,
) -> Result<CommandOutput, PortError> {
    let action = job.action.clone();
    match timeout(limit, execute(pool, target, job)).await {
        Ok(result) => result.map_err(|e| e.on(target.host.server_id.clone())),
        Err(_) => Err(errors::deadline_error(&action, limit).on(target.host.server_id.clone())),
    }
}

async fn execute(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    job: Job,
) -> Result<CommandOutput, PortError> {
    let (busy, channel) = open(pool, target, &job.action).await?;
    let action = job.action.clone();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let result = run_on_channel(channel, job, stopped).await;
        drop(busy);
        result
    });
    let joined = task.await;
    drop(stop);
    match joined {
        Ok(result) => result,
        Err(panicked) => Err(PortError::new(&LOST, action, panicked.to_string())),
    }
}

/// Opens a channel on the pooled connection. A dead connection is replaced once: nothing ran on it yet.
async fn open(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    action: &str,
) -> Result<(InUse, Channel<Msg>), PortError> {
    let busy = pool.connection(target).await?;
    if let Ok(channel) = busy.connection().handle.channel_open_session().await {
        return Ok((busy, channel));
    }
    pool.remove(target);
    let busy = pool.connection(target).await?;
    let channel = busy
        .connection()
        .handle
        .channel_open_session()
        .await
        .map_err(|e| PortError::new(&LOST, action, e.to_string()))?;
    Ok((busy, channel))
}

/// Runs `job` on `channel`; sends SIGTERM to the command if the sender of `stopped` is dropped first.
async fn run_on_channel(
    channel: Channel<Msg>,
    job: Job,
    stopped: oneshot::Receiver<Infallible>,
) -> Result<CommandOutput, PortError> {
    let Job {
        action,
        line,
        stdin,
        stdout,
    } = job;
    let lost = |e: russh::Error| PortError::new(&LOST, action.clone(), e.to_string());
    let (mut read, write) = channel.split();
    let work = async {
        write.exec(true, line).await.map_err(lost)?;
        tokio::select! {
            output = collect(&mut read, &action, stdout) => output,
            never = send_stdin(&write, stdin) => match never {},
        }
    };
    let result = tokio::select! {
        output = work => output,
        _ = stopped => {
            // Best effort: the command may ignore SIGTERM, so a failure here does not matter.
            let _ = write.signal(Sig::TERM).await;
            Err(PortError::new(&LOST, action.clone(), "cancelled"))
        }
    };
    let _ = write.close().await;
    result
}

/// Sends the command's input, then stays pending: only the end of the command matters.
async fn send_stdin(write: &ChannelWriteHalf<Msg>, stdin: Input) -> Infallible {
    // A command may end without reading all its input; that is not an error.
    let sent = match stdin {
        Input::Bytes(bytes) if bytes.is_empty() => Ok(()),
        Input::Bytes(bytes) => write.data(&*bytes).await,
        Input::File(file) => write.data(file).await,
        Input::Parts(mut parts) => {
            let mut sent = Ok(());
            while sent.is_ok()
                && let Some(part) = parts.recv().await
            {
                sent = write.data(&*part).await;
            }
            sent
        }
    };
    if sent.is_ok() {
        let _ = write.eof().await;
    }
    std::future::pending().await
}

async fn collect(
    read: &mut ChannelReadHalf,
    action: &str,
    mut to: Option<LocalFile>,
) -> Result<CommandOutput, PortError> {
    let not_copied = |why: String| PortError::new(&NOT_COPIED, action, why);
    let (mut stdout, mut stderr) = (BoundedOutput::default(), BoundedOutput::default());
    let mut exit_code = None;
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => match &mut to {
                Some(file) => file.push(&data).await.map_err(not_copied)?,
                None => stdout.push(&data),
            },
            ChannelMsg::ExtendedData { data, ext: STDERR } => stderr.push(&data),
            ChannelMsg::ExitStatus { exit_status } => {
                exit_code = Some(i32::try_from(exit_status).unwrap_or(i32::MAX));
            }
            ChannelMsg::ExitSignal { signal_name, .. } => {
                exit_code = Some(128 + signal_number(&signal_name));
            }
            ChannelMsg::Failure => {
                return Err(PortError::new(
                    &NO_COMMANDS,
                    action,
                    "the host refused to run a command",
                ));
            }
            ChannelMsg::Close => break,
            _ => {}
        }
    }
    let Some(exit_code) = exit_code else {
        return Err(PortError::new(
            &LOST,
            action,
            "the connection ended before the command did",
        ));
    };
    // A command that failed has an error message of its own.
    if let Some(file) = to.as_mut().filter(|_| exit_code == 0) {
        file.end().await.map_err(not_copied)?;
    }
    let truncated = stdout.is_truncated() || stderr.is_truncated();
    let mut output = CommandOutput::new(exit_code, stdout.into_text(), stderr.into_text());
    output.truncated = truncated;
    Ok(output)
}

/// The number of a signal; 0 for a custom one.
fn signal_number(signal: &Sig) -> i32 {
    match signal {
        Sig::HUP => 1,
        Sig::INT => 2,
        Sig::QUIT => 3,
        Sig::ILL => 4,
        Sig::ABRT => 6,
        Sig::FPE => 8,
        Sig::KILL => 9,
        Sig::USR1 => 10,
        Sig::SEGV => 11,
        Sig::PIPE => 13,
        Sig::ALRM => 14,
        Sig::TERM => 15,
        Sig::Custom(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{command_line, summary};
    use vnfm_core::ports::SshTarget;

    fn target(username: &str) -> SshTarget {
        SshTarget::new("s", "a", username)
    }

    #[test]
    fn sudo_applies_to_the_entire_command_line() {
        let line = command_line(&target("ubuntu"), "echo 'a b' && id", true);
        assert_eq!(line, r"sudo -n -- sh -c 'echo '\''a b'\'' && id'");
        assert_eq!(command_line(&target("root"), "id", true), "id");
        assert_eq!(command_line(&target("ubuntu"), "id", false), "id");
    }

    #[test]
    fn long_commands_are_truncated_in_errors() {
        assert_eq!(summary("id"), "id");
        assert_eq!(summary("a\nb"), "a…");
        assert_eq!(summary(&"x".repeat(200)).chars().count(), 81);
    }
}
