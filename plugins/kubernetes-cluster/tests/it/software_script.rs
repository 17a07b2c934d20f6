//! `vnfm-software` itself, in the machine's own shell; the simulated hosts only imitate it.

use crate::root::Root;
use sha2::{Digest, Sha256};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const SCRIPT: &str = include_str!("../../src/vnfm-software.sh");
const SOFTWARE: &str = "var/lib/vnfm/software";

/// A host with the script.
struct Host(Root);

impl Deref for Host {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.0
    }
}

impl Host {
    fn new() -> Self {
        let root = Root::new("vnfm-software");
        let folders = ["/var/lib/vnfm", "/usr/local/bin"];
        root.script("vnfm-software", SCRIPT, &folders);
        Self(root)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Puts the files of a version on the host, as the driver does; their list of hashes.
    fn provide(
        &self,
        version: &str,
        (file, content): (&str, &[u8]),
        script: Option<&str>,
    ) -> String {
        let folder = format!("{SOFTWARE}/agent/{version}");
        let sum = |content: &[u8], name: &str| {
            format!("{}  {name}\n", hex::encode(Sha256::digest(content)))
        };
        let mut sums = sum(content, &format!("artifact/{file}"));
        let artifact = self.path(&format!("{folder}/artifact/{file}"));
        std::fs::create_dir_all(artifact.parent().unwrap()).unwrap();
        std::fs::write(artifact, content).unwrap();
        if let Some(script) = script {
            self.write(&format!("{folder}/installer"), script);
            let installer = self.path(&format!("{folder}/installer"));
            std::fs::set_permissions(installer, PermissionsExt::from_mode(0o700)).unwrap();
            sums += &sum(script.as_bytes(), "installer");
        }
        self.write(&format!("{folder}/sums"), &sums);
        sums
    }

    fn run(&self, words: &[&str]) -> Output {
        let script = self.path("vnfm-software");
        self.sh(&[&[script.to_str().unwrap()], words].concat())
    }

    fn ok(&self, words: &[&str]) -> String {
        let script = self.path("vnfm-software");
        self.sh_ok(&[&[script.to_str().unwrap()], words].concat())
    }

    fn install(&self, version: &str) -> Output {
        self.run(&["install", "agent", version, "20", "worker", "w1"])
    }

    fn recorded(&self) -> String {
        let listed = self.ok(&["list"]);
        let words: Vec<_> = listed.split_whitespace().collect();
        [&words[..2], &words[3..]].concat().join(" ")
    }
}

#[test]
fn a_program_is_installed_and_recorded_and_the_version_before_is_kept() {
    let root = Host::new();
    assert_eq!(root.ok(&["list"]), "");
    assert_eq!(root.ok(&["sums", "agent", "1.0"]), "");
    for version in ["1.0", "1.1", "1.2"] {
        let program = format!("#!/bin/sh\necho {version}\n");
        let sums = root.provide(version, ("agent", program.as_bytes()), None);
        assert_eq!(root.ok(&["sums", "agent", version]), sums);
        let installed = root.install(version);
        assert!(installed.status.success(), "{installed:?}");
        let listed = root.ok(&["list"]);
        assert_eq!(listed, format!("agent {version} {}\n", &sums[..64]));
        assert_eq!(root.read("usr/local/bin/agent"), program);
    }
    let mode = std::fs::metadata(root.path("usr/local/bin/agent"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let folder = std::fs::metadata(root.path(SOFTWARE))
        .unwrap()
        .permissions()
        .mode();
    assert!(folder & 0o700 == 0o700);
    let record = std::fs::metadata(root.path(&format!("{SOFTWARE}/agent/.installed"))).unwrap();
    assert_eq!(record.permissions().mode() & 0o777, 0o600, "for root alone");
    let versions =
        ["1.0", "1.1", "1.2"].map(|version| root.is_there(&format!("{SOFTWARE}/agent/{version}")));
    assert_eq!(
        versions,
        [false, true, true],
        "the version before and the current one"
    );
    assert!(
        root.install("1.1").status.success(),
        "the way back needs no upload"
    );
    assert_eq!(root.recorded(), "agent 1.1");
}

#[test]
fn a_script_knows_what_it_installs_and_its_failure_is_not_recorded() {
    let root = Host::new();
    let notes = root.path("notes");
    let script = format!(
        "#!/bin/sh\necho $NAME $VERSION $ROLE $NODE_NAME \"[$PREVIOUS_VERSION]\" $(cat $ARTIFACT) $(umask) >>{}\n",
        notes.display()
    );
    root.provide("1.0", ("data.bin", b"one"), Some(&script));
    assert!(root.install("1.0").status.success());
    root.provide(
        "1.1",
        ("data.bin", b"two"),
        Some(&format!("{script}echo 'no space' >&2; exit 7\n")),
    );
    let failed = root.install("1.1");
    assert_eq!(failed.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&failed.stderr), "no space\n");
    assert_eq!(
        root.read("notes"),
        "agent 1.0 worker w1 [] one 0022\nagent 1.1 worker w1 [1.0] two 0022\n"
    );
    assert_eq!(root.recorded(), "agent 1.0 interrupted");
    assert!(root.install("1.0").status.success());
    assert_eq!(root.recorded(), "agent 1.0");
}

#[test]
fn an_archive_is_unpacked_and_its_script_runs() {
    let root = Host::new();
    let to = root.path("copy");
    root.write("content/install.sh", &format!("cp data {}\n", to.display()));
    root.write("content/data", "of the archive");
    let packed = Command::new("tar")
        .args(["-czf", "-", "-C"])
        .arg(root.path("content"))
        .arg(".")
        .output()
        .unwrap();
    root.provide("1.0", ("agent.tar.gz", &packed.stdout), None);
    let installed = root.install("1.0");
    assert!(installed.status.success(), "{installed:?}");
    assert_eq!(root.read("copy"), "of the archive");
    root.provide("1.1", ("agent.tar.gz", b"not an archive"), None);
    assert!(!root.install("1.1").status.success());
    assert_eq!(root.recorded(), "agent 1.0 interrupted");
}

#[test]
fn a_script_that_does_not_end_is_stopped_with_its_children() {
    let root = Host::new();
    root.provide(
        "1.0",
        ("agent", b"x"),
        Some("#!/bin/sh\nsleep 600 & sleep 600\n"),
    );
    let output = root.run(&["install", "agent", "1.0", "1", "worker", "w1"]);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(root.recorded(), "agent - interrupted");
}

#[test]
fn damaged_files_are_not_installed() {
    let root = Host::new();
    root.provide("1.0", ("agent", b"whole"), None);
    root.write(&format!("{SOFTWARE}/agent/1.0/artifact/agent"), "half");
    assert_eq!(
        root.ok(&["sums", "agent", "1.0"]),
        "",
        "it must be uploaded again"
    );
    for version in ["1.0", "2.0"] {
        let refused = root.install(version);
        assert_eq!(refused.status.code(), Some(3));
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            text.contains(&format!("files of agent {version}")),
            "{text}"
        );
    }
    assert!(!root.is_there("usr/local/bin/agent"));
    assert_eq!(root.ok(&["list"]), "");
}
