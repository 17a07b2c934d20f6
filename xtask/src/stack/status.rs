//! What runs: by the processes that the scripts recorded, and by whether the neighbour answers.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{ALL, Part};

/// How long a neighbour may take to answer before it counts as down.
const PATIENCE: Duration = Duration::from_secs(5);

/// One neighbour.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// Which one.
    pub(crate) part: Part,
    /// Whether it can be used.
    pub(crate) is_up: bool,
    /// Its address for clients.
    pub(crate) endpoint: Option<String>,
    /// The file that clients are configured with.
    pub(crate) configuration: Option<String>,
    /// Processes that run for it.
    pub(crate) processes: Vec<String>,
    /// Processes that were started and are gone.
    pub(crate) dead: Vec<String>,
    /// Resident memory of those that run.
    pub(crate) resident_mib: u64,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_up { "up" } else { "down" };
        write!(f, "{:<11} {word:<5}", self.part.name())?;
        if self.is_up {
            write!(
                f,
                " {} running, {} MiB",
                self.processes.len(),
                self.resident_mib
            )?;
        }
        for text in [&self.endpoint, &self.configuration].into_iter().flatten() {
            write!(f, "  {text}")?;
        }
        if !self.dead.is_empty() {
            write!(
                f,
                "  (gone: {}; `cargo xtask stack up` starts them again)",
                self.dead.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Looks at these parts.
pub(crate) fn look(parts: &BTreeSet<Part>) -> Vec<Status> {
    ALL.into_iter()
        .filter(|part| parts.contains(part))
        .map(|part| match part {
            Part::Hosts => look_at_hosts(),
            Part::Openstack => look_at_openstack(),
            Part::Kubernetes => look_at_kubernetes(),
        })
        .collect()
}

fn look_at_hosts() -> Status {
    let state = Part::Hosts.state();
    let (mut processes, mut dead, mut resident_mib) = (Vec::new(), Vec::new(), 0);
    for host in hosts() {
        match recorded(&state.join(&host).join("pid")).filter(|pid| runs(*pid)) {
            Some(_) => {
                resident_mib += resident_in_group(&host);
                processes.push(host);
            }
            None => dead.push(host),
        }
    }
    let is_up = Path::new("/run/netns/vnfm-lan").exists();
    let endpoint = is_up.then(|| super::LAN.to_owned());
    Status {
        part: Part::Hosts,
        is_up,
        endpoint,
        configuration: None,
        processes,
        dead,
        resident_mib,
    }
}

/// The hosts that have a disk.
pub(crate) fn hosts() -> Vec<String> {
    let folders = std::fs::read_dir(Part::Hosts.state())
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = folders
        .filter(|entry| entry.path().join("conf").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn look_at_openstack() -> Status {
    let state = Part::Openstack.state();
    let (processes, dead, resident_mib) = daemons(&state.join("run"));
    let endpoint = "http://127.0.0.1:25000/v3";
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .proxy(None)
        .build()
        .into();
    let is_up = !processes.is_empty() && agent.get(endpoint).call().is_ok();
    Status {
        part: Part::Openstack,
        is_up,
        endpoint: is_up.then(|| endpoint.to_owned()),
        configuration: present(&state.join("clouds.yaml")),
        processes,
        dead,
        resident_mib,
    }
}

fn look_at_kubernetes() -> Status {
    let state = Part::Kubernetes.state();
    let (processes, dead, resident_mib) = daemons(&state.join("run"));
    let address = SocketAddr::from(([127, 0, 0, 1], 16443));
    let is_up = !processes.is_empty() && TcpStream::connect_timeout(&address, PATIENCE).is_ok();
    Status {
        part: Part::Kubernetes,
        is_up,
        endpoint: is_up.then(|| format!("https://{address}")),
        configuration: present(&state.join("admin.kubeconfig")),
        processes,
        dead,
        resident_mib,
    }
}

fn present(file: &Path) -> Option<String> {
    file.is_file().then(|| file.display().to_string())
}

/// Who runs, who is gone, and the memory of the former, by the `*.pid` files of a folder.
fn daemons(folder: &Path) -> (Vec<String>, Vec<String>, u64) {
    let (mut running, mut gone, mut memory) = (Vec::new(), Vec::new(), 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|kind| kind != "pid") {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match recorded(&path).filter(|pid| runs(*pid)) {
            Some(pid) => {
                memory += resident(pid);
                running.push(name);
            }
            None => gone.push(name),
        }
    }
    running.sort();
    gone.sort();
    (running, gone, memory)
}

fn recorded(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file)
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// All of a host's processes together, by its control group.
fn resident_in_group(host: &str) -> u64 {
    let file = format!("/sys/fs/cgroup/memory/vnfm-hosts/{host}/memory.stat");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("total_rss ")?.parse::<u64>().ok());
    bytes.unwrap_or(0) >> 20
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}
