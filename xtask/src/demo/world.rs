//! The systems of the demo: the simulated world as a process, or the real systems.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::cloud::Cloud;
use super::control_plane::ControlPlane;
use crate::{process, stack};

/// Entry of clouds.yaml that the demo uses.
pub(crate) const CLOUD: &str = "nfv";
/// Network of the external connection points.
pub(crate) const NETWORK: &str = "provider";

/// The systems that a story needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Simulated,
    Real,
    ControlPlane,
}

/// The VIM and hosts of the demo.
pub(crate) enum World {
    /// `vnfm-sim`, which records all resources itself.
    Simulated {
        child: Child,
        /// Its endpoints, from its first output line.
        endpoints: Value,
        /// Path of the clouds.yaml with its login.
        clouds: PathBuf,
    },
    /// OpenStack from Debian packages, and the hosts behind its servers.
    Real {
        /// Path of the clouds.yaml with its login.
        clouds: PathBuf,
        /// Resources that existed before the demo.
        before: BTreeSet<String>,
        /// Systems that the demo started, and stops.
        started: BTreeSet<stack::Part>,
    },
    /// Only a Kubernetes control plane with simulated nodes, and helm.
    ControlPlane {
        plane: ControlPlane,
        /// Objects that existed before the demo.
        before: BTreeSet<String>,
        /// Systems that the demo started, and stops.
        started: BTreeSet<stack::Part>,
    },
}

impl World {
    /// Starts the world, unless it runs.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn start(kind: Kind, programs: &Path, folder: &Path) -> Result<Self> {
        match kind {
            Kind::Simulated => simulated_world(programs, folder),
            Kind::Real => real_world(),
            Kind::ControlPlane => control_plane(),
        }
    }

    /// Its name in the report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Simulated { .. } => "simulated",
            Self::Real { .. } | Self::ControlPlane { .. } => "real",
        }
    }

    /// The file to register its VIM with.
    pub(crate) fn clouds(&self) -> &Path {
        match self {
            Self::Simulated { clouds, .. } | Self::Real { clouds, .. } => clouds,
            Self::ControlPlane { plane, .. } => plane.kubeconfig(),
        }
    }

    /// SSH port of its hosts.
    pub(crate) fn ssh_port(&self) -> u64 {
        match self {
            Self::Simulated { endpoints, .. } => endpoints["sshPort"].as_u64().unwrap_or(22),
            Self::Real { .. } | Self::ControlPlane { .. } => 22,
        }
    }

    /// The id of the network for external connection points; `None` without a cloud.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn network(&self) -> Result<Option<String>> {
        if let Self::ControlPlane { .. } = self {
            return Ok(None);
        }
        let cloud = Cloud::login(self.clouds(), CLOUD)?;
        cloud.network(NETWORK).map(Some)
    }

    /// The helm program for the server, if the story needs one.
    pub(crate) fn helm(&self) -> Option<PathBuf> {
        match self {
            Self::Simulated { .. } | Self::Real { .. } => None,
            Self::ControlPlane { plane, .. } => Some(plane.helm()),
        }
    }

    /// Resources that did not exist before.
    ///
    /// # Errors
    /// If the world does not respond.
    pub(crate) fn left_behind(&self) -> Result<Vec<String>> {
        match self {
            Self::Simulated { .. } => {
                let mut left = self.page("/left-behind")?;
                left.extend(
                    self.page("/violations")?
                        .into_iter()
                        .map(|violation| format!("violation: {violation}")),
                );
                Ok(left)
            }
            Self::Real { clouds, before, .. } => {
                Cloud::login(clouds, CLOUD)?.wait_for_removal(before)
            }
            Self::ControlPlane { plane, before, .. } => plane.wait_for_removal(before),
        }
    }

    /// A list of the control API of the simulated world, one line per entry.
    fn page(&self, path: &str) -> Result<Vec<String>> {
        Ok(self.control(path)?.iter().map(line_of).collect())
    }

    /// A list of the control API of the simulated world; empty in the real one.
    ///
    /// # Errors
    /// If the world does not respond.
    pub(crate) fn control(&self, path: &str) -> Result<Vec<Value>> {
        let Self::Simulated { endpoints, .. } = self else {
            return Ok(Vec::new());
        };
        let url = format!(
            "{}{path}",
            endpoints["control"].as_str().unwrap_or_default()
        );
        let mut answer = ureq::get(&url)
            .call()
            .with_context(|| format!("cannot read `{url}`"))?;
        let page: Value = answer
            .body_mut()
            .read_json()
            .with_context(|| format!("the response of `{url}` is not JSON"))?;
        Ok(page.as_array().cloned().unwrap_or_default())
    }

    /// Deletes the stacks or namespaces of a failed demo directly on the real system.
    ///
    /// # Errors
    /// If one is not deleted in time.
    pub(crate) fn force_delete(&self) -> Result<()> {
        match self {
            Self::Simulated { .. } => Ok(()), // its resources end with its process
            Self::Real { clouds, before, .. } => Cloud::login(clouds, CLOUD)?.delete_stacks(before),
            Self::ControlPlane { plane, before, .. } => plane.delete_namespaces(before),
        }
    }

    /// Leaves it running; returns a line about it, and its process id, if any, after a space.
    pub(crate) fn keep(mut self) -> (String, String) {
        let line = match &mut self {
            Self::Simulated {
                child, endpoints, ..
            } => {
                let control = endpoints["control"].as_str().unwrap_or_default();
                let id = format!(" {}", child.id());
                (
                    format!("simulated world: control {control}, process{id}"),
                    id,
                )
            }
            Self::Real { started, .. } | Self::ControlPlane { started, .. } => {
                started.clear();
                let line = "the real systems keep running: `cargo xtask stack status`, `cargo xtask stack down`";
                (line.to_owned(), String::new())
            }
        };
        std::mem::forget(self); // keeps its process running
        line
    }
}

impl Drop for World {
    fn drop(&mut self) {
        match self {
            Self::Simulated { child, .. } => process::end(child),
            Self::Real { started, .. } | Self::ControlPlane { started, .. }
                if !started.is_empty() =>
            {
                if let Err(error) = stack::down(started) {
                    crate::terminal::note(&format!("the real systems did not stop: {error:#}"));
                }
            }
            Self::Real { .. } | Self::ControlPlane { .. } => {}
        }
    }
}

/// One line for a resource of the simulated world.
fn line_of(item: &Value) -> String {
    match (
        item["kind"].as_str(),
        item["name"].as_str(),
        item["id"].as_str(),
    ) {
        (Some(kind), Some(name), Some(id)) => format!("{kind} {name} {id}"),
        _ => item
            .as_str()
            .map_or_else(|| item.to_string(), str::to_owned),
    }
}

fn simulated_world(programs: &Path, folder: &Path) -> Result<World> {
    let data = folder.join("world");
    let log_path = folder.join("world.log");
    let log = std::fs::File::create(&log_path)
        .with_context(|| format!("cannot write `{}`", log_path.display()))?;
    let mut command = Command::new(programs.join("vnfm-sim"));
    command
        .arg("--data")
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    process::own_group(&mut command);
    let mut child = command.spawn().context("cannot start `vnfm-sim`")?;
    let line = process::first_line(&mut child)?;
    let parsed: Result<Value, _> = serde_json::from_str(&line);
    let clouds = parsed
        .as_ref()
        .ok()
        .and_then(|endpoints| endpoints["cloudsYaml"].as_str().map(PathBuf::from));
    let (Ok(endpoints), Some(clouds)) = (parsed, clouds) else {
        process::end(&mut child);
        let log = std::fs::read_to_string(&log_path).unwrap_or_default();
        anyhow::bail!(
            "`vnfm-sim` printed `{line}` instead of its endpoints:\n{}",
            log.trim()
        );
    };
    Ok(World::Simulated {
        child,
        endpoints,
        clouds,
    })
}

fn real_world() -> Result<World> {
    let started = start_missing(&[stack::Part::Openstack, stack::Part::Hosts].into())?;
    let clouds = stack::Part::Openstack.state().join("clouds.yaml");
    let before = Cloud::login(&clouds, CLOUD)?.inventory()?;
    Ok(World::Real {
        clouds,
        before,
        started,
    })
}

fn control_plane() -> Result<World> {
    let started = start_missing(&[stack::Part::Kubernetes].into())?;
    let plane = ControlPlane::find()?;
    Ok(World::ControlPlane {
        before: plane.inventory()?,
        plane,
        started,
    })
}

/// Starts those of these parts that do not run, and returns them.
fn start_missing(wanted: &BTreeSet<stack::Part>) -> Result<BTreeSet<stack::Part>> {
    let running: BTreeSet<_> = stack::observe(wanted)
        .into_iter()
        .filter(|part| part.is_up)
        .map(|part| part.part)
        .collect();
    if running != *wanted {
        stack::up(wanted)?;
    }
    Ok(wanted - &running)
}
