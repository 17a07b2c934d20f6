//! What of the machine's files the process of a hook sees: the system's programs and libraries, and its own folder.

use std::path::{Path, PathBuf};

/// A path that the process of a hook sees.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    pub(crate) path: PathBuf,
    pub(crate) right: Right,
}

/// What may be done with it and all that lies below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Read and execute.
    Read,
    /// Read and write, as a device.
    Use,
    /// Everything: it is the process' own.
    Own,
}

/// Programs and libraries.
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

/// What programs read of `/etc`; nothing of it is secret on any distribution.
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

/// Devices that are the same for everybody.
pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// What is seen for reading: of the system, and what the operator adds.
pub(crate) fn readable(more: &[PathBuf]) -> Vec<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from);
    let etc = ETC.iter().map(|name| Path::new("/etc").join(name));
    system.chain(etc).chain(more.iter().cloned()).collect()
}

/// The path among `hidden` that a process would see, and by which path.
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
    fn a_data_folder_that_hooks_would_see_is_found_on_both_sides() {
        let hidden = |path: &str| vec![PathBuf::from(path)];
        assert!(exposed(&hidden("/var/lib/vnfm"), &[]).is_none());
        assert!(exposed(&hidden("/etc/vnfm/vnfm.yaml"), &[]).is_none());
        let (_, seen) = exposed(&hidden("/usr/local/vnfm/data"), &[]).unwrap();
        assert_eq!(seen, PathBuf::from("/usr"));
        assert!(exposed(&hidden("/var/lib/vnfm"), &["/var/lib".into()]).is_some());
        assert!(exposed(&hidden("/opt/vnfm"), &["/opt/vnfm/venv".into()]).is_some());
    }
}
