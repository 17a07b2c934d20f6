//! `vnfm-ca` itself, in the machine's own shell with its own openssl: a node that an earlier rotation, which was given up, has
//! left with two CAs.

use crate::root::Root;

const SCRIPT: &str = include_str!("../../src/vnfm-ca.sh");
const KUBELET: &str = "var/lib/kubelet/pki/kubelet-client-current.pem";

/// A worker, and three CAs.
struct Worker(Root);

impl Worker {
    fn new() -> Self {
        let root = Root::new("vnfm-ca");
        root.write(
            "etc/kubernetes/kubelet.conf",
            "certificate-authority-data: x\n",
        );
        root.program("systemctl", "");
        root.script("vnfm-ca", SCRIPT, &["/etc/kubernetes", "/var/lib/kubelet"]);
        let worker = Self(root);
        worker.shell("mkdir -p etc/kubernetes/pki var/lib/kubelet/pki");
        for ca in ["first", "second", "third"] {
            worker.shell(&format!(
                "openssl req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -subj /CN={ca} -days 30"
            ));
        }
        worker.shell("cp first.crt etc/kubernetes/pki/ca.crt");
        worker.sign_kubelet("first");
        worker
    }

    fn shell(&self, line: &str) -> String {
        self.0.sh_ok(&["-c", line])
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
    let worker = Worker::new();
    for _ in 0..2 {
        worker.ca("trust second.crt");
        assert_eq!(worker.trusted(), "first second");
    }
    worker.sign_kubelet("second");
    worker.ca("keep new");
    assert_eq!(worker.trusted(), "second");
}

/// All others have ended the rotation to the second CA, and now there is one to the third.
#[test]
fn a_node_that_a_rotation_has_missed_keeps_the_ca_of_its_kubelet_in_the_next() {
    for (kubelet, trusted) in [("second", "second third"), ("first", "first third")] {
        let worker = Worker::new();
        worker.ca("trust second.crt");
        worker.sign_kubelet(kubelet);
        for _ in 0..2 {
            worker.ca("trust third.crt");
            assert_eq!(worker.trusted(), trusted);
        }
        worker.ca("keep old");
        assert_eq!(worker.trusted(), kubelet, "the next one can be taken back");
    }
}
