//! The Kubernetes binaries and images: the user's own where they fit, else built once into a cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{places, process, terminal};

/// Kubernetes' own programs: they are taken from the user only if all have one version.
const KUBERNETES: [&str; 7] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubeadm",
    "kubectl",
];
/// What runs beside them.
const OTHERS: [&str; 5] = ["etcd", "coredns", "helm", "kwok", "pause"];
/// Go's oldest version that builds them.
const GO: (u32, u32) = (1, 26);

/// Where they lie.
pub(crate) fn folder(cache: &Path) -> PathBuf {
    cache.join("kubernetes-bin")
}

/// Where the images made of them lie.
pub(crate) fn images(cache: &Path) -> PathBuf {
    cache.join("kubernetes-images")
}

/// What neither the cache nor the user has.
pub(crate) fn to_build(cache: &Path) -> Vec<&'static str> {
    let theirs = of_the_user();
    lacking(cache)
        .into_iter()
        .filter(|name| !theirs.iter().any(|(have, _)| have == name))
        .collect()
}

fn lacking(cache: &Path) -> Vec<&'static str> {
    let folder = folder(cache);
    KUBERNETES
        .into_iter()
        .chain(OTHERS)
        .filter(|name| !folder.join(name).is_file())
        .collect()
}

/// What the user has: in `KUBEBUILDER_ASSETS`, else on the search path.
fn of_the_user() -> Vec<(&'static str, PathBuf)> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let place = |name: &'static str| {
        let given = assets
            .as_ref()
            .map(|folder| folder.join(name))
            .filter(|file| file.is_file());
        given
            .or_else(|| process::find(name))
            .map(|file| (name, file))
    };
    let kubernetes: Vec<_> = KUBERNETES.into_iter().filter_map(place).collect();
    let mut versions: Vec<_> = kubernetes
        .iter()
        .map(|(name, file)| version(name, file))
        .collect();
    versions.dedup();
    let fits = kubernetes.len() == KUBERNETES.len() && versions.len() == 1 && versions[0].is_some();
    // kwok is of use only with the stages that our build puts beside it
    let others = OTHERS
        .into_iter()
        .filter(|name| *name != "kwok" && *name != "pause")
        .filter_map(place);
    let kubernetes = if fits { kubernetes } else { Vec::new() };
    kubernetes.into_iter().chain(others).collect()
}

fn version(name: &str, file: &Path) -> Option<String> {
    let answer = match name {
        "kubeadm" => process::ask(file, &["version", "-o", "short"]),
        "kubectl" => process::ask(file, &["version", "--client"]),
        _ => process::ask(file, &["--version"]),
    }?;
    answer
        .split_whitespace()
        .find(|word| word.starts_with('v'))
        .map(str::to_owned)
}

/// Whether there is a Go that builds them.
pub(crate) fn go_builds() -> bool {
    process::ask("go", &["env", "GOVERSION"]).is_some_and(|answer| new_enough(&answer))
}

fn new_enough(answer: &str) -> bool {
    let mut numbers = answer
        .trim_start_matches("go")
        .split('.')
        .map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= GO,
        _ => false,
    }
}

/// Sees to it that binaries and images are in the cache.
///
/// # Errors
/// When something cannot be copied or built.
pub(crate) fn provide(cache: &Path) -> Result<()> {
    let folder = folder(cache);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make `{}`", folder.display()))?;
    let theirs = of_the_user();
    for name in lacking(cache) {
        if let Some((_, file)) = theirs.iter().find(|(have, _)| *have == name) {
            std::fs::copy(file, folder.join(name)).with_context(|| {
                format!("cannot copy `{}` to `{}`", file.display(), folder.display())
            })?;
            terminal::note(&format!("           {name} from {}", file.display()));
        }
    }
    let missing = lacking(cache);
    if !missing.is_empty() || !folder.join("kwok.yaml").is_file() {
        let label = format!(
            "Kubernetes binaries, once, into {} (8 to 12 minutes)",
            folder.display()
        );
        let mut build = Command::new(places::scripts().join("kubernetes/assets/build.sh"));
        build.arg(&folder).args(if missing.is_empty() {
            vec!["kwok"]
        } else {
            missing
        });
        process::run(&label, &mut build)?;
    }
    make_images(cache)
}

fn make_images(cache: &Path) -> Result<()> {
    let (folder, images) = (folder(cache), images(cache));
    let made = images.join("worker/cni.tar");
    if newest(&folder) <= modified(&made) && made.exists() {
        return Ok(());
    }
    let mut make = Command::new(places::scripts().join("kubernetes/hosts/images.sh"));
    make.arg(&folder).arg(&images);
    process::run("container images of them", &mut make).map(drop)
}

fn newest(folder: &Path) -> Option<std::time::SystemTime> {
    KUBERNETES
        .into_iter()
        .chain(OTHERS)
        .filter_map(|name| modified(&folder.join(name)))
        .max()
}

fn modified(file: &Path) -> Option<std::time::SystemTime> {
    file.metadata().ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_is_compared_by_number() {
        for (answer, fits) in [
            ("go1.26.8", true),
            ("go1.27", true),
            ("go2.0", true),
            ("go1.9.7", false),
            ("devel", false),
        ] {
            assert_eq!(new_enough(answer), fits, "{answer}");
        }
    }

    #[test]
    fn an_empty_cache_lacks_everything() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(lacking(cache.path()).len(), KUBERNETES.len() + OTHERS.len());
    }
}
