//! Simulated hosts: one sshd per server, a shell over a file system in memory, and the programs of a Kubernetes node.
//!
//! | file | content |
//! |---|---|
//! | `host.rs`, `disk.rs` | a machine: settings, power, console; its files |
//! | `sshd.rs` | logins, commands, jumps, over the real protocol |
//! | `run.rs`, `shell.rs`, `shell_syntax.rs` | runs a command line: words, quotes, variables, `&&`, pipes, redirections |
//! | `programs.rs`, `file_programs.rs` | the small programs: `cat`, `test`, `sysctl`, `systemctl` … |
//! | `step.rs` | `vnfm-step`, the step runner that drivers install on a host |
//! | `kubeadm.rs`, `kubectl.rs` | creating, joining and operating a cluster |
//! | `upgrade.rs` | its upgrade and its certificates; `vnfm-kubernetes`, the script for both |
//! | `ca.rs` | `vnfm-ca`, the script for the rotation of the CA |
//! | `manifests.rs` | its static pods, and the version of its etcd |
//! | `etcd.rs` | `vnfm-etcd`, the script for snapshots |
//! | `software.rs` | `vnfm-software`, the script for software of nodes |
//! | `lease.rs` | `vnfm-lease`, the script for the leases of bare hosts |
//! | `control_plane.rs`, `members.rs` | control planes of several nodes; the members of etcd, and what their loss means |
//!
//! Logged calls: `ssh.login`, `ssh.run` (subject `host: command`), and `host.exec` (subject
//! `host: argv`) for every program, including detached ones. Faults apply to the same names, and to
//! `ssh.connect` (cut at once) and `ssh.key` (another host key is shown; subject of both: the host's name); a fault
//! on `host.packages` (subject: the host's name) boots a host without the Kubernetes programs, one on
//! `host.repository` with a repository that has them. The clusters
//! themselves are served by `kubernetes/`.

mod ca;
mod control_plane;
mod disk;
mod etcd;
mod file_programs;
mod host;
mod joining;
mod kubeadm;
mod kubectl;
mod lease;
mod manifests;
mod member;
mod members;
mod programs;
mod run;
mod shell;
mod shell_syntax;
mod software;
mod sshd;
mod stdio;
mod step;
#[cfg(test)]
mod tests;
mod upgrade;

use crate::faults::Faults;
use crate::kubernetes::Clusters;
use crate::ledger::{Entry, Ledger};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host::Host;
use host::Network;
pub use host::{HostSpec, User};
use std::sync::{Arc, Mutex};

/// All hosts of a world.
pub struct Hosts {
    lan: Arc<Network>,
}

impl Hosts {
    /// Starts without hosts; each will listen on `ssh_port` of its own address.
    pub fn new(
        books: Arc<Ledger>,
        faults: Arc<Faults>,
        clusters: Arc<Clusters>,
        ssh_port: u16,
    ) -> Self {
        let (planes, members, hosts) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self {
            lan: Arc::new(Network {
                books,
                faults,
                clusters,
                ssh_port,
                planes,
                members,
                hosts,
            }),
        }
    }

    /// Adds a machine to the inventory before it boots; it stays there until it is destroyed.
    pub(crate) fn add_to_inventory(&self, spec: &HostSpec) {
        self.lan.books.add_entry(Entry {
            kind: "host".into(),
            id: spec.server_id.clone(),
            name: spec.name.clone(),
            seeded: false,
            detail: serde_json::json!({ "address": spec.address.to_string() }),
        });
    }

    /// Boots a machine; returns once its sshd listens.
    ///
    /// # Errors
    ///
    /// If the address and port cannot be bound.
    pub async fn boot(&self, spec: HostSpec) -> anyhow::Result<()> {
        let host = Arc::new(Host::new(spec, self.lan.clone()));
        sshd::power_on(&host).await?;
        let spec = host.spec();
        self.add_to_inventory(spec);
        let replaced = self
            .lan
            .hosts()
            .insert(spec.server_id.clone(), host.clone());
        if let Some(old) = replaced {
            old.power_off();
        }
        Ok(())
    }

    /// Deletes a machine, its disk and the cluster whose control plane it runs. A worker node on it goes silent.
    pub async fn destroy(&self, server_id: &str) {
        let host = self.lan.hosts().remove(server_id);
        if let Some(host) = host {
            host.power_off();
            host.port_released().await;
            host.lose_control_plane().await;
            host.set_node_served(false);
        }
        self.lan.books.remove_entry("host", server_id);
    }

    /// Powers a machine off; its disk stays. A node on it is silent until power-on.
    pub fn power_off(&self, server_id: &str) {
        if let Some(host) = self.host(server_id) {
            host.power_off();
            host.set_node_served(false);
            self.lan.update_quorum(None);
        }
    }

    /// Powers a machine on again.
    ///
    /// # Errors
    ///
    /// If the address and port cannot be bound, or the machine does not exist.
    pub async fn power_on(&self, server_id: &str) -> anyhow::Result<()> {
        let host = self.host(server_id);
        let host = host.ok_or_else(|| anyhow::anyhow!("server `{server_id}` has no host"))?;
        sshd::power_on(&host).await?;
        host.set_node_served(true);
        self.lan.update_quorum(None);
        Ok(())
    }

    /// Powers off every machine, when the world stops.
    pub fn stop(&self) {
        let hosts: Vec<_> = self.lan.hosts().values().cloned().collect();
        for host in hosts {
            host.power_off();
        }
    }

    /// Server ids of the machines that are powered on.
    pub fn running(&self) -> Vec<String> {
        let hosts = self.lan.hosts();
        hosts
            .iter()
            .filter(|(_, host)| host.is_on())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// The names of the members of etcd in the cluster whose control plane a machine runs, sorted, for checkers.
    pub fn etcd_members(&self, server_id: &str) -> Vec<String> {
        self.host(server_id)
            .map(|host| members::names(&host))
            .unwrap_or_default()
    }

    /// A machine's console output, including the SSH host keys that cloud-init prints.
    pub fn console_log(&self, server_id: &str) -> String {
        self.host(server_id)
            .map(|host| host.console())
            .unwrap_or_default()
    }

    /// A file on a machine's disk, for checkers.
    pub fn file(&self, server_id: &str, path: &str) -> Option<Vec<u8>> {
        self.host(server_id)?.disk().read(path)
    }

    /// Writes a file on a machine's disk, as somebody who logs in can.
    pub fn write_file(&self, server_id: &str, path: &str, content: impl Into<Vec<u8>>) {
        if let Some(host) = self.host(server_id) {
            host.disk().write(path, content, 0o600);
        }
    }

    /// Deletes a file or folder of a machine's disk.
    pub fn remove_file(&self, server_id: &str, path: &str) {
        if let Some(host) = self.host(server_id) {
            host.disk().remove(path);
        }
    }

    /// Sets how many seconds the clock of a machine is ahead of the world's; below 0: behind.
    pub fn set_clock(&self, server_id: &str, ahead: i64) {
        self.write_file(server_id, programs::CLOCK_OFFSET, ahead.to_string());
    }

    /// Lets the certificates of kubeadm on a machine expire: kubectl gets no response there until they are renewed.
    pub fn expire_certificates(&self, server_id: &str) {
        if let Some(host) = self.host(server_id) {
            upgrade::expire_certificates(&host);
        }
    }

    /// Paths of all files on a machine's disk, for checkers.
    pub fn files(&self, server_id: &str) -> Vec<String> {
        self.host(server_id)
            .map(|host| host.disk().paths())
            .unwrap_or_default()
    }

    /// Every file on every disk, for checkers: the host's name, the path, the content in base64.
    pub fn all_files(&self) -> Vec<serde_json::Value> {
        let hosts: Vec<_> = self.lan.hosts().values().cloned().collect();
        let of_host = |host: Arc<Host>| {
            let disk = host.disk();
            let files = disk.paths().into_iter().filter_map(|path| {
                let content = STANDARD.encode(disk.read(&path)?);
                Some(serde_json::json!({ "host": host.spec().name, "path": path, "content": content }))
            });
            files.collect::<Vec<_>>()
        };
        hosts.into_iter().flat_map(of_host).collect()
    }

    fn host(&self, server_id: &str) -> Option<Arc<Host>> {
        self.lan.hosts().get(server_id).cloned()
    }
}
