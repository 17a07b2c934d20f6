//! A host's file system in memory, and the programs installed on it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The programs of every image.
const INSTALLED: &[&str] = &[
    "apt-cache",
    "apt-get",
    "bash",
    "cat",
    "chmod",
    "cp",
    "date",
    "dpkg",
    "env",
    "hostname",
    "id",
    "install",
    "ip",
    "ls",
    "mkdir",
    "modprobe",
    "mv",
    "nproc",
    "rm",
    "sh",
    "sha256sum",
    "sleep",
    "sudo",
    "swapoff",
    "sysctl",
    "systemctl",
    "uname",
    "wc",
    "whoami",
];

/// The programs of a Kubernetes node that an image may lack.
const KUBERNETES: &[&str] = &["kubeadm", "kubelet", "kubectl", "containerd", "ctr"];

#[derive(Clone, Default)]
pub(crate) struct File {
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// A file system in memory. A folder exists if a file is below it or it was created.
#[derive(Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
    folders: BTreeSet<String>,
}

impl Disk {
    pub(crate) fn write(&mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) {
        self.files.insert(
            path.to_owned(),
            File {
                content: content.into(),
                mode,
            },
        );
    }

    pub(crate) fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files.get(path).map(|file| file.content.clone())
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut File> {
        self.files.get_mut(path)
    }

    pub(crate) fn mode(&self, path: &str) -> Option<u32> {
        self.files.get(path).map(|file| file.mode)
    }

    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn is_folder(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty()
            || self.folders.contains(path)
            || self
                .files
                .range(below.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&below))
    }

    pub(crate) fn make_folder(&mut self, path: &str) {
        self.folders.insert(path.trim_end_matches('/').to_owned());
    }

    /// Removes a file, or a folder with its content; false if there is neither.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        let before = self.files.len() + self.folders.len();
        self.files
            .retain(|p, _| p != path && !p.starts_with(&below));
        self.folders.retain(|p| p != path && !p.starts_with(&below));
        self.files.len() + self.folders.len() < before
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(file) = self.files.remove(from) else {
            return false;
        };
        self.files.insert(to.to_owned(), file);
        true
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }
}

/// The disk of a host that has not booted yet; `bare` lacks the Kubernetes programs.
pub(super) fn initial_disk(name: &str, address: IpAddr, bare: bool) -> Disk {
    let mut disk = Disk::default();
    disk.write("/etc/hostname", format!("{name}\n"), 0o644);
    disk.write(
        "/etc/hosts",
        format!("127.0.0.1 localhost\n{address} {name}\n"),
        0o644,
    );
    disk.write(
        "/etc/os-release",
        "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"vnfm-sim\"\n",
        0o644,
    );
    for folder in ["/tmp", "/root", "/var", "/run", "/usr/bin", "/etc/apt"] {
        disk.make_folder(folder);
    }
    for program in INSTALLED {
        disk.write(&format!("/usr/bin/{program}"), "", 0o755);
    }
    for program in KUBERNETES.iter().filter(|_| !bare) {
        disk.write(&format!("/usr/bin/{program}"), "", 0o755);
    }
    disk
}
