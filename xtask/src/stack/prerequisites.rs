//! Prerequisites of the real systems; all missing ones are reported at once.

use std::collections::BTreeSet;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Part, binaries, observe};
use crate::{paths, process};

/// A missing prerequisite, and how to provide it.
pub(crate) struct Missing {
    name: String,
    remedy: String,
}

impl Missing {
    fn new(name: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.remedy)
    }
}

/// Missing prerequisites of these parts that we cannot install ourselves.
pub(crate) fn missing(parts: &BTreeSet<Part>) -> Vec<Missing> {
    let down: Vec<_> = observe(parts)
        .into_iter()
        .filter(|part| !part.is_up)
        .collect();
    let to_start: BTreeSet<Part> = down.iter().map(|part| part.part).collect();
    if to_start.is_empty() {
        return Vec::new();
    }
    let mut missing = Vec::new();
    missing.extend(rights());
    missing.extend(cgroups(&to_start));
    missing.extend(packages(&to_start));
    missing.extend(go());
    missing.extend(disk());
    // if some of its processes run, the ports are its own
    missing.extend(
        down.iter()
            .filter(|part| part.processes.is_empty())
            .filter_map(|part| ports(part.part)),
    );
    missing
}

fn rights() -> Option<Missing> {
    let remedy = "`sudo -E env PATH=\"$PATH\" cargo xtask stack up` (the scripts create network namespaces, mounts and bridges)";
    (!rustix::process::getuid().is_root()).then(|| Missing::new("root", remedy))
}

fn cgroups(parts: &BTreeSet<Part>) -> Option<Missing> {
    let version_1 = Path::new("/sys/fs/cgroup/memory").is_dir();
    (parts.contains(&Part::Hosts) && !version_1).then(|| {
        Missing::new(
            "cgroup v1, for the kubelets of the hosts",
            "boot with `systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller` on the kernel's command line",
        )
    })
}

/// Package groups of these parts in `tests/stack/packages.sh`.
fn groups(parts: &BTreeSet<Part>) -> Vec<&'static str> {
    parts.iter().map(|part| part.name()).collect()
}

fn packages(parts: &BTreeSet<Part>) -> Option<Missing> {
    if process::find("dpkg-query").is_none() {
        return Some(Missing::new(
            "Debian's package tools",
            "the real systems run only on Debian 12",
        ));
    }
    if rustix::process::getuid().is_root() {
        return None; // `install` does it
    }
    let mut arguments = vec!["missing"];
    arguments.extend(groups(parts));
    let names = process::query(paths::scripts().join("packages.sh"), &arguments)?;
    (!names.is_empty()).then(|| {
        let names = names.split_whitespace().collect::<Vec<_>>().join(" ");
        Missing::new(
            "Debian packages",
            format!("`sudo apt-get install --no-install-recommends {names}`"),
        )
    })
}

/// Installs the Debian packages of these parts that are missing.
///
/// # Errors
/// If apt cannot install a package.
pub(crate) fn install(parts: &BTreeSet<Part>) -> Result<()> {
    let script = paths::scripts().join("packages.sh");
    let mut arguments = vec!["missing"];
    arguments.extend(groups(parts));
    if process::query(&script, &arguments).is_some_and(|names| names.is_empty()) {
        return Ok(());
    }
    let mut install = Command::new(script);
    install.arg("install").args(groups(parts));
    process::run("Debian packages", &mut install).map(drop)
}

fn go() -> Option<Missing> {
    let names = binaries::to_build(&paths::cache());
    if names.is_empty() || binaries::go_builds() {
        return None;
    }
    let remedy = format!(
        "install Go 1.26 or newer, or put these into a folder and name it in KUBEBUILDER_ASSETS: {}",
        names.join(" ")
    );
    Some(Missing::new("Kubernetes binaries", remedy))
}

/// Folders with too little free space.
fn disk() -> Vec<Missing> {
    let cache = paths::cache();
    let for_cache = if binaries::to_build(&cache).is_empty() {
        1
    } else {
        9
    };
    [(cache, for_cache), (paths::state(), 4)]
        .into_iter()
        .filter_map(|(folder, gib)| {
            let free = free_gib(&folder)?;
            (free < gib).then(|| {
                let what = format!(
                    "disk: `{}` has {free} GiB free, needs {gib}",
                    folder.display()
                );
                Missing::new(
                    what,
                    "free some space, or set VNFM_CACHE or VNFM_STACK to another folder",
                )
            })
        })
        .collect()
}

fn free_gib(folder: &Path) -> Option<u64> {
    let mut folder: PathBuf = folder.to_path_buf();
    while !folder.exists() {
        folder = folder.parent()?.to_path_buf();
    }
    let found = rustix::fs::statvfs(&folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize) >> 30)
}

fn ports(part: Part) -> Option<Missing> {
    let taken = part
        .ports()
        .iter()
        .filter(|port| TcpListener::bind(("127.0.0.1", **port)).is_err());
    let taken: Vec<String> = taken.map(u16::to_string).collect();
    (!taken.is_empty()).then(|| {
        let what = format!(
            "free ports for {}: {} on 127.0.0.1 are in use",
            part.name(),
            taken.join(" ")
        );
        Missing::new(
            what,
            "stop the programs that listen there: `ss -ltnp` lists them",
        )
    })
}

impl Part {
    /// The ports on which it listens.
    pub(crate) fn ports(self) -> &'static [u16] {
        match self {
            Self::Openstack => &[
                25000, 25690, 25699, 28004, 28774, 28778, 29292, 29696, 24369,
            ],
            Self::Kubernetes => &[16443, 16444, 16445, 16446, 16447],
            Self::Hosts => &[],
        }
    }
}
