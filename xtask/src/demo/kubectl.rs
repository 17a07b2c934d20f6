//! Pods and nodes of a cluster, not by our drivers: from the control API of the simulated world, by `kubectl` on VNF-A's real
//! control plane, over `ssh`, or by `kubectl` on this machine.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::control_plane::ControlPlane;
use super::instances::SSH;
use super::world::World;

/// Prints the password that `ssh` asks for.
const ASKPASS: &str = "#!/bin/sh\nprintf '%s\\n' \"$VNFM_DEMO_PASSWORD\"\n";
/// No configuration of the user, no host key, only the password.
const SSH_OPTIONS: &[&str] = &[
    "-F/dev/null",
    "-oStrictHostKeyChecking=no",
    "-oUserKnownHostsFile=/dev/null",
    "-oLogLevel=ERROR",
    "-oPreferredAuthentications=password",
    "-oConnectTimeout=10",
];

/// A cluster, and how it is asked.
pub(crate) enum Kubectl<'a> {
    Simulated(&'a World),
    Direct(&'a ControlPlane),
    /// Address of the control-plane node, and the program that prints its password.
    Real {
        address: String,
        askpass: PathBuf,
    },
}

impl<'a> Kubectl<'a> {
    /// For the cluster whose control plane has this address; `folder` is for its files.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn new(world: &'a World, address: String, folder: &Path) -> Result<Self> {
        if let World::Simulated { .. } = world {
            return Ok(Self::Simulated(world));
        }
        let askpass = folder.join("askpass");
        std::fs::write(&askpass, ASKPASS)?;
        std::fs::set_permissions(&askpass, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self::Real { address, askpass })
    }

    /// Names of the pods that are not about to end.
    ///
    /// # Errors
    /// If the cluster does not respond, as for the nodes.
    pub(crate) fn pods(&self, namespace: &str) -> Result<BTreeSet<String>> {
        match self {
            Self::Simulated(world) => {
                let all = world.control("/left-behind")?;
                let pods = all.iter().filter(|one| one["kind"] == "object:pods");
                let names = pods.filter_map(|pod| pod["name"].as_str()?.split_once('/'));
                let ours = names.filter(|(found, _)| *found == namespace);
                Ok(ours.map(|(_, name)| name.to_owned()).collect())
            }
            Self::Direct(_) | Self::Real { .. } => {
                let pods = self.items(&format!("get pods -n {namespace}"))?;
                let stay = pods
                    .iter()
                    .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod));
                Ok(stay.filter_map(name).collect())
            }
        }
    }

    /// Names of the nodes; of a real cluster, those that are Ready.
    pub(crate) fn nodes(&self) -> Result<BTreeSet<String>> {
        match self {
            Self::Simulated(world) => {
                let clusters = world.control("/clusters")?;
                let nodes = clusters.iter().filter_map(|one| one["nodes"].as_array());
                let names = nodes.flatten().filter_map(Value::as_str);
                Ok(names.map(str::to_owned).collect())
            }
            Self::Direct(_) | Self::Real { .. } => {
                let nodes = self.items("get nodes")?;
                Ok(nodes
                    .iter()
                    .filter(|one| is_ready(one))
                    .filter_map(name)
                    .collect())
            }
        }
    }

    fn items(&self, words: &str) -> Result<Vec<Value>> {
        let (address, askpass) = match self {
            Self::Simulated(_) => return Ok(Vec::new()),
            Self::Direct(plane) => return plane.items(words),
            Self::Real { address, askpass } => (address, askpass),
        };
        let kubectl =
            format!("sudo kubectl --kubeconfig=/etc/kubernetes/admin.conf {words} -o json");
        let mut ssh = Command::new("ssh");
        ssh.args(SSH_OPTIONS)
            .args([&format!("{}@{address}", SSH.0), &kubectl])
            .env("SSH_ASKPASS", askpass)
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("VNFM_DEMO_PASSWORD", SSH.1)
            .stdin(std::process::Stdio::null());
        let output = ssh.output().context("cannot start `ssh`")?;
        ensure!(
            output.status.success(),
            "`kubectl {words}` on {address} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let list: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the output of `kubectl {words}` is not JSON"))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}

fn name(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(str::to_owned)
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}
