//! What every cluster has without being asked: the network plugin (CNI), by a manifest of the package, and `CoreDNS`, by kubeadm.
//!
//! Both appear among the add-ons of the instance, with the versions of their images. A new package's network plugin is applied as
//! the first one was; `CoreDNS` is upgraded by kubeadm.

use crate::addons::{self, Problems};
use crate::catalogue::{CNI, tag};
use crate::machine::{FOLDER, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "cni";
/// Its name among the add-ons, and that of its Deployment.
const COREDNS: &str = "coredns";
/// Where the images of a workload are.
const IMAGES: &str = "/spec/template/spec/containers";

/// Applies the network plugin's manifest.
///
/// # Errors
///
/// `cni-failed` if the API server refuses an object.
pub(crate) async fn apply_network(master: &Machine<'_>) -> Result<(), DriverError> {
    let Some(cni) = &master.plan.cni else {
        return Ok(());
    };
    let path = format!("{FOLDER}/cni.yaml");
    master.put(Upload::artifact(&path, cni), PHASE).await?;
    let arguments = format!("apply -f {path}");
    let applied = master.kubectl(PHASE, (&arguments, Secret::default()));
    applied.await.map(|_| ())
}

/// Waits until both are healthy.
///
/// # Errors
///
/// `addon-not-healthy`, naming the object; `addon-invalid` if the network plugin's manifest cannot be read.
pub(crate) async fn wait_until_healthy(master: &Machine<'_>) -> Result<(), DriverError> {
    for (name, objects) in all(master).await? {
        addons::wait_until_healthy(master, &format!("`{name}`"), &objects).await?;
    }
    Ok(())
}

/// What is wrong with them, by name.
///
/// # Errors
///
/// If the host cannot be reached.
pub(crate) async fn problems(master: &Machine<'_>) -> Result<Problems, DriverError> {
    let mut found = Problems::new();
    for (name, objects) in all(master).await? {
        let problem = addons::first_problem(master, &objects).await?;
        found.extend(problem.map(|problem| (name.to_owned(), problem)));
    }
    Ok(found)
}

/// Their versions by name: the tags of their images.
///
/// # Errors
///
/// If the host cannot be reached, or the API server does not have `CoreDNS`.
pub(crate) async fn versions(
    master: &Machine<'_>,
) -> Result<BTreeMap<String, String>, DriverError> {
    let network = network(master).await?;
    let arguments = format!("get deployment/{COREDNS} -n kube-system -o json");
    let found = master
        .kubectl(PHASE, (&arguments, Secret::default()))
        .await?;
    let coredns: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
    let versions = [
        (CNI, network.iter().find_map(version).unwrap_or_default()),
        (COREDNS, version(&coredns).unwrap_or_default()),
    ];
    Ok(versions
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .into())
}

async fn all(master: &Machine<'_>) -> Result<[(&'static str, Vec<Value>); 2], DriverError> {
    let coredns = json!({ "kind": "Deployment", "metadata": { "name": COREDNS, "namespace": "kube-system" } });
    Ok([(CNI, network(master).await?), (COREDNS, vec![coredns])])
}

/// The objects of the network plugin.
async fn network(master: &Machine<'_>) -> Result<Vec<Value>, DriverError> {
    let Some(path) = &master.plan.cni else {
        return Ok(Vec::new());
    };
    let bytes = master.cx.artifact(path).await?;
    addons::objects(&String::from_utf8_lossy(&bytes)).map_err(|reason| {
        let detail = format!("`{path}` of the network plugin: {reason}");
        DriverError::new("addon-invalid", detail).phase(PHASE)
    })
}

/// The tag of a workload's first image.
fn version(object: &Value) -> Option<&str> {
    tag(object.pointer(IMAGES)?.get(0)?["image"].as_str()?)
}
