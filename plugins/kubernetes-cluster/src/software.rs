//! Software of the package on nodes: what a host has, what it should have, and its installation.
//!
//! ```text
//! list what is recorded ─► which differ ─► files on the host? else upload ─► `vnfm-software.sh install` ─► recorded
//! ```
//!
//! New nodes get everything before they join; `patch.rs` changes the nodes of a cluster. The host checks the files against
//! the hashes of those in the package, keeps those of the version before, and records a version once its installation has
//! succeeded. So an attempt after a crash sees what is left to do.

use crate::installer::{Installer, PARALLEL_HOSTS};
use crate::machine::{Machine, StepState};
use crate::params::NodeSoftware;
use crate::plan::{Node, Plan};
use crate::software_check::{applies, role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{Instance, Object};

/// The step that installs, and the phase in errors.
pub(crate) const STEP: &str = "software";
const SCRIPT: &str = "/run/vnfm/vnfm-software";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-software";
const SCRIPT_TEXT: &str = include_str!("vnfm-software.sh");
/// The folder on a host with the files of each version.
const FOLDER: &str = "/var/lib/vnfm/software";
/// The exit code of an installation that was stopped.
const TOO_SLOW: i32 = 124;
/// How often a file is uploaded to a host that does not respond, and the pause between two attempts.
const MAX_UPLOADS: u32 = 3;
const UPLOAD_PAUSE: Duration = Duration::from_secs(2);
/// How many installations a message names.
const MAX_NAMED: usize = 12;
/// The instance's metadata: versions by node and name; those that a node should have and has not.
const SHOWN: &str = "nodeSoftware";
const SHOWN_DIFFERING: &str = "nodeSoftwareDiffers";

/// What a host has of one software.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// The version whose installation succeeded last.
    pub(crate) version: Option<String>,
    /// Whether an installation has begun since and not succeeded.
    pub(crate) is_interrupted: bool,
}

/// What a host has, by name.
pub(crate) type OnHost = BTreeMap<String, Recorded>;

/// Software to install on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) name: &'a str,
    /// The version that the host has.
    pub(crate) from: Option<String>,
    pub(crate) to: &'a str,
    /// How the package describes it.
    pub(crate) software: Option<&'a NodeSoftware>,
    /// Whether its files are those of the package; else they were kept on the host.
    pub(crate) is_in_package: bool,
}

impl Change<'_> {
    /// Whether the node is drained before.
    pub(crate) fn drains(&self) -> bool {
        self.software.is_none_or(|software| software.drain)
    }

    fn seconds(&self) -> u32 {
        self.software
            .map_or(600, |software| software.timeout_seconds)
    }

    /// What it does, for messages.
    pub(crate) fn describe(&self) -> String {
        let (name, to) = (self.name, self.to);
        match &self.from {
            Some(from) => format!("`{name}` {from} to {to}"),
            None => format!("`{name}` {to}"),
        }
    }
}

/// What the node must get to have what the plan wants, in the order of the parameters.
pub(crate) fn changes<'a>(plan: &'a Plan, node: &Node, on_host: &OnHost) -> Vec<Change<'a>> {
    let is_control_plane = plan.is_control_plane(node);
    let wanted = plan.software.iter();
    let wanted = wanted.filter(|software| applies(software, node, is_control_plane));
    let change = |software: &'a NodeSoftware| {
        let recorded = on_host.get(&software.name).cloned().unwrap_or_default();
        let has_it = recorded.version.as_ref() == Some(&software.version);
        (!has_it || recorded.is_interrupted).then_some(Change {
            name: &software.name,
            from: recorded.version,
            to: &software.version,
            software: Some(software),
            is_in_package: true,
        })
    };
    wanted.filter_map(change).collect()
}

impl Machine<'_> {
    /// What is recorded on a host that has been reached. An installation that an earlier attempt began is awaited first.
    pub(crate) async fn software(&self) -> Result<OnHost, DriverError> {
        if self.state(STEP).await? == StepState::Running
            && let Err(error) = self.finish(STEP).await
        {
            let name = &self.node.name;
            self.cx.info(&format!(
                "an earlier installation on `{name}`: {}",
                error.detail
            ));
        }
        let script = Upload::new(SCRIPT, SCRIPT_TEXT).mode("0700");
        self.put(script, STEP).await?;
        let listed = self.run(STEP, &format!("{RUN} list")).await?.stdout;
        Ok(read(&listed))
    }
}

fn read(listed: &str) -> OnHost {
    let recorded = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        let recorded = Recorded {
            version: Some(version.to_owned()).filter(|version| version != "-"),
            is_interrupted: words.nth(1).is_some(),
        };
        Some((name.to_owned(), recorded))
    };
    listed.lines().filter_map(recorded).collect()
}

impl Installer<'_> {
    /// Installs what a new host lacks.
    ///
    /// # Errors
    ///
    /// Those of [`Installer::install_software`].
    pub(crate) async fn add_software(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        if self.plan.software.is_empty() {
            return Ok(());
        }
        let on_host = host.software().await?;
        for change in changes(self.plan, host.node, &on_host) {
            let message = format!("installing {} on `{}`", change.describe(), host.node.name);
            self.report(10, &message).await;
            self.install_software(host, &change).await?;
        }
        Ok(())
    }

    /// Installs one version on a host whose software was listed.
    ///
    /// # Errors
    ///
    /// `software-failed` with the last lines of the script or package manager, `software-timed-out` if it was stopped.
    pub(crate) async fn install_software(
        &self,
        host: &Machine<'_>,
        change: &Change<'_>,
    ) -> Result<(), DriverError> {
        if let Some(software) = change.software.filter(|_| change.is_in_package) {
            self.provide(host, software).await?;
        }
        let role = role(self.plan.is_control_plane(host.node));
        let (name, to, seconds) = (change.name, change.to, change.seconds());
        let line = format!(
            "{RUN} install {name} {to} {seconds} {role} {}",
            host.node.name
        );
        let installed = host.step(STEP, &line).await;
        installed.map_err(|error| {
            if error.exit_code == Some(TOO_SLOW) {
                let detail = format!(
                    "the installation of `{name}` {to} was stopped because it took more than {seconds} s: correct it, or give \
                     it more time with `timeout_seconds`"
                );
                let slow = host.refusal("software-timed-out", STEP, detail).retryable();
                return slow.last_lines(&error.last_lines.join("\n"));
            }
            error
        })
    }

    /// Makes the files of the package exist on the host; those that it has are not uploaded again.
    async fn provide(
        &self,
        host: &Machine<'_>,
        software: &NodeSoftware,
    ) -> Result<(), DriverError> {
        let (name, version) = (&software.name, &software.version);
        let file = software.artifact.rsplit('/').next().unwrap_or_default();
        let artifact = (format!("artifact/{file}"), &software.artifact, "0600");
        let script = software.install.iter();
        let script = script.map(|path| ("installer".to_owned(), path, "0700"));
        let files: Vec<_> = [artifact].into_iter().chain(script).collect();
        let mut sums = Vec::new();
        for (file, path, _) in &files {
            sums.push(format!("{}  {file}\n", self.hash(path).await?));
        }
        let sums = sums.concat();
        let line = format!("{RUN} sums {name} {version}");
        if host.run(STEP, &line).await?.stdout == sums {
            return Ok(());
        }
        let folder = format!("{FOLDER}/{name}/{version}");
        for (file, path, mode) in files {
            let upload = Upload::artifact(format!("{folder}/{file}"), path.as_str());
            upload_patiently(host, upload.mode(mode)).await?;
        }
        upload_patiently(host, Upload::new(format!("{folder}/sums"), sums)).await
    }

    /// The SHA-256 of a file of the package, which is read once for all hosts.
    async fn hash(&self, path: &str) -> Result<String, DriverError> {
        let mut known = self.hashes.lock().await;
        if let Some(hash) = known.get(path) {
            return Ok(hash.clone());
        }
        let hash = hex::encode(Sha256::digest(self.cx.artifact(path).await?));
        known.insert(path.to_owned(), hash.clone());
        Ok(hash)
    }
}

/// Uploads a file, again if the host does not respond.
async fn upload_patiently(host: &Machine<'_>, file: Upload) -> Result<(), DriverError> {
    for _ in 1..MAX_UPLOADS {
        match host.put(file.clone(), STEP).await {
            Err(error) if error.retryable => {
                let reason = format!("an upload to `{}`: {}", host.node.name, error.detail);
                host.cx.pause(&reason, UPLOAD_PAUSE).await?;
            }
            result => return result,
        }
    }
    host.put(file, STEP).await
}

/// Adds to what the instance shows the versions on the hosts that respond, and those that a node should have and has not.
/// Does nothing if the cluster has no such software.
///
/// # Errors
///
/// If a host that responds cannot be read.
pub(crate) async fn shown(
    effects: Effects,
    (cx, plan, instance): (&HookContext, &Plan, &Instance),
) -> Result<Effects, DriverError> {
    if plan.software.is_empty() && !instance.metadata.contains_key(SHOWN) {
        return Ok(effects);
    }
    let looks = plan.nodes().map(|node| async move {
        let host = Machine::new(cx, plan, node);
        if !host.answers().await {
            return Ok(None);
        }
        host.reach_known().await?;
        Ok::<_, DriverError>(Some((node, host.software().await?)))
    });
    let found = join_all_limited(PARALLEL_HOSTS, looks).await;
    let (mut versions, mut differing) = (Object::new(), Object::new());
    for found in found {
        let Some((node, on_host)) = found? else {
            continue;
        };
        let version = |(name, recorded): (&String, &Recorded)| {
            Some((name.clone(), json!(recorded.version.as_ref()?)))
        };
        let on_node: Object = on_host.iter().filter_map(version).collect();
        versions.insert(node.name.clone(), on_node.into());
        let missing = changes(plan, node, &on_host);
        if !missing.is_empty() {
            let missing = missing
                .iter()
                .map(|change| (change.name.to_owned(), json!(change.to)));
            differing.insert(node.name.clone(), missing.collect::<Object>().into());
        }
    }
    // `null` removes what was shown before.
    let differing = if differing.is_empty() {
        Value::Null
    } else {
        differing.into()
    };
    Ok(effects
        .metadata(SHOWN, versions)
        .metadata(SHOWN_DIFFERING, differing))
}

/// What a patch would install, from what [`shown`] has added; empty if nothing differs.
pub(crate) fn describe_differing(effects: &Effects) -> String {
    let differing = effects.metadata.get(SHOWN_DIFFERING);
    let nodes = differing.and_then(Value::as_object).into_iter().flatten();
    let all = nodes.flat_map(|(node, missing)| {
        let missing = missing.as_object().into_iter().flatten();
        missing.map(move |(name, version)| {
            let version = version.as_str().unwrap_or_default();
            format!("`{name}` {version} on `{node}`")
        })
    });
    let mut all: Vec<_> = all.collect();
    if all.is_empty() {
        return String::new();
    }
    if all.len() > MAX_NAMED {
        let others = all.len() - MAX_NAMED;
        all.truncate(MAX_NAMED);
        all.push(format!("and {others} more"));
    }
    format!("; a patch would install {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Recorded, read};

    #[test]
    fn records_are_parsed() {
        let on_host = read("agent 1.0 0a1b\ndriver 2.0 0c interrupted\nnew - - interrupted\n\nx\n");
        let recorded = |name: &str| on_host[name].clone();
        let expected = |version: Option<&str>, is_interrupted| Recorded {
            version: version.map(str::to_owned),
            is_interrupted,
        };
        assert_eq!(recorded("agent"), expected(Some("1.0"), false));
        assert_eq!(recorded("driver"), expected(Some("2.0"), true));
        assert_eq!(recorded("new"), expected(None, true));
        assert_eq!(on_host.len(), 3);
    }
}
