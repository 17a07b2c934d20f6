//! A folder as the root of a host, on which the driver's scripts run in the machine's own shell.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Root {
    pub(crate) fn new(name: &str) -> Self {
        let folder = format!("{name}-{}", uuid::Uuid::new_v4());
        Self(std::env::temp_dir().join(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a script that has these folders of a host below this one.
    pub(crate) fn script(&self, name: &str, text: &str, folders: &[&str]) {
        let below = folders.iter().fold(text.to_owned(), |text, folder| {
            text.replace(folder, &format!("{}{folder}", self.0.display()))
        });
        self.write(name, &below);
    }

    /// A program that scripts find before the machine's own.
    pub(crate) fn program(&self, name: &str, lines: &str) {
        let path = format!("bin/{name}");
        // A new file, as package managers write it: one that runs cannot be written.
        let _ = std::fs::remove_file(self.path(&path));
        self.write(&path, &format!("#!/bin/sh\n{lines}\n"));
        std::fs::set_permissions(self.path(&path), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Runs the shell in this folder with these arguments.
    pub(crate) fn sh(&self, words: &[&str]) -> Output {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("sh");
        command.args(words).current_dir(&self.0).env("PATH", path);
        command.output().unwrap()
    }

    /// The output of [`Root::sh`], which must succeed.
    pub(crate) fn sh_ok(&self, words: &[&str]) -> String {
        let output = self.sh(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}
