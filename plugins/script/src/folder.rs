//! The private folder of a script: files of the package, and what lets it reach its host.
//!
//! ```text
//! package/   the files of the package; the script runs here
//! bin/vnfm   the services of the VNFM as a command          modules/vnfm.py  as a Python module
//! home/      HOME and TMPDIR                                socket           where both ask
//! ```
//!
//! It goes with the hook. A hook that is killed leaves it to the plugin host, which made the folder above it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;
use vnfm_plugin_sdk::prelude::{DriverError, HookContext};

const VNFM: &str = include_str!("python/vnfm.py");
/// A larger file of the package is not unpacked; the script may ask for it.
const LARGEST: u64 = 16 << 20;

/// The folder; it is removed with this.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// Makes it where temporary files go.
    pub(crate) fn new() -> io::Result<Self> {
        let folder = Self(
            tempfile::Builder::new()
                .prefix("script-")
                .permissions(mode(0o700))
                .tempdir()?,
        );
        for path in [
            folder.package(),
            folder.programs(),
            folder.modules(),
            folder.home(),
        ] {
            make(&path)?;
        }
        Self::write(&folder.modules().join("vnfm.py"), VNFM.as_bytes())?;
        let program = folder.programs().join("vnfm");
        Self::write(&program, VNFM.as_bytes())?;
        std::fs::set_permissions(program, mode(0o700))?;
        Ok(folder)
    }

    pub(crate) fn package(&self) -> PathBuf {
        self.0.path().join("package")
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.0.path().join("bin")
    }

    pub(crate) fn modules(&self) -> PathBuf {
        self.0.path().join("modules")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    /// Writes a file of ours.
    pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
        path.parent().map_or(Ok(()), make)?;
        std::fs::write(path, content)
    }

    /// Puts the package's files there.
    ///
    /// # Errors
    ///
    /// `no-script` where `script` is not among them; else as the host says, or what keeps a file from being written.
    pub(crate) async fn unpack(&self, cx: &HookContext, script: &str) -> Result<(), DriverError> {
        let listed: Listed = cx.call("artifact.list", serde_json::json!({})).await?;
        if !listed.paths.iter().any(|path| path == script) {
            let said = format!("the package has no file `{script}`");
            return Err(DriverError::new("no-script", said));
        }
        for path in &listed.paths {
            let size = listed.sizes.get(path).copied().unwrap_or_default();
            if size > LARGEST && path != script {
                cx.info(&format!(
                    "`{path}` has {} MiB and is not unpacked; `vnfm artifact {path}` reads it",
                    size >> 20
                ));
                continue;
            }
            let to = self.within(path)?;
            let content = cx.artifact(path).await?;
            Self::write(&to, &content).map_err(|error| {
                let said = format!("cannot unpack `{path}`: {error}");
                DriverError::new("no-folder", said).retryable()
            })?;
        }
        Ok(())
    }

    /// Where a file of the package goes: below the folder, whatever it is called.
    fn within(&self, path: &str) -> Result<PathBuf, DriverError> {
        let plain = |part| matches!(part, Component::Normal(_));
        if !path.is_empty() && Path::new(path).components().all(plain) {
            return Ok(self.package().join(path));
        }
        let said = format!("the package's file `{path}` would lie outside of its folder");
        Err(DriverError::new("bad-artifact", said))
    }
}

/// What the host says of the package.
#[derive(serde::Deserialize)]
struct Listed {
    paths: Vec<String>,
    /// In bytes; an older host does not tell them.
    #[serde(default)]
    sizes: std::collections::BTreeMap<String, u64>,
}

fn mode(mode: u32) -> Permissions {
    Permissions::from_mode(mode)
}

fn make(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(test)]
mod tests {
    use super::Folder;
    use vnfm_plugin_sdk::testkit::{TestHost, block_on};

    #[test]
    fn the_package_lies_in_a_folder_of_its_own_which_goes() {
        let host = TestHost::new()
            .file("Scripts/a.sh", "true")
            .file("vnfd.yaml", "a: b");
        let folder = Folder::new().unwrap();
        block_on(folder.unpack(&host.context(), "Scripts/a.sh")).unwrap();
        assert_eq!(
            std::fs::read(folder.package().join("Scripts/a.sh")).unwrap(),
            b"true"
        );
        assert!(folder.package().join("vnfd.yaml").is_file());
        let error = block_on(folder.unpack(&host.context(), "Scripts/b.sh")).unwrap_err();
        assert_eq!(error.code, "no-script");
        let twice = TestHost::new()
            .file("a", "a file")
            .file("a/b", "in a folder")
            .file("c", "");
        let error = block_on(folder.unpack(&twice.context(), "c")).unwrap_err();
        assert_eq!(error.code, "no-folder");
        assert!(error.retryable && error.detail.contains("`a/b`"), "{error}");
        for outside in ["../a", "/etc/a", "a/../../b", ""] {
            assert_eq!(
                folder.within(outside).unwrap_err().code,
                "bad-artifact",
                "{outside}"
            );
        }
        let path = folder.package();
        drop(folder);
        assert!(!path.exists());
    }
}
