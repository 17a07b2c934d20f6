//! One file, there whole or not at all: written beside its place, counted, then renamed.

use crate::errors::NOT_WRITTEN;
use crate::pool::Pool;
use crate::run::{Job, command_line, within};
use shell_words::quote;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{PortError, RemoteFile, SshTarget};

/// Reads the content from standard input. `$1` path, `$2` mode, `$3` number of bytes. A connection that breaks in
/// between looks like the end of the input: therefore the count; and who is told of it has gone: without `PIPE` and
/// `HUP` in hand the words alone would end the shell, and what it began would stay.
const SCRIPT: &str = r#"set -e; umask 077; d=${1%/*}; [ -z "$d" ] || mkdir -p "$d"; t=$1.vnfm.$$
trap 'rm -f "$t"' EXIT; trap '' PIPE; trap 'exit 1' HUP INT TERM; cat >"$t"; n=$(wc -c <"$t")
[ "$n" -eq "$3" ] || { echo "got $n of $3 bytes" >&2; exit 1; }
chmod "$2" "$t"; mv -f "$t" "$1""#;

/// Writes `file` on `target`, given up after `limit`.
pub(crate) async fn put(
    pool: &Arc<Pool>,
    target: &SshTarget,
    file: &RemoteFile,
    limit: Duration,
) -> Result<(), PortError> {
    let doing = format!("put `{}` on `{}`", file.path, target.address);
    let refused = |detail: String| {
        PortError::new(&NOT_WRITTEN, doing.clone(), detail).on(target.server_id.clone())
    };
    if !file.path.starts_with('/') || file.path.ends_with('/') {
        return Err(refused(format!(
            "`{}` is no absolute path of a file",
            file.path
        )));
    }
    if !(3..=4).contains(&file.mode.len()) || !file.mode.bytes().all(|b| (b'0'..=b'7').contains(&b))
    {
        return Err(refused(format!(
            "`{}` is no octal mode such as `0600`",
            file.mode
        )));
    }
    let line = format!(
        "sh -c {} vnfm-put {} {} {}",
        quote(SCRIPT),
        quote(&file.path),
        file.mode,
        file.content.len(),
    );
    let job = Job {
        doing: doing.clone(),
        line: command_line(target, &line, file.sudo),
        stdin: file.content.clone(),
    };
    let output = within(pool, target, job, limit).await?;
    if output.exit_code != 0 {
        return Err(refused(format!(
            "exit code {}: {}",
            output.exit_code,
            output.stderr.trim()
        )));
    }
    Ok(())
}
