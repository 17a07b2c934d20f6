//! The files that a driver uploaded to simulated hosts.

/// A file that a driver uploaded to a simulated host.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{TestHost, Uploaded, block_on};
/// use vnfm_plugin_sdk::{SshTarget, Upload};
///
/// let host = TestHost::new();
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// block_on(ssh.put(Upload::new("/etc/motd", "hello").mode("0644").sudo())).unwrap();
/// let file: &Uploaded = &host.uploads()[0];
/// assert_eq!((file.path.as_str(), file.mode.as_str(), file.sudo), ("/etc/motd", "0644", true));
/// assert_eq!(file.text(), "hello");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uploaded {
    /// Address of the host that received it.
    pub address: String,
    /// Absolute path on the host.
    pub path: String,
    /// File mode in octal, such as `0644`.
    pub mode: String,
    /// True if it was uploaded as root.
    pub sudo: bool,
    /// Content of the file, in bytes.
    pub content: Vec<u8>,
}

impl Uploaded {
    /// Content of the file as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}
