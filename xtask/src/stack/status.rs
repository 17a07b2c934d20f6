//! Status of the real systems: from the processes that the scripts recorded, and from whether the endpoint responds.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{ALL, Part};

/// A system that does not respond within this time counts as down.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Status of one part of the stack.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) part: Part,
    /// Whether the endpoint of the part responds.
    pub(crate) is_up: bool,
    /// Address for clients; absent while it is down.
    pub(crate) endpoint: Option<String>,
    /// File that clients read their configuration from.
    pub(crate) configuration: Option<String>,
    /// Names of its running processes.
    pub(crate) processes: Vec<String>,
    /// Names of its processes that have exited.
    pub(crate) dead: Vec<String>,
    /// Resident memory of the running processes.
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
                "  (exited: {}; `cargo xtask stack up` restarts them)",
                self.dead.join(", ")
            )?;
        }
        Ok(())
    }
}

/// The status of these parts.
pub(crate) fn observe(parts: &BTreeSet<Part>) -> Vec<Status> {
    ALL.into_iter()
        .filter(|part| parts.contains(part))
        .map(|part| match part {
            Part::Hosts => observe_hosts(),
            Part::Openstack => observe_openstack(),
            Part::Kubernetes => observe_kubernetes(),
        })
        .collect()
}

fn observe_hosts() -> Status {
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

/// Names of the hosts that have a configuration.
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

fn observe_openstack() -> Status {
    let state = Part::Openstack.state();
    let (processes, dead, resident_mib) = daemons(&state.join("run"));
    let endpoint = "http://127.0.0.1:25000/v3";
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(RESPONSE_TIMEOUT))
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

fn observe_kubernetes() -> Status {
    let state = Part::Kubernetes.state();
    let (processes, dead, resident_mib) = daemons(&state.join("run"));
    let address = SocketAddr::from(([127, 0, 0, 1], 16443));
    let is_up =
        !processes.is_empty() && TcpStream::connect_timeout(&address, RESPONSE_TIMEOUT).is_ok();
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

/// Names of running and exited processes, and the memory of the running ones, from the `*.pid` files of a folder.
fn daemons(folder: &Path) -> (Vec<String>, Vec<String>, u64) {
    let (mut running, mut exited, mut memory) = (Vec::new(), Vec::new(), 0);
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
            None => exited.push(name),
        }
    }
    running.sort();
    exited.sort();
    (running, exited, memory)
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

/// Resident memory (MiB) of all processes of a host, from its control group.
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
