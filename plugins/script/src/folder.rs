//! The private folder of a script: the package's files, and the VNFM's command and Python module.
//!
//! ```text
//! package/   the files of the package; the script runs here
//! bin/vnfm   the services of the VNFM as a command          modules/vnfm.py  as a Python module
//! home/      HOME and TMPDIR                                socket           used by both
//! ```
//!
//! It is deleted with the hook. If the hook is killed, the plugin host deletes it with the folder above it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;
use vnfm_plugin_sdk::prelude::{DriverError, HookContext};

const VNFM: &str = include_str!("python/vnfm.py");
/// Larger files of the package are not unpacked; the script can read them with `vnfm artifact`.
const MAX_FILE_SIZE: u64 = 16 << 20;

/// The folder; deleted when dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// Creates it in the folder for temporary files.
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
            create_dir(&path)?;
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

    /// Writes a file, and creates its folder if necessary.
    pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
        path.parent().map_or(Ok(()), create_dir)?;
        std::fs::write(path, content)
    }

    /// Writes the files of the package below the folder.
    ///
    /// # Errors
    ///
    /// `no-script` if `script` is not among them; errors of the host and of writing a file.
    pub(crate) async fn unpack(&self, cx: &HookContext, script: &str) -> Result<(), DriverError> {
        let listed: ArtifactList = cx.call("artifact.list", serde_json::json!({})).await?;
        if !listed.paths.iter().any(|path| path == script) {
            let detail = format!("the package has no file `{script}`");
            return Err(DriverError::new("no-script", detail));
        }
        for path in &listed.paths {
            let size = listed.sizes.get(path).copied().unwrap_or_default();
            if size > MAX_FILE_SIZE && path != script {
                cx.info(&format!(
                    "`{path}` has {} MiB and is not unpacked; `vnfm artifact {path}` reads it",
                    size >> 20
                ));
                continue;
            }
            let to = self.within(path)?;
            let content = cx.artifact(path).await?;
            Self::write(&to, &content).map_err(|error| {
                let detail = format!("cannot unpack `{path}`: {error}");
                DriverError::new("no-folder", detail).retryable()
            })?;
        }
        Ok(())
    }

    /// The path for a file of the package; refuses paths that lead out of the folder.
    fn within(&self, path: &str) -> Result<PathBuf, DriverError> {
        let plain = |part| matches!(part, Component::Normal(_));
        if !path.is_empty() && Path::new(path).components().all(plain) {
            return Ok(self.package().join(path));
        }
        let detail = format!("the path `{path}` of a file of the package leads out of its folder");
        Err(DriverError::new("bad-artifact", detail))
    }
}

/// The response of the host service `artifact.list`.
#[derive(serde::Deserialize)]
struct ArtifactList {
    paths: Vec<String>,
    /// Sizes in bytes; absent from an older host.
    #[serde(default)]
    sizes: std::collections::BTreeMap<String, u64>,
}

fn mode(mode: u32) -> Permissions {
    Permissions::from_mode(mode)
}

fn create_dir(path: &Path) -> io::Result<()> {
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
    fn the_package_is_unpacked_into_a_temporary_folder() {
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
