//! What the stories have in common: packages, the VIM, and VNFs that are instantiated, terminated and deleted.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::clusters;
use super::ctl::{Ctl, text};
use super::requests::{self, Shape, Values};
use super::stage::Stage;
use super::world::{CLOUD, World};
use crate::paths;

/// Name of the instance that builds the cluster.
pub(crate) const VNF_A: &str = "vnf-a";
/// Name of the instance on VNF-A's cluster.
pub(crate) const VNF_B: &str = "vnf-b";
/// The sample that runs on the cluster.
pub(crate) const SAMPLE_B: &str = "vnf-b-cnf";
/// Name of the OpenStack VIM.
pub(crate) const VIM: &str = "cloud";
/// Name of the cluster that VNF-A builds.
const CLUSTER: &str = "cluster";
/// User and password of the hosts.
pub(crate) const SSH: (&str, &str) = ("ubuntu", "secret");

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

/// What the steps of a story work with.
pub(crate) struct Scenario<'a> {
    pub(crate) stage: &'a mut Stage,
    pub(crate) ctl: &'a Ctl,
    pub(crate) world: &'a World,
    /// Variant of VNF-A's package.
    pub(crate) shape: Shape,
    /// Folder for the requests.
    pub(crate) folder: &'a Path,
    /// Ids of the VNF snapshots, the last one is that of the requests.
    pub(crate) snapshots: Vec<String>,
}

impl Scenario<'_> {
    /// Onboards a sample; returns the id of the package.
    ///
    /// # Errors
    /// The error that `vnfmctl` reports, as for the other steps.
    pub(crate) fn onboard(&mut self, sample: &str) -> Result<String> {
        let folder = paths::root().join("vnfd-samples").join(sample);
        self.onboard_folder(sample, &folder)
    }

    /// Onboards the package in a folder; returns its id.
    pub(crate) fn onboard_folder(&mut self, name: &str, folder: &Path) -> Result<String> {
        let ctl = self.ctl;
        self.stage.step(&format!("package onboard {name}"), |_| {
            let package = ctl.json(&["package", "onboard", &folder.to_string_lossy()])?;
            text(&package, "id").map(str::to_owned)
        })
    }

    pub(crate) fn register_cloud(&mut self) -> Result<()> {
        let (ctl, world) = (self.ctl, self.world);
        self.stage.step("vim register: the OpenStack", |_| {
            let clouds = world.clouds().to_string_lossy().into_owned();
            let login = ["--config-file", &clouds, "--cloud", CLOUD];
            let register = ["vim", "register", "--name", VIM];
            ctl.json(&[&register[..], &login].concat()).map(drop)
        })
    }

    /// Instantiates VNF-A; returns the id of the VIM that it registered.
    pub(crate) fn bring_up_a(&mut self, package: &str) -> Result<String> {
        self.bring_up_cluster(self.shape.folder(), package)
    }

    /// Instantiates a sample as VNF-A; returns the id of the VIM that it registered.
    pub(crate) fn bring_up_cluster(&mut self, sample: &str, package: &str) -> Result<String> {
        let label = "instantiate VNF-A: stack, hosts, kubeadm over SSH, VIM registered";
        self.bring_up(VNF_A, (sample, package), VIM, label)?;
        let ctl = self.ctl;
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

    /// Instantiates VNF-B on the cluster of VNF-A.
    pub(crate) fn bring_up_b(&mut self, package: &str, cluster: &str) -> Result<()> {
        let label = "instantiate VNF-B on VNF-A: every pod Ready";
        self.bring_up(VNF_B, (SAMPLE_B, package), cluster, label)?;
        let instance = self.ctl.json(&["vnf", "show", VNF_B])?;
        let pods = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
            .as_array()
            .map_or(0, Vec::len);
        ensure!(pods == 2, "VNF-B has {pods} pods as VNFCs, not 2");
        Ok(())
    }

    /// Creates an instance of a sample, and instantiates it on a VIM.
    pub(crate) fn bring_up(
        &mut self,
        name: &str,
        (sample, package): (&str, &str),
        vim: &str,
        label: &str,
    ) -> Result<()> {
        let (ctl, world, folder) = (self.ctl, self.world, self.folder);
        let request = self.stage.step(&format!("vnf create {name}"), |_| {
            ctl.json(&["vnf", "create", "--package", package, "--name", name])?;
            let vim = text(&ctl.json(&["vim", "show", vim])?, "id")?.to_owned();
            let mut values: Values = [
                ("VIM_ID", vim.into()),
                ("CLUSTER_NAME", CLUSTER.into()),
                ("CLUSTER_ADDRESS", clusters::ADDRESS.into()),
                ("SSH_PORT", world.ssh_port().into()),
                ("SSH_USER", SSH.0.into()),
                ("SSH_PASSWORD", SSH.1.into()),
            ]
            .into();
            let network = world.network()?;
            values.extend(network.map(|id| ("NETWORK_ID", id.into())));
            requests::fill((sample, "instantiate"), &values, folder)
        })?;
        let words = ["vnf", "instantiate", name, "--request", &request, "--watch"];
        self.stage
            .step(label, |progress| ctl.watch(progress, &words))
    }

    /// VNF-A must not be terminated while VNF-B lives on it.
    pub(crate) fn refuse_to_terminate_a(&mut self) -> Result<()> {
        let ctl = self.ctl;
        let label = "terminate VNF-A now: refused, VNF-B lives on it";
        self.stage.step(label, |progress| {
            let reason = ctl.refused(&["vnf", "terminate", VNF_A, "--watch"])?;
            ensure!(
                reason.contains(VNF_B),
                "the refusal does not name `{VNF_B}`: {reason}"
            );
            reason.lines().for_each(|line| progress.show(line));
            Ok(())
        })
    }

    /// Terminates and deletes an instance.
    pub(crate) fn bring_down(&mut self, name: &str, label: &str) -> Result<()> {
        let ctl = self.ctl;
        self.stage.step(label, |progress| {
            ctl.watch(progress, &["vnf", "terminate", name, "--watch"])
        })?;
        self.stage.step(&format!("vnf delete {name}"), |_| {
            ctl.json(&["vnf", "delete", name])?;
            let orphans = ctl.json(&["orphans"])?;
            let none = orphans.as_array().is_some_and(Vec::is_empty);
            ensure!(none, "`vnfmctl orphans` finds {orphans}");
            Ok(())
        })
    }

    /// Deletes the packages and the VIM; `cluster` must have been unregistered.
    pub(crate) fn clear(&mut self, packages: &[&str], cluster: &str) -> Result<()> {
        let ctl = self.ctl;
        self.stage.step("delete the packages and the VIM", |_| {
            ensure!(
                !vims(ctl)?.iter().any(|vim| vim["id"] == cluster),
                "VIM `{cluster}` is still registered"
            );
            delete_all(ctl, packages, VIM)
        })
    }

    pub(crate) fn check_that_nothing_is_left(&mut self) -> Result<()> {
        let world = self.world;
        self.stage.step("check that nothing is left behind", |_| {
            let left = world.left_behind()?;
            ensure!(left.is_empty(), "left behind: {}", left.join(", "));
            Ok(())
        })
    }
}

/// Deletes the packages and a VIM.
///
/// # Errors
/// The error that `vnfmctl` reports.
pub(crate) fn delete_all(ctl: &Ctl, packages: &[&str], vim: &str) -> Result<()> {
    for package in packages {
        ctl.json(&["package", "delete", package])?;
    }
    ctl.json(&["vim", "delete", vim]).map(drop)
}

fn vims(ctl: &Ctl) -> Result<Vec<Value>> {
    ctl.json(&["vim", "list"])?
        .as_array()
        .cloned()
        .context("`vim list` did not return a list")
}
