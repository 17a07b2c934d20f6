//! What the programs talk to: the simulated world as a process, or the real neighbours.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{apart, cloud::Cloud, first_line};
use crate::{process, stack};

/// The cloud's entry in clouds.yaml that the story uses.
pub(crate) const CLOUD: &str = "nfv";
/// The network that the external connection points are plugged into.
const NETWORK: &str = "provider";

/// A world to play in.
pub(crate) enum World {
    /// `vnfm-sim`, which keeps its own books.
    Simulated {
        /// Its process.
        child: Child,
        /// Where everything is, as it says itself.
        endpoints: Value,
        /// Its clouds.yaml.
        clouds: PathBuf,
    },
    /// OpenStack from Debian packages, and the hosts behind its servers.
    Real {
        /// Its clouds.yaml.
        clouds: PathBuf,
        /// What was there before.
        before: BTreeSet<String>,
        /// What we have started for the story.
        started: BTreeSet<stack::Part>,
    },
}

impl World {
    /// Starts the world, or finds it running.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(real: bool, programs: &Path, folder: &Path) -> Result<Self> {
        if real {
            real_world()
        } else {
            simulated_world(programs, folder)
        }
    }

    /// Its name in the report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Simulated { .. } => "simulated",
            Self::Real { .. } => "real",
        }
    }

    /// The file to register its VIM with.
    pub(crate) fn clouds(&self) -> &Path {
        match self {
            Self::Simulated { clouds, .. } | Self::Real { clouds, .. } => clouds,
        }
    }

    /// The port at which its hosts' sshd listen.
    pub(crate) fn ssh_port(&self) -> u64 {
        match self {
            Self::Simulated { endpoints, .. } => endpoints["sshPort"].as_u64().unwrap_or(22),
            Self::Real { .. } => 22,
        }
    }

    /// The id of the network for external connection points.
    ///
    /// # Errors
    /// When the cloud does not tell.
    pub(crate) fn network(&self) -> Result<String> {
        Cloud::login(self.clouds(), CLOUD)?.network(NETWORK)
    }

    /// What is there and was not before.
    ///
    /// # Errors
    /// When the world does not tell.
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
            Self::Real { clouds, before, .. } => Cloud::login(clouds, CLOUD)?.settle(before),
        }
    }

    /// A list of the simulated world's control API, one line each.
    fn page(&self, path: &str) -> Result<Vec<String>> {
        let Self::Simulated { endpoints, .. } = self else {
            return Ok(Vec::new());
        };
        let url = format!(
            "{}{path}",
            endpoints["control"].as_str().unwrap_or_default()
        );
        let mut answer = ureq::get(&url)
            .call()
            .with_context(|| format!("cannot ask `{url}`"))?;
        let page: Value = answer
            .body_mut()
            .read_json()
            .with_context(|| format!("`{url}` answers no JSON"))?;
        Ok(page.as_array().into_iter().flatten().map(line_of).collect())
    }

    /// Takes away by force what a broken story has left in a real cloud.
    ///
    /// # Errors
    /// When it does not go.
    pub(crate) fn sweep(&self) -> Result<()> {
        match self {
            Self::Simulated { .. } => Ok(()), // it ends with its process
            Self::Real { clouds, before, .. } => Cloud::login(clouds, CLOUD)?.delete_stacks(before),
        }
    }

    /// Lets it run on; returns a line about it, and its process, if it has one, after a blank.
    pub(crate) fn keep(mut self) -> (String, String) {
        let told = match &mut self {
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
            Self::Real { started, .. } => {
                started.clear();
                let line =
                    "real neighbours run on: `cargo xtask stack status`, `cargo xtask stack down`";
                (line.to_owned(), String::new())
            }
        };
        std::mem::forget(self); // its process goes on
        told
    }
}

impl Drop for World {
    fn drop(&mut self) {
        match self {
            Self::Simulated { child, .. } => process::end(child),
            Self::Real { started, .. } if !started.is_empty() => {
                if let Err(error) = stack::down(started) {
                    crate::terminal::note(&format!("the real neighbours did not stop: {error:#}"));
                }
            }
            Self::Real { .. } => {}
        }
    }
}

/// An item of the books in a line.
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
    let words = folder.join("world.log");
    let log = std::fs::File::create(&words)
        .with_context(|| format!("cannot write `{}`", words.display()))?;
    let mut command = Command::new(programs.join("vnfm-sim"));
    command
        .arg("--data")
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    apart(&mut command);
    let mut child = command.spawn().context("cannot start `vnfm-sim`")?;
    let line = first_line(&mut child)?;
    let said: Result<Value, _> = serde_json::from_str(&line);
    let clouds = said
        .as_ref()
        .ok()
        .and_then(|endpoints| endpoints["cloudsYaml"].as_str().map(PathBuf::from));
    let (Ok(endpoints), Some(clouds)) = (said, clouds) else {
        process::end(&mut child);
        let words = std::fs::read_to_string(&words).unwrap_or_default();
        anyhow::bail!(
            "`vnfm-sim` did not say where it is, but `{line}`:\n{}",
            words.trim()
        );
    };
    Ok(World::Simulated {
        child,
        endpoints,
        clouds,
    })
}

fn real_world() -> Result<World> {
    let wanted: BTreeSet<_> = [stack::Part::Openstack, stack::Part::Hosts].into();
    let running: BTreeSet<_> = stack::look(&wanted)
        .into_iter()
        .filter(|part| part.is_up)
        .map(|part| part.part)
        .collect();
    if running != wanted {
        stack::up(&wanted)?;
    }
    let clouds = stack::Part::Openstack.state().join("clouds.yaml");
    let before = Cloud::login(&clouds, CLOUD)?.inventory()?;
    Ok(World::Real {
        clouds,
        before,
        started: &wanted - &running,
    })
}
