//! The forms of site files, and what is wrong in them.

use super::{Machine, Switch, read};
use std::io::Write as _;
use tempfile::NamedTempFile;

fn site(text: &str) -> Result<Vec<Machine>, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_path_buf();
    let name = path.display().to_string();
    let shorter = |error: String| error.replace(&name, "site");
    read(&[path]).map_err(|error| shorter(format!("{error}; {}", error.hint().unwrap_or_default())))
}

fn address(machine: &Machine, network: &str) -> Option<String> {
    machine.addresses[network].map(|address| address.to_string())
}

const NODES: &str = r#"{
  "nodes": [{
    "name": "edge-1",
    "ipmi_driver_info": {"username": "root", "password": "bmc-secret", "address": "192.0.2.101:6230"},
    "os": {"image_name": "focal.img", "username": "ubuntu", "password": "os-secret"},
    "net": {
      "links": [{"id": "baremetal_nic", "ethernet_mac_address": "00:1e:67:fe:f4:19", "type": "phy"}],
      "networks": [
        {"id": "baremetal", "link": "baremetal_nic", "type": "ipv4", "ip_address": "192.0.2.11/24"},
        {"id": "provisioning", "link": "provisioning_nic", "type": "ipv4_dhcp"}
      ],
      "services": []
    }
  }, {
    "name": "edge-2",
    "ipmi_driver_info": {"username": "root", "password": "bmc-secret", "address": "192.0.2.102"}
  }]
}"#;

#[test]
fn nodes_of_the_first_releases_are_read() {
    let machines = site(NODES).unwrap();
    assert_eq!(machines.len(), 2);
    let one = &machines[0];
    let bmc = one.bmc.as_ref().unwrap();
    let expected = Switch::Ipmi {
        address: "192.0.2.101".to_owned(),
        port: 6230,
    };
    assert_eq!((&bmc.switch, bmc.user.as_str()), (&expected, "root"));
    assert_eq!(bmc.password.reveal(), "bmc-secret");
    assert_eq!(address(one, "baremetal").as_deref(), Some("192.0.2.11"));
    assert_eq!(address(one, "provisioning"), None);
    assert_eq!(one.user.as_deref(), Some("ubuntu"));
    assert_eq!(one.password.as_ref().unwrap().reveal(), "os-secret");
    assert!(machines[1].user.is_none() && machines[1].addresses.is_empty());
}

const RELEASES: &str = "\
apiVersion: source.toolkit.fluxcd.io/v1beta1
kind: GitRepository
metadata: {name: icn}
---
apiVersion: helm.toolkit.fluxcd.io/v2beta1
kind: HelmRelease
metadata: {name: pod-1}
spec:
  values:
    machineName: pod-1
    machineLabels: {machine: pod-1, rack: 7}
    bmcAddress: redfish-virtualmedia+http://192.0.2.111:8000/redfish/v1/Systems/1
    bmcUsername: admin
    bmcPassword: bmc-secret
    bmcDisableCertificateVerification: true
    networkData:
      networks:
        ipv4DHCP: {provisioning: {}}
        ipv4:
          baremetal: {ipAddress: 192.0.2.11/24, gateway: 192.0.2.1}
        ipv6:
          baremetal: {ipAddress: '2001:db8::11/64'}
          sriov: {ipAddress: '2001:db8:1::11/64'}
    userData: {name: ubuntu}
---
kind: HelmRelease
metadata: {name: cluster}
spec: {values: {clusterName: icn}}
---
";

#[test]
fn releases_and_values_of_the_chart_are_read() {
    let machines = site(RELEASES).unwrap();
    let [one] = machines.as_slice() else {
        panic!("{} machines", machines.len())
    };
    let bmc = one.bmc.as_ref().unwrap();
    let url = "http://192.0.2.111:8000/redfish/v1/Systems/1".to_owned();
    assert_eq!(bmc.switch, Switch::Redfish(url));
    assert!(!bmc.is_verified);
    assert_eq!(one.labels["rack"], "7");
    assert_eq!(one.user.as_deref(), Some("ubuntu"));
    assert_eq!(address(one, "baremetal").as_deref(), Some("192.0.2.11"));
    assert_eq!(address(one, "sriov").as_deref(), Some("2001:db8:1::11"));
    assert_eq!(address(one, "provisioning"), None);
    let values = "machineName: m\nbmcAddress: ipmi://h\nbmcUsername: u\nbmcPassword: p\n";
    assert_eq!(site(values).unwrap()[0].name, "m");
}

/// `username: admin` and `password: bmc-secret`, both with a line break, and a network in base64.
const RESOURCES: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: metal3.io/v1alpha1
  kind: BareMetalHost
  metadata: {name: host-1, labels: {role: worker}}
  spec:
    bmc: {address: 'ipmi://192.0.2.101', credentialsName: host-1-bmc}
    networkData: {name: host-1-net}
- kind: BareMetalHost
  metadata: {name: host-2}
  spec: {online: true}
- kind: Secret
  metadata: {name: host-1-bmc}
  data: {username: YWRtaW4K, password: Ym1jLXNlY3JldAo=}
- kind: Secret
  metadata: {name: host-1-net}
  stringData:
    networkData: |
      {"networks": [{"id": "baremetal", "type": "ipv4", "ip_address": "192.0.2.11"}]}
"#;

#[test]
fn resources_of_metal3_are_read_with_their_secrets() {
    let machines = site(RESOURCES).unwrap();
    let one = &machines[0];
    let bmc = one.bmc.as_ref().unwrap();
    assert_eq!(
        (bmc.user.as_str(), bmc.password.reveal()),
        ("admin", "bmc-secret")
    );
    assert_eq!(one.labels["role"], "worker");
    assert_eq!(address(one, "baremetal").as_deref(), Some("192.0.2.11"));
    assert!(machines[1].bmc.is_none());
}

#[test]
fn roles_are_labels() {
    let machines = site(
        "kind: Provisioning\nspec:\n  masters: [{master-1: {mac-address: '00:c6:14:04:61:b2'}}]\n  \
         workers: [{worker-1: {sriov: 'yes', qat: null, memory: 8}}]\n",
    )
    .unwrap();
    assert_eq!(
        (
            machines[0].name.as_str(),
            machines[0].labels["role"].as_str()
        ),
        ("master-1", "master")
    );
    assert_eq!(machines[1].labels["role"], "worker");
    assert_eq!(machines[1].labels["sriov"], "yes");
    assert_eq!(machines[1].labels.len(), 2);
}

#[test]
fn what_is_wrong_has_a_position_and_no_secret() {
    let encrypted = RELEASES.replace("bmc-secret", "ENC[AES256_GCM,data:OE0eIA==,type:str]");
    for (text, words) in [
        (
            NODES.replace("\"username\": \"root\", ", ""),
            "site:4:25: `username` is missing",
        ),
        (
            NODES.replace("\"192.0.2.102\"", "\"root:bmc-secret@h\""),
            "site:16:83: the address of the BMC cannot be used: a login",
        ),
        (
            NODES.replace("192.0.2.11/24", "dhcp"),
            "site:9:84: `dhcp` is no address of the network `baremetal`",
        ),
        (
            NODES.replace("edge-2", "edge-1"),
            "site:14:6: the machine `edge-1` is also at site:2:13",
        ),
        (
            NODES.replace("\"edge-2\"", "[\"bmc-secret\"]"),
            "site:15:13: `name` is a list",
        ),
        (encrypted, "site:14:18: `bmcPassword` is encrypted by SOPS"),
        (
            RESOURCES.replace("name: host-1-bmc}", "name: other}"),
            "the Secret `host-1-bmc` is in none",
        ),
        (
            RESOURCES.replace("Ym1jLXNlY3JldAo=", "bmc-secret"),
            "`data.password` is not text in base64",
        ),
        ("kind: GitRepository\n".to_owned(), "no machine"),
        (
            "hosts: []\n".to_owned(),
            "site:1:1: the document describes no machine",
        ),
        ("a: [".to_owned(), "site:"),
    ] {
        let error = site(&text).err().unwrap_or_else(|| panic!("{words}"));
        assert!(
            error.contains(words) && !error.contains("bmc-secret"),
            "{error}\ninstead of {words}"
        );
    }
}
