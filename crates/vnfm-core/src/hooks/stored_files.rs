//! Files that hooks store with their instance: copied between a host and the VNFM's disk, without passing through the plugin.

use super::host::{Host, to_value};
use crate::ports::{Code, ErrorKind, FileCopy, FileTransfer, MAX_FILE_BYTES, PortError, SshTarget};
use crate::stored_files::FileOwner;
use serde_json::{Value, json};

impl Host {
    pub(super) async fn stored_files(&self) -> Result<Value, PortError> {
        let files = self.context.files.list(&self.instance_id).await?;
        Ok(json!({ "files": to_value(&files)? }))
    }

    /// Copies a file from a host, and stores it once it is complete and what the hook expects.
    pub(super) async fn fetch(
        &self,
        target: SshTarget,
        transfer: FileTransfer,
    ) -> Result<Value, PortError> {
        if transfer.bytes > MAX_FILE_BYTES {
            let what = format!(
                "it has {} bytes, and may have {MAX_FILE_BYTES}",
                transfer.bytes
            );
            let action = format!("store `{}`", transfer.name);
            return Err(PortError::new(&TOO_LARGE, action, what));
        }
        let target = self.pinned(target).await?;
        let files = &self.context.files;
        let incoming = files
            .begin(self.owner(), &transfer.name, transfer.bytes)
            .await?;
        let copy = FileCopy {
            remote: transfer.path,
            local: incoming.local().to_owned(),
            bytes: transfer.bytes,
            sudo: transfer.sudo,
        };
        if let Err(error) = self.context.ports.host.ssh_fetch(&target, &copy).await {
            incoming.discard().await;
            return Err(error);
        }
        to_value(&incoming.complete(transfer.sha256.as_deref()).await?)
    }

    /// Copies a stored file to a host.
    pub(super) async fn send(
        &self,
        target: SshTarget,
        transfer: FileTransfer,
    ) -> Result<Value, PortError> {
        let target = self.pinned(target).await?;
        let (stored, local) = self
            .context
            .files
            .open(&self.instance_id, &transfer.name)
            .await?;
        let copy = FileCopy {
            remote: transfer.path,
            local,
            bytes: stored.bytes,
            sudo: transfer.sudo,
        };
        self.context.ports.host.ssh_send(&target, &copy).await?;
        to_value(&stored)
    }

    pub(super) async fn remove_file(&self, name: &str) -> Result<Value, PortError> {
        self.context.files.remove(self.owner(), name).await?;
        Ok(json!({}))
    }

    fn owner(&self) -> FileOwner<'_> {
        FileOwner {
            tenant: &self.tenant,
            instance_id: &self.instance_id,
        }
    }

    pub(super) fn clock(&self) -> Value {
        json!({ "unixMilliseconds": self.context.now().as_millisecond() })
    }
}

pub(super) const TOO_LARGE: Code = Code {
    name: "file.too-large",
    kind: ErrorKind::Refused,
    means: "a hook stores a file that is too large",
    next: "keep it elsewhere",
};
