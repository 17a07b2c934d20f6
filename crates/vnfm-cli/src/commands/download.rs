//! Downloads into a file, such as `vnfmctl package download`: a package or a part of it. An interrupted download resumes; the file
//! gets its name when it is complete.

use super::package::{PACKAGES, find};
use crate::args::{Download, Part};
use crate::client::{Client, Failure, Outcome, local, lost, segment};
use crate::output::{Output, tell};
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use vnfm::SystemClock;
use vnfm::ports::Clock as _;

/// Consecutive requests without progress before the download fails.
const MAX_STALLED_ATTEMPTS: u32 = 5;
/// Pause before a resumed request.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn run(client: &Client, output: Output, args: &Download) -> Outcome<()> {
    let found = find(client, &args.package).await?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| default_name(args, &found));
    let path = path(args, found["id"].as_str().unwrap_or_default());
    save(client, output, (path, accept(args)), &out).await
}

/// Downloads `path` into the file `out`, which gets its name when it is complete.
pub(super) async fn save(
    client: &Client,
    output: Output,
    (path, accept): (String, &'static str),
    out: &Path,
) -> Outcome<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(local)?;
    let mut transfer = Transfer {
        file: File::from_std(file.reopen().map_err(local)?),
        received: 0,
        tag: None,
        path,
        accept,
    };
    transfer.run(client).await?;
    file.persist(out)
        .map_err(|error| local(format!("cannot write `{}`: {error}", out.display())))?;
    let done = json!({ "file": out, "bytes": transfer.received });
    output.done(
        &format!("wrote {} bytes to `{}`", transfer.received, out.display()),
        &done,
    )
}

/// The path of the requested part on the server.
fn path(args: &Download, id: &str) -> String {
    let part = match (&args.artifact, args.part) {
        (Some(path), _) => {
            let segments: Vec<_> = path.split('/').map(segment).collect();
            format!("artifacts/{}", segments.join("/"))
        }
        (None, Part::Content) => "package_content".to_owned(),
        (None, Part::Vnfd) => "vnfd".to_owned(),
        (None, Part::Manifest) => "manifest".to_owned(),
        (None, Part::Artifacts) => "artifacts".to_owned(),
    };
    let signatures = if needs_signatures(args) {
        "?include_signatures"
    } else {
        ""
    };
    format!("{PACKAGES}/{id}/{part}{signatures}")
}

/// Whether to request signatures; the complete archive contains them anyway.
fn needs_signatures(args: &Download) -> bool {
    args.signatures && (args.artifact.is_some() || args.part != Part::Content)
}

/// The `Accept` header. A descriptor is always requested as an archive, as it may have several files.
fn accept(args: &Download) -> &'static str {
    let is_one_file = args.artifact.is_some() || args.part == Part::Manifest;
    if is_one_file {
        "*/*"
    } else {
        "application/zip"
    }
}

/// The default name of the file.
fn default_name(args: &Download, found: &Value) -> PathBuf {
    let text = |name: &str| found[name].as_str().map(ToOwned::to_owned);
    let package = text("vnfProductName")
        .or_else(|| text("id"))
        .unwrap_or_default();
    let package: String = package
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let zipped = if needs_signatures(args) { ".zip" } else { "" };
    let name = match (&args.artifact, args.part) {
        (Some(path), _) => {
            let base = path
                .rsplit('/')
                .find(|part| !part.is_empty() && *part != "..");
            format!("{}{zipped}", base.unwrap_or("artifact"))
        }
        (None, Part::Content) => format!("{package}.csar"),
        (None, Part::Vnfd) => format!("{package}-vnfd.zip"),
        (None, Part::Manifest) => format!("{package}.mf"),
        (None, Part::Artifacts) => format!("{package}-artifacts.zip"),
    };
    PathBuf::from(name)
}

/// A download in progress, which can be resumed after a broken connection.
struct Transfer {
    file: File,
    /// Number of bytes received so far.
    received: u64,
    /// `ETag` of the version being received.
    tag: Option<HeaderValue>,
    path: String,
    accept: &'static str,
}

impl Transfer {
    async fn run(&mut self, client: &Client) -> Outcome<()> {
        let mut stalled = 0;
        loop {
            let before = self.received;
            let broken = match self.resume(client).await {
                Err(broken @ Failure::Unreachable { .. }) if before > 0 || self.received > 0 => {
                    broken
                }
                ended => break ended?,
            };
            stalled = if self.received > before {
                0
            } else {
                stalled + 1
            };
            if stalled == MAX_STALLED_ATTEMPTS {
                return Err(broken);
            }
            tell(&format!(
                "connection lost after {} bytes; resuming",
                self.received
            ));
            SystemClock.sleep(RETRY_INTERVAL).await;
        }
        self.file.sync_all().await.map_err(local)
    }

    /// One request for the missing bytes.
    async fn resume(&mut self, client: &Client) -> Outcome<()> {
        let mut request = client
            .request(Method::GET, &self.path)
            .header(header::ACCEPT, self.accept);
        if let (true, Some(tag)) = (self.received > 0, &self.tag) {
            request = request.header(header::RANGE, format!("bytes={}-", self.received));
            request = request.header(header::IF_RANGE, tag.clone());
        }
        let mut response = client.send(request).await?;
        self.begin(&response).await?;
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| lost(client, &error))?
        {
            self.file.write_all(&piece).await.map_err(local)?;
            self.received += piece.len() as u64;
        }
        Ok(())
    }

    /// Starts over unless the response is the requested range.
    async fn begin(&mut self, response: &Response) -> Outcome<()> {
        if response.status() != StatusCode::PARTIAL_CONTENT {
            self.file.set_len(0).await.map_err(local)?;
            self.file.rewind().await.map_err(local)?;
            self.received = 0;
            self.tag = response.headers().get(header::ETAG).cloned();
        }
        Ok(())
    }
}
