//! `vnfmctl package download`: a package or a part of it, into a file. After a cut the rest is asked for; the file gets its
//! name when all of it is there.

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

/// Requests in a row that bring nothing, before it is given up.
const IN_VAIN: u32 = 5;
/// Before the rest is asked for.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(client: &Client, output: Output, wanted: &Download) -> Outcome<()> {
    let found = find(client, &wanted.package).await?;
    let out = wanted.out.clone().unwrap_or_else(|| name(wanted, &found));
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(local)?;
    let mut part = Arriving {
        file: File::from_std(file.reopen().map_err(local)?),
        got: 0,
        tag: None,
        path: path(wanted, found["id"].as_str().unwrap_or_default()),
        accept: accept(wanted),
    };
    part.all(client).await?;
    file.persist(&out)
        .map_err(|error| local(format!("cannot write `{}`: {error}", out.display())))?;
    let done = json!({ "file": out, "bytes": part.got });
    output.done(
        &format!("wrote {} bytes to `{}`", part.got, out.display()),
        &done,
    )
}

/// Where it is.
fn path(wanted: &Download, id: &str) -> String {
    let of = match (&wanted.artifact, wanted.part) {
        (Some(path), _) => {
            let segments: Vec<_> = path.split('/').map(segment).collect();
            format!("artifacts/{}", segments.join("/"))
        }
        (None, Part::Content) => "package_content".to_owned(),
        (None, Part::Vnfd) => "vnfd".to_owned(),
        (None, Part::Manifest) => "manifest".to_owned(),
        (None, Part::Artifacts) => "artifacts".to_owned(),
    };
    let signatures = if is_signed(wanted) {
        "?include_signatures"
    } else {
        ""
    };
    format!("{PACKAGES}/{id}/{of}{signatures}")
}

/// Whether signatures are asked for; the whole archive has them anyway.
fn is_signed(wanted: &Download) -> bool {
    wanted.signatures && (wanted.artifact.is_some() || wanted.part != Part::Content)
}

/// What is taken. A descriptor is one kind of file, however many files it has.
fn accept(wanted: &Download) -> &'static str {
    let is_one_file = wanted.artifact.is_some() || wanted.part == Part::Manifest;
    if is_one_file {
        "*/*"
    } else {
        "application/zip"
    }
}

/// What the file is called where nobody says it.
fn name(wanted: &Download, found: &Value) -> PathBuf {
    let text = |name: &str| found[name].as_str().map(ToOwned::to_owned);
    let package = text("vnfProductName")
        .or_else(|| text("id"))
        .unwrap_or_default();
    let package: String = package
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let zipped = if is_signed(wanted) { ".zip" } else { "" };
    let name = match (&wanted.artifact, wanted.part) {
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

/// As much as has come.
struct Arriving {
    file: File,
    got: u64,
    /// Which version of it.
    tag: Option<HeaderValue>,
    path: String,
    accept: &'static str,
}

impl Arriving {
    async fn all(&mut self, client: &Client) -> Outcome<()> {
        let mut in_vain = 0;
        loop {
            let before = self.got;
            let broke = match self.more(client).await {
                Err(broke @ Failure::Unreachable { .. }) if before > 0 || self.got > 0 => broke,
                ended => break ended?,
            };
            in_vain = if self.got > before { 0 } else { in_vain + 1 };
            if in_vain == IN_VAIN {
                return Err(broke);
            }
            tell(&format!(
                "the connection broke after {} bytes; going on",
                self.got
            ));
            SystemClock.sleep(PAUSE).await;
        }
        self.file.sync_all().await.map_err(local)
    }

    /// One request for what is missing.
    async fn more(&mut self, client: &Client) -> Outcome<()> {
        let mut request = client
            .request(Method::GET, &self.path)
            .header(header::ACCEPT, self.accept);
        if let (true, Some(tag)) = (self.got > 0, &self.tag) {
            request = request.header(header::RANGE, format!("bytes={}-", self.got));
            request = request.header(header::IF_RANGE, tag.clone());
        }
        let mut answer = client.send(request).await?;
        self.begin(&answer).await?;
        while let Some(piece) = answer.chunk().await.map_err(|error| lost(client, &error))? {
            self.file.write_all(&piece).await.map_err(local)?;
            self.got += piece.len() as u64;
        }
        Ok(())
    }

    /// All of it comes where the answer is not the part that was asked for.
    async fn begin(&mut self, answer: &Response) -> Outcome<()> {
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            self.file.set_len(0).await.map_err(local)?;
            self.file.rewind().await.map_err(local)?;
            self.got = 0;
            self.tag = answer.headers().get(header::ETAG).cloned();
        }
        Ok(())
    }
}
