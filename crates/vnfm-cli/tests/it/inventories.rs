//! `vnfmctl vim inventory`: the file that it writes is private, and an inventory that the driver of bare hosts accepts.

use crate::stub::{Ended, Stub, ok, run};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vnfm::bare_hosts::BareHosts;
use vnfm::outbound::Destinations;
use vnfm::ports::InfraDriver as _;
use vnfm_types::VimConnectionInfo;

/// A site with a machine for each form, in a folder.
struct Site(TempDir);

const NODES: &str = r#"{"nodes": [{
  "name": "edge-1",
  "ipmi_driver_info": {"username": "root", "password": "planted-bmc", "address": "192.0.2.101"},
  "os": {"username": "ubuntu", "password": "planted-os"},
  "net": {"networks": [{"id": "baremetal", "type": "ipv4", "ip_address": "192.0.2.11/24"}]}
}]}"#;
const VALUES: &str = "\
machineName: edge-2
machineLabels: {role: worker}
bmcAddress: redfish+https://192.0.2.102/redfish/v1/Systems/1
bmcUsername: admin
bmcPassword: planted-redfish
bmcDisableCertificateVerification: true
networkData:
  networks:
    ipv4DHCP: {baremetal: {}}
    ipv4: {sriov: {ipAddress: 198.51.100.12/24}}
";

impl Site {
    fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        std::fs::write(site.path("nodes.json"), NODES).unwrap();
        std::fs::write(site.path("edge-2.yaml"), VALUES).unwrap();
        std::fs::write(site.path("id_ed25519"), "-----BEGIN planted-key\n").unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `vnfmctl vim inventory …`; `@name` stands for a path in the folder.
    async fn inventory(&self, line: &str) -> Ended {
        let words = format!("vim inventory --wipe-command true --out @edge.yaml {line}");
        let words = words
            .split_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name).to_str().unwrap().to_owned(),
                None => word.to_owned(),
            });
        let words: Vec<_> = words.collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ended = run(&words, "").await;
        let printed = format!("{}{}", ended.data, ended.messages);
        assert!(!printed.contains("planted"), "{printed}");
        ended
    }
}

fn written(path: &Path) -> Value {
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn files_of_a_site_become_a_private_inventory_that_can_be_registered() {
    let site = Site::new();
    let line =
        "@nodes.json @edge-2.yaml --user ops --key-file @id_ed25519 --address edge-2=192.0.2.12";
    let ended = site.inventory(line).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.messages.contains("impostor"), "{ended:?}");
    let path = site.path("edge.yaml");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let inventory = written(&path);
    let expected = json!([
        {"name": "edge-1", "address": "192.0.2.11", "addresses": {"baremetal": "192.0.2.11"},
            "ipmi": {"address": "192.0.2.101", "port": 623}},
        {"name": "edge-2", "address": "192.0.2.12", "addresses": {"sriov": "198.51.100.12"}, "labels": {"role": "worker"},
            "redfish": "https://192.0.2.102/redfish/v1/Systems/1"},
    ]);
    assert_eq!(inventory["interfaceInfo"]["hosts"], expected);
    let expected = json!({"username": "ops", "privateKey": "-----BEGIN planted-key\n", "hosts": {
        "edge-1": {"ipmiUsername": "root", "ipmiPassword": "planted-bmc"},
        "edge-2": {"redfishUsername": "admin", "redfishPassword": "planted-redfish"}}});
    assert_eq!(inventory["accessInfo"], expected);
    let connection: VimConnectionInfo = serde_json::from_value(inventory.clone()).unwrap();
    let driver = BareHosts::new(Destinations::anywhere());
    let driver = driver.with_ipmitool(env!("CARGO_BIN_EXE_vnfmctl"));
    driver.validate(&connection).unwrap();
    let stub = Stub::new([("POST /vnfm/v1/vims", ok(&json!({"id": "v-1"})))]).await;
    let file = path.to_str().unwrap();
    let ended = stub
        .run(&["vim", "register", "--name", "edge", "--config-file", file])
        .await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let sent = &stub.requests()[0].body["connection"];
    assert_eq!(sent["interfaceInfo"], inventory["interfaceInfo"]);
}

#[tokio::test]
async fn logins_of_the_operating_systems_come_from_the_file() {
    let site = Site::new();
    let ended = site.inventory("@nodes.json").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let login = &written(&site.path("edge.yaml"))["accessInfo"]["hosts"]["edge-1"];
    assert_eq!(
        (&login["username"], &login["password"]),
        (&json!("ubuntu"), &json!("planted-os"))
    );
    // A file that someone has completed stays.
    let ended = site.inventory("@nodes.json").await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.messages.contains("cannot write"), "{ended:?}");
}

#[tokio::test]
async fn what_the_files_do_not_say_is_given_by_options() {
    let site = Site::new();
    for (line, words) in [
        (
            "@edge-2.yaml --user ops --key-file @id_ed25519",
            "edge-2.yaml:1:1: the machine `edge-2` has no fixed address on the network `baremetal`",
        ),
        (
            "@edge-2.yaml --user ops --key-file @id_ed25519",
            "--address edge-2=ADDRESS`, or `--network` with a network on which it has one: `sriov`",
        ),
        (
            "@edge-2.yaml --network sriov --key-file @id_ed25519",
            "pass `--user`",
        ),
        (
            "@edge-2.yaml --network sriov --user ops",
            "pass `--key-file`",
        ),
        (
            "@nodes.json --address edge-9=192.0.2.9",
            "no machine `edge-9`",
        ),
    ] {
        let ended = site.inventory(line).await;
        assert_eq!(ended.code, 1, "{line}: {ended:?}");
        assert!(ended.messages.contains(words), "{line}: {ended:?}");
        assert!(!site.path("edge.yaml").exists());
    }
    let ended = site.inventory("@nodes.json --address edge-1").await;
    assert_eq!(ended.code, 2, "{ended:?}");
}
