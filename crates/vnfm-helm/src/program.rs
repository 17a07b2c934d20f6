//! [`Helm`]: the file that may run, checked before each start.

use crate::errors::HelmError;
use crate::process::Run;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long helm may take to print its version.
const VERSION_TIME: Duration = Duration::from_secs(30);

/// What one run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Address space in bytes. Default 4 GiB, of which the Go runtime reserves more than one without using it.
    pub memory: u64,
    /// Processor time in seconds. Default 120.
    pub cpu_seconds: u64,
    /// Size of each file that it writes, in bytes. Default 16 MiB.
    pub file: u64,
    /// Size of its output and of the objects that it renders, in bytes each. Default 32 MiB.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 4 << 30,
            cpu_seconds: 120,
            file: 16 << 20,
            output: 32 << 20,
        }
    }
}

/// The generation of helm: their arguments differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    Three,
    Four,
}

/// A version of helm that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub(crate) generation: Generation,
    text: String,
}

impl Version {
    /// Whether hooks pass through [`Apply::render`](crate::Apply::render) as other objects do.
    pub fn renders_hooks(&self) -> bool {
        self.generation == Generation::Four
    }

    fn parse(text: &str) -> Option<Self> {
        let generation = match text.strip_prefix('v')?.split('.').next()? {
            "3" => Generation::Three,
            "4" => Generation::Four,
            _ => return None,
        };
        let is_plain = text.len() < 64 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let text = text.to_owned();
        is_plain.then_some(Self { generation, text })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A helm program. Clones share what is known about the file.
#[derive(Debug, Clone)]
pub struct Helm {
    path: PathBuf,
    sha256: Option<String>,
    pub(crate) limits: Limits,
    known: Arc<Mutex<Option<Known>>>,
}

/// What was found out about the file with this stamp.
#[derive(Debug, Clone)]
struct Known {
    stamp: Stamp,
    version: Option<Version>,
}

/// Tells one content of a file from another without reading it: device, inode, size, and times of change.
type Stamp = [i128; 5];

impl Helm {
    /// The program at `path`; with `sha256`, in hexadecimal digits, no other content of the file is ever started.
    pub fn new(path: impl Into<PathBuf>, sha256: Option<String>) -> Self {
        Self {
            path: path.into(),
            sha256: sha256.map(|digits| digits.to_ascii_lowercase()),
            limits: Limits::default(),
            known: Arc::default(),
        }
    }

    /// The same program with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Path of the program, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the file and asks for its version, once for each content of the file.
    ///
    /// # Errors
    ///
    /// The file is missing, is not the pinned one, or is neither Helm 3 nor Helm 4.
    pub async fn version(&self) -> Result<Version, HelmError> {
        if let Some(version) = self.checked().await? {
            return Ok(version);
        }
        let arguments = ["version", "--template", "{{.Version}}"].map(str::to_owned);
        let run = Run::new("print its version", arguments.to_vec(), VERSION_TIME);
        let message = run.start(self).await?;
        let message = String::from_utf8_lossy(&message).trim().to_owned();
        let Some(version) = Version::parse(&message) else {
            let message = message.chars().take(100).collect();
            let path = self.path.clone();
            return Err(HelmError::UnknownVersion { path, message });
        };
        if let Some(known) = &mut *self.known() {
            known.version = Some(version.clone());
        }
        Ok(version)
    }

    /// Compares the file with the pinned SHA-256 if it has changed since the last check; returns its version, if known.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not the pinned one.
    async fn checked(&self) -> Result<Option<Version>, HelmError> {
        let unreadable = |source| HelmError::Unreadable {
            path: self.path.clone(),
            source,
        };
        let now = stamp(&self.path).map_err(unreadable)?;
        let known = self.known().clone();
        if let Some(known) = known.filter(|known| known.stamp == now) {
            return Ok(known.version);
        }
        if let Some(pinned) = &self.sha256 {
            let path = self.path.clone();
            let hashing = tokio::task::spawn_blocking(move || hash(&path)).await;
            let found = hashing.map_err(io::Error::other).and_then(|found| found);
            let found = found.map_err(unreadable)?;
            if found != *pinned {
                return Err(HelmError::WrongHash {
                    path: self.path.clone(),
                    pinned: pinned.clone(),
                    found,
                });
            }
        }
        let known = Known {
            stamp: now,
            version: None,
        };
        *self.known() = Some(known);
        Ok(None)
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = path.metadata()?;
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Ok([
        found.dev().into(),
        found.ino().into(),
        found.size().into(),
        nanoseconds(found.mtime(), found.mtime_nsec()),
        nanoseconds(found.ctime(), found.ctime_nsec()),
    ])
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::{Generation, Version};

    #[test]
    fn helm_3_and_4_are_recognized_by_their_version() {
        for (message, generation) in [
            ("v3.21.4", Some(Generation::Three)),
            ("v4.3.1", Some(Generation::Four)),
            ("v3.22", Some(Generation::Three)),
            ("v2.17.0", None),
            ("v5.0.0", None),
            ("3.1.0", None),
            ("Usage: v3", None),
            ("", None),
        ] {
            let found = Version::parse(message).map(|version| version.generation);
            assert_eq!(found, generation, "{message}");
        }
    }
}
