//! Writes one file atomically: to a temporary file in the same directory, whose size is checked before the rename.

use crate::errors::NOT_WRITTEN;
use crate::pool::Pool;
use crate::run::{Input, Job, command_line, run_within};
use shell_words::quote;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{PinnedTarget, PortError, RemoteFile};

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
    let length = file.content.len() as u64;
    let line = put_line(&file.path, &file.mode, length);
    let job = Job {
        action: action.clone(),
        line: command_line(&target.host, &line, file.sudo),
        stdin: Input::Bytes(file.content.clone()),
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
