//! The programs and files of Kubernetes on one host: their versions, copies of what an upgrade replaces, installation.

use crate::installer::Installer;
use crate::machine::{Machine, StepState, quote};
use crate::versions::{Version, archives_among};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

pub(crate) const PHASE: &str = "upgrade";
/// The steps that install programs and import images.
pub(crate) const PACKAGES: &str = "packages";
pub(crate) const IMAGES: &str = "images";
const SCRIPT: &str = "/run/vnfm/vnfm-kubernetes";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-kubernetes";
const SCRIPT_TEXT: &str = include_str!("vnfm-kubernetes.sh");
/// The static pods whose images have the version of the control plane.
const CONTROL_PLANE: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
/// Packages that are installed together with these programs, if the VNF package has them.
const WITH_KUBEADM: &[&str] = &["kubeadm", "cri-tools"];
const WITH_KUBELET: &[&str] = &["kubelet", "kubectl", "kubernetes-cni"];

/// The versions on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Installed(BTreeMap<String, Version>);

impl Installed {
    fn read(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let known =
            pairs.filter_map(|(name, value)| Some((name.to_owned(), Version::parse(value)?)));
        Self(known.collect())
    }

    /// Of the kubelet's program.
    pub(crate) fn kubelet(&self) -> Option<Version> {
        self.0.get("kubelet").copied()
    }

    /// Of the control plane's oldest static pod; none on a worker, or if a manifest names no version.
    pub(crate) fn control_plane(&self) -> Option<Version> {
        let versions = CONTROL_PLANE.iter().map(|name| self.0.get(*name).copied());
        versions.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    Kubeadm,
    /// With kubectl.
    Kubelet,
}

impl Machine<'_> {
    /// Waits for a login to a host of the cluster, and uploads both scripts.
    pub(crate) async fn reach_node(&self) -> Result<(), DriverError> {
        self.reach_known().await?;
        let script = Upload::new(SCRIPT, SCRIPT_TEXT).mode("0700");
        self.put(script, PHASE).await
    }

    /// Runs a command of `vnfm-kubernetes.sh`, which [`Machine::reach_node`] has uploaded.
    pub(crate) async fn kubernetes(&self, phase: &str, words: &str) -> Result<String, DriverError> {
        Ok(self.run(phase, &format!("{RUN} {words}")).await?.stdout)
    }

    /// Restarts these static pods with this label, as a step.
    pub(crate) async fn restart(
        &self,
        step: &str,
        label: &str,
        pods: &str,
    ) -> Result<(), DriverError> {
        self.step(step, &format!("{RUN} restart {label} {pods}"))
            .await
    }

    /// Renews the certificates and then does what [`Machine::restart`] does, as one step.
    pub(crate) async fn renew(
        &self,
        step: &str,
        label: &str,
        pods: &str,
    ) -> Result<(), DriverError> {
        self.step(step, &format!("{RUN} renew {label} {pods}"))
            .await
    }

    /// Waits for the end of those of these steps that an earlier attempt has left running, however they end.
    ///
    /// # Errors
    ///
    /// If one still runs, as after a cancellation, or if the host does not respond.
    pub(crate) async fn wait_for_steps(&self, steps: &[&str]) -> Result<(), DriverError> {
        for step in steps {
            if self.state(step).await? != StepState::Running {
                continue;
            }
            let name = &self.node.name;
            self.cx
                .info(&format!("`{step}` still runs on `{name}`: waiting for it"));
            if let Err(error) = self.finish(step).await {
                if self.state(step).await? == StepState::Running {
                    return Err(error);
                }
                self.cx
                    .info(&format!("`{step}` on `{name}`: {}", error.detail));
            }
        }
        Ok(())
    }

    /// The versions on the host.
    pub(crate) async fn installed(&self) -> Result<Installed, DriverError> {
        Ok(Installed::read(&self.kubernetes(PHASE, "versions").await?))
    }
}

impl Installer<'_> {
    /// Installs programs of this version from the package's archives, or else from the host's repository.
    ///
    /// # Errors
    ///
    /// `packages-failed` with what the package manager printed.
    pub(crate) async fn install_version(
        &self,
        host: &Machine<'_>,
        (programs, version): (Programs, Version),
    ) -> Result<(), DriverError> {
        let names = match programs {
            Programs::Kubeadm => WITH_KUBEADM,
            Programs::Kubelet => WITH_KUBELET,
        };
        let archives = archives_among(&self.plan.packages, names);
        if !archives.is_empty() {
            let paths = self.upload(host, &archives, PHASE).await?;
            let line = format!("dpkg -i --force-confold {}", paths.join(" "));
            return host.step_on(PACKAGES, &paths, &line).await;
        }
        host.step(PACKAGES, "apt-get update").await?;
        let wanted = match programs {
            Programs::Kubeadm => &WITH_KUBEADM[..1],
            Programs::Kubelet => &WITH_KUBELET[..2],
        };
        let pinned = wanted
            .iter()
            .map(|name| quote(&format!("{name}={}-*", version.number())));
        // Its programs may have been put back after an earlier attempt, which the package manager does not know.
        let line = format!(
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --reinstall --allow-change-held-packages {}",
            pinned.collect::<Vec<_>>().join(" ")
        );
        host.step(PACKAGES, &line).await
    }

    /// Gives a host that joins the version of the cluster, from its own repository: after an upgrade without archives in the VNF
    /// package, its image has an older one.
    ///
    /// # Errors
    ///
    /// `version-skew` for a control-plane node without such a repository; a worker may be older.
    pub(crate) async fn match_version(
        &self,
        host: &Machine<'_>,
        version: Version,
    ) -> Result<(), DriverError> {
        let facts = host.facts().await?;
        let own = Version::parse(facts.kubeadm()).filter(|own| *own < version);
        let Some(own) = own.filter(|_| !facts.has_joined() && self.plan.packages.is_empty()) else {
            return Ok(());
        };
        let name = &host.node.name;
        let message = format!("installing Kubernetes {version} on `{name}`, which has {own}");
        self.report(10, &message).await;
        let Err(error) = self.install_both(host, version).await else {
            return Ok(());
        };
        if error.code != "packages-failed" {
            return Err(error);
        }
        let detail = format!(
            "the cluster has Kubernetes {version} and the host {own}, and its repository does not have that version: {}",
            error.detail
        );
        if self.plan.is_control_plane(host.node) {
            return Err(host.refusal("version-skew", PHASE, detail).retryable());
        }
        self.cx.warn(&format!("`{name}`: {detail}"));
        Ok(())
    }

    /// Installs kubeadm last: its version tells that both are installed.
    async fn install_both(&self, host: &Machine<'_>, version: Version) -> Result<(), DriverError> {
        for programs in [Programs::Kubelet, Programs::Kubeadm] {
            self.install_version(host, (programs, version)).await?;
        }
        Ok(())
    }

    /// Imports the images that the package provides, one archive after the other: the host has one of them at a time.
    pub(crate) async fn import_images(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        for image in &self.plan.images {
            let paths = self
                .upload(host, std::slice::from_ref(image), IMAGES)
                .await?;
            let line = format!("ctr -n k8s.io images import {}", paths.join(" "));
            host.step_on(IMAGES, &paths, &line).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Installed;

    #[test]
    fn a_control_plane_has_the_version_of_its_oldest_pod() {
        let read = |text: &str| {
            Installed::read(text)
                .control_plane()
                .map(|version| version.to_string())
        };
        let half = "kubeadm=v1.37.0\nkubelet=v1.36.2\nkube-apiserver=v1.37.0\nkube-controller-manager=v1.36.2\n\
                    kube-scheduler=v1.36.2\n";
        assert_eq!(read(half).as_deref(), Some("v1.36.2"));
        assert_eq!(read("kubeadm=v1.37.0\nkubelet=v1.36.2\n"), None, "a worker");
        assert_eq!(
            read("kube-apiserver=v1.37.0\nkube-controller-manager=\nkube-scheduler=v1.37.0\n"),
            None
        );
    }
}
