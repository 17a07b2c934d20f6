//! A machine: settings, power, console; and the network of all machines.

use super::disk::{Disk, initial_disk};
use super::member::Member;
use super::stdio::Output;
use crate::faults::Faults;
use crate::kubernetes::{Cluster, Clusters};
use crate::ledger::Ledger;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{HashAlg, PrivateKey};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// The kubelet's credentials; a machine that has them is a node.
pub(crate) const KUBELET: &str = "/etc/kubernetes/kubelet.conf";

/// A machine to boot, and who may log in.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// The server's id in the VIM.
    pub server_id: String,
    /// The host name, as `hostname` prints it.
    pub name: String,
    /// The address that its sshd listens on.
    pub address: IpAddr,
    /// The accounts that may log in.
    pub users: Vec<User>,
}

/// An account that may log in and use `sudo` without a password.
#[derive(Clone)]
pub struct User {
    /// Name to log in with.
    pub name: String,
    /// Absent: no login by password.
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

/// State shared by all hosts of a world.
pub(crate) struct Network {
    pub(crate) books: Arc<Ledger>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) ssh_port: u16,
    /// Clusters created by `kubeadm init`, by `ADDRESS:PORT`.
    pub(super) planes: Mutex<BTreeMap<String, Arc<Cluster>>>,
    /// The members of their etcd.
    pub(super) members: Mutex<BTreeMap<String, Vec<Member>>>,
    pub(super) hosts: Mutex<BTreeMap<String, Arc<Host>>>,
}

impl Network {
    pub(crate) fn control_planes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cluster>>> {
        self.planes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Host>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Volatile state, lost on power-off, except for the enabled units.
pub(crate) struct Settings {
    pub(crate) sysctl: BTreeMap<String, String>,
    pub(crate) modules: BTreeSet<String>,
    pub(crate) swap: bool,
    pub(crate) active: BTreeSet<String>,
    pub(crate) enabled: BTreeSet<String>,
    pub(crate) images: BTreeSet<String>,
}

/// A started step: its output, and its exit code once it has ended.
pub(crate) struct Step {
    pub(super) command: Vec<String>,
    pub(super) exit: watch::Sender<Option<i32>>,
    pub(super) output: Mutex<Output>,
}

impl Step {
    pub(super) fn written(&self) -> Output {
        self.output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn ended(&self) -> Option<i32> {
        *self.exit.borrow()
    }
}

pub(crate) struct Host {
    spec: HostSpec,
    pub(crate) lan: Arc<Network>,
    key: PrivateKey,
    disk: Mutex<Disk>,
    settings: Mutex<Settings>,
    steps: Mutex<BTreeMap<String, Arc<Step>>>,
    /// Serializes the steps on this host.
    pub(crate) step_lock: tokio::sync::Mutex<()>,
    /// Whether a kubeadm that changes the host is running.
    pub(crate) kubeadm: AtomicBool,
    listener: Mutex<Option<JoinHandle<()>>>,
    /// A listener that was aborted but may still hold the port.
    ending: Mutex<Option<JoinHandle<()>>>,
    /// Tasks to abort on power-off: connections, commands, detached steps.
    tasks: Mutex<Vec<AbortHandle>>,
    /// Sockets to close on power-off.
    sockets: Mutex<Vec<std::net::TcpStream>>,
}

impl Host {
    pub(crate) fn new(spec: HostSpec, lan: Arc<Network>) -> Self {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        seed[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        let key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
        let bare = lan.faults.take("host.packages", &spec.name).is_some();
        let mut disk = initial_disk(&spec.name, spec.address, bare);
        if lan.faults.take("host.repository", &spec.name).is_some() {
            disk.write(
                "/etc/apt/sources.list.d/kubernetes.list",
                "deb kubernetes\n",
                0o644,
            );
        }
        let host = Self {
            disk: Mutex::new(disk),
            settings: Mutex::new(initial_settings(bare)),
            spec,
            lan,
            key,
            steps: Mutex::default(),
            step_lock: tokio::sync::Mutex::default(),
            kubeadm: AtomicBool::new(false),
            listener: Mutex::default(),
            ending: Mutex::default(),
            tasks: Mutex::default(),
            sockets: Mutex::default(),
        };
        tracing::debug!(host = %host.spec.name, address = %host.spec.address, bare, "new");
        host
    }

    pub(crate) fn spec(&self) -> &HostSpec {
        &self.spec
    }

    pub(crate) fn key(&self) -> &PrivateKey {
        &self.key
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn steps(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Step>>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a program is in the path.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        let disk = self.disk();
        ["/usr/bin", "/usr/sbin", "/usr/local/bin"]
            .iter()
            .any(|d| disk.is_file(&format!("{d}/{name}")))
    }

    /// The enabled units run.
    pub(crate) fn start_units(&self) {
        let mut settings = self.settings();
        let enabled = settings.enabled.clone();
        settings.active = enabled;
    }

    /// The task that listens for SSH; the machine is on while it has one.
    pub(crate) fn set_listener(&self, task: JoinHandle<()>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Powers off: tasks end, `/run` is cleared, other files stay.
    pub(crate) fn power_off(&self) {
        let listener = self
            .listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(listener) = listener {
            listener.abort();
            *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(AbortHandle::abort);
        let plugs =
            std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner));
        for plug in plugs {
            // An error means that the client has closed it already.
            let _ = plug.shutdown(std::net::Shutdown::Both);
        }
        self.steps().clear();
        self.kubeadm.store(false, Ordering::SeqCst);
        self.disk().remove("/run");
        let mut settings = self.settings();
        settings.active.clear();
        settings.sysctl.clear();
        settings.modules.clear();
    }

    /// Completes when the port is free again after a power-off.
    pub(crate) async fn port_released(&self) {
        let ending = self
            .ending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(ending) = ending {
            // The error only says that the task was aborted.
            let _ = ending.await;
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Registers a task to abort on power-off.
    pub(crate) fn register_task(&self, task: AbortHandle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Registers a socket to close on power-off.
    pub(crate) fn register_socket(&self, socket: std::net::TcpStream) {
        let mut plugs = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        plugs.retain(|plug| plug.peer_addr().is_ok());
        plugs.push(socket);
    }

    /// Makes the Kubernetes node on this machine, if any, silent or responsive.
    pub(crate) fn set_node_served(&self, served: bool) {
        if !self.disk().is_file(KUBELET) {
            return;
        }
        let planes: Vec<_> = self.lan.control_planes().values().cloned().collect();
        let address = self.spec.address.to_string();
        for plane in planes {
            plane.set_served(&address, served);
        }
    }

    /// The console output of cloud-init.
    pub(crate) fn console(&self) -> String {
        let public = self.key.public_key();
        let name = &self.spec.name;
        format!(
            "[    0.000000] Linux version 6.1.0 (vnfm-sim)\n\
             ci-info: | eth0 | True | {address} | 255.255.255.0 |\n\
             -----BEGIN SSH HOST KEY FINGERPRINTS-----\n\
             256 {fingerprint} root@{name} (ED25519)\n\
             -----END SSH HOST KEY FINGERPRINTS-----\n\
             -----BEGIN SSH HOST KEY KEYS-----\n\
             {key} root@{name}\n\
             -----END SSH HOST KEY KEYS-----\n\
             \n{name} login: \n",
            address = self.spec.address,
            fingerprint = public.fingerprint(HashAlg::Sha256),
            key = public.to_openssh().unwrap_or_default(),
        )
    }
}

fn initial_settings(bare: bool) -> Settings {
    let units: &[&str] = if bare {
        &["ssh"]
    } else {
        &["ssh", "containerd", "kubelet"]
    };
    let enabled: BTreeSet<String> = units.iter().map(ToString::to_string).collect();
    Settings {
        sysctl: BTreeMap::new(),
        modules: BTreeSet::new(),
        swap: false,
        active: enabled.clone(),
        enabled,
        images: BTreeSet::new(),
    }
}
