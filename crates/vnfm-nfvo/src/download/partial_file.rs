//! A partially downloaded file, and the note that lets a later process resume it.

use super::DownloadError::{self, Permanent, Temporary};
use super::response_head::ResponseHead;
use super::{CUT, FAILING, MALFORMED, NOT_WRITTEN, Origin, REFUSES, TOO_LARGE};
use serde::{Deserialize, Serialize};
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use vnfm_core::ports::PortError;
use vnfm_outbound::StatusCode;
use vnfm_outbound::header::HeaderValue;

/// What is saved about a partial file.
#[derive(Serialize, Deserialize)]
struct Note {
    /// SHA-256 of its address, which may contain a credential.
    from: String,
    tag: String,
    whole: Option<u64>,
}

/// A file that is being downloaded.
pub(super) struct PartialFile {
    path: PathBuf,
    file: File,
    max_bytes: u64,
    received: u64,
    /// Size in bytes, once the server has stated it.
    size: Option<u64>,
    /// Strong `ETag` of the version being downloaded.
    tag: Option<HeaderValue>,
    /// Whether a checksum verifies the file later; otherwise its version is saved for the next process.
    has_checksum: bool,
}

impl PartialFile {
    pub(super) async fn new(path: &Path, max_bytes: u64) -> Result<Self, PortError> {
        let file = File::create(path)
            .await
            .map_err(|error| write_error(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            max_bytes,
            received: 0,
            size: None,
            tag: None,
            has_checksum: true,
        })
    }

    /// The partial file of an earlier process, if its note has the same address and a tag; otherwise an empty file.
    pub(super) async fn resume(
        path: &Path,
        max_bytes: u64,
        from: &Origin,
    ) -> Result<Self, PortError> {
        let note = tokio::fs::read(note_path(path)).await.ok();
        let note: Option<Note> = note.and_then(|note| serde_json::from_slice(&note).ok());
        let note = note.filter(|note| note.from == from.fingerprint());
        let tag = note
            .as_ref()
            .and_then(|note| HeaderValue::from_str(&note.tag).ok());
        let failed = |error: std::io::Error| write_error(path, &error);
        let mut options = File::options();
        options.write(true).create(true).truncate(tag.is_none());
        let mut file = options.open(path).await.map_err(failed)?;
        let received = file.seek(SeekFrom::End(0)).await.map_err(failed)?;
        let size = note.and_then(|note| note.whole).filter(|_| tag.is_some());
        Ok(Self {
            path: path.to_owned(),
            file,
            max_bytes,
            received,
            size,
            tag,
            has_checksum: false,
        })
    }

    /// Saves which version is being downloaded, before any of it is written.
    async fn save_note(&self, from: &Origin) -> std::io::Result<()> {
        let note = note_path(&self.path);
        match self.tag.as_ref().and_then(|tag| tag.to_str().ok()) {
            Some(tag) => {
                let (from, tag) = (from.fingerprint(), tag.to_owned());
                let text = serde_json::to_vec(&Note {
                    from,
                    tag,
                    whole: self.size,
                })?;
                tokio::fs::write(note, text).await
            }
            None => match tokio::fs::remove_file(note).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// The missing range. `None` requests the complete file, also where the rest might be of another version.
    pub(super) fn range(&self) -> Option<String> {
        let can_resume = self.tag.is_some() || self.has_checksum;
        (self.received > 0 && can_resume).then(|| format!("bytes={}-", self.received))
    }

    /// Prepares for the body of a response: continues, restarts or fails, depending on its head.
    pub(super) async fn begin(
        &mut self,
        head: ResponseHead,
        from: &Origin,
    ) -> Result<(), DownloadError> {
        let status = head.status;
        let error = |code, cause: String| PortError::new(code, from.action(), cause);
        let responded = format!("the server responded with {status}");
        match status {
            StatusCode::OK => self.restart(head, from).await,
            StatusCode::PARTIAL_CONTENT if self.received > 0 => self.continue_at(head, from).await,
            StatusCode::RANGE_NOT_SATISFIABLE if self.received > 0 => {
                self.discard().await?;
                Err(Temporary(error(&CUT, responded)))
            }
            _ if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) => {
                Err(Temporary(error(&FAILING, responded)))
            }
            _ if status.is_redirection() => {
                let cause = format!("{responded}; redirects are not followed");
                Err(Permanent(error(&REFUSES, cause)))
            }
            _ if status.is_client_error() => Err(Permanent(error(&REFUSES, responded))),
            _ => Err(Permanent(error(&MALFORMED, responded))),
        }
    }

    /// The response has the complete file.
    async fn restart(&mut self, head: ResponseHead, from: &Origin) -> Result<(), DownloadError> {
        self.discard().await?;
        (self.size, self.tag) = (head.length, head.tag);
        if !self.has_checksum {
            let saved = self.save_note(from).await;
            saved.map_err(|error| Permanent(write_error(&self.path, &error)))?;
        }
        if self.size.is_some_and(|size| size > self.max_bytes) {
            return Err(Permanent(self.too_large(from)));
        }
        Ok(())
    }

    /// The response has a range, which must be the requested one of the same file.
    async fn continue_at(
        &mut self,
        head: ResponseHead,
        from: &Origin,
    ) -> Result<(), DownloadError> {
        let malformed = |cause: String| PortError::new(&MALFORMED, from.action(), cause);
        let Some((first, size)) = head.range else {
            let cause = "206 without a `Content-Range` of bytes".to_owned();
            return Err(Permanent(malformed(cause)));
        };
        if self.size.zip(size).is_some_and(|(ours, its)| ours != its) {
            self.discard().await?;
            let cause = "the file has changed";
            return Err(Temporary(PortError::new(&CUT, from.action(), cause)));
        }
        if first != self.received {
            let cause = format!(
                "requested the range from byte {}, received it from byte {first}",
                self.received
            );
            return Err(Permanent(malformed(cause)));
        }
        self.size = self.size.or(size);
        Ok(())
    }

    pub(super) async fn append(
        &mut self,
        piece: &[u8],
        from: &Origin,
    ) -> Result<(), DownloadError> {
        self.received += piece.len() as u64;
        if self.received > self.max_bytes {
            return Err(Permanent(self.too_large(from)));
        }
        let written = self.file.write_all(piece).await;
        written.map_err(|error| Permanent(write_error(&self.path, &error)))
    }

    /// Fails unless all bytes of the stated size were received.
    pub(super) fn check_complete(&self, from: &Origin) -> Result<(), DownloadError> {
        match self.size {
            Some(size) if self.received < size => {
                let cause = format!("received {} of {size} bytes", self.received);
                Err(Temporary(PortError::new(&CUT, from.action(), cause)))
            }
            Some(size) if self.received > size => {
                let cause = format!("the server stated {size} bytes, but sent {}", self.received);
                Err(Permanent(PortError::new(&MALFORMED, from.action(), cause)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.size == Some(self.received)
    }

    /// Number of bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(super) fn tag(&self) -> Option<HeaderValue> {
        self.tag.clone()
    }

    async fn discard(&mut self) -> Result<(), DownloadError> {
        (self.received, self.size, self.tag) = (0, None, None);
        let emptied = match self.file.set_len(0).await {
            Ok(()) => self.file.rewind().await,
            Err(error) => Err(error),
        };
        emptied
            .map(drop)
            .map_err(|error| Permanent(write_error(&self.path, &error)))
    }

    /// Syncs the file to disk and returns its size.
    pub(super) async fn finish(mut self) -> Result<u64, PortError> {
        // `flush` reports errors of pending writes, which `sync_all` would not.
        let synced = match self.file.flush().await {
            Ok(()) => self.file.sync_all().await,
            Err(error) => Err(error),
        };
        synced
            .map_err(|error| write_error(&self.path, &error))
            .map(|()| self.received)
    }

    pub(super) fn too_large(&self, from: &Origin) -> PortError {
        let cause = format!("it is larger than {} bytes", self.max_bytes);
        PortError::new(&TOO_LARGE, from.action(), cause)
    }
}

/// The path of the note about a partial file.
pub(super) fn note_path(file: &Path) -> PathBuf {
    let mut note = file.as_os_str().to_owned();
    note.push(".note");
    note.into()
}

fn write_error(file: &Path, error: &std::io::Error) -> PortError {
    PortError::new(
        &NOT_WRITTEN,
        format!("write `{}`", file.display()),
        error.to_string(),
    )
}
