//! Packages that a story makes from the samples: the next release of VNF-A, and VNF-B with a disruption budget.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, process, stack};

/// The VNFD of a next release.
const NEXT_VNFD: &str = "3f0c7a52-6d1e-4b8e-9a57-c2b1d8e4f60a";

/// A package with the programs of the next minor version of Kubernetes.
///
/// `tests/stack/kubernetes/next.sh` builds them.
pub(crate) struct NextRelease {
    pub(crate) package: PathBuf,
    pub(crate) vnfd_id: &'static str,
    pub(crate) version: String,
    /// Folder with `images` and `images/worker`.
    pub(crate) assets: PathBuf,
}

impl NextRelease {
    /// Makes the next release of a sample below `folder`.
    ///
    /// # Errors
    /// If the programs do not build, or the package cannot be written.
    pub(crate) fn make(sample: &str, folder: &Path) -> Result<Self> {
        let programs = stack::environment();
        let programs = programs
            .iter()
            .find(|(name, _)| *name == "VNFM_LIVE_ASSETS");
        let (_, programs) = programs.context("the programs of Kubernetes are missing")?;
        let assets = programs.with_file_name("kubernetes-next");
        let mut script = Command::new(paths::root().join("tests/stack/kubernetes/next.sh"));
        script.args([programs, &assets]);
        process::run("the next minor version of Kubernetes", &mut script)?;
        let version = read(&assets.join("version"))?;
        let package = copy(sample, &folder.join("next"))?;
        for file in ["vnf-a.yaml", "vnf-a-types.yaml"] {
            rename(&package.join("Definitions").join(file))?;
        }
        let archives = package.join("Files/kubernetes/packages");
        copy_all(&assets.join("archives"), &archives)?;
        Ok(Self {
            package,
            vnfd_id: NEXT_VNFD,
            version: version.trim().to_owned(),
            assets,
        })
    }
}

/// Gives a VNFD another id, if the file has one.
fn rename(file: &Path) -> Result<()> {
    let text = read(file)?;
    let id = text
        .split_once("descriptor_id:")
        .and_then(|(_, rest)| rest.split_once("default: "))
        .and_then(|(_, rest)| rest.split('}').next());
    let Some(id) = id else { return Ok(()) };
    write(file, &text.replace(id, NEXT_VNFD))
}

/// Copies a sample of VNF-B below `folder`, with a disruption budget: one of its pods always runs.
///
/// # Errors
/// If the package cannot be written.
pub(crate) fn with_budget(sample: &str, folder: &Path) -> Result<PathBuf> {
    let package = copy(sample, &folder.join("with-budget"))?;
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web-stays}\n\
                  spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\n";
    write(&package.join("Files/kubernetes/budget.yaml"), budget)?;
    for (file, line) in [
        (
            "Files/kubernetes/order.yaml",
            "  - {path: Files/kubernetes/budget.yaml, order: 1}\n",
        ),
        ("vnf-b.mf", "Source: Files/kubernetes/budget.yaml\n"),
    ] {
        let file = package.join(file);
        write(&file, &(read(&file)? + line))?;
    }
    Ok(package)
}

fn copy(sample: &str, to: &Path) -> Result<PathBuf> {
    copy_all(&paths::root().join("vnfd-samples").join(sample), to)?;
    Ok(to.to_owned())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy `{}`", from.display());
    std::fs::create_dir_all(to).with_context(failed)?;
    for entry in std::fs::read_dir(from).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_all(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).with_context(failed)?;
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}
