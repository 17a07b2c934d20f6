//! Simulated hosts: one sshd per server, a shell over a file system in memory, and the programs of a Kubernetes node.
//!
//! | file | what |
//! |---|---|
//! | `host.rs` | a machine: disk, settings, power, console |
//! | `sshd.rs` | logins, commands, jumps, over the real protocol |
//! | `shell.rs` | one command line: words, quotes, variables, `&&`, pipes, redirections |
//! | `programs.rs` | the small programs: `cat`, `test`, `sysctl`, `systemctl` … |
//! | `step.rs` | `vnfm-step`, the runner that drivers put on a host |
//! | `kubeadm.rs`, `kubectl.rs` | a cluster's beginning and its daily life |
//!
//! Calls that the books see: `ssh.login`, `ssh.run` (subject `host: command`), and `host.exec` (subject
//! `host: argv`) for every program, also those that run detached. Faults strike under the same names, and on
//! `ssh.connect` (cut at once) and `ssh.key` (another host key is shown; subject of both: the host's name); a fault
//! on `host.packages` (subject: the host's name) lets a host boot without Kubernetes' programs, one on
//! `host.repository` with a repository that has them. Not here: clusters
//! themselves, which `kubernetes/` serves.

mod file_programs;
mod host;
mod kubeadm;
mod kubectl;
mod programs;
mod shell;
mod shell_syntax;
mod sshd;
mod step;
#[cfg(test)]
mod tests;

use crate::books::{Books, Entry};
use crate::faults::Faults;
use crate::kubernetes::{Cluster, Clusters};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use host::Host;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A machine to be booted.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// The VIM's id of the server.
    pub server_id: String,
    /// Its host name.
    pub name: String,
    /// Where it listens.
    pub address: IpAddr,
    /// Who may log in.
    pub users: Vec<User>,
}

/// Somebody who may log in; everybody may use `sudo` without a password.
#[derive(Clone)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Password, where there is one.
    pub password: Option<String>,
    /// Public keys, one OpenSSH line each.
    pub authorized_keys: Vec<String>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "User({}, {} keys)",
            self.name,
            self.authorized_keys.len()
        )
    }
}

/// What all hosts of a world share.
pub(crate) struct Lan {
    pub(crate) books: Arc<Books>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) ssh_port: u16,
    /// Clusters that `kubeadm init` made, by `ADDRESS:PORT`.
    planes: Mutex<BTreeMap<String, Arc<Cluster>>>,
    hosts: Mutex<BTreeMap<String, Arc<Host>>>,
}

impl Lan {
    /// The clusters by endpoint.
    pub(crate) fn planes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cluster>>> {
        self.planes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Host>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All hosts of a world.
pub struct Hosts {
    lan: Arc<Lan>,
}

impl Hosts {
    /// No hosts yet; each will listen at `ssh_port` of its own address.
    pub fn new(
        books: Arc<Books>,
        faults: Arc<Faults>,
        clusters: Arc<Clusters>,
        ssh_port: u16,
    ) -> Self {
        let (planes, hosts) = (Mutex::default(), Mutex::default());
        Self {
            lan: Arc::new(Lan {
                books,
                faults,
                clusters,
                ssh_port,
                planes,
                hosts,
            }),
        }
    }

    /// A machine is there from when it is ordered, though nobody has switched it on: until it is destroyed.
    pub(crate) fn order(&self, spec: &HostSpec) {
        self.lan.books.enter(Entry {
            kind: "host".into(),
            id: spec.server_id.clone(),
            name: spec.name.clone(),
            seeded: false,
            detail: serde_json::json!({ "address": spec.address.to_string() }),
        });
    }

    /// Boots a machine: when it returns, its sshd answers.
    ///
    /// # Errors
    ///
    /// Where its address and port cannot be bound.
    pub async fn boot(&self, spec: HostSpec) -> anyhow::Result<()> {
        let host = Arc::new(Host::new(spec, self.lan.clone()));
        host.power_on().await?;
        let spec = host.spec();
        self.order(spec);
        let replaced = self
            .lan
            .hosts()
            .insert(spec.server_id.clone(), host.clone());
        if let Some(old) = replaced {
            old.power_off();
        }
        Ok(())
    }

    /// Deletes a machine with its disk, and the cluster whose control plane it was. A node that it was goes silent.
    pub async fn destroy(&self, server_id: &str) {
        let host = self.lan.hosts().remove(server_id);
        if let Some(host) = host {
            host.power_off();
            host.ended().await;
            host.stop_plane().await;
            host.serve(false);
        }
        self.lan.books.strike("host", server_id);
    }

    /// Pulls the plug of a machine; its disk stays. A node that it is goes silent until it is switched on again.
    pub fn power_off(&self, server_id: &str) {
        if let Some(host) = self.host(server_id) {
            host.power_off();
            host.serve(false);
        }
    }

    /// Starts a machine again whose plug was pulled.
    ///
    /// # Errors
    ///
    /// Where its address and port cannot be bound, or there is no such machine.
    pub async fn power_on(&self, server_id: &str) -> anyhow::Result<()> {
        let host = self.host(server_id);
        let host =
            host.ok_or_else(|| anyhow::anyhow!("there is no host of server `{server_id}`"))?;
        host.power_on().await?;
        host.serve(true);
        Ok(())
    }

    /// Pulls every plug: the world ends.
    pub fn stop(&self) {
        let hosts: Vec<_> = self.lan.hosts().values().cloned().collect();
        for host in hosts {
            host.power_off();
        }
    }

    /// Server ids of the machines that are on.
    pub fn running(&self) -> Vec<String> {
        let hosts = self.lan.hosts();
        hosts
            .iter()
            .filter(|(_, host)| host.is_on())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// What a machine has printed on its console, its host keys among it as cloud-init prints them.
    pub fn console_log(&self, server_id: &str) -> String {
        self.host(server_id)
            .map(|host| host.console())
            .unwrap_or_default()
    }

    /// A file on a machine's disk, for checkers.
    pub fn file(&self, server_id: &str, path: &str) -> Option<Vec<u8>> {
        self.host(server_id)?.disk().read(path)
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
