//! The host keys that are pinned to servers.

use async_trait::async_trait;
use russh::keys::{HashAlg, PublicKey};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use vnfm_core::ports::{PinnedTarget, PortError};

/// Storage of pinned host keys.
#[async_trait]
pub trait HostKeys: Send + Sync {
    /// The pinned keys of the host, one OpenSSH public key (`ssh-ed25519 AAAA…`) per line; `None` if none is pinned.
    ///
    /// # Errors
    ///
    /// The storage cannot be read.
    async fn known(&self, host: &PinnedTarget) -> Result<Option<String>, PortError>;

    /// Pins `key` to the host; called after the first successful login.
    ///
    /// # Errors
    ///
    /// The storage cannot be written.
    async fn learn(&self, host: &PinnedTarget, key: &str) -> Result<(), PortError>;
}

/// Host keys in memory, by the VIM's id of the server: for tests, and for embedders without storage.
#[derive(Debug, Default)]
pub struct RememberedHostKeys(Mutex<BTreeMap<String, String>>);

#[async_trait]
impl HostKeys for RememberedHostKeys {
    async fn known(&self, host: &PinnedTarget) -> Result<Option<String>, PortError> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&host.host.server_id)
            .cloned())
    }

    async fn learn(&self, host: &PinnedTarget, key: &str) -> Result<(), PortError> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(host.host.server_id.clone())
            .or_insert_with(|| key.to_owned());
        Ok(())
    }
}

/// Parses the keys that [`HostKeys::known`] returned; ignores invalid lines.
pub(crate) fn parse(lines: &str) -> Vec<PublicKey> {
    lines
        .lines()
        .filter_map(|line| PublicKey::from_openssh(line.trim()).ok())
        .collect()
}

/// The key in OpenSSH form without comment, as it is stored.
pub(crate) fn to_openssh(key: &PublicKey) -> String {
    let mut key = key.clone();
    key.set_comment("");
    key.to_openssh().unwrap_or_default()
}

/// SHA-256 fingerprint and algorithm, for people to compare.
pub(crate) fn fingerprint(key: &PublicKey) -> String {
    format!("{} ({})", key.fingerprint(HashAlg::Sha256), key.algorithm())
}

#[cfg(test)]
mod tests {
    use super::{fingerprint, parse, to_openssh};

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    #[test]
    fn keys_are_compared_without_their_comments() {
        let keys = parse(&format!("# a console log\n{KEY} root@host\n\n"));
        assert_eq!(keys.len(), 1);
        assert_eq!(to_openssh(&keys[0]), KEY);
        assert!(fingerprint(&keys[0]).starts_with("SHA256:"));
    }
}
