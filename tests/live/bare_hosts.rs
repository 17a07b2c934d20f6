//! VNF-A on real hosts without a cloud: an inventory as its VIM, a Kubernetes cluster on leased hosts, a crash, a dead host.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::live::neighbour;
use vnfm_tests::programs::{Server, until};
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{LONG, Testbed, VIM, VNF_A};

/// Hosts on the LAN of the real stack, outside the range of its cloud.
const HOSTS: [(&str, &str); 4] = [
    ("bare-1", "10.77.0.241"),
    ("bare-2", "10.77.0.242"),
    ("bare-3", "10.77.0.243"),
    ("bare-4", "10.77.0.244"),
];

/// Removes the node from the host; the next VNFC finds it as it was.
const WIPE: &str = "kubeadm reset --force >/dev/null 2>&1; \
    rm -rf /etc/kubernetes /var/lib/etcd /etc/cni/net.d /root/.kube /home/ubuntu/.kube /run/vnfm";

/// Machines that the test has switched on; they are deleted when it ends.
struct Machines {
    folder: TempDir,
    scripts: PathBuf,
    binaries: PathBuf,
    images: PathBuf,
}

impl Drop for Machines {
    fn drop(&mut self) {
        for (name, _) in HOSTS {
            // What cannot be deleted is in the test's own folder.
            let _ = self.script("host-down.sh").args([name, "--purge"]).status();
        }
    }
}

impl Machines {
    /// Switches them on; `None`, with a message, if the real stack is missing.
    fn start() -> Option<Self> {
        neighbour("VNFM_LIVE_HOSTS")?;
        let machines = Self {
            folder: tempfile::tempdir().unwrap(),
            scripts: root().join("tests/stack/kubernetes/hosts"),
            binaries: neighbour("VNFM_LIVE_ASSETS")?,
            images: neighbour("VNFM_LIVE_IMAGES")?,
        };
        for (name, _) in HOSTS {
            machines.power_on(name);
        }
        Some(machines)
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.scripts.join(name));
        command
            .env("VNFM_HOSTS", self.folder.path())
            .env("HOST_BIN", &self.binaries)
            .env("HOST_IMAGES", &self.images)
            .env("HOST_USERS", "ubuntu:secret:nopasswd");
        command
    }

    fn power_on(&self, name: &str) {
        let (_, address) = HOSTS.iter().find(|(known, _)| *known == name).unwrap();
        let address = format!("{address}/24");
        let status = self.script("host-up.sh").args([name, &address]).status();
        assert!(status.unwrap().success(), "{name} did not come up");
    }

    fn power_off(&self, name: &str) {
        let status = self.script("host-down.sh").arg(name).status();
        assert!(status.unwrap().success(), "{name} is still up");
    }

    fn disk(&self, name: &str, path: &str) -> PathBuf {
        self.folder.path().join(name).join("disk").join(path)
    }

    /// Runs a script on a host, as an administrator at its console would.
    fn console(&self, name: &str, script: &str) {
        let pid = std::fs::read_to_string(self.folder.path().join(name).join("pid")).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["-t", pid.trim(), "-m", "sh", "-ec", script]);
        assert!(command.status().unwrap().success(), "{name}: {script}");
    }

    /// Registers the inventory; the id of the VIM.
    fn register(&self, server: &Server, folder: &Path) -> String {
        let inventory = self.inventory(folder);
        let inventory = inventory.to_str().unwrap();
        let vim = server.ctl(&["vim", "register", "--name", VIM, "--config-file", inventory]);
        vim["id"].as_str().unwrap().to_owned()
    }

    /// Names of the hosts that have a lease, according to their disks.
    fn leased(&self) -> Vec<&'static str> {
        let names = HOSTS.into_iter().map(|(name, _)| name);
        let leased = |name: &&str| self.disk(name, "var/lib/vnfm/lease").exists();
        names.filter(leased).collect()
    }

    /// The file with which the inventory is registered.
    fn inventory(&self, folder: &Path) -> PathBuf {
        let host = |(name, address): &(&str, &str)| {
            let keys = self.folder.path().join(name).join("known_hosts");
            let keys = std::fs::read_to_string(keys).unwrap();
            let key = keys
                .lines()
                .find_map(|line| line.split_once(" ssh-ed25519 "));
            let key = format!("ssh-ed25519 {}", key.unwrap().1);
            json!({"name": name, "address": address, "hostKey": key})
        };
        let hosts: Vec<_> = HOSTS.iter().map(host).collect();
        let connection = json!({
            "vimType": vnfm_types::HOSTS,
            "interfaceInfo": {"hosts": hosts, "wipeCommand": WIPE},
            "accessInfo": {"username": "ubuntu", "password": "secret"},
        });
        let file = folder.join("inventory.yaml");
        std::fs::write(&file, connection.to_string()).unwrap();
        file
    }
}

/// The request of VNF-A's sample, for the inventory; any network is the hosts' own.
fn request(vim: &str) -> Value {
    let file = root().join("vnfd-samples/vnf-a-k8s-cluster/requests/instantiate.json");
    let text = std::fs::read_to_string(file).unwrap();
    let text = text
        .replace("@VIM_ID@", vim)
        .replace(vnfm_types::OPENSTACK, vnfm_types::HOSTS)
        .replace("@NETWORK_ID@", "lan")
        .replace("@CLUSTER_NAME@", "cluster")
        .replace("\"@SSH_PORT@\"", "22")
        .replace("@SSH_USER@", "ubuntu")
        .replace("@SSH_PASSWORD@", "secret");
    serde_json::from_str(&text).unwrap()
}

/// VNFCs of VNF-A with their hosts, by VDU.
fn vnfcs(testbed: &Testbed, vdu: &str) -> Vec<(String, String)> {
    let instance = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let all = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].clone();
    let all = all
        .as_array()
        .unwrap()
        .iter()
        .filter(|vnfc| vnfc["vduId"] == vdu);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|vnfc| {
        (
            text(&vnfc["id"]),
            text(&vnfc["computeResource"]["resourceId"]),
        )
    })
    .collect()
}

#[test]
fn a_cluster_on_leased_hosts_survives_a_crash_and_a_dead_host() {
    let Some(machines) = Machines::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "info");
    let vim = machines.register(&server, folder.path());
    let mut testbed = Testbed::on_registered(folder, server);
    let package = testbed.onboard("vnf-a-k8s-cluster");
    let create = ["vnf", "create", "--package", &package, "--name", VNF_A];
    testbed.server.ctl(&create);
    // What a cluster of somebody else has left on two of the four hosts, of which three are leased.
    for name in ["bare-1", "bare-2"] {
        machines.console(
            name,
            "mkdir -p /etc/kubernetes; echo >/etc/kubernetes/kubelet.conf",
        );
    }
    let op = testbed.instantiate(VNF_A, &request(&vim));
    until("a lease", LONG, || {
        (!machines.leased().is_empty()).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    let refused = testbed.server.ended(&op, LONG);
    assert_eq!(refused["operationState"], "FAILED_TEMP", "{refused:#}");
    assert_eq!(refused["error"]["code"], "other-cluster", "{refused:#}");
    for name in ["bare-1", "bare-2"] {
        machines.console(name, "rm -r /etc/kubernetes");
    }
    testbed.server.ctl(&["op", "retry", &op]);
    testbed.wait_for_state(&op, "COMPLETED");
    testbed.assert_a_up(3);
    assert_eq!(machines.leased().len(), 3);

    let (worker, dead) = vnfcs(&testbed, "workerNode").swap_remove(0);
    machines.power_off(&dead);
    testbed.wait_for_state(&testbed.heal(&[&worker], &[]), "COMPLETED");
    testbed.assert_a_up(3);
    let hosts = vnfcs(&testbed, "workerNode");
    assert!(hosts.iter().all(|(_, host)| *host != dead), "{hosts:?}");

    testbed.terminate_and_delete(VNF_A);
    assert_eq!(
        machines.leased(),
        [dead.as_str()],
        "the hosts that answer are returned"
    );
    for (name, _) in HOSTS.iter().filter(|(name, _)| *name != dead) {
        let node = machines.disk(name, "var/lib/kubelet/config.yaml");
        assert!(!node.exists(), "{name} was not wiped");
    }
    machines.power_on(&dead);
    let orphans = testbed.server.ctl(&["orphans"]);
    assert_eq!(orphans[0]["name"], dead.as_str(), "{orphans:#}");
    std::fs::remove_file(machines.disk(&dead, "var/lib/vnfm/lease")).unwrap();
    testbed.finish();
}

/// Gives a host a network interface with eight virtual functions: the kernel of the test has no driver for such a device.
const SRIOV: &str = "mkdir -p /run/net/ens1f0/device; cd /run/net/ens1f0
    echo 8 >device/sriov_totalvfs; echo 52:54:00:12:34:56 >address; mount --bind /run/net /sys/class/net";

#[test]
fn a_host_is_leased_by_the_interfaces_that_it_reports() {
    let Some(machines) = Machines::start() else {
        return;
    };
    machines.console("bare-3", SRIOV);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "info");
    let vim = machines.register(&server, folder.path());
    let testbed = Testbed::on_registered(folder, server);
    let package = testbed.onboard("vnf-bare-hosts");
    let create = ["vnf", "create", "--package", &package, "--name", VNF_A];
    testbed.server.ctl(&create);
    let file = root().join("vnfd-samples/vnf-bare-hosts/requests/instantiate.json");
    let request = std::fs::read_to_string(file).unwrap();
    let request = request.replace("@VIM_ID@", &vim);
    let request = request.replace("@NETWORK_ID@", "lan");
    let request = serde_json::from_str(&request).unwrap();
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let forwarders = vnfcs(&testbed, "forwarder");
    assert_eq!(forwarders[0].1, "bare-3", "{forwarders:?}");
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let all = &shown["instantiatedVnfInfo"]["vnfcResourceInfo"];
    let mut all = all.as_array().unwrap().iter();
    let forwarder = all.find(|vnfc| vnfc["vduId"] == "forwarder").unwrap();
    let nic = json!([{ "name": "ens1f0", "macAddress": "52:54:00:12:34:56", "sriovVfs": 8 }]);
    assert_eq!(forwarder["metadata"]["nics"], nic);

    let words = ["vnf", "scale", VNF_A, "--aspect", "forwarders", "--out"];
    let op = testbed.server.ctl(&words)["vnfLcmOpOccId"].clone();
    let op = op.as_str().unwrap();
    let refused = testbed.server.ended(op, LONG);
    let detail = refused["error"]["detail"].as_str().unwrap();
    println!("{detail}");
    assert!(detail.contains("SR-IOV"), "{refused:#}");
    testbed.server.run(&["op", "rollback", op, "--watch"]);
    testbed.terminate_and_delete(VNF_A);
    assert_eq!(machines.leased(), [""; 0]);
    testbed.finish();
}
