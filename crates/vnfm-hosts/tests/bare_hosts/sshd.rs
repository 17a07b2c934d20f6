//! A real OpenSSH server as a host of an inventory: a process for each connection, and programs of its own.

use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use vnfm_types::{HOSTS, VimConnectionInfo};

const SSHD: &str = "/usr/sbin/sshd";

/// The server; dropping it ends its processes and deletes its folder.
pub(crate) struct Sshd {
    pub(crate) name: String,
    port: u16,
    folder: TempDir,
    children: Arc<Mutex<Vec<Child>>>,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for child in self.children.lock().unwrap().iter_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Sshd {
    /// Starts a server; `None`, with a message, if OpenSSH is not installed or the user is not root, whom it logs in.
    pub(crate) fn start() -> Option<Self> {
        let missing = if !Path::new(SSHD).exists() {
            "no `/usr/sbin/sshd` (Debian: apt-get install openssh-server)"
        } else if whoami() != "root" {
            "only root can lease hosts without sudo"
        } else {
            ""
        };
        if !missing.is_empty() {
            eprintln!("skipped: {missing}");
            let is_required = std::env::var_os("VNFM_REQUIRE_LIVE").is_some();
            assert!(!is_required, "required here: {missing}");
            return None;
        }
        let folder = TempDir::new().unwrap();
        keygen(&folder.path().join("host"));
        keygen(&folder.path().join("login"));
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv HOME={} PATH={}:/usr/sbin:/usr/bin:/sbin:/bin\n",
            at("host"),
            at("login.pub"),
            at(""),
            at("bin"),
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let _ = std::fs::create_dir_all("/run/sshd");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self {
            name: format!("host-{port}"),
            port,
            children: Arc::default(),
            folder,
        };
        server.serve(listener);
        Some(server)
    }

    fn serve(&self, listener: TcpListener) {
        let (children, config) = (self.children.clone(), self.folder.path().join("config"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let child = Command::new(SSHD)
                    .arg("-i")
                    .arg("-f")
                    .arg(&config)
                    .stdin(OwnedFd::from(stream.try_clone().unwrap()))
                    .stdout(OwnedFd::from(stream))
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                children.lock().unwrap().push(child);
            }
        });
    }

    /// The private key that may log in, PEM.
    pub(crate) fn login_key(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("login")).unwrap()
    }

    fn host_key(&self) -> String {
        let key = std::fs::read_to_string(self.folder.path().join("host.pub")).unwrap();
        key.trim().to_owned()
    }

    /// Gives the host another key, as a new installation does.
    pub(crate) fn reinstall(&self) {
        std::fs::remove_file(self.folder.path().join("host")).unwrap();
        keygen(&self.folder.path().join("host"));
    }

    /// Replaces a program on the host.
    pub(crate) fn install(&self, program: &str, script: &str) {
        let path = self.folder.path().join("bin").join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Content of its lease file.
    pub(crate) fn lease(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("leases/lease")).ok()
    }

    /// Puts this text into its lease file.
    pub(crate) fn write_lease(&self, text: &str) {
        std::fs::create_dir_all(self.folder.path().join("leases")).unwrap();
        std::fs::write(self.folder.path().join("leases/lease"), text).unwrap();
    }

    /// Ends all its connections.
    pub(crate) fn disconnect(&self) {
        for child in self.children.lock().unwrap().iter() {
            let id = child.id().to_string();
            let line = "ps -o pid= --ppid $1 | xargs -r kill -9; kill -9 $1";
            let _ = Command::new("sh").args(["-c", line, "sh", &id]).status();
        }
    }

    /// An inventory of these hosts.
    pub(crate) fn inventory(hosts: &[Self]) -> VimConnectionInfo {
        let entry = |host: &Self| {
            let leases = host.folder.path().join("leases");
            let labels = json!({"sr-iov": "true"});
            json!({"name": host.name, "address": "127.0.0.1", "sshPort": host.port, "labels": labels,
                "hostKey": host.host_key(), "leaseDirectory": leases})
        };
        let key = |host: &Self| (host.name.clone(), json!({"privateKey": host.login_key()}));
        let entries: Vec<Value> = hosts.iter().map(entry).collect();
        let keys: serde_json::Map<_, _> = hosts.iter().map(key).collect();
        VimConnectionInfo::new(HOSTS)
            .interface("hosts", entries)
            .interface("wipeCommand", "true")
            .access("username", "root")
            .access("hosts", keys)
    }
}

fn whoami() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn keygen(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-t", "ed25519", "-q", "-N", "", "-C", "a test", "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}
