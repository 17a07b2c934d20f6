//! `vnfm-ca` itself, in the machine's own shell with its own openssl: a node that an earlier rotation, which was given up, has
//! left with two CAs.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = include_str!("../../src/vnfm-ca.sh");
const KUBELET: &str = "var/lib/kubelet/pki/kubelet-client-current.pem";

/// A folder as the root of a worker, and three CAs.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Root {
    fn new() -> Self {
        let root = Self(std::env::temp_dir().join(format!("vnfm-ca-{}", uuid::Uuid::new_v4())));
        root.write(
            "etc/kubernetes/kubelet.conf",
            "certificate-authority-data: x\n",
        );
        root.write("bin/systemctl", "#!/bin/sh\n");
        let systemctl = root.path("bin/systemctl");
        std::fs::set_permissions(systemctl, PermissionsExt::from_mode(0o755)).unwrap();
        let script = ["/etc/kubernetes", "/var/lib/kubelet"]
            .iter()
            .fold(SCRIPT.to_owned(), |text, path| {
                text.replace(path, &format!("{}{path}", root.0.display()))
            });
        root.write("vnfm-ca", &script);
        for ca in ["first", "second", "third"] {
            let make = format!(
                "openssl req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -subj /CN={ca} -days 30"
            );
            root.shell(&make);
        }
        root.shell("cp first.crt etc/kubernetes/pki/ca.crt");
        root.sign_kubelet("first");
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn shell(&self, line: &str) -> String {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let line = format!("mkdir -p etc/kubernetes/pki var/lib/kubelet/pki && {line}");
        let mut command = Command::new("sh");
        let output = command.args(["-c", &line]).current_dir(&self.0);
        let output = output.env("PATH", path).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The kubelet gets a client certificate by this CA.
    fn sign_kubelet(&self, ca: &str) {
        self.shell(&format!(
            "openssl req -newkey rsa:2048 -nodes -keyout k.key -out k.csr -subj /CN=system:node:w1 && \
             openssl x509 -req -in k.csr -CA {ca}.crt -CAkey {ca}.key -CAcreateserial -out {KUBELET} -days 30"
        ));
    }

    fn ca(&self, words: &str) {
        self.shell(&format!("sh ./vnfm-ca {words}"));
    }

    /// The names of the CAs that the node trusts, in the order of the file.
    fn trusted(&self) -> String {
        let subjects = self.shell(
            "openssl crl2pkcs7 -nocrl -certfile etc/kubernetes/pki/ca.crt | openssl pkcs7 -print_certs -noout",
        );
        let names = subjects.lines().filter_map(|line| {
            let name = line.strip_prefix("subject=")?.trim();
            Some(
                name.trim_start_matches("CN")
                    .trim_start_matches([' ', '='])
                    .to_owned(),
            )
        });
        names.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_rotation_ends_in_the_new_ca_alone() {
    let root = Root::new();
    for _ in 0..2 {
        root.ca("trust second.crt");
        assert_eq!(root.trusted(), "first second");
    }
    root.sign_kubelet("second");
    root.ca("keep new");
    assert_eq!(root.trusted(), "second");
}

/// All others have ended the rotation to the second CA, and now there is one to the third.
#[test]
fn a_node_that_a_rotation_has_missed_keeps_the_ca_of_its_kubelet_in_the_next() {
    for (kubelet, trusted) in [("second", "second third"), ("first", "first third")] {
        let root = Root::new();
        root.ca("trust second.crt");
        root.sign_kubelet(kubelet);
        for _ in 0..2 {
            root.ca("trust third.crt");
            assert_eq!(root.trusted(), trusted);
        }
        root.ca("keep old");
        assert_eq!(root.trusted(), kubelet, "the next one can be taken back");
    }
}
