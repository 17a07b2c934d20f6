//! A real OpenSSH server per test: accepts connections and passes each to a separate `sshd -i`.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use vnfm_core::ports::{PinnedTarget, SshTarget};

const SSHD: &str = "/usr/sbin/sshd";

/// The server; dropping it deletes its folder.
pub(crate) struct Sshd {
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) children: Arc<Mutex<Vec<Child>>>,
    /// While set, connections are closed at once, as by a booting host.
    pub(crate) booting: Arc<AtomicBool>,
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
    /// Starts a server; `None`, with a message, if OpenSSH is not installed.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            eprintln!("skipped: no `{SSHD}` (Debian: apt-get install openssh-server)");
            assert!(
                std::env::var_os("VNFM_REQUIRE_LIVE").is_none(),
                "`{SSHD}` is required here"
            );
            return None;
        }
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        keygen(&at("host"), &["-t", "ed25519"]);
        std::fs::write(at("authorized"), "").unwrap();
        // A separate home, so that the login files of the user who runs the tests have no effect.
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nAllowTcpForwarding yes\n\
             SetEnv HOME={}\n",
            at("host").display(),
            at("authorized").display(),
            folder.path().display(),
        );
        std::fs::write(at("config"), config).unwrap();
        let _ = std::fs::create_dir_all("/run/sshd");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            children: Arc::default(),
            booting: Arc::default(),
            folder,
        };
        server.serve(listener);
        Some(server)
    }

    fn serve(&self, listener: TcpListener) {
        let (connections, children) = (self.connections.clone(), self.children.clone());
        let (booting, config) = (self.booting.clone(), self.folder.path().join("config"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                if booting.load(Ordering::SeqCst) {
                    continue;
                }
                connections.fetch_add(1, Ordering::SeqCst);
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

    /// Creates and authorizes a key of the given kind; returns it as PEM.
    pub(crate) fn login_key(&self, name: &str, kind: &[&str]) -> String {
        let path = self.folder.path().join(name);
        keygen(&path, kind);
        let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
        let authorized = self.folder.path().join("authorized");
        let old = std::fs::read_to_string(&authorized).unwrap();
        std::fs::write(authorized, old + &public).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    /// Cuts the first connection, as a host that loses power does.
    pub(crate) fn cut(&self) {
        // The sshd of the connection may have a child that also holds the socket. Their command sees the end of its input.
        let id = self.children.lock().unwrap()[0].id().to_string();
        let line = "ps -o pid=,comm= --ppid $1 | while read -r c name; do \
                    case $name in sshd*) kill -9 $c;; esac; done; kill -9 $1";
        assert!(
            Command::new("sh")
                .args(["-c", line, "sh", &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Replaces the server's host key.
    pub(crate) fn rebuild(&self) {
        let host = self.folder.path().join("host");
        std::fs::remove_file(&host).unwrap();
        keygen(&host, &["-t", "ed25519"]);
    }

    /// A target with a fresh key.
    pub(crate) fn target(&self) -> PinnedTarget {
        self.target_with(self.login_key("login", &["-t", "ed25519"]))
    }

    /// A target with the given key.
    pub(crate) fn target_with(&self, pem: String) -> PinnedTarget {
        SshTarget::new(format!("server-{}", self.port), "127.0.0.1", whoami())
            .port(self.port)
            .private_key(pem)
            .into()
    }
}

fn whoami() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn keygen(path: &Path, kind: &[&str]) {
    let made = Command::new("ssh-keygen")
        .args(kind)
        .args(["-q", "-N", "", "-C", "a test", "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}
