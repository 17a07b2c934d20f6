//! `plugins.lock`: which libraries may be loaded, by their SHA-256.

use crate::errors::LOCK;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use vnfm_core::ports::PortError;

/// Name of the list, in the plugin folder.
pub const LOCK_FILE: &str = "plugins.lock";

const READABLE: u32 = 0o644;

/// The list of allowed plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// 1.
    pub schema_version: u32,
    /// What may be loaded; versions of a plugin lie side by side.
    pub plugins: Vec<Pin>,
    /// Packages that may run their scripts as hooks.
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
    /// Name of the plugin.
    pub name: String,
    /// Its version.
    pub version: String,
    /// File in the plugin folder.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// True where another library of this name and version was allowed since: only operations that began with this
    /// one end on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

/// One package whose scripts may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackagePin {
    /// Its VNFD, for people.
    pub vnfd_id: String,
    /// SHA-256 of its archive, in hexadecimal: any change of any file makes it another package.
    pub sha256: String,
    /// The scripts that its hooks name, for people.
    pub scripts: Vec<String>,
}

impl Pin {
    /// True where it pins the file with this SHA-256.
    pub(crate) fn is(&self, sha256: &str) -> bool {
        self.sha256.eq_ignore_ascii_case(sha256)
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

impl Lock {
    /// Reads the list of the folder `dir`; empty where there is none.
    ///
    /// # Errors
    ///
    /// `Refused` where it cannot be read.
    pub fn read(dir: &Path) -> Result<Self, PortError> {
        let path = dir.join(LOCK_FILE);
        let fail = |what: String| PortError::new(&LOCK, format!("read `{}`", path.display()), what);
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

    /// Adds `pin`. One of the same name and version is kept for the operations that began with it, unless its file
    /// is the same.
    pub fn add(&mut self, pin: Pin) {
        let same = |old: &Pin| (&old.name, &old.version) == (&pin.name, &pin.version);
        let gone = |old: &Pin| same(old) && (old.file == pin.file || old.is(&pin.sha256));
        self.plugins.retain(|old| !gone(old));
        let elder = self.plugins.iter_mut().filter(|old| same(old));
        elder.for_each(|old| old.superseded = true);
        self.plugins.push(pin);
        self.plugins
            .sort_by(|a, b| a.name.cmp(&b.name).then(newer(&a.version, &b.version)));
    }

    /// Allows a package to run its scripts.
    pub fn add_package(&mut self, pin: PackagePin) {
        self.packages
            .retain(|old| !old.sha256.eq_ignore_ascii_case(&pin.sha256));
        self.packages.push(pin);
    }

    /// Whether the package with this SHA-256 may run its scripts.
    pub(crate) fn allows_scripts_of(&self, sha256: &str) -> bool {
        self.packages
            .iter()
            .any(|pin| pin.sha256.eq_ignore_ascii_case(sha256))
    }

    /// Writes the list whole or not at all.
    ///
    /// # Errors
    ///
    /// `Refused` where the folder cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), PortError> {
        let path = dir.join(LOCK_FILE);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            // It holds no secret, and who runs the server need not be who allows plugins.
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

/// Compares versions number by number; what is no number counts as text, and a pre-release as older.
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
    fn a_list_is_read_as_it_was_written_and_a_pin_replaces_its_elder() {
        let dir = tempfile::tempdir().unwrap();
        let mut lock = Lock::read(dir.path()).unwrap();
        lock.add(pin("1.10.0", "00"));
        lock.add(pin("1.9.0", "11"));
        lock.add(pin("1.10.0", "22"));
        lock.write(dir.path()).unwrap();
        let read = Lock::read(dir.path()).unwrap();
        assert_eq!(read.plugins, [pin("1.9.0", "11"), pin("1.10.0", "22")]);
    }

    #[test]
    fn the_list_can_be_read_by_a_server_of_another_user() {
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
    fn a_list_that_is_not_understood_is_refused_by_name() {
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
