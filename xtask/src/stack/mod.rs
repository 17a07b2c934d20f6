//! `cargo xtask stack`: the real neighbours, started by the scripts in `tests/stack`.
//!
//! ```text
//! openstack    Keystone, Glance, Placement, Nova, Neutron, Heat from Debian packages on 127.0.0.1;
//!   │          the hypervisor is fake, but each ACTIVE server gets a real host behind its address
//! hosts        the LAN 10.77.0.0/24 those hosts live in, with the binaries and images they run
//! kubernetes   a control plane alone with simulated nodes, for what needs no machine
//! ```
//! What is missing is looked for first and named in one list with the command for each. Everything
//! can be said twice: what runs is left alone.

mod binaries;
mod needs;
mod status;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::{places, process, terminal};

pub(crate) use status::look;

/// The address of this machine in the hosts' LAN.
const LAN: &str = "10.77.0.1/24";
/// Who can log in on a host: everybody with the server's key pair, `ubuntu` with this password too.
const HOST_USERS: &str = "root: ubuntu:secret:nopasswd";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install what is missing and start; what runs already is left alone.
    Up {
        /// Only these (OpenStack brings the hosts along); without any: all.
        parts: Vec<Part>,
    },
    /// Stop and remove all state; caches stay.
    Down {
        /// Only these; without any: all.
        parts: Vec<Part>,
    },
    /// What runs, where, since when.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only these; without any: all.
        parts: Vec<Part>,
    },
}

/// A neighbour that can be started by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The OpenStack services.
    Openstack,
    /// A Kubernetes control plane alone.
    Kubernetes,
    /// The LAN of the hosts.
    Hosts,
}

impl Part {
    /// Its name, which is also its folder below the state.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Openstack => "openstack",
            Self::Kubernetes => "kubernetes",
            Self::Hosts => "hosts",
        }
    }

    /// Where it keeps its state.
    pub(crate) fn state(self) -> PathBuf {
        places::state().join(self.name())
    }
}

/// Every part, in the order in which they start.
pub(crate) const ALL: [Part; 3] = [Part::Hosts, Part::Openstack, Part::Kubernetes];

/// Does what was asked.
///
/// # Errors
/// When something is missing, does not start, or does not go.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::Up { parts } => {
            up(&chosen(parts))?;
            for (name, value) in environment() {
                println!("export {name}={}", value.display());
            }
            Ok(())
        }
        Verb::Down { parts } => down(&chosen(parts)),
        Verb::Status { json, parts } => {
            let found = look(&chosen(parts));
            if *json {
                println!(
                    "{}",
                    serde_json::to_string_pretty(&serde_json::json!({ "parts": found }))?
                );
            } else {
                for part in &found {
                    println!("{part}");
                }
            }
            Ok(())
        }
    }
}

fn chosen(parts: &[Part]) -> BTreeSet<Part> {
    if parts.is_empty() {
        ALL.into()
    } else {
        parts.iter().copied().collect()
    }
}

/// What a test reads to find the neighbours, as name and path; only what is there.
pub(crate) fn environment() -> Vec<(&'static str, PathBuf)> {
    let cache = places::cache();
    [
        (
            "VNFM_LIVE_OPENSTACK",
            Part::Openstack.state().join("clouds.yaml"),
        ),
        ("VNFM_LIVE_HOSTS", Part::Hosts.state()),
        (
            "VNFM_LIVE_KUBECONFIG",
            Part::Kubernetes.state().join("admin.kubeconfig"),
        ),
        ("VNFM_LIVE_ASSETS", binaries::folder(&cache)),
        ("VNFM_LIVE_IMAGES", binaries::images(&cache)),
    ]
    .into_iter()
    .filter(|(_, path)| path.exists())
    .collect()
}

/// What stands in the way of these parts, one line each with the command for it; root installs
/// Debian packages itself.
pub(crate) fn obstacles(parts: &BTreeSet<Part>) -> Vec<String> {
    needs::missing(&with_hosts(parts))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Starts what of these does not run.
///
/// # Errors
/// When something is missing or does not start; the list or the last words are in the error.
pub(crate) fn up(parts: &BTreeSet<Part>) -> Result<()> {
    let parts = with_hosts(parts);
    let missing = needs::missing(&parts);
    if !missing.is_empty() {
        let lines: Vec<String> = missing.iter().map(|need| format!("  - {need}")).collect();
        bail!(
            "the real neighbours cannot start, {} missing:\n{}",
            missing.len(),
            lines.join("\n")
        );
    }
    std::fs::create_dir_all(places::state())
        .with_context(|| format!("cannot make `{}`", places::state().display()))?;
    needs::install(&parts)?;
    let cache = places::cache();
    binaries::provide(&cache)?;
    for part in ALL.into_iter().filter(|part| parts.contains(part)) {
        match part {
            Part::Hosts => lan_up()?,
            Part::Openstack => openstack_up(&cache)?,
            Part::Kubernetes => kubernetes_up(&cache)?,
        }
    }
    hand_over()
}

fn with_hosts(parts: &BTreeSet<Part>) -> BTreeSet<Part> {
    let mut parts = parts.clone();
    if parts.contains(&Part::Openstack) {
        parts.insert(Part::Hosts);
    }
    parts
}

/// The network that hosts come into, and the folder where each keeps what it is: tests are told of it before the first
/// host is there.
fn lan_up() -> Result<()> {
    let hosts = Part::Hosts.state();
    std::fs::create_dir_all(&hosts)
        .with_context(|| format!("cannot make `{}`", hosts.display()))?;
    process::run(
        "LAN of the hosts",
        script("kubernetes/hosts/lan-up.sh").arg(LAN),
    )
    .map(drop)
}

fn openstack_up(cache: &Path) -> Result<()> {
    let mut up = script("openstack/up.sh");
    up.env("OPENSTACK_HYPERVISOR", "1")
        .env("OPENSTACK_BARBICAN", "1")
        .env("OPENSTACK_CACHE", cache.join("openstack"))
        .env("HOST_BIN", binaries::folder(cache))
        .env("HOST_IMAGES", binaries::images(cache))
        .env("HOST_USERS", HOST_USERS);
    process::run("OpenStack", &mut up).map(drop)
}

fn kubernetes_up(cache: &Path) -> Result<()> {
    let (bin, state) = (binaries::folder(cache), Part::Kubernetes.state());
    process::run(
        "Kubernetes control plane",
        script("kubernetes/up.sh").arg(&bin).arg(&state),
    )?;
    process::run(
        "simulated nodes",
        script("kubernetes/kwok-up.sh").arg(&bin).arg(&state),
    )
    .map(drop)
}

/// Stops these parts and removes what they kept.
///
/// # Errors
/// When somebody else's rights are needed, or something does not go.
pub(crate) fn down(parts: &BTreeSet<Part>) -> Result<()> {
    let needs_root = look(parts).iter().any(|part| part.is_up);
    ensure!(
        !needs_root || rustix::process::getuid().is_root(),
        "stopping the neighbours needs root: `sudo -E cargo xtask stack down`"
    );
    for part in ALL.into_iter().rev().filter(|part| parts.contains(part)) {
        match part {
            Part::Kubernetes => {
                let state = part.state();
                process::run(
                    "Kubernetes down",
                    script("kubernetes/down.sh").arg(state).arg("--purge"),
                )?;
            }
            Part::Openstack => {
                drop(process::run(
                    "OpenStack down",
                    &mut script("openstack/down.sh"),
                )?);
            }
            Part::Hosts => hosts_down(parts)?,
        }
    }
    Ok(())
}

fn hosts_down(parts: &BTreeSet<Part>) -> Result<()> {
    let openstack = look(&[Part::Openstack].into());
    ensure!(
        parts.contains(&Part::Openstack) || !openstack.iter().any(|part| part.is_up),
        "OpenStack's servers live on these hosts: take it down as well, `cargo xtask stack down openstack hosts`"
    );
    for host in status::hosts() {
        process::run(
            &format!("host {host} down"),
            script("kubernetes/hosts/host-down.sh")
                .arg(host)
                .arg("--purge"),
        )?;
    }
    process::run("LAN down", &mut script("kubernetes/hosts/lan-down.sh")).map(drop)
}

/// One of the scripts, told where state lies.
fn script(path: &str) -> Command {
    let mut command = Command::new(places::scripts().join(path));
    command
        .env("OPENSTACK_HOME", Part::Openstack.state())
        .env("VNFM_HOSTS", Part::Hosts.state());
    command
}

/// Gives the files that clients need to the person who called us by sudo.
fn hand_over() -> Result<()> {
    let id = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|id| id.parse::<u32>().ok())
    };
    if let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID")) {
        for folder in [Part::Openstack.state(), Part::Kubernetes.state()] {
            if folder.exists() {
                std::os::unix::fs::chown(&folder, Some(user), Some(group))
                    .with_context(|| format!("cannot hand `{}` to you", folder.display()))?;
            }
        }
        for (name, path) in environment() {
            if path.is_file() {
                std::os::unix::fs::chown(&path, Some(user), Some(group))
                    .with_context(|| format!("cannot hand `{}` to you", path.display()))?;
                terminal::note(&format!("           {name}: yours"));
            }
        }
    }
    Ok(())
}
