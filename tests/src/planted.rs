//! Planted secrets and the search for them: plain, in base64 at any offset, with JSON-escaped line breaks, and each long
//! line of a key by itself.
//!
//! A search that finds nothing proves nothing: each test also lets one secret through on purpose.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Secrets in every searched encoding, by description.
#[derive(Clone, Default)]
pub struct Planted(BTreeMap<String, BTreeSet<String>>);

impl std::fmt::Debug for Planted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Shorter secrets could match by accident.
const MIN_SECRET_LEN: usize = 12;
/// The start of the first line of every OpenSSH key.
const OPENSSH_KEY_PREFIX: &str = "b3BlbnNzaC1rZXktdjEA";

impl Planted {
    /// Adds a secret to search for, and what it is.
    pub fn add(&mut self, what: &str, secret: &str) {
        assert!(
            secret.len() >= MIN_SECRET_LEN,
            "{what} is too short to be searched for"
        );
        let shapes = self.0.entry(what.to_owned()).or_default();
        let of_all = |line: &str| line.starts_with("-----") || line.starts_with(OPENSSH_KEY_PREFIX);
        let lines = secret
            .lines()
            .filter(|line| line.len() > 20 && !of_all(line));
        for text in std::iter::once(secret).chain(lines) {
            shapes.extend([text.to_owned(), text.replace('\n', "\\n")]);
            shapes.extend(encoded(text));
        }
    }

    /// Descriptions of the secrets in these bytes.
    #[must_use]
    pub fn within(&self, bytes: &[u8]) -> Vec<&str> {
        let text = String::from_utf8_lossy(bytes);
        let found = self
            .0
            .iter()
            .filter(|(_, shapes)| shapes.iter().any(|one| text.contains(one)));
        found.map(|(what, _)| what.as_str()).collect()
    }

    /// The files below these folders that contain a secret; folders named in `past` are skipped.
    #[must_use]
    pub fn files(&self, folders: &[PathBuf], past: &[&str]) -> Vec<String> {
        let mut search = Command::new("grep");
        search
            .env("LC_ALL", "C")
            .args(["-rlaF", "--devices=skip", "-f", "-"]);
        search.args(past.iter().map(|name| format!("--exclude-dir={name}")));
        search
            .arg("--")
            .args(folders.iter().filter(|folder| folder.exists()));
        search
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = search.spawn().unwrap();
        // Multi-line encodings are skipped: their lines are searched anyway.
        let shapes = self
            .0
            .values()
            .flatten()
            .filter(|shape| !shape.contains('\n'));
        let mut patterns = shapes.map(String::as_str).collect::<Vec<_>>().join("\n");
        patterns.push('\n');
        child
            .stdin
            .take()
            .unwrap()
            .write_all(patterns.as_bytes())
            .unwrap();
        let found = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&found.stdout)
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

/// Base64 of `text` at each of the three offsets, without the characters that depend on adjacent bytes.
fn encoded(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for before in 0..3 {
        let padded = [&vec![0; before][..], text.as_bytes()].concat();
        // The last group only as far as it is complete.
        let full = padded.len() / 3 * 4;
        let from = [0, 2, 3][before];
        for engine in [&STANDARD, &URL_SAFE] {
            all.push(engine.encode(&padded)[from..full].to_owned());
        }
    }
    all
}

/// Distinct command lines and environments of processes.
#[derive(Debug, Default)]
pub struct Processes(BTreeSet<Vec<u8>>);

impl Processes {
    /// Adds every process of this machine, including those of hosts that are namespaces.
    pub fn look(&mut self) {
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let of_process = process.file_name().to_string_lossy().parse::<u32>().is_ok();
            for file in ["cmdline", "environ"].into_iter().filter(|_| of_process) {
                // The process may have ended.
                self.0.extend(std::fs::read(process.path().join(file)));
            }
        }
    }

    /// Whether any command line or environment contains `part`.
    #[must_use]
    pub fn saw(&self, part: &str) -> bool {
        self.0
            .iter()
            .any(|one| String::from_utf8_lossy(one).contains(part))
    }

    /// Processes with a secret, and its description.
    #[must_use]
    pub fn with(&self, planted: &Planted) -> Vec<String> {
        let found = self.0.iter().filter_map(|one| {
            let what = planted.within(one);
            let begin: Vec<_> = one.split(|byte| *byte == 0).take(3).collect();
            let begin = String::from_utf8_lossy(&begin.join(&b' ')).into_owned();
            (!what.is_empty()).then(|| format!("{what:?} in `{begin} …`"))
        });
        found.collect()
    }
}

/// A random string that occurs nowhere else.
#[must_use]
pub fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// An OpenSSH key pair: private key, and public key as one line.
#[must_use]
pub fn key_pair(folder: &Path) -> (String, String) {
    let file = folder.join("planted-key");
    let mut make = Command::new("ssh-keygen");
    make.args(["-q", "-t", "ed25519", "-N", "", "-C", "planted", "-f"])
        .arg(&file);
    assert!(
        make.status().unwrap().success(),
        "ssh-keygen (Debian: openssh-client) makes no key"
    );
    let private = std::fs::read_to_string(&file).unwrap();
    let public = std::fs::read_to_string(file.with_extension("pub")).unwrap();
    std::fs::remove_file(file).unwrap();
    (private, public.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Planted, Processes};
    use crate::programs::until;
    use crate::testbed::LONG;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nUkV0s3cretHalfOfTheKeyQyNTUxOQ\n-----END OPENSSH PRIVATE KEY-----\n";

    fn planted() -> Planted {
        let mut planted = Planted::default();
        planted.add("password", "planted?password>1f0c");
        planted.add("key", KEY);
        planted
    }

    #[test]
    fn a_secret_is_found_in_every_encoding() {
        let planted = planted();
        for before in ["", "x", "xy", "xyz", "{\"password\":\""] {
            for after in ["", "y", "\"}"] {
                let text = format!("{before}planted?password>1f0c{after}");
                let shapes = [
                    text.clone(),
                    STANDARD.encode(&text),
                    URL_SAFE_NO_PAD.encode(&text),
                ];
                for shape in shapes {
                    assert_eq!(
                        planted.within(shape.as_bytes()),
                        ["password"],
                        "{text} as {shape}"
                    );
                }
            }
        }
        let binary = [b"\xff\x00\x80".as_slice(), KEY.as_bytes(), b"\xfe"].concat();
        assert_eq!(planted.within(&binary), ["key"]);
        assert_eq!(
            planted.within(serde_json::json!({"k": KEY}).to_string().as_bytes()),
            ["key"]
        );
        assert_eq!(
            planted.within(KEY.lines().nth(2).unwrap().as_bytes()),
            ["key"],
            "a line of it"
        );
        let of_all = planted.within(KEY.lines().nth(1).unwrap().as_bytes());
        assert_eq!(of_all, [""; 0], "the line with which each key begins");
        assert_eq!(planted.within(b"planted-password nothing else"), [""; 0]);
    }

    #[test]
    fn files_and_processes_containing_a_secret_are_listed() {
        let (planted, folder) = (planted(), tempfile::tempdir().unwrap());
        let root = [folder.path().to_owned()];
        for name in ["deep", "left-out"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            let text = STANDARD.encode("user:planted?password>1f0c");
            let bytes = [b"\0\0".as_slice(), text.as_bytes()];
            std::fs::write(folder.path().join(name).join("page"), bytes.concat()).unwrap();
        }
        std::fs::write(folder.path().join("clean"), "nothing").unwrap();
        let found = planted.files(&root, &["left-out"]);
        assert_eq!(found, [folder.path().join("deep/page").to_string_lossy()]);

        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("60").env("LET_THROUGH", "planted?password>1f0c");
        let mut child = sleep.spawn().unwrap();
        let mut seen = Processes::default();
        // The kernel shows the environment a moment after the program has begun.
        until("the process is seen", LONG, || {
            seen.look();
            seen.saw("LET_THROUGH").then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            seen.with(&planted)
                .iter()
                .any(|one| one.contains("password")),
            "{seen:?}"
        );
    }
}
