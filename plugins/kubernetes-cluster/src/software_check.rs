//! Which nodes get which software, and what is refused of it before anything is installed.

use crate::node::{Node, bad};
use crate::params::{Installation, NodeSoftware};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_plugin_sdk::prelude::*;

const CONTROL_PLANE: &str = "control-plane";
const WORKER: &str = "worker";
/// Maximum length of a name and of a version, in characters.
const MAX_CHARS: usize = 63;

/// The role of a node, as installation scripts see it.
pub(crate) fn role(is_control_plane: bool) -> &'static str {
    if is_control_plane {
        CONTROL_PLANE
    } else {
        WORKER
    }
}

/// Whether a node gets the software.
pub(crate) fn applies(software: &NodeSoftware, node: &Node, is_control_plane: bool) -> bool {
    let own = role(is_control_plane);
    let mut roles = software.roles.iter();
    software.roles.is_empty()
        || roles.any(|role| role == own || (!is_control_plane && *role == node.vdu))
}

/// Refuses software whose name, version or roles are not usable, and two versions of one name for a role.
///
/// # Errors
///
/// `bad-parameters`, naming the software.
pub(crate) fn check(installation: &Installation) -> Result<(), DriverError> {
    let known = Groups::new(installation);
    let mut seen = BTreeMap::<&str, BTreeSet<&str>>::new();
    for software in &installation.node_software {
        let (name, version) = (software.name.as_str(), software.version.as_str());
        if !is_name(name) {
            return Err(bad(format!(
                "`node_software` has the name `{name}`: lower-case letters, digits, `+`, `-` and `.` are allowed, at most \
                 {MAX_CHARS}"
            )));
        }
        if !is_version(version) {
            return Err(bad(format!(
                "`node_software` `{name}` has the version `{version}`: letters, digits, `.`, `_`, `+`, `~`, `:` and `-` are \
                 allowed, at most {MAX_CHARS}, the first a letter or digit"
            )));
        }
        let groups = known.named_by(software)?;
        let earlier = seen.entry(name).or_default();
        if let Some(group) = groups.iter().find(|group| earlier.contains(*group)) {
            return Err(bad(format!(
                "`node_software` has `{name}` twice for `{group}`: a node has one version of it"
            )));
        }
        earlier.extend(groups);
    }
    Ok(())
}

/// Refuses software whose files the package lacks.
///
/// # Errors
///
/// `bad-parameters`, naming software and file.
pub(crate) fn check_files(
    software: &[NodeSoftware],
    artifacts: &[String],
) -> Result<(), DriverError> {
    for one in software {
        let (name, path) = (&one.name, &one.artifact);
        let file = path.rsplit('/').next().unwrap_or_default();
        if !file.chars().all(|c| is_plain(c) || c == '_') {
            return Err(bad(format!(
                "the file of `{path}` for `node_software` `{name}` has a name with other characters than letters, digits, \
                 `.`, `_`, `+`, `~`, `:` and `-`: rename it"
            )));
        }
        let mut paths = [path].into_iter().chain(&one.install);
        if let Some(missing) = paths.find(|path| !artifacts.contains(*path)) {
            return Err(bad(format!(
                "the package has no `{missing}` for `node_software` `{name}` {}",
                one.version
            )));
        }
    }
    Ok(())
}

/// The groups of nodes with software of their own: the control plane, and each group of workers by its VDU.
struct Groups<'a>(Vec<&'a str>);

impl<'a> Groups<'a> {
    fn new(installation: &'a Installation) -> Self {
        let worker = installation.worker_node.as_ref();
        let worker = worker.and_then(|worker| worker.vdu_id.as_deref());
        let others = installation.worker_groups.iter();
        let others = others.map(|group| group.vdu_id.as_str());
        Self(
            [CONTROL_PLANE, worker.unwrap_or(WORKER)]
                .into_iter()
                .chain(others)
                .collect(),
        )
    }

    fn named_by(&self, software: &NodeSoftware) -> Result<BTreeSet<&'a str>, DriverError> {
        if software.roles.is_empty() {
            return Ok(self.0.iter().copied().collect());
        }
        let mut named = BTreeSet::new();
        for role in &software.roles {
            if role == WORKER {
                named.extend(&self.0[1..]);
            } else if let Some(group) = self.0.iter().find(|group| *group == role) {
                named.insert(*group);
            } else {
                return Err(bad(format!(
                    "`node_software` `{}` is for the role `{role}`, which does not exist: the roles are `{WORKER}`, `{}`",
                    software.name,
                    self.0.join("`, `")
                )));
            }
        }
        Ok(named)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-.~:".contains(c)
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    starts_plain(name) && name.chars().all(plain)
}

fn is_version(version: &str) -> bool {
    starts_plain(version) && version.chars().all(|c| is_plain(c) || c == '_')
}

fn starts_plain(text: &str) -> bool {
    text.len() <= MAX_CHARS && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{applies, check, check_files};
    use crate::node::Node;
    use crate::params::{Installation, NodeSoftware};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use vnfm_plugin_sdk::SshTarget;

    fn installation(software: &Value) -> Installation {
        serde_json::from_value(json!({
            "master_node": { "ssh_cp_name": "m", "username": "u" },
            "worker_node": { "ssh_cp_name": "w", "username": "u" },
            "worker_groups": [{ "vdu_id": "gpuNode", "ssh_cp_name": "g" }],
            "node_software": software,
        }))
        .unwrap()
    }

    fn software(name: &str, version: &str, roles: &[&str]) -> Value {
        json!({ "name": name, "version": version, "roles": roles, "artifact": "Files/x.deb" })
    }

    fn refused(all: &[Value]) -> String {
        let checked = check(&installation(&json!(all)));
        checked
            .err()
            .map(|error| error.detail.clone())
            .unwrap_or_default()
    }

    #[test]
    fn software_that_no_host_could_have_is_refused() {
        let two = |one: &[&str], other: &[&str]| {
            refused(&[software("agent", "1", one), software("agent", "2", other)])
        };
        assert_eq!(two(&["control-plane"], &["worker"]), "");
        assert_eq!(
            two(&["control-plane", "worker"], &[])
                .matches("twice for")
                .count(),
            1
        );
        assert!(two(&["worker"], &["gpuNode"]).contains("twice for `gpuNode`"));
        assert!(two(&[], &["gpuNode"]).contains("twice for `gpuNode`"));
        let unknown = refused(&[software("agent", "1", &["storage"])]);
        assert!(
            unknown.contains("`storage`") && unknown.contains("`gpuNode`"),
            "{unknown}"
        );
        for name in [
            "",
            "../etc",
            "a b",
            "Agent",
            "-a",
            "a;reboot",
            &"a".repeat(64),
        ] {
            assert!(
                refused(&[software(name, "1", &[])]).contains("the name"),
                "{name}"
            );
        }
        for version in ["", "..", "1/2", "1 2", "$(id)", "-1", "1\n2"] {
            assert!(
                refused(&[software("agent", version, &[])]).contains("the version"),
                "{version}"
            );
        }
        assert_eq!(
            refused(&[software("agent", "1:2.0~rc1+dfsg-1ubuntu0.1", &[])]),
            ""
        );
    }

    #[test]
    fn files_that_the_package_lacks_are_named() {
        let all = installation(&json!([
            { "name": "agent", "version": "1", "artifact": "a/agent.tar.gz", "install": "a/install" }
        ]));
        let refused = |artifacts: &[&str]| {
            let artifacts: Vec<_> = artifacts.iter().map(ToString::to_string).collect();
            let checked = check_files(&all.node_software, &artifacts);
            checked
                .err()
                .map(|error| error.detail.clone())
                .unwrap_or_default()
        };
        assert!(refused(&["a/install"]).contains("no `a/agent.tar.gz`"));
        assert!(refused(&["a/agent.tar.gz"]).contains("no `a/install`"));
        assert_eq!(refused(&["a/agent.tar.gz", "a/install"]), "");
    }

    #[test]
    fn roles_are_control_plane_workers_and_groups_of_workers() {
        let node = |vdu: &str| Node {
            vnfc: "v".into(),
            vdu: vdu.into(),
            name: "n".into(),
            ssh: SshTarget::new("s", "10.0.0.1", "u"),
            address: "10.0.0.1".into(),
            labels: BTreeMap::new(),
            taints: None,
        };
        let table: &[(&[&str], [bool; 3])] = &[
            (&[], [true, true, true]),
            (&["control-plane"], [true, false, false]),
            (&["worker"], [false, true, true]),
            (&["gpuNode"], [false, false, true]),
            (&["control-plane", "gpuNode"], [true, false, true]),
        ];
        for (roles, expected) in table {
            let one: NodeSoftware = serde_json::from_value(software("a", "1", roles)).unwrap();
            let found = [
                ("masterNode", true),
                ("workerNode", false),
                ("gpuNode", false),
            ];
            let found = found.map(|(vdu, is_master)| applies(&one, &node(vdu), is_master));
            assert_eq!(found, *expected, "{roles:?}");
        }
    }
}
