//! One command: output apart and bounded, exit code, deadline, cancel by drop.

use crate::connect::Busy;
use crate::errors::{self, LOST, NO_COMMANDS};
use crate::output::Bounded;
use crate::pool::Pool;
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use shell_words::quote;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;
use vnfm_core::ports::{CommandOutput, PortError, SshTarget};

/// The number of the channel for standard error.
const STDERR: u32 = 1;

/// What to run.
pub(crate) struct Job {
    /// For errors.
    pub(crate) doing: String,
    /// The line for the login shell.
    pub(crate) line: String,
    /// What it reads.
    pub(crate) stdin: Vec<u8>,
}

/// The line for the login shell that runs `command`, as root where `sudo` is asked for.
pub(crate) fn command_line(target: &SshTarget, command: &str, sudo: bool) -> String {
    if sudo && target.username != "root" {
        format!("sudo -n -- sh -c {}", quote(command))
    } else {
        command.to_owned()
    }
}

/// A command for an error's text: its first line, not too long.
pub(crate) fn brief(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    let mut brief: String = line.chars().take(80).collect();
    if brief.len() < command.len() {
        brief.push('…');
    }
    brief
}

/// Runs `job` on `target`, given up after `limit`.
pub(crate) async fn within(
    pool: &Arc<Pool>,
    target: &SshTarget,
    job: Job,
    limit: Duration,
) -> Result<CommandOutput, PortError> {
    let doing = job.doing.clone();
    match timeout(limit, execute(pool, target, job)).await {
        Ok(result) => result.map_err(|e| e.on(target.server_id.clone())),
        Err(_) => Err(errors::too_slow(&doing, limit).on(target.server_id.clone())),
    }
}

async fn execute(
    pool: &Arc<Pool>,
    target: &SshTarget,
    job: Job,
) -> Result<CommandOutput, PortError> {
    let (busy, channel) = open(pool, target, &job.doing).await?;
    let doing = job.doing.clone();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let result = drive(channel, job, stopped).await;
        drop(busy);
        result
    });
    let joined = task.await;
    drop(stop);
    match joined {
        Ok(result) => result,
        Err(panicked) => Err(PortError::new(&LOST, doing, panicked.to_string())),
    }
}

/// A channel on the pooled connection; a connection that turns out to be dead is replaced once, since nothing ran on it.
async fn open(
    pool: &Arc<Pool>,
    target: &SshTarget,
    doing: &str,
) -> Result<(Busy, Channel<Msg>), PortError> {
    let busy = pool.connection(target).await?;
    if let Ok(channel) = busy.connection().handle.channel_open_session().await {
        return Ok((busy, channel));
    }
    pool.forget(target);
    let busy = pool.connection(target).await?;
    let channel = busy
        .connection()
        .handle
        .channel_open_session()
        .await
        .map_err(|e| PortError::new(&LOST, doing, e.to_string()))?;
    Ok((busy, channel))
}

/// Runs `job` on `channel`; when the other end of `stopped` is dropped first, the command is told to end.
async fn drive(
    channel: Channel<Msg>,
    job: Job,
    stopped: oneshot::Receiver<Infallible>,
) -> Result<CommandOutput, PortError> {
    let Job { doing, line, stdin } = job;
    let lost = |e: russh::Error| PortError::new(&LOST, doing.clone(), e.to_string());
    let (mut read, write) = channel.split();
    let work = async {
        write.exec(true, line).await.map_err(lost)?;
        tokio::select! {
            output = collect(&mut read, &doing) => output,
            never = feed(&write, &stdin) => match never {},
        }
    };
    let result = tokio::select! {
        output = work => output,
        _ = stopped => {
            // The command is told to end; whether it hears is its own affair, so failures here say nothing.
            let _ = write.signal(Sig::TERM).await;
            Err(PortError::new(&LOST, doing.clone(), "given up"))
        }
    };
    let _ = write.close().await;
    result
}

/// Sends what the command reads, then stays pending: the command's end is what counts.
async fn feed(write: &ChannelWriteHalf<Msg>, stdin: &[u8]) -> Infallible {
    // A command may end without reading everything; that is no error.
    if stdin.is_empty() || write.data(stdin).await.is_ok() {
        let _ = write.eof().await;
    }
    std::future::pending().await
}

async fn collect(read: &mut ChannelReadHalf, doing: &str) -> Result<CommandOutput, PortError> {
    let (mut stdout, mut stderr) = (Bounded::default(), Bounded::default());
    let mut exit_code = None;
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => stdout.push(&data),
            ChannelMsg::ExtendedData { data, ext: STDERR } => stderr.push(&data),
            ChannelMsg::ExitStatus { exit_status } => {
                exit_code = Some(i32::try_from(exit_status).unwrap_or(i32::MAX));
            }
            ChannelMsg::ExitSignal { signal_name, .. } => {
                exit_code = Some(128 + number(&signal_name));
            }
            ChannelMsg::Failure => {
                return Err(PortError::new(
                    &NO_COMMANDS,
                    doing,
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
            doing,
            "the connection ended before the command did",
        ));
    };
    Ok(CommandOutput {
        exit_code,
        truncated: stdout.is_truncated() || stderr.is_truncated(),
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
    })
}

/// The number of a signal; 0 for one that has no usual number.
fn number(signal: &Sig) -> i32 {
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
    use super::{brief, command_line};
    use vnfm_core::ports::{HostPin, SshTarget};

    fn target(username: &str) -> SshTarget {
        SshTarget {
            server_id: "s".into(),
            address: "a".into(),
            port: 22,
            username: username.into(),
            password: None,
            private_key: None,
            jump: None,
            pin: HostPin::default(),
        }
    }

    #[test]
    fn sudo_covers_the_whole_line() {
        let line = command_line(&target("ubuntu"), "echo 'a b' && id", true);
        assert_eq!(line, r"sudo -n -- sh -c 'echo '\''a b'\'' && id'");
        assert_eq!(command_line(&target("root"), "id", true), "id");
        assert_eq!(command_line(&target("ubuntu"), "id", false), "id");
    }

    #[test]
    fn long_commands_are_cut_in_errors() {
        assert_eq!(brief("id"), "id");
        assert_eq!(brief("a\nb"), "a…");
        assert_eq!(brief(&"x".repeat(200)).chars().count(), 81);
    }
}
