//! Writes one file atomically: to a temporary file in the same directory, whose size is checked before the rename.
//!
//! A content that is not in memory is read in parts while it is sent. The last part waits until the source has ended without an
//! error: otherwise the host gets too few bytes, and the file keeps its old content.

use crate::errors::NOT_WRITTEN;
use crate::pool::Pool;
use crate::run::{Input, Job, command_line, run_within};
use shell_words::quote;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use vnfm_core::ports::{Content, PinnedTarget, PortError, RemoteFile};

/// Size of a part of a content that is read while it is sent, and how many of them may wait.
const PART_LEN: usize = 256 << 10;
const WAITING_PARTS: usize = 4;

/// Reads the content from standard input. `$1` path, `$2` mode, `$3` number of bytes. A broken connection looks like the
/// end of the input, hence the size check. Then nobody reads the error message either: `PIPE` is ignored and `HUP` exits
/// regularly, as otherwise the message would kill the shell and leave the temporary file behind.
const SCRIPT: &str = r#"set -e; umask 077; d=${1%/*}; [ -z "$d" ] || mkdir -p "$d"; t=$1.vnfm.$$
trap 'rm -f "$t"' EXIT; trap '' PIPE; trap 'exit 1' HUP INT TERM; cat >"$t"; n=$(wc -c <"$t")
[ "$n" -eq "$3" ] || { echo "got $n of $3 bytes" >&2; exit 1; }
chmod "$2" "$t"; mv -f "$t" "$1""#;

/// The command that writes its standard input of `length` bytes to `path`.
pub(crate) fn put_line(path: &str, mode: &str, length: u64) -> String {
    let (script, path) = (quote(SCRIPT), quote(path));
    format!("sh -c {script} vnfm-put {path} {mode} {length}")
}

/// Writes `file` on `target` within `limit`.
pub(crate) async fn put(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    file: &RemoteFile,
    limit: Duration,
) -> Result<(), PortError> {
    let action = format!("put `{}` on `{}`", file.path, target.host.address);
    let refused = |detail: String| {
        PortError::new(&NOT_WRITTEN, action.clone(), detail).on(target.host.server_id.clone())
    };
    if !file.path.starts_with('/') || file.path.ends_with('/') {
        return Err(refused(format!(
            "`{}` is not an absolute path of a file",
            file.path
        )));
    }
    if !(3..=4).contains(&file.mode.len()) || !file.mode.bytes().all(|b| (b'0'..=b'7').contains(&b))
    {
        return Err(refused(format!(
            "`{}` is not an octal mode such as `0600`",
            file.mode
        )));
    }
    let line = put_line(&file.path, &file.mode, file.content.size());
    let job = Job {
        action: action.clone(),
        line: command_line(&target.host, &line, file.sudo),
        stdin: input(&file.content),
        stdout: None,
    };
    let output = run_within(pool, target, job, limit).await?;
    if output.exit_code != 0 {
        return Err(refused(format!(
            "exit code {}: {}",
            output.exit_code,
            output.stderr.trim()
        )));
    }
    Ok(())
}

fn input(content: &Content) -> Input {
    match content {
        Content::Bytes(bytes) => Input::Bytes(bytes.clone()),
        Content::Streamed { bytes, source } => {
            let (to, parts) = mpsc::channel(WAITING_PARTS);
            let (left, source) = (*bytes, source.clone());
            tokio::task::spawn_blocking(move || {
                let held = Vec::new();
                let mut parts = Parts { to, held, left };
                if source(&mut parts).is_ok() && !parts.held.is_empty() {
                    let _ = parts.send(); // the command has ended, and its error says more
                }
            });
            Input::Parts(parts)
        }
    }
}

/// Passes on what is written, except for the last part.
struct Parts {
    to: mpsc::Sender<Vec<u8>>,
    held: Vec<u8>,
    /// Bytes that the source may still have.
    left: u64,
}

impl Parts {
    fn send(&mut self) -> io::Result<()> {
        let part = std::mem::take(&mut self.held);
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.to.blocking_send(part).map_err(ended)
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("it is larger than it states"))?;
        if self.held.len() >= PART_LEN {
            self.send()?;
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
