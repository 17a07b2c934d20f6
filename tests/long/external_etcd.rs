//! VNF-A with three control-plane nodes whose data are in a real etcd outside of the VNF, with TLS and a login: two of the three lose
//! power, the API server is served all the same, and both are healed in one operation.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::host::Host;
use vnfm_tests::live::neighbour;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;

use crate::control_planes::{begin_with, completes, end, is_served};

/// The address of this machine on the hosts' network.
const HERE: &str = "10.77.0.1";

/// An etcd of one member, ended on drop.
struct Etcd {
    process: Child,
    folder: tempfile::TempDir,
    url: String,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    fn start(programs: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        let free = || {
            let listener = std::net::TcpListener::bind((HERE, 0)).unwrap();
            listener.local_addr().unwrap().port()
        };
        let (url, peers) = (
            format!("https://{HERE}:{}", free()),
            format!("http://{HERE}:{}", free()),
        );
        let file = |name: &str| folder.path().join(name).display().to_string();
        let arguments = [
            ("--name", "outside".to_owned()),
            ("--data-dir", file("data")),
            ("--listen-client-urls", url.clone()),
            ("--advertise-client-urls", url.clone()),
            ("--listen-peer-urls", peers.clone()),
            ("--initial-advertise-peer-urls", peers.clone()),
            ("--initial-cluster", format!("outside={peers}")),
            ("--cert-file", file("server.crt")),
            ("--key-file", file("server.key")),
            ("--trusted-ca-file", file("ca.crt")),
        ];
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(programs.join("etcd"));
        for (name, value) in arguments {
            command.arg(name).arg(value);
        }
        let process = command.arg("--client-cert-auth").stderr(log).spawn();
        Self {
            process: process.unwrap(),
            folder,
            url,
        }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// The parameter that names it.
    fn parameter(&self) -> Value {
        json!({
            "endpoints": [self.url],
            "ca": self.text("ca.crt"), "certificate": self.text("client.crt"), "private_key": self.text("client.key"),
        })
    }

    /// The keys that begin with this, as `etcdctl` prints them.
    fn keys(&self, programs: &Path, prefix: &str) -> String {
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(programs.join("etcdctl"));
        command.arg(format!("--endpoints={}", self.url));
        for (flag, name) in [
            ("cacert", "ca.crt"),
            ("cert", "client.crt"),
            ("key", "client.key"),
        ] {
            command.arg(format!("--{flag}={}", file(name).display()));
        }
        let output = command
            .args(["get", "--prefix", "--keys-only", prefix])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

fn named(name: &str, addresses: Vec<String>) -> CertificateParams {
    let mut wanted = CertificateParams::new(addresses).unwrap();
    wanted.distinguished_name.push(DnType::CommonName, name);
    wanted
}

/// A CA, and certificates of the server and of its clients.
fn write_certificates(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let mut ca = named("ca of etcd", Vec::new());
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    write("ca.crt", ca.pem());
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let wanted = named(name, vec![HERE.to_owned()]);
        let certificate = wanted.signed_by(&key, &ca).unwrap();
        write(&format!("{name}.crt"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn with_an_external_etcd_one_of_three_control_planes_is_enough() {
    let Some(real) = Real::find() else { return };
    let Some(programs) = neighbour("VNFM_LIVE_ASSETS") else {
        return;
    };
    let etcd = Etcd::start(&programs);
    let testbed = real.testbed();
    begin_with(&testbed, |installation| {
        installation["external_etcd"] = etcd.parameter();
    });
    let pods = |inside: &ClusterShell| {
        inside
            .kubectl("-n kube-system get pods -l component=etcd -o name")
            .unwrap()
    };
    assert_eq!(pods(&ClusterShell::connect(&testbed)), "");
    let keys = etcd.keys(&programs, "/");
    assert!(
        keys.contains("/pods/kube-system/kube-apiserver-masternode-0"),
        "{keys}"
    );
    assert!(
        keys.lines()
            .all(|key| key.is_empty() || key.starts_with("/vnfm/")),
        "{keys}"
    );

    let all = vnfcs(&testbed);
    let dead = ["masterNode-1", "masterNode-2"];
    for name in dead {
        Host::new(&real, &name.to_lowercase()).command("power-off");
    }
    until("one control plane serves", Duration::from_mins(1), || {
        is_served().then_some(())
    });
    let ids: Vec<&str> = dead.iter().map(|name| all[*name].id.as_str()).collect();
    let took = completes(&testbed, &testbed.heal(&ids, &[]));
    println!("both healed in {:.1} s", took.as_secs_f64());
    testbed.assert_a_up(5);
    let inside = ClusterShell::connect(&testbed);
    assert_eq!(inside.nodes().len(), 5);
    assert_eq!(pods(&inside), "");
    inside.assert_b_recorded(&testbed, 2);
    end(&real, &testbed);
}
