//! Debian's `docker-registry` with TLS and a login, started by `tests/stack/registry.sh`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vnfm_outbound::{Certificate, Destinations, Trust};
use vnfm_registry::{Access, Login, Registry};
use vnfm_types::Secret;

/// A registry that ends with the test.
pub(crate) struct Running {
    folder: TempDir,
    pub(crate) address: String,
    _child: Child,
}

impl Running {
    /// `None`, with a message, if it is not installed.
    pub(crate) async fn start(no_delete: bool) -> Option<Self> {
        if !Path::new("/usr/bin/docker-registry").exists() {
            let required = std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|set| set == "1");
            let text = "docker-registry is missing: tests/stack/packages.sh install registry";
            assert!(!required, "{text}");
            eprintln!("skipped: {text}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/stack/registry.sh");
        let mut command = Command::new(script);
        command
            .arg(folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if no_delete {
            command.env("NO_DELETE", "1");
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    let port = rest.split([',', '"', ' ']).next().unwrap();
                    let port = port.rsplit(':').next().unwrap().to_owned();
                    return format!("localhost:{port}");
                }
            }
            panic!("docker-registry ended");
        };
        let address = tokio::time::timeout(Duration::from_secs(30), listening).await;
        // Its output must be read for as long as it runs.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self {
            folder,
            address: address.expect("it listens in time"),
            _child: child,
        })
    }

    /// Its CA certificate, PEM.
    pub(crate) fn ca(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ca.pem")).unwrap()
    }

    /// A client with this password.
    pub(crate) fn registry(&self, password: &str) -> Registry {
        let authorities = Certificate::from_pem_bundle(self.ca().as_bytes()).unwrap();
        let access = Access::new(&self.address).unwrap();
        let access = access.with_login(Login {
            user: "vnfm".into(),
            password: Secret::new(password),
        });
        let access = access.trusting(Trust {
            authorities,
            ..Trust::default()
        });
        Registry::new(Destinations::anywhere(), access).unwrap()
    }
}
