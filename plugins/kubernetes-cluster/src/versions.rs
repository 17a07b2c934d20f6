//! Versions of Kubernetes, and which upgrades are possible.
//!
//! The rules are those of <https://kubernetes.io/releases/version-skew-policy/> and of `kubeadm upgrade`: a control plane moves
//! by one minor version at a time, never back; a kubelet is at most three minor versions older than the API server and never newer.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use vnfm_plugin_sdk::prelude::*;

/// How many minor versions a kubelet may be older than the API server.
const KUBELET_SKEW: u32 = 3;
/// The archives of which an upgrade needs all or none.
const ARCHIVES: [&str; 3] = ["kubeadm", "kubectl", "kubelet"];

/// A released version, such as `v1.36.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// Reads `v1.36.2` or `1.36.2`, also with the revision of a package, as in `1.36.2-1.1`. A pre-release is not a version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, revision) = text.split_once(['-', '+', '~']).unwrap_or((text, "0"));
        let mut numbers = numbers.split('.').map(|part| part.parse().ok());
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let is_release =
            numbers.next().is_none() && revision.starts_with(|c: char| c.is_ascii_digit());
        is_release.then_some(Self {
            major,
            minor,
            patch,
        })
    }

    /// The version without `v`, as the names of packages have it.
    pub(crate) fn number(self) -> String {
        format!("{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a version such as v1.36.2"))
    }
}

/// A node with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeVersion {
    pub(crate) name: String,
    /// Of its kubelet; absent if the server is not a node.
    pub(crate) kubelet: Option<Version>,
    pub(crate) is_ready: bool,
}

/// The versions in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions {
    /// Of the control plane, as kubeadm has recorded it.
    pub(crate) control_plane: Version,
    pub(crate) nodes: Vec<NodeVersion>,
}

impl Versions {
    /// Refuses an upgrade that skips a minor version, leads back, or finds a node that is not ready.
    ///
    /// # Errors
    ///
    /// `version-skew` or `node-not-ready`.
    pub(crate) fn check(&self, to: Version) -> Result<(), DriverError> {
        let from = self.control_plane;
        let refused =
            |detail: String| Err(DriverError::new("version-skew", detail).phase("preflight"));
        if to < from {
            return refused(format!(
                "the control plane has {from}, and Kubernetes has no way back to {to}: name {from} or a later version"
            ));
        }
        if to.major != from.major || to.minor > from.minor + 1 {
            let next = format!("v{}.{}", from.major, from.minor + 1);
            return refused(format!(
                "the control plane has {from}, and an upgrade to {to} would skip a minor version: upgrade to a release of \
                 {next} first"
            ));
        }
        for node in &self.nodes {
            let Some(kubelet) = node.kubelet.filter(|_| node.is_ready) else {
                let detail =
                    "the node is not Ready, and an upgrade needs all of them: heal it first";
                return Err(DriverError::new("node-not-ready", detail)
                    .host(&node.name)
                    .phase("preflight")
                    .retryable());
            };
            if kubelet > to || kubelet.minor + KUBELET_SKEW < to.minor {
                return refused(format!(
                    "`{}` has {kubelet}; with the control plane at {to}, a node may have v{}.{} to {to}: heal it, so that its \
                     successor has such a version",
                    node.name,
                    to.major,
                    to.minor.saturating_sub(KUBELET_SKEW),
                ));
            }
        }
        Ok(())
    }
}

/// The version to upgrade to: the one that is named, or that of the package's archives; none without either.
///
/// # Errors
///
/// `bad-parameters` if they contradict each other or are incomplete.
pub(crate) fn target(
    named: Option<&str>,
    archives: &[String],
) -> Result<Option<Version>, DriverError> {
    let bad = |detail: String| DriverError::new("bad-parameters", detail).phase("preflight");
    let parse = |name: &str| {
        Version::parse(name).ok_or_else(|| {
            bad(format!(
                "`kubernetes_version`: `{name}` is not a released version such as v1.36.2"
            ))
        })
    };
    let named = named.map(parse).transpose()?;
    let found: BTreeSet<_> = archives.iter().filter_map(|path| archive(path)).collect();
    let programs: Vec<_> = found.iter().map(|(program, _)| *program).collect();
    let versions: BTreeSet<_> = found.iter().map(|(_, version)| *version).collect();
    if found.is_empty() {
        return Ok(named);
    }
    if programs != ARCHIVES || versions.len() != 1 {
        let found: Vec<_> = found
            .iter()
            .map(|(program, version)| format!("{program} {version}"))
            .collect();
        return Err(bad(format!(
            "the package has archives of {}; an upgrade needs kubeadm, kubelet and kubectl of one version",
            found.join(", ")
        )));
    }
    let archived = versions.first().copied();
    if named.is_some() && named != archived {
        let [named, archived] = [named, archived].map(|version| {
            version
                .map(|version| version.to_string())
                .unwrap_or_default()
        });
        return Err(bad(format!(
            "`kubernetes_version` is {named}, and the package has the archives of {archived}: leave the parameter out, or \
             put the other archives into the package"
        )));
    }
    Ok(archived)
}

/// The program and version of an archive `NAME_VERSION_ARCH.deb`, if it is one of [`ARCHIVES`].
fn archive(path: &str) -> Option<(&'static str, Version)> {
    let mut parts = path.rsplit('/').next()?.split('_');
    let name = parts.next()?;
    let program = ARCHIVES.into_iter().find(|program| *program == name)?;
    Some((program, Version::parse(parts.next()?)?))
}

/// The archives among `paths` of these packages.
pub(crate) fn archives_among(paths: &[String], programs: &[&str]) -> Vec<String> {
    let is_wanted = |path: &&String| {
        let file = path.rsplit('/').next().unwrap_or_default();
        let name = file.split('_').next().unwrap_or_default();
        programs.contains(&name)
    };
    paths.iter().filter(is_wanted).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::{NodeVersion, Version, Versions, archives_among, target};

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn cluster(control_plane: &str, kubelets: &[(&str, bool)]) -> Versions {
        let node = |(kubelet, is_ready): &(&str, bool)| NodeVersion {
            name: "w1".into(),
            kubelet: Version::parse(kubelet),
            is_ready: *is_ready,
        };
        Versions {
            control_plane: version(control_plane),
            nodes: kubelets.iter().map(node).collect(),
        }
    }

    #[test]
    fn only_released_versions_are_versions() {
        for text in ["v1.36.2", "1.36.2", "1.36.2-1.1", " v1.36.2\n"] {
            assert_eq!(version(text).to_string(), "v1.36.2", "{text}");
        }
        for text in ["", "1.36", "v1.36.x", "v1.37.0-rc.1", "1.36.2.1", "latest"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(version("v1.36.10") > version("v1.36.9"));
    }

    #[test]
    fn an_upgrade_moves_by_one_minor_version_and_never_back() {
        type Nodes = &'static [(&'static str, bool)];
        let ready: Nodes = &[("v1.36.2", true)];
        let table: &[(&str, Nodes, &str, &str)] = &[
            ("v1.36.2", ready, "v1.36.2", ""),
            ("v1.36.2", ready, "v1.36.3", ""),
            ("v1.36.2", ready, "v1.37.0", ""),
            ("v1.36.2", ready, "v1.38.0", "version-skew"),
            ("v1.36.2", ready, "v2.0.0", "version-skew"),
            ("v1.36.2", ready, "v1.36.1", "version-skew"),
            ("v1.36.2", ready, "v1.35.9", "version-skew"),
            (
                "v1.36.2",
                &[("v1.36.2", false)],
                "v1.37.0",
                "node-not-ready",
            ),
            ("v1.36.2", &[("", true)], "v1.37.0", "node-not-ready"),
            ("v1.36.2", &[("v1.34.0", true)], "v1.37.0", ""),
            ("v1.36.2", &[("v1.33.9", true)], "v1.37.0", "version-skew"),
            ("v1.36.2", &[("v1.37.1", true)], "v1.37.0", "version-skew"),
        ];
        for (from, nodes, to, code) in table {
            let checked = cluster(from, nodes).check(version(to));
            let found = checked
                .err()
                .map(|error| error.code.clone())
                .unwrap_or_default();
            assert_eq!(found, *code, "{from} {nodes:?} to {to}");
        }
    }

    #[test]
    fn the_target_is_named_or_that_of_the_archives() {
        let archives = |versions: [&str; 3]| -> Vec<String> {
            let names = ["kubeadm", "kubelet", "kubectl"].into_iter().zip(versions);
            let mut all: Vec<_> = names
                .map(|(name, version)| format!("Files/p/{name}_{version}-1.1_amd64.deb"))
                .collect();
            all.push("Files/p/cri-tools_1.36.0-1.1_amd64.deb".into());
            all
        };
        let same = archives(["1.37.0"; 3]);
        let found = |named: Option<&str>, archives: &[String]| {
            target(named, archives)
                .map(|found| found.map(|version| version.to_string()))
                .map_err(|error| error.detail.clone())
        };
        assert_eq!(found(None, &[]), Ok(None));
        assert_eq!(found(Some("1.37.0"), &[]), Ok(Some("v1.37.0".into())));
        assert_eq!(found(None, &same), Ok(Some("v1.37.0".into())));
        assert_eq!(found(Some("v1.37.0"), &same), Ok(Some("v1.37.0".into())));
        assert!(
            found(Some("v1.37.1"), &same)
                .unwrap_err()
                .contains("archives of v1.37.0")
        );
        assert!(
            found(Some("stable"), &[])
                .unwrap_err()
                .contains("`stable` is not")
        );
        assert!(
            found(None, &archives(["1.37.0", "1.37.0", "1.37.1"]))
                .unwrap_err()
                .contains("kubectl v1.37.1")
        );
        assert!(
            found(None, &same[..2])
                .unwrap_err()
                .contains("needs kubeadm, kubelet and kubectl")
        );
        let some = archives_among(&same, &["kubeadm", "cri-tools"]);
        assert_eq!(some, [&*same[0], &*same[3]]);
    }
}
