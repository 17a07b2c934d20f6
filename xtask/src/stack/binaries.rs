//! The Kubernetes binaries and images: those of the user if suitable, otherwise built once into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, process, terminal};

/// Programs of Kubernetes: those of the user are used only if all have the same version.
const KUBERNETES: [&str; 7] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubeadm",
    "kubectl",
];
/// Other programs that the stack needs.
const OTHERS: [&str; 10] = [
    "etcd",
    "etcdctl",
    "etcdutl",
    "coredns",
    "helm",
    "helm4",
    "kwok",
    "pause",
    "metrics-server",
    "local-path-provisioner",
];
/// Minimum Go version that builds them.
const MIN_GO: (u32, u32) = (1, 26);

/// Folder of the binaries in the cache.
pub(crate) fn folder(cache: &Path) -> PathBuf {
    cache.join("kubernetes-bin")
}

/// Folder of the container images built from them.
pub(crate) fn images(cache: &Path) -> PathBuf {
    cache.join("kubernetes-images")
}

/// Names of the programs that neither the cache nor the user has.
pub(crate) fn to_build(cache: &Path) -> Vec<&'static str> {
    let theirs = user_binaries();
    missing_binaries(cache)
        .into_iter()
        .filter(|name| !theirs.iter().any(|(have, _)| have == name))
        .collect()
}

fn missing_binaries(cache: &Path) -> Vec<&'static str> {
    let folder = folder(cache);
    KUBERNETES
        .into_iter()
        .chain(OTHERS)
        .filter(|name| !folder.join(name).is_file())
        .collect()
}

/// Programs of the user: from `KUBEBUILDER_ASSETS`, otherwise from `PATH`.
fn user_binaries() -> Vec<(&'static str, PathBuf)> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let find = |name: &'static str| {
        let given = assets
            .as_ref()
            .map(|folder| folder.join(name))
            .filter(|file| file.is_file());
        given
            .or_else(|| process::find(name))
            .map(|file| (name, file))
    };
    let kubernetes: Vec<_> = KUBERNETES.into_iter().filter_map(find).collect();
    let mut versions: Vec<_> = kubernetes
        .iter()
        .map(|(name, file)| version(name, file))
        .collect();
    versions.dedup();
    let fits = kubernetes.len() == KUBERNETES.len() && versions.len() == 1 && versions[0].is_some();
    // kwok needs the stages file that only our build creates
    let others = OTHERS
        .into_iter()
        .filter(|name| *name != "kwok" && *name != "pause")
        .filter_map(find);
    let kubernetes = if fits { kubernetes } else { Vec::new() };
    kubernetes.into_iter().chain(others).collect()
}

fn version(name: &str, file: &Path) -> Option<String> {
    let answer = match name {
        "kubeadm" => process::query(file, &["version", "-o", "short"]),
        "kubectl" => process::query(file, &["version", "--client"]),
        _ => process::query(file, &["--version"]),
    }?;
    answer
        .split_whitespace()
        .find(|word| word.starts_with('v'))
        .map(str::to_owned)
}

/// Whether an installed Go is new enough to build them.
pub(crate) fn go_builds() -> bool {
    process::query("go", &["env", "GOVERSION"]).is_some_and(|answer| new_enough(&answer))
}

fn new_enough(answer: &str) -> bool {
    let mut numbers = answer
        .trim_start_matches("go")
        .split('.')
        .map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= MIN_GO,
        _ => false,
    }
}

/// Puts missing binaries and images into the cache.
///
/// # Errors
/// If something cannot be copied or built.
pub(crate) fn provide(cache: &Path) -> Result<()> {
    let folder = folder(cache);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create `{}`", folder.display()))?;
    let theirs = user_binaries();
    for name in missing_binaries(cache) {
        if let Some((_, file)) = theirs.iter().find(|(have, _)| *have == name) {
            std::fs::copy(file, folder.join(name)).with_context(|| {
                format!("cannot copy `{}` to `{}`", file.display(), folder.display())
            })?;
            terminal::note(&format!("           {name} from {}", file.display()));
        }
    }
    let missing = missing_binaries(cache);
    if !missing.is_empty() || !folder.join("kwok.yaml").is_file() {
        let label = format!(
            "Kubernetes binaries, once, into {} (8 to 12 minutes)",
            folder.display()
        );
        let mut build = Command::new(paths::scripts().join("kubernetes/assets/build.sh"));
        build.arg(&folder).args(if missing.is_empty() {
            vec!["kwok"]
        } else {
            missing
        });
        process::run(&label, &mut build)?;
    }
    build_images(cache)
}

fn build_images(cache: &Path) -> Result<()> {
    let (folder, images) = (folder(cache), images(cache));
    let made = images.join("worker/cni.tar");
    if newest(&folder) <= modified(&made) && made.exists() {
        return Ok(());
    }
    let mut make = Command::new(paths::scripts().join("kubernetes/hosts/images.sh"));
    make.arg(&folder).arg(&images);
    process::run("Kubernetes container images", &mut make).map(drop)
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
    fn go_versions_are_compared_numerically() {
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
        assert_eq!(
            missing_binaries(cache.path()).len(),
            KUBERNETES.len() + OTHERS.len()
        );
    }
}
