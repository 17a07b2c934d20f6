//! A machine: disk, settings, power, console.

use super::step::Step;
use super::{HostSpec, Network};
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{HashAlg, PrivateKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::{AbortHandle, JoinHandle};

/// The programs of a Kubernetes node that an image may lack.
pub(crate) const KUBERNETES: &[&str] = &["kubeadm", "kubelet", "kubectl", "containerd", "ctr"];

#[derive(Clone, Default)]
pub(crate) struct File {
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// A file system in memory. A folder exists if a file is below it or it was created.
#[derive(Default)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
    folders: BTreeSet<String>,
}

impl Disk {
    pub(crate) fn write(&mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) {
        self.files.insert(
            path.to_owned(),
            File {
                content: content.into(),
                mode,
            },
        );
    }

    pub(crate) fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files.get(path).map(|file| file.content.clone())
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut File> {
        self.files.get_mut(path)
    }

    pub(crate) fn mode(&self, path: &str) -> Option<u32> {
        self.files.get(path).map(|file| file.mode)
    }

    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn is_folder(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty()
            || self.folders.contains(path)
            || self
                .files
                .range(below.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&below))
    }

    pub(crate) fn make_folder(&mut self, path: &str) {
        self.folders.insert(path.trim_end_matches('/').to_owned());
    }

    /// Removes a file, or a folder with its content; false if there is neither.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        let before = self.files.len() + self.folders.len();
        self.files
            .retain(|p, _| p != path && !p.starts_with(&below));
        self.folders.retain(|p| p != path && !p.starts_with(&below));
        self.files.len() + self.folders.len() < before
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(file) = self.files.remove(from) else {
            return false;
        };
        self.files.insert(to.to_owned(), file);
        true
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
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
        let mut disk = initial_disk(&spec, bare);
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

    /// Powers on; does nothing if it is on.
    pub(crate) async fn power_on(self: &Arc<Self>) -> anyhow::Result<()> {
        if self.is_on() {
            return Ok(());
        }
        self.port_released().await;
        {
            let mut settings = self.settings();
            let enabled = settings.enabled.clone();
            settings.active = enabled;
        }
        let task = super::sshd::listen(self.clone()).await?;
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(())
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
        if !self.disk().is_file(super::kubeadm::KUBELET) {
            return;
        }
        let planes: Vec<_> = self.lan.control_planes().values().cloned().collect();
        let address = self.spec.address.to_string();
        for plane in planes {
            plane.set_served(&address, served);
        }
    }

    /// Stops the control plane on this machine, if any.
    pub(crate) async fn stop_control_plane(&self) {
        let ours = format!("{}:6443", self.spec.address);
        let plane = self.lan.control_planes().remove(&ours);
        if plane.is_some() {
            self.lan.clusters.stop(&ours).await;
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

fn initial_disk(spec: &HostSpec, bare: bool) -> Disk {
    let mut disk = Disk::default();
    let name = &spec.name;
    disk.write("/etc/hostname", format!("{name}\n"), 0o644);
    disk.write(
        "/etc/hosts",
        format!("127.0.0.1 localhost\n{} {name}\n", spec.address),
        0o644,
    );
    disk.write(
        "/etc/os-release",
        "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"vnfm-sim\"\n",
        0o644,
    );
    for folder in ["/tmp", "/root", "/var", "/run", "/usr/bin", "/etc/apt"] {
        disk.make_folder(folder);
    }
    for program in super::programs::INSTALLED {
        disk.write(&format!("/usr/bin/{program}"), "", 0o755);
    }
    for program in KUBERNETES.iter().filter(|_| !bare) {
        disk.write(&format!("/usr/bin/{program}"), "", 0o755);
    }
    disk
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
