//! The files that a hook process can see: the system's programs and libraries, and its own folder.

use std::path::{Path, PathBuf};

/// A path that a hook process can see.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
}

/// What the process may do with a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Files below it may be read and executed.
    Read,
    /// Read and write, as a device.
    Device,
    /// Everything: it belongs to the process.
    Full,
}

/// The system's programs and libraries.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];

/// The files in `/etc` that programs read; none of them is secret on any distribution.
const ETC: &[&str] = &[
    "alternatives",
    "ansible",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Devices without state, safe to share.
pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// The readable paths: the system's and those that the operator adds.
pub(crate) fn readable(more: &[PathBuf]) -> Vec<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from);
    let etc = ETC.iter().map(|name| Path::new("/etc").join(name));
    system.chain(etc).chain(more.iter().cloned()).collect()
}

/// The first path of `hidden` that a process could see, and the readable path that exposes it.
pub(crate) fn exposed(hidden: &[PathBuf], more: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let readable: Vec<_> = readable(more).iter().map(|path| real(path)).collect();
    hidden.iter().find_map(|secret| {
        let inside = real(secret);
        let seen = readable
            .iter()
            .find(|seen| inside.starts_with(seen) || seen.starts_with(&inside));
        seen.map(|seen| (secret.clone(), seen.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::exposed;
    use std::path::PathBuf;

    #[test]
    fn hidden_paths_inside_or_around_readable_ones_are_exposed() {
        let hidden = |path: &str| vec![PathBuf::from(path)];
        assert!(exposed(&hidden("/var/lib/vnfm"), &[]).is_none());
        assert!(exposed(&hidden("/etc/vnfm/vnfm.yaml"), &[]).is_none());
        let (_, seen) = exposed(&hidden("/usr/local/vnfm/data"), &[]).unwrap();
        assert_eq!(seen, PathBuf::from("/usr"));
        assert!(exposed(&hidden("/var/lib/vnfm"), &["/var/lib".into()]).is_some());
        assert!(exposed(&hidden("/opt/vnfm"), &["/opt/vnfm/venv".into()]).is_some());
    }
}
