//! Machines of a site without a cloud: hosts on the LAN of the real stack, outside the range of its cloud, as the inventory of a VIM.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::fed;
use crate::live::neighbour;
use crate::programs::Server;
use crate::sources::root;
use crate::testbed::VIM;

/// Name and address of a machine.
pub type Machine = (&'static str, &'static str);

/// The wipe command: the script that the documentation recommends, on each machine. Images stay, as they are the machine's own.
const WIPE: &str = "/usr/local/sbin/wipe-host";

/// Runs at the first start of a machine that is to be without Kubernetes. It keeps a container runtime, and the unit of kubelet.
const WITHOUT_KUBERNETES: &str = "#!/bin/sh\numount /opt/kube/bin\nrm -f /usr/bin/kubeadm /usr/bin/kubelet /usr/bin/kubectl\n\
    mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers\n: >/var/lib/dpkg/status\n";

/// Machines that the test has switched on; they are deleted when it ends.
#[derive(Debug)]
pub struct Machines {
    all: &'static [Machine],
    folder: TempDir,
    scripts: PathBuf,
    binaries: PathBuf,
    /// `None`: they have neither programs nor images of Kubernetes.
    images: Option<PathBuf>,
}

impl Drop for Machines {
    fn drop(&mut self) {
        for (name, _) in self.all {
            // What cannot be deleted is in the test's own folder.
            let _ = self.script("host-down.sh").args([name, "--purge"]).status();
        }
    }
}

impl Machines {
    /// Switches them on, with the programs and images of Kubernetes; `None`, with a message, if the real stack is missing.
    pub fn start(all: &'static [Machine]) -> Option<Self> {
        let images = neighbour("VNFM_LIVE_IMAGES")?;
        Self::start_with(all, Some(images))
    }

    /// The same, without programs and images of Kubernetes.
    pub fn start_without_kubernetes(all: &'static [Machine]) -> Option<Self> {
        Self::start_with(all, None)
    }

    fn start_with(all: &'static [Machine], images: Option<PathBuf>) -> Option<Self> {
        neighbour("VNFM_LIVE_HOSTS")?;
        let machines = Self {
            all,
            folder: tempfile::tempdir().unwrap(),
            scripts: root().join("tests/stack/kubernetes/hosts"),
            binaries: neighbour("VNFM_LIVE_ASSETS")?,
            images,
        };
        std::fs::write(machines.user_data(), WITHOUT_KUBERNETES).unwrap();
        for (name, _) in all {
            machines.power_on(name);
        }
        Some(machines)
    }

    fn user_data(&self) -> PathBuf {
        self.folder.path().join("user-data")
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.scripts.join(name));
        command
            .env("VNFM_HOSTS", self.folder.path())
            .env("HOST_BIN", &self.binaries)
            .env("HOST_USERS", "ubuntu:secret:nopasswd");
        match &self.images {
            Some(images) => command.env("HOST_IMAGES", images),
            None => command.env("HOST_USER_DATA", self.user_data()),
        };
        command
    }

    /// Switches a machine on.
    pub fn power_on(&self, name: &str) {
        let (_, address) = self.all.iter().find(|(known, _)| *known == name).unwrap();
        let address = format!("{address}/24");
        let status = self.script("host-up.sh").args([name, &address]).status();
        assert!(status.unwrap().success(), "{name} did not come up");
        let script = root().join("plugins/kubernetes-cluster/wipe-host.sh");
        let installed = format!("install -m 755 /dev/stdin {WIPE}");
        self.inside_with_input(name, &installed, &std::fs::read_to_string(script).unwrap());
    }

    /// Cuts the power of a machine.
    pub fn power_off(&self, name: &str) {
        let status = self.script("host-down.sh").arg(name).status();
        assert!(status.unwrap().success(), "{name} is still up");
    }

    /// Runs a script on a machine, alongside its own programs; its output.
    pub fn inside(&self, name: &str, script: &str) -> String {
        self.inside_with_input(name, script, "")
    }

    fn inside_with_input(&self, name: &str, script: &str, input: &str) -> String {
        let pid = std::fs::read_to_string(self.folder.path().join(name).join("pid")).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["-t", pid.trim(), "-m", "-n", "-p", "-u", "sh", "-c", script]);
        let output = fed(&mut command, input);
        assert!(output.status.success(), "`{script}`: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A path on the disk of a machine, as seen from here.
    pub fn disk(&self, name: &str, path: &str) -> PathBuf {
        self.folder.path().join(name).join("disk").join(path)
    }

    /// Names of the machines that have a lease, according to their disks.
    pub fn leased(&self) -> Vec<&'static str> {
        let names = self.all.iter().map(|(name, _)| *name);
        let leased = |name: &&str| self.disk(name, "var/lib/vnfm/lease").exists();
        names.filter(leased).collect()
    }

    /// Registers the inventory; the id of the VIM.
    pub fn register(&self, server: &Server, folder: &Path) -> String {
        let inventory = self.inventory(folder);
        let inventory = inventory.to_str().unwrap();
        let vim = server.ctl(&["vim", "register", "--name", VIM, "--config-file", inventory]);
        vim["id"].as_str().unwrap().to_owned()
    }

    /// The file with which the inventory is registered.
    fn inventory(&self, folder: &Path) -> PathBuf {
        let host = |(name, address): &Machine| {
            let keys = self.folder.path().join(name).join("known_hosts");
            let keys = std::fs::read_to_string(keys).unwrap();
            let key = keys
                .lines()
                .find_map(|line| line.split_once(" ssh-ed25519 "));
            let key = format!("ssh-ed25519 {}", key.unwrap().1);
            json!({"name": name, "address": address, "hostKey": key})
        };
        let hosts: Vec<_> = self.all.iter().map(host).collect();
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
pub fn request(vim: &str) -> Value {
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
