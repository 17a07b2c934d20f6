//! Copies a file between a host and the local disk, in bounded memory.

use crate::errors::NOT_COPIED;
use crate::pool::Pool;
use crate::put::put_line;
use crate::run::{Input, Job, LocalFile, command_line, run_within};
use shell_words::quote;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::{File, OpenOptions};
use vnfm_core::ports::{FileCopy, PinnedTarget, PortError};

/// Copies a file of `target` to the local file, which exists, within `limit`.
pub(crate) async fn fetch(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    copy: &FileCopy,
    limit: Duration,
) -> Result<(), PortError> {
    let copying = Copying::new("from", target, copy);
    copying.check()?;
    let mut options = OpenOptions::new();
    let opened = options.write(true).truncate(true).open(&copy.local).await;
    let file = opened.map_err(|error| copying.local(&error))?;
    let job = Job {
        action: copying.action.clone(),
        line: command_line(
            &target.host,
            &format!("cat {}", quote(&copy.remote)),
            copy.sudo,
        ),
        stdin: Input::Bytes(Vec::new()),
        stdout: Some(LocalFile {
            file,
            left: copy.bytes,
        }),
    };
    copying.run(pool, job, limit).await
}

/// Copies the local file to `target` within `limit`: there it has the old content or the new one, never a part.
pub(crate) async fn send(
    pool: &Arc<Pool>,
    target: &PinnedTarget,
    copy: &FileCopy,
    limit: Duration,
) -> Result<(), PortError> {
    let copying = Copying::new("to", target, copy);
    copying.check()?;
    let file = File::open(&copy.local).await;
    let file = file.map_err(|error| copying.local(&error))?;
    let line = put_line(&copy.remote, "0600", copy.bytes);
    let job = Job {
        action: copying.action.clone(),
        line: command_line(&target.host, &line, copy.sudo),
        stdin: Input::File(file),
        stdout: None,
    };
    copying.run(pool, job, limit).await
}

/// A copy in progress, for its errors.
struct Copying<'a> {
    action: String,
    target: &'a PinnedTarget,
    copy: &'a FileCopy,
}

impl<'a> Copying<'a> {
    fn new(direction: &str, target: &'a PinnedTarget, copy: &'a FileCopy) -> Self {
        Self {
            action: format!(
                "copy `{}` {direction} `{}`",
                copy.remote, target.host.address
            ),
            target,
            copy,
        }
    }

    fn check(&self) -> Result<(), PortError> {
        let remote = &self.copy.remote;
        if remote.starts_with('/') && !remote.ends_with('/') {
            return Ok(());
        }
        Err(self.failed(format!("`{remote}` is not an absolute path of a file")))
    }

    async fn run(&self, pool: &Arc<Pool>, job: Job, limit: Duration) -> Result<(), PortError> {
        let output = run_within(pool, self.target, job, limit).await?;
        if output.exit_code == 0 {
            return Ok(());
        }
        let (code, message) = (output.exit_code, output.stderr.trim());
        Err(self.failed(format!("exit code {code}: {message}")))
    }

    fn local(&self, error: &io::Error) -> PortError {
        let path = self.copy.local.display();
        self.failed(format!("the local file `{path}` cannot be opened: {error}"))
    }

    fn failed(&self, detail: String) -> PortError {
        PortError::new(&NOT_COPIED, self.action.clone(), detail).on(self
            .target
            .host
            .server_id
            .clone())
    }
}
