//! `plugins.lock`: the libraries that may be loaded, pinned by SHA-256.

use crate::errors::LOCK;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use vnfm_core::ports::{PortError, ScriptProtocol};

/// Name of the lock file in the plugin folder.
pub const LOCK_FILE: &str = "plugins.lock";

const READABLE: u32 = 0o644;

/// The lock file: allowed plugins and packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// Version of the file's format: 1.
    pub schema_version: u32,
    /// Libraries that may be loaded; several versions of a plugin may be listed.
    pub plugins: Vec<Pin>,
    /// Packages that may run scripts as hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackagePin>,
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            schema_version: 1,
            plugins: Vec::new(),
            packages: Vec::new(),
        }
    }
}

/// One library that may be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pin {
    /// Name of the plugin, as it declares it.
    pub name: String,
    /// Version of the plugin, as its declaration has it.
    pub version: String,
    /// File name in the plugin folder.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// True if another library of the same name and version was allowed later. Only operations that started with
    /// this library still use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

/// A package that may run scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackagePin {
    /// Id of its VNFD; for information only.
    pub vnfd_id: String,
    /// SHA-256 of its archive, in hexadecimal; any change to any file changes it.
    pub sha256: String,
    /// The scripts that its hooks run; for information only.
    pub scripts: Vec<String>,
    /// The protocol of its Python scripts; absent: JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ScriptProtocol>,
}

impl Pin {
    pub(crate) fn has_hash(&self, sha256: &str) -> bool {
        self.sha256.eq_ignore_ascii_case(sha256)
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

impl Lock {
    /// Reads the lock file of the folder `dir`; empty if it does not exist.
    ///
    /// # Errors
    ///
    /// `Refused` if it cannot be read or has another format version.
    pub fn read(dir: &Path) -> Result<Self, PortError> {
        let path = dir.join(LOCK_FILE);
        let fail =
            |detail: String| PortError::new(&LOCK, format!("read `{}`", path.display()), detail);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            read => read.map_err(|error| fail(error.to_string()))?,
        };
        let lock: Self = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
        if lock.schema_version == 1 {
            Ok(lock)
        } else {
            Err(fail(format!(
                "it is of schemaVersion {}, not 1",
                lock.schema_version
            )))
        }
    }

    /// Adds `pin`. An older pin of the same name and version stays, superseded, for operations that started with it,
    /// unless its file or SHA-256 is the same.
    pub fn add_plugin(&mut self, pin: Pin) {
        let same = |old: &Pin| (&old.name, &old.version) == (&pin.name, &pin.version);
        let is_replaced =
            |old: &Pin| same(old) && (old.file == pin.file || old.has_hash(&pin.sha256));
        self.plugins.retain(|old| !is_replaced(old));
        let older = self.plugins.iter_mut().filter(|old| same(old));
        older.for_each(|old| old.superseded = true);
        self.plugins.push(pin);
        self.plugins
            .sort_by(|a, b| a.name.cmp(&b.name).then(newer(&a.version, &b.version)));
    }

    /// Allows a package to run scripts; replaces a pin of the same SHA-256.
    pub fn add_package(&mut self, pin: PackagePin) {
        self.packages
            .retain(|old| !old.sha256.eq_ignore_ascii_case(&pin.sha256));
        self.packages.push(pin);
    }

    /// The pin of the package with this SHA-256, which may run scripts.
    pub(crate) fn package(&self, sha256: &str) -> Option<&PackagePin> {
        self.packages
            .iter()
            .find(|pin| pin.sha256.eq_ignore_ascii_case(sha256))
    }

    /// Writes the lock file atomically.
    ///
    /// # Errors
    ///
    /// `Refused` if the folder is not writable.
    pub fn write(&self, dir: &Path) -> Result<(), PortError> {
        let path = dir.join(LOCK_FILE);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            // It holds no secret, and the server may run as another user than the one who allows plugins.
            file.as_file()
                .set_permissions(std::fs::Permissions::from_mode(READABLE))?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| {
            PortError::new(
                &LOCK,
                format!("write `{}`", path.display()),
                error.to_string(),
            )
        })
    }
}

/// Compares versions number by number, a pre-release as older than its release.
pub(crate) fn newer(a: &str, b: &str) -> Ordering {
    let split = |version: &str| {
        let version = version.split('+').next().unwrap_or_default();
        let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
        let numbers: Vec<u64> = numbers.split('.').map(|n| n.parse().unwrap_or(0)).collect();
        (numbers, pre.is_empty(), pre.to_owned())
    };
    split(a).cmp(&split(b))
}

#[cfg(test)]
mod tests {
    use super::{Lock, Pin, newer};
    use std::cmp::Ordering;

    fn pin(version: &str, sha256: &str) -> Pin {
        let (name, file) = ("a".to_owned(), format!("a-{version}.so"));
        Pin {
            name,
            version: version.into(),
            file,
            sha256: sha256.into(),
            superseded: false,
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(newer("1.10.0", "1.9.9"), Ordering::Greater);
        assert_eq!(newer("1.0.0-rc1", "1.0.0"), Ordering::Less);
        assert_eq!(newer("1.0.0+b", "1.0.0"), Ordering::Equal);
    }

    #[test]
    fn a_lock_file_round_trips_and_a_new_pin_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut lock = Lock::read(dir.path()).unwrap();
        lock.add_plugin(pin("1.10.0", "00"));
        lock.add_plugin(pin("1.9.0", "11"));
        lock.add_plugin(pin("1.10.0", "22"));
        lock.write(dir.path()).unwrap();
        let read = Lock::read(dir.path()).unwrap();
        assert_eq!(read.plugins, [pin("1.9.0", "11"), pin("1.10.0", "22")]);
    }

    #[test]
    fn the_lock_file_is_readable_by_other_users() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        Lock::default().write(dir.path()).unwrap();
        let mode = dir
            .path()
            .join(super::LOCK_FILE)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn a_malformed_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (text, word) in [
            ("{", "EOF"),
            (r#"{"schemaVersion":2,"plugins":[]}"#, "schemaVersion 2"),
        ] {
            std::fs::write(dir.path().join(super::LOCK_FILE), text).unwrap();
            let error = Lock::read(dir.path()).unwrap_err();
            assert_eq!(error.name(), "plugin.lock-unreadable");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
