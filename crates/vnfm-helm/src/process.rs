//! One run of helm, in a process group of its own that ends with us.
//!
//! ```text
//! /bin/sh  sets the limits, starts the guard, becomes helm
//! ├─ guard   reads our end of a pipe; when that is closed (dropped, or this process died) it kills the group
//! └─ helm    empty environment, HELM_* in a private folder that is deleted afterwards
//! ```
//! The guard needs no signal handler and no code between fork and exec, and works however this process ends.

use crate::errors::HelmError;
use crate::folder::RunFolder;
use crate::program::{Helm, Limits};
use crate::renderer::Exchange;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Sets the limits `$1` (KiB of address space), `$2` (seconds of processor time) and `$3` (blocks of 512 bytes per file),
/// starts the guard and runs the rest of the arguments. A lower limit that the system has already stays.
const START: &str = r#"ulimit -c 0; ulimit -v "$1" || :; ulimit -t "$2" || :; ulimit -f "$3" || :; shift 3
exec 3<&0 </dev/null
(exec >/dev/null 2>&1; cat <&3; kill -KILL 0) &
exec "$@" 3<&-
"#;
/// The end of standard error that an error quotes, in bytes.
const TAIL: usize = 2000;

/// A run of helm that is being prepared.
pub(crate) struct Run<'a> {
    action: String,
    arguments: Vec<String>,
    time: Duration,
    exchange: Option<Exchange<'a>>,
}

impl<'a> Run<'a> {
    /// Helm with `arguments`, for at most `time`; `action` completes "cannot …" in errors.
    pub(crate) fn new(action: impl Into<String>, arguments: Vec<String>, time: Duration) -> Self {
        Self {
            action: action.into(),
            arguments,
            time,
            exchange: None,
        }
    }

    /// The same run, whose objects pass through `exchange`.
    pub(crate) fn through(mut self, exchange: Exchange<'a>) -> Self {
        self.exchange = Some(exchange);
        self
    }

    /// Runs it, and returns its standard output.
    ///
    /// # Errors
    ///
    /// It cannot be started, exceeds a limit, or fails; what it has started has ended then.
    pub(crate) async fn start(self, helm: &Helm) -> Result<Vec<u8>, HelmError> {
        let (action, seconds) = (self.action.clone(), self.time.as_secs());
        match timeout(self.time, self.run(helm)).await {
            Ok(ended) => ended,
            Err(_) => Err(HelmError::TooSlow { action, seconds }),
        }
    }

    async fn run(mut self, helm: &Helm) -> Result<Vec<u8>, HelmError> {
        let cannot = |action: &str, source| HelmError::Process {
            action: action.to_owned(),
            source,
        };
        let folder = match &self.exchange {
            Some(exchange) => exchange.folder(),
            None => &RunFolder::new().map_err(|error| cannot(&self.action, error))?,
        };
        let mut child = command(helm, folder.path(), &self.arguments)
            .spawn()
            .map_err(|error| cannot(&self.action, error))?;
        // Dropped on every way out of here: the guard then ends whatever is left.
        let _guard = child.stdin.take();
        let ended = finish(&mut child, helm.limits);
        let ended = match &mut self.exchange {
            None => ended.await,
            Some(exchange) => exchange.during(ended, helm.limits.output).await,
        };
        let (output, message, status) = ended.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => HelmError::TooLarge {
                action: self.action.clone(),
                limit: helm.limits.output,
            },
            _ => cannot(&self.action, error),
        })?;
        let action = self.action;
        match self.exchange.and_then(Exchange::into_refusal) {
            Some(reason) => Err(HelmError::Refused { action, reason }),
            None if status.success() => Ok(output),
            None => Err(HelmError::Failed {
                action,
                message: last_words(&message, status),
            }),
        }
    }
}

fn command(helm: &Helm, folder: &Path, arguments: &[String]) -> Command {
    let limits = helm.limits;
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", START, "sh"])
        .arg((limits.memory / 1024).to_string())
        .arg(limits.cpu_seconds.to_string())
        .arg((limits.file / 512).to_string())
        .arg(helm.path())
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GOMEMLIMIT", (limits.memory / 4).to_string())
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for name in [
        "HOME",
        "TMPDIR",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
    ] {
        command.env(name, folder);
    }
    command.env("HELM_PLUGINS", folder.join("plugins"));
    command
}

/// Reads both outputs, and waits until the process has exited.
async fn finish(child: &mut Child, limits: Limits) -> io::Result<(Vec<u8>, Vec<u8>, ExitStatus)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (output, message) = tokio::try_join!(read(stdout, limits.output), tail(stderr))?;
    Ok((output, message, child.wait().await?))
}

/// Reads until the other side closes the pipe.
///
/// # Errors
///
/// `FileTooLarge` if it is more than `limit` bytes.
pub(crate) async fn read(from: impl AsyncRead + Unpin, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .await?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads everything and keeps the end.
async fn tail(mut from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&piece[..read]);
        let surplus = kept.len().saturating_sub(TAIL);
        kept.drain(..surplus);
    }
}

/// The last lines of standard error in one, or how the process ended if it wrote nothing.
fn last_words(message: &[u8], status: ExitStatus) -> String {
    let message = String::from_utf8_lossy(message);
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() {
        status.to_string()
    } else {
        last
    }
}
