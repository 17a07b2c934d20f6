//! The real control plane of the story `charts`: what `kubectl` and `helm` themselves report about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{interrupt, stack};

/// Kinds whose objects must be as before.
const KINDS: &str =
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,persistentvolumes";
/// Interval and number of polls until what was deleted is gone.
const POLLS: (Duration, u32) = (Duration::from_millis(250), 40);

/// A cluster by its kubeconfig, and the programs that ask it.
pub(crate) struct ControlPlane {
    kubeconfig: PathBuf,
    /// Folder with `kubectl` and `helm`.
    programs: PathBuf,
}

impl ControlPlane {
    /// The one that `cargo xtask stack up kubernetes` starts.
    ///
    /// # Errors
    /// If it does not exist.
    pub(crate) fn find() -> Result<Self> {
        let environment = stack::environment();
        let path = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, path)| path.clone())
        };
        Ok(Self {
            kubeconfig: path("VNFM_LIVE_KUBECONFIG").context("the control plane does not run")?,
            programs: path("VNFM_LIVE_ASSETS").context("the programs of Kubernetes are missing")?,
        })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Path of the helm program.
    pub(crate) fn helm(&self) -> PathBuf {
        self.programs.join("helm")
    }

    /// The objects of `kubectl get …`.
    ///
    /// # Errors
    /// If the cluster does not respond, as for the rest.
    pub(crate) fn items(&self, words: &str) -> Result<Vec<Value>> {
        let words: Vec<&str> = words.split_whitespace().chain(["-o", "json"]).collect();
        let list: Value = serde_json::from_str(&self.output("kubectl", &words)?)
            .with_context(|| format!("the output of `kubectl {}` is not JSON", words.join(" ")))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Chart and status of each release in a namespace, such as `web-1.0.0 deployed`, by name.
    pub(crate) fn releases(&self, namespace: &str) -> Result<BTreeMap<String, String>> {
        let words = [
            "list",
            "--all",
            "--output",
            "json",
            "--namespace",
            namespace,
        ];
        let listed: Value = serde_json::from_str(&self.output("helm", &words)?)
            .context("the output of `helm list` is not JSON")?;
        let word = |one: &Value, member: &str| one[member].as_str().unwrap_or_default().to_owned();
        let all = listed.as_array().into_iter().flatten();
        let row = |one: &Value| {
            let state = format!("{} {}", word(one, "chart"), word(one, "status"));
            (word(one, "name"), state)
        };
        Ok(all.map(row).collect())
    }

    /// The objects that no namespace has, and all releases.
    pub(crate) fn inventory(&self) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let get = ["get", KINDS, "--output", "name"];
        found.extend(self.output("kubectl", &get)?.lines().map(str::to_owned));
        for secret in self.items("get secrets --all-namespaces --selector owner=helm")? {
            let word = |member: &str| secret["metadata"][member].as_str().unwrap_or_default();
            found.insert(format!("release {}/{}", word("namespace"), word("name")));
        }
        Ok(found)
    }

    /// What has come since `before`, once deletions that run have ended.
    pub(crate) fn wait_for_removal(&self, before: &BTreeSet<String>) -> Result<Vec<String>> {
        let look = || Ok::<_, anyhow::Error>(&self.inventory()? - before);
        let mut left = look()?;
        for _ in 0..POLLS.1 {
            if left.is_empty() {
                break;
            }
            interrupt::pause(POLLS.0)?;
            left = look()?;
        }
        Ok(left.into_iter().collect())
    }

    /// Deletes the namespaces that have come since `before`.
    pub(crate) fn delete_namespaces(&self, before: &BTreeSet<String>) -> Result<()> {
        for one in &self.inventory()? - before {
            if one.starts_with("namespace/") {
                self.output("kubectl", &["delete", &one, "--timeout=60s"])?;
            }
        }
        Ok(())
    }

    fn output(&self, program: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs.join(program));
        let command = command.args(words).env("KUBECONFIG", &self.kubeconfig);
        let output = command
            .output()
            .with_context(|| format!("cannot start `{program}`"))?;
        ensure!(
            output.status.success(),
            "`{program} {}` failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
