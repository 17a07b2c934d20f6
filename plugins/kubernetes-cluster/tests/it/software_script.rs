//! `vnfm-software` itself, in the machine's own shell; the simulated hosts only imitate it.

use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const SCRIPT: &str = include_str!("../../src/vnfm-software.sh");
const SOFTWARE: &str = "var/lib/vnfm/software";

/// A folder as the root of a host.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Root {
    fn new() -> Self {
        let root =
            Self(std::env::temp_dir().join(format!("vnfm-software-{}", uuid::Uuid::new_v4())));
        let script = ["/var/lib/vnfm", "/usr/local/bin"]
            .iter()
            .fold(SCRIPT.to_owned(), |text, path| {
                text.replace(path, &format!("{}{path}", root.0.display()))
            });
        root.write("vnfm-software", script.as_bytes(), 0o600);
        root
    }

    fn write(&self, name: &str, content: &[u8], mode: u32) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
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
        self.write(&format!("{folder}/artifact/{file}"), content, 0o600);
        if let Some(script) = script {
            self.write(&format!("{folder}/installer"), script.as_bytes(), 0o700);
            sums += &sum(script.as_bytes(), "installer");
        }
        self.write(&format!("{folder}/sums"), sums.as_bytes(), 0o600);
        sums
    }

    fn run(&self, words: &[&str]) -> Output {
        let script = self.0.join("vnfm-software");
        Command::new("sh").arg(script).args(words).output().unwrap()
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
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
    let root = Root::new();
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
    let mode = std::fs::metadata(root.0.join("usr/local/bin/agent"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let folder = std::fs::metadata(root.0.join(SOFTWARE))
        .unwrap()
        .permissions()
        .mode();
    assert!(folder & 0o700 == 0o700);
    let record = std::fs::metadata(root.0.join(format!("{SOFTWARE}/agent/.installed"))).unwrap();
    assert_eq!(record.permissions().mode() & 0o777, 0o600, "for root alone");
    let versions =
        ["1.0", "1.1", "1.2"].map(|version| root.has(&format!("{SOFTWARE}/agent/{version}")));
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
    let root = Root::new();
    let notes = root.0.join("notes");
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
    let root = Root::new();
    root.write(
        "content/install.sh",
        format!("cp data {}/copy\n", root.0.display()).as_bytes(),
        0o644,
    );
    root.write("content/data", b"of the archive", 0o644);
    let packed = Command::new("tar")
        .args(["-czf", "-", "-C"])
        .arg(root.0.join("content"))
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
    let root = Root::new();
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
    let root = Root::new();
    root.provide("1.0", ("agent", b"whole"), None);
    root.write(
        &format!("{SOFTWARE}/agent/1.0/artifact/agent"),
        b"half",
        0o600,
    );
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
    assert!(!root.has("usr/local/bin/agent"));
    assert_eq!(root.ok(&["list"]), "");
}
