//! The steps of the demo: VNF-A builds a cluster, VNF-B runs on it, both are terminated and leave nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::ctl::{Ctl, text};
use super::requests::{self, Shape, Values};
use super::stage::Stage;
use super::world::{CLOUD, World};
use crate::paths;

/// Name of the instance that builds the cluster.
pub(crate) const VNF_A: &str = "vnf-a";
/// Name of the instance on VNF-A's cluster.
pub(crate) const VNF_B: &str = "vnf-b";
/// Name of the OpenStack VIM.
const VIM: &str = "cloud";
/// Name of the cluster that VNF-A builds.
const CLUSTER: &str = "cluster";
/// User and password of the hosts.
const SSH: (&str, &str) = ("ubuntu", "secret");
/// The sample that runs on the cluster.
const SAMPLE_B: &str = "vnf-b-cnf";

/// Variant of VNF-A's package, and a folder for the requests.
pub(crate) struct Setup {
    shape: Shape,
    folder: PathBuf,
}

impl Setup {
    pub(crate) fn new(shape: Shape, folder: &Path) -> Self {
        Self {
            shape,
            folder: folder.to_owned(),
        }
    }
}

/// Copies the plugin into the plugin folder of the server, pinned by its hash.
///
/// # Errors
/// The error that `vnfmctl` reports.
pub(crate) fn allow_plugin(stage: &mut Stage, programs: &Path, plugins: &Path) -> Result<()> {
    stage.step("plugin allow kubernetes-cluster", |progress| {
        let library = programs
            .join("libkubernetes_cluster.so")
            .to_string_lossy()
            .into_owned();
        let ctl = Ctl::local(programs.join("vnfmctl"));
        ctl.watch(
            progress,
            &[
                "plugin",
                "allow",
                &library,
                "--dir",
                &plugins.to_string_lossy(),
            ],
        )
    })
}

/// Runs all steps, from the first package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(stage: &mut Stage, ctl: &Ctl, world: &World, setup: &Setup) -> Result<()> {
    let package_a = onboard(stage, ctl, setup.shape.folder())?;
    let package_b = onboard(stage, ctl, SAMPLE_B)?;
    stage.step("vim register: the OpenStack", |_| {
        let clouds = world.clouds().to_string_lossy().into_owned();
        ctl.json(&[
            "vim",
            "register",
            "--name",
            VIM,
            "--config-file",
            &clouds,
            "--cloud",
            CLOUD,
        ])
        .map(drop)
    })?;
    let cluster = bring_up_a(stage, ctl, world, setup, &package_a)?;
    bring_up_b(stage, ctl, setup, &package_b, &cluster)?;
    stage.step(
        "terminate VNF-A now: refused, VNF-B lives on it",
        |progress| {
            let reason = ctl.refused(&["vnf", "terminate", VNF_A, "--watch"])?;
            ensure!(
                reason.contains(VNF_B),
                "the refusal does not name `{VNF_B}`: {reason}"
            );
            reason.lines().for_each(|line| progress.show(line));
            Ok(())
        },
    )?;
    bring_down(stage, ctl, VNF_B, "terminate VNF-B")?;
    bring_down(
        stage,
        ctl,
        VNF_A,
        "terminate VNF-A: unregister the cluster, delete the stack",
    )?;
    stage.step("delete the packages and the VIM", |_| {
        ensure!(
            !vims(ctl)?.iter().any(|vim| vim["id"] == cluster.as_str()),
            "VIM `{cluster}` is still registered"
        );
        ctl.json(&["package", "delete", &package_a])?;
        ctl.json(&["package", "delete", &package_b])?;
        ctl.json(&["vim", "delete", VIM]).map(drop)
    })?;
    stage.step("check that nothing is left behind", |_| {
        let left = world.left_behind()?;
        ensure!(left.is_empty(), "left behind: {}", left.join(", "));
        Ok(())
    })
}

fn onboard(stage: &mut Stage, ctl: &Ctl, sample: &str) -> Result<String> {
    stage.step(&format!("package onboard {sample}"), |_| {
        let folder = paths::root().join("vnfd-samples").join(sample);
        let package = ctl.json(&["package", "onboard", &folder.to_string_lossy()])?;
        text(&package, "id").map(str::to_owned)
    })
}

/// Instantiates VNF-A; returns the id of the VIM that it registered.
fn bring_up_a(
    stage: &mut Stage,
    ctl: &Ctl,
    world: &World,
    setup: &Setup,
    package: &str,
) -> Result<String> {
    let request = stage.step("vnf create vnf-a", |_| {
        ctl.json(&["vnf", "create", "--package", package, "--name", VNF_A])?;
        let vim = text(&ctl.json(&["vim", "show", VIM])?, "id")?.to_owned();
        let values: Values = [
            ("VIM_ID", vim.into()),
            ("NETWORK_ID", world.network()?.into()),
            ("CLUSTER_NAME", CLUSTER.into()),
            ("SSH_PORT", world.ssh_port().into()),
            ("SSH_USER", SSH.0.into()),
            ("SSH_PASSWORD", SSH.1.into()),
        ]
        .into();
        requests::fill(setup.shape.folder(), &values, &setup.folder)
    })?;
    stage.step(
        "instantiate VNF-A: stack, hosts, kubeadm over SSH, VIM registered",
        |progress| {
            ctl.watch(
                progress,
                &[
                    "vnf",
                    "instantiate",
                    VNF_A,
                    "--request",
                    &request,
                    "--watch",
                ],
            )
        },
    )?;
    let kubernetes = vims(ctl)?.into_iter().find(|vim| {
        vim["vimType"]
            .as_str()
            .is_some_and(|kind| kind.to_ascii_uppercase().contains("KUBERNETES"))
    });
    let vim = kubernetes.context("VNF-A is up, but no Kubernetes VIM is registered")?;
    let instance = ctl.json(&["vnf", "show", VNF_A])?;
    let id = text(&vim, "id")?.to_owned();
    let known = instance["vimConnectionInfo"]
        .as_object()
        .into_iter()
        .flatten();
    ensure!(
        known
            .into_iter()
            .any(|(_, info)| info["vimId"] == id.as_str()),
        "VNF-A does not name VIM `{id}`"
    );
    Ok(id)
}

fn bring_up_b(
    stage: &mut Stage,
    ctl: &Ctl,
    setup: &Setup,
    package: &str,
    cluster: &str,
) -> Result<()> {
    let request = stage.step("vnf create vnf-b", |_| {
        ctl.json(&["vnf", "create", "--package", package, "--name", VNF_B])?;
        requests::fill(
            SAMPLE_B,
            &[("VIM_ID", cluster.into())].into(),
            &setup.folder,
        )
    })?;
    stage.step("instantiate VNF-B on VNF-A: every pod Ready", |progress| {
        ctl.watch(
            progress,
            &[
                "vnf",
                "instantiate",
                VNF_B,
                "--request",
                &request,
                "--watch",
            ],
        )?;
        let instance = ctl.json(&["vnf", "show", VNF_B])?;
        let pods = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
            .as_array()
            .map_or(0, Vec::len);
        ensure!(pods == 2, "VNF-B has {pods} pods as VNFCs, not 2");
        Ok(())
    })
}

fn bring_down(stage: &mut Stage, ctl: &Ctl, name: &str, label: &str) -> Result<()> {
    stage.step(label, |progress| {
        ctl.watch(progress, &["vnf", "terminate", name, "--watch"])
    })?;
    stage.step(&format!("vnf delete {name}"), |_| {
        ctl.json(&["vnf", "delete", name])?;
        let orphans = ctl.json(&["orphans"])?;
        let none = orphans.as_array().is_some_and(Vec::is_empty);
        ensure!(none, "`vnfmctl orphans` finds {orphans}");
        Ok(())
    })
}

fn vims(ctl: &Ctl) -> Result<Vec<Value>> {
    ctl.json(&["vim", "list"])?
        .as_array()
        .cloned()
        .context("`vim list` did not return a list")
}
