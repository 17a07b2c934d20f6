//! The keys that encrypt ("seal") secrets, and the key file; keys outside the file are in `key_provider`.
//!
//! The file has one Fernet key per line; `#` starts a comment. The first key seals, all keys unseal. A sealed text is
//! `<fingerprint of the key>:<Fernet token>`, so a missing key can be named and rotation can resume.
//! Tokens have no timestamp: setting the clock back must not make secrets unreadable.

use crate::fault::Done;
use fernet::Fernet;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::{KeyLocation, SecretJson, SecretSealer, StoreError};
use zeroize::Zeroizing;

/// The keys that seal secrets. `Debug` hides them.
#[derive(Clone)]
pub struct SecretKeys {
    keys: Vec<Key>,
    path: Option<PathBuf>,
    sealer: Option<Arc<dyn SecretSealer>>,
}

#[derive(Clone)]
pub(crate) struct Key {
    fingerprint: String,
    text: Zeroizing<String>,
    fernet: Fernet,
    provider_location: Option<ProviderLocation>,
}

/// Location of a key that is not in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderLocation {
    /// The provider, such as `barbican_key`.
    pub(crate) key_type: String,
    /// The key's id at the provider.
    pub(crate) secret_uuid: String,
}

impl std::fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKeys")
            .field("keys", &"[hidden]")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl SecretKeys {
    /// The keys of the file at `path`. A missing file is created with a new key and mode 0600.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the file cannot be read or created, `Broken` if other users can read it or it has no key.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            create(path).map_err(|e| io_error("create the key file", path, &e))?;
        }
        Ok(Self {
            keys: read(path)?,
            path: Some(path.to_owned()),
            sealer: None,
        })
    }

    /// The keys of the file at `path`, if it exists, and those of `sealer` that the database refers to. A new database
    /// gets its key from `sealer`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`], and those of `sealer`.
    pub fn with(path: &Path, sealer: Arc<dyn SecretSealer>) -> Result<Self, StoreError> {
        let keys = if path.exists() {
            read(path)?
        } else {
            Vec::new()
        };
        Ok(Self {
            keys,
            path: Some(path.to_owned()),
            sealer: Some(sealer),
        })
    }

    /// A new key in memory only: secrets sealed with it are lost with the process.
    pub fn ephemeral() -> Self {
        Self {
            keys: vec![Key::generate()],
            path: None,
            sealer: None,
        }
    }

    /// The folder of the key file, if there is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.path.as_deref().map(folder_of)
    }

    /// The provider of keys that are not in the file.
    pub(crate) fn sealer(&self) -> Option<&Arc<dyn SecretSealer>> {
        self.sealer.as_ref()
    }

    /// The same keys with `first` in front.
    pub(crate) fn with_first(&self, first: Key) -> Self {
        let mut keys = vec![first];
        keys.extend(self.keys.iter().cloned());
        Self {
            keys,
            ..self.clone()
        }
    }

    /// The same keys with `last` at the end.
    pub(crate) fn with_last(mut self, last: Key) -> Self {
        self.keys.push(last);
        self
    }

    /// Writes those of the first `count` keys that belong into the file; without any, removes the file.
    pub(crate) fn save(&self, count: usize) -> Result<(), StoreError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut of_file = self
            .keys
            .iter()
            .take(count)
            .filter(|key| key.provider_location.is_none())
            .peekable();
        if of_file.peek().is_none() {
            let removed = match fs::remove_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(()) => sync_folder_of(path),
            };
            return removed.map_err(|e| io_error("remove the key file", path, &e));
        }
        let new = temporary_path(path);
        write_keys(&new, of_file)
            .and_then(|()| fs::rename(&new, path))
            .and_then(|()| sync_folder_of(path))
            .map_err(|e| io_error("write the key file", path, &e))
    }

    /// Where the sealing key is stored; `None` without any key.
    pub(crate) fn sealing_location(&self) -> Option<KeyLocation> {
        let first = self.keys.first()?;
        Some(if first.provider_location.is_some() {
            KeyLocation::Sealer
        } else {
            KeyLocation::File
        })
    }

    /// The location of the key that sealed a text, unless it is in the file.
    pub(crate) fn provider_location(&self, stored: Option<&str>) -> Option<&ProviderLocation> {
        let (fingerprint, _) = stored?.split_once(':')?;
        self.keys
            .iter()
            .find(|key| key.fingerprint == fingerprint)?
            .provider_location
            .as_ref()
    }

    /// The `key_type` of the key with a fingerprint (see [`SealedBy`](vnfm_core::ports::SealedBy)), and its id at the provider.
    pub(crate) fn locate(&self, fingerprint: &str) -> (String, Option<String>) {
        match self.keys.iter().find(|key| key.fingerprint == fingerprint) {
            None => ("missing".to_owned(), None),
            Some(Key {
                provider_location: None,
                ..
            }) => ("fernet_key".to_owned(), None),
            Some(Key {
                provider_location: Some(provider_location),
                ..
            }) => (
                provider_location.key_type.clone(),
                Some(provider_location.secret_uuid.clone()),
            ),
        }
    }

    /// The fingerprint of the key that seals.
    pub(crate) fn fingerprint(&self) -> &str {
        self.keys.first().map_or("", |key| &key.fingerprint)
    }

    /// Seals `secret` for storage; null becomes `None`.
    pub(crate) fn seal(&self, secret: &SecretJson) -> Done<Option<String>> {
        if secret.is_null() {
            return Ok(None);
        }
        let clear = Zeroizing::new(serde_json::to_vec(&**secret)?);
        self.seal_bytes(&clear).map(Some)
    }

    /// Seals a value, if there is one.
    pub(crate) fn seal_some<T: Serialize>(&self, secret: Option<&T>) -> Done<Option<String>> {
        let Some(secret) = secret else {
            return Ok(None);
        };
        let clear = Zeroizing::new(serde_json::to_vec(secret)?);
        self.seal_bytes(&clear).map(Some)
    }

    /// Unseals what [`SecretKeys::seal_some`] sealed; absent stays absent.
    pub(crate) fn unseal_some<T: DeserializeOwned>(&self, stored: Option<&str>) -> Done<Option<T>> {
        let Some(stored) = stored else {
            return Ok(None);
        };
        Ok(Some(serde_json::from_slice(&self.unseal_bytes(stored)?)?))
    }

    /// Unseals what [`SecretKeys::seal`] sealed; absent counts as empty.
    pub(crate) fn unseal(&self, stored: Option<&str>) -> Done<SecretJson> {
        match stored {
            None => Ok(SecretJson::default()),
            Some(stored) => {
                let clear: serde_json::Value = serde_json::from_slice(&self.unseal_bytes(stored)?)?;
                Ok(clear.into())
            }
        }
    }

    /// Re-seals `stored` with the first key.
    pub(crate) fn reseal(&self, stored: &str) -> Done<String> {
        self.seal_bytes(&self.unseal_bytes(stored)?)
    }

    fn seal_bytes(&self, clear: &[u8]) -> Done<String> {
        let Some(key) = self.keys.first() else {
            return Err(StoreError::Broken("no key to seal with".into()).into());
        };
        Ok(format!(
            "{}:{}",
            key.fingerprint,
            key.fernet.encrypt_at_time(clear, 0)
        ))
    }

    fn unseal_bytes(&self, stored: &str) -> Done<Zeroizing<Vec<u8>>> {
        let (fingerprint, token) = stored.split_once(':').unwrap_or(("", stored));
        let Some(key) = self.keys.iter().find(|key| key.fingerprint == fingerprint) else {
            return Err(StoreError::Broken(format!(
                "a secret was sealed with the key `{fingerprint}`, which {} does not contain; hint: restore the key \
                 file of this database",
                self.holder()
            ))
            .into());
        };
        match key.fernet.decrypt_at_time(token, None, u64::MAX / 2) {
            Ok(clear) => Ok(Zeroizing::new(clear)),
            Err(_) => Err(StoreError::Broken(format!(
                "a secret that was sealed with the key `{fingerprint}` of {} has been changed; hint: restore the \
                 database from a backup",
                self.holder()
            ))
            .into()),
        }
    }

    fn holder(&self) -> String {
        match &self.path {
            Some(path) if self.sealer.is_none() => format!("the key file `{}`", path.display()),
            Some(path) => format!("the key file `{}`, like Barbican,", path.display()),
            None => "this process".into(),
        }
    }
}

impl Key {
    /// A new key, not stored yet.
    pub(crate) fn generate() -> Self {
        let text = Zeroizing::new(Fernet::generate_key());
        match Self::parse(&text) {
            Some(key) => key,
            // Unreachable: Fernet parses the keys that it generates.
            None => Self::generate(),
        }
    }

    /// Parses a Fernet key: 32 bytes in URL-safe base64.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fernet = Fernet::new(text)?;
        let fingerprint = hex::encode(&Sha256::digest(text.as_bytes())[..4]);
        Some(Self {
            fingerprint,
            text: Zeroizing::new(text.to_owned()),
            fernet,
            provider_location: None,
        })
    }

    /// Its location, unless it is in the file.
    pub(crate) fn provider_location(&self) -> Option<&ProviderLocation> {
        self.provider_location.as_ref()
    }

    /// The same key, stored at the provider.
    pub(crate) fn stored_at(self, provider_location: ProviderLocation) -> Self {
        Self {
            provider_location: Some(provider_location),
            ..self
        }
    }

    /// Identifies the key without revealing it: the first 4 bytes of its SHA-256, in hexadecimal.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The key itself, for the key provider.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }
}

/// The keys of a file; an error if others than its owner can read it.
fn read(path: &Path) -> Result<Vec<Key>, StoreError> {
    let mode = fs::metadata(path)
        .map_err(|e| io_error("inspect the key file", path, &e))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        let (path, mode) = (path.display(), mode & 0o777);
        return Err(StoreError::Broken(format!(
            "the key file `{path}` has mode {mode:04o}, so others can read it; hint: `chmod 600 {path}`, and \
             rotate the keys if somebody may have read it"
        )));
    }
    let text = Zeroizing::new(
        fs::read_to_string(path).map_err(|e| io_error("read the key file", path, &e))?,
    );
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Vec<Key>, StoreError> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        keys.push(Key::parse(line).ok_or_else(|| {
            StoreError::Broken(format!(
                "line {} of the key file `{}` is not a key: expected 32 bytes in URL-safe base64",
                index + 1,
                path.display()
            ))
        })?);
    }
    if keys.is_empty() {
        let path = path.display();
        return Err(StoreError::Broken(format!(
            "the key file `{path}` contains no key"
        )));
    }
    Ok(keys)
}

/// Creates the file with one new key, atomically and without replacing an existing one.
fn create(path: &Path) -> io::Result<()> {
    let new = temporary_path(path);
    write_keys(&new, std::iter::once(&Key::generate()))?;
    let linked = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    match linked {
        // Another process was first: use its key.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_folder_of(path),
    }
}

fn write_keys<'k>(path: &Path, keys: impl Iterator<Item = &'k Key>) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(
        file,
        "# Encrypts the secrets of vnfm.db in this folder. Keep a copy: without it they are lost."
    )?;
    for key in keys {
        writeln!(file, "{}", *key.text)?;
    }
    file.sync_all()
}

fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension(format!("new-{}", uuid::Uuid::new_v4()))
}

/// Makes a new or renamed folder entry durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder of a file, `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot {action} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::SecretKeys;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;
    use vnfm_core::ports::{SecretJson, StoreError};

    #[test]
    fn the_file_is_created_with_mode_0600_and_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.key");
        let sealed = SecretKeys::open(&path)
            .unwrap()
            .seal(&SecretJson::from(json!("hunter2")))
            .unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = SecretKeys::open(&path).unwrap();
        assert_eq!(
            again.unseal(sealed.as_deref()).unwrap(),
            SecretJson::from(json!("hunter2"))
        );
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            1,
            "no temporary file remains"
        );
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.key");
        SecretKeys::open(&path).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let Err(StoreError::Broken(text)) = SecretKeys::open(&path) else {
                panic!("{mode:o}")
            };
            assert!(text.contains("chmod 600"), "{text}");
        }
    }

    #[test]
    fn a_file_without_a_key_and_one_with_a_bad_line_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.key");
        SecretKeys::open(&path).unwrap();
        for (content, expected) in [("# none\n", "contains no key"), ("\nhunter2\n", "line 2")] {
            std::fs::write(&path, content).unwrap();
            let Err(StoreError::Broken(text)) = SecretKeys::open(&path) else {
                panic!("{content}")
            };
            assert!(
                text.contains(expected) && !text.contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let keys = SecretKeys::ephemeral();
        let text = format!("{keys:?}");
        assert!(text.contains("[hidden]") && !text.contains(keys.keys[0].text.as_str()));
    }

    #[test]
    fn a_changed_token_and_an_unknown_key_are_different_errors() {
        let keys = SecretKeys::ephemeral();
        let mut sealed = keys
            .seal(&SecretJson::from(json!({"a": 1})))
            .unwrap()
            .unwrap();
        let error = SecretKeys::ephemeral()
            .unseal(Some(&sealed))
            .unwrap_err()
            .with_action("read");
        assert!(error.to_string().contains("does not contain"), "{error}");
        let last = if sealed.ends_with("A=") { "B=" } else { "A=" };
        sealed.replace_range(sealed.len() - 2.., last);
        let error = keys.unseal(Some(&sealed)).unwrap_err().with_action("read");
        assert!(error.to_string().contains("has been changed"), "{error}");
    }
}
