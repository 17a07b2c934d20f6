//! Cargo tools that the tasks run, each in one version: taken from the machine, or installed once into the cache.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{paths, process, terminal};

/// A program from crates.io.
pub(crate) struct Tool {
    /// Name of the crate and of its program.
    pub(crate) name: &'static str,
    /// The version that we have tried.
    pub(crate) version: &'static str,
    /// Further arguments of `cargo install`, such as features.
    pub(crate) install: &'static [&'static str],
}

impl Tool {
    /// Path of the program in this version: the one in `PATH` or in the cache; installs it if both are missing.
    ///
    /// # Errors
    /// If it cannot be installed.
    pub(crate) fn provide(&self) -> Result<PathBuf> {
        let root = paths::cache().join("tools");
        let cached = root.join("bin").join(self.name);
        for program in [PathBuf::from(self.name), cached.clone()] {
            let version = process::query(&program, &["--version"]);
            if version.is_some_and(|text| text.trim().ends_with(self.version)) {
                return Ok(program);
            }
        }
        let Self { name, version, .. } = self;
        terminal::note(&format!(
            "installing {name} {version}, once, into `{}`",
            root.display()
        ));
        let mut install = paths::cargo();
        install.args(["install", name, "--version", version, "--locked", "--force"]);
        install.args(self.install).arg("--root").arg(&root);
        // It runs for seconds: making it fast would take minutes.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        install.env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        ensure!(
            process::foreground(&mut install)?,
            "{name} was not installed; see the output above"
        );
        Ok(cached)
    }
}
