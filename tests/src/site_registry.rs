//! A registry of container images at a site, with TLS and a login: Debian's `docker-registry`.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sources::root;

/// How long it may take to start.
const STARTED: Duration = Duration::from_mins(1);
/// The login of `tests/stack/registry.sh`.
const LOGIN: (&str, &str) = ("vnfm", "hunter2");

/// A registry that ends with the test.
#[derive(Debug)]
pub struct SiteRegistry {
    folder: TempDir,
    child: Child,
    /// `ADDRESS:PORT`.
    pub address: String,
}

impl Drop for SiteRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SiteRegistry {
    /// Starts it at this address of the machine.
    pub fn start(address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(root().join("tests/stack/registry.sh"));
        command.arg(folder.path()).env("ADDRESS", address);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (found, listening) = mpsc::channel();
        // Its output must be read for as long as it runs.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    let address = rest.split([',', '"', ' ']).next().unwrap();
                    let _ = found.send(address.to_owned());
                }
            }
        });
        let mut registry = Self {
            folder,
            child,
            address: String::new(),
        };
        registry.address = listening.recv_timeout(STARTED).unwrap();
        registry
    }

    /// The parameter `registry` of a cluster.
    pub fn parameter(&self) -> Value {
        let ca = std::fs::read_to_string(self.folder.path().join("ca.pem")).unwrap();
        json!({ "address": self.address, "ca": ca, "username": LOGIN.0, "password": LOGIN.1 })
    }

    /// Pushes an image in OCI image layout, as an operator does.
    pub fn push(&self, layout: &Path, name: &str) {
        let from = format!("oci:{}", layout.display());
        let to = format!("docker://{}/{name}", self.address);
        let login = format!("{}:{}", LOGIN.0, LOGIN.1);
        let mut skopeo = Command::new("skopeo");
        skopeo.args([
            "copy",
            "--quiet",
            "--dest-tls-verify=false",
            "--dest-creds",
            &login,
        ]);
        let output = skopeo.args([&from, &to]).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
    }

    /// Names of its repositories.
    pub fn repositories(&self) -> Vec<String> {
        let url = format!("https://{}/v2/_catalog", self.address);
        let login = format!("{}:{}", LOGIN.0, LOGIN.1);
        let mut curl = Command::new("curl");
        curl.args(["-sSfk", "--noproxy", "*", "-u", &login, &url]);
        let output = curl.output().unwrap();
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let listed = listed["repositories"].as_array().unwrap().iter();
        listed
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }

    /// The tags of a repository; none if it has no images any more.
    pub fn tags(&self, repository: &str) -> Vec<String> {
        let url = format!("https://{}/v2/{repository}/tags/list", self.address);
        let login = format!("{}:{}", LOGIN.0, LOGIN.1);
        let mut curl = Command::new("curl");
        curl.args([
            "-sSk",
            "--noproxy",
            "*",
            "-u",
            &login,
            "-w",
            "\n%{http_code}",
            &url,
        ]);
        let answer = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let (listed, status) = answer.rsplit_once('\n').unwrap();
        if status == "404" {
            return Vec::new();
        }
        assert_eq!(status, "200", "{listed}");
        let listed: Value = serde_json::from_str(listed).unwrap();
        let listed = listed["tags"].as_array().into_iter().flatten();
        listed.map(|tag| tag.as_str().unwrap().to_owned()).collect()
    }
}
