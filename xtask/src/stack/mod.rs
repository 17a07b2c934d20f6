//! `cargo xtask stack`: the real systems, started by the scripts in `tests/stack`.
//!
//! ```text
//! openstack    Keystone, Glance, Placement, Nova, Neutron, Heat, Barbican, Cinder, Octavia from Debian packages on 127.0.0.1;
//!   │          the hypervisor is simulated, but each ACTIVE server has a real host at its address
//! hosts        the LAN 10.77.0.0/24 of these hosts, with their binaries and images
//! kubernetes   only a control plane with simulated nodes, for tests that need no hosts
//! ```
//! Missing prerequisites are all listed first, each with the command that provides it. All commands are idempotent:
//! systems that run are left alone.

mod binaries;
mod neighbours;
mod prerequisites;
mod status;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::{paths, process, terminal};

pub(crate) use status::observe;

/// The address of this machine in the hosts' LAN.
const LAN: &str = "10.77.0.1/24";
/// Logins of the hosts: all users with the server's key pair, `ubuntu` also with this password.
const HOST_USERS: &str = "root: ubuntu:secret:nopasswd";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install missing prerequisites and start the systems that do not run.
    Up {
        /// Systems to start; OpenStack includes the hosts. Default: all.
        parts: Vec<Part>,
    },
    /// Stop the systems and delete their state; caches stay.
    Down {
        /// Only these systems. Default: all.
        parts: Vec<Part>,
    },
    /// Show which systems run, and their addresses.
    Status {
        /// Print the status as JSON.
        #[arg(long)]
        json: bool,
        /// Only these systems. Default: all.
        parts: Vec<Part>,
    },
}

/// A system that can be started separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The services of OpenStack, from Keystone to Heat.
    Openstack,
    /// A Kubernetes control plane without hosts.
    Kubernetes,
    /// The LAN of the hosts.
    Hosts,
}

impl Part {
    /// Its name, also that of its state folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Openstack => "openstack",
            Self::Kubernetes => "kubernetes",
            Self::Hosts => "hosts",
        }
    }

    /// Path of its state folder.
    pub(crate) fn state(self) -> PathBuf {
        paths::state().join(self.name())
    }
}

/// All parts, in start order.
pub(crate) const ALL: [Part; 3] = [Part::Hosts, Part::Openstack, Part::Kubernetes];

/// Runs the subcommand of `cargo xtask stack`.
///
/// # Errors
/// If a prerequisite is missing, or a system does not start or stop.
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
            let found = observe(&chosen(parts));
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

/// Environment variables with which tests find the systems; only paths that exist.
pub(crate) fn environment() -> Vec<(&'static str, PathBuf)> {
    let cache = paths::cache();
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
    .chain(neighbours::environment(&cache))
    .filter(|(_, path)| path.exists())
    .collect()
}

/// Builds the neighbours of the tier `long` that are not there.
///
/// # Errors
/// If one cannot be built.
pub(crate) fn provide_neighbours() -> Result<()> {
    neighbours::provide(&paths::cache())?;
    chown_to_caller()
}

/// Missing prerequisites of these parts, one line each with the command that provides it. As root, Debian packages are
/// installed automatically and not listed.
pub(crate) fn obstacles(parts: &BTreeSet<Part>) -> Vec<String> {
    prerequisites::missing(&with_hosts(parts))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Starts those of these parts that do not run.
///
/// # Errors
/// If a prerequisite is missing or a system does not start; with the list or the last output lines.
pub(crate) fn up(parts: &BTreeSet<Part>) -> Result<()> {
    let parts = with_hosts(parts);
    let missing = prerequisites::missing(&parts);
    if !missing.is_empty() {
        let lines: Vec<String> = missing.iter().map(|need| format!("  - {need}")).collect();
        bail!(
            "the real systems cannot start, {} prerequisites are missing:\n{}",
            missing.len(),
            lines.join("\n")
        );
    }
    std::fs::create_dir_all(paths::state())
        .with_context(|| format!("cannot create `{}`", paths::state().display()))?;
    prerequisites::install(&parts)?;
    let cache = paths::cache();
    binaries::provide(&cache)?;
    for part in ALL.into_iter().filter(|part| parts.contains(part)) {
        match part {
            Part::Hosts => lan_up()?,
            Part::Openstack => openstack_up(&cache)?,
            Part::Kubernetes => kubernetes_up(&cache)?,
        }
    }
    chown_to_caller()
}

fn with_hosts(parts: &BTreeSet<Part>) -> BTreeSet<Part> {
    let mut parts = parts.clone();
    if parts.contains(&Part::Openstack) {
        parts.insert(Part::Hosts);
    }
    parts
}

/// The network of the hosts, and the folder for their state, which must exist before the first host.
fn lan_up() -> Result<()> {
    let hosts = Part::Hosts.state();
    std::fs::create_dir_all(&hosts)
        .with_context(|| format!("cannot create `{}`", hosts.display()))?;
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
        .env("OPENSTACK_CINDER", "1")
        .env("OPENSTACK_OCTAVIA", "1")
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

/// Stops these parts and deletes their state.
///
/// # Errors
/// If root is needed, or a part does not stop.
pub(crate) fn down(parts: &BTreeSet<Part>) -> Result<()> {
    let needs_root = observe(parts).iter().any(|part| part.is_up);
    ensure!(
        !needs_root || rustix::process::getuid().is_root(),
        "stopping the real systems needs root: `sudo -E cargo xtask stack down`"
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
    let openstack = observe(&[Part::Openstack].into());
    ensure!(
        parts.contains(&Part::Openstack) || !openstack.iter().any(|part| part.is_up),
        "the servers of OpenStack run on these hosts; stop both: `cargo xtask stack down openstack hosts`"
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

/// A script with the state folders in its environment.
fn script(path: &str) -> Command {
    let mut command = Command::new(paths::scripts().join(path));
    command
        .env("OPENSTACK_HOME", Part::Openstack.state())
        .env("VNFM_HOSTS", Part::Hosts.state());
    command
}

/// Under sudo, makes the caller the owner of the files that clients need.
fn chown_to_caller() -> Result<()> {
    let id = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|id| id.parse::<u32>().ok())
    };
    if let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID")) {
        for folder in [Part::Openstack.state(), Part::Kubernetes.state()] {
            if folder.exists() {
                std::os::unix::fs::chown(&folder, Some(user), Some(group)).with_context(|| {
                    format!("cannot change the owner of `{}`", folder.display())
                })?;
            }
        }
        for (name, path) in environment() {
            if path.is_file() {
                std::os::unix::fs::chown(&path, Some(user), Some(group))
                    .with_context(|| format!("cannot change the owner of `{}`", path.display()))?;
                terminal::note(&format!("           {name}: owner changed to the caller"));
            }
        }
    }
    Ok(())
}
