//! What kubeadm has recorded of the cluster in `ConfigMaps`: its own configuration, and that of the kubelets.
//!
//! `kubeadm upgrade apply` writes them before its last steps, in the format of its own version. When the host gets back what it
//! had, the records must be the old ones as well: the next upgrade counts from their version, and neither the kubeadm that was put
//! back nor the kubelet of a node that joins may read the new format.

use crate::api::{Api, MERGE};
use crate::machine::Machine;
use crate::versions::Version;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vnfm_plugin_sdk::prelude::*;

/// The `ConfigMaps`, each with its member.
const CLUSTER: (&str, &str) = (
    "/api/v1/namespaces/kube-system/configmaps/kubeadm-config",
    "ClusterConfiguration",
);
const KUBELETS: (&str, &str) = (
    "/api/v1/namespaces/kube-system/configmaps/kubelet-config",
    "kubelet",
);
/// The checkpoint with the records of before the upgrade.
const BEFORE: &str = "upgrade-records";

/// A configuration, as kubeadm has written it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Record(String);

impl Record {
    /// The version of the control plane.
    ///
    /// # Errors
    ///
    /// `version-unknown` if kubeadm has recorded none.
    pub(crate) fn version(&self) -> Result<Version, DriverError> {
        let mut lines = self.0.lines();
        let version = lines.find_map(|line| line.strip_prefix("kubernetesVersion:"));
        version.and_then(Version::parse).ok_or_else(|| {
            let detail = format!(
                "`{}` names no version: the cluster was not installed by kubeadm",
                CLUSTER.0
            );
            DriverError::new("version-unknown", detail).phase("preflight")
        })
    }
}

/// What kubeadm has recorded of the cluster; empty if it has not.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn recorded(api: &Api<'_>) -> Result<Record, DriverError> {
    read(api, CLUSTER).await
}

/// The version of the cluster, read on a control-plane node; none if kubeadm has recorded none.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn version_on(master: &Machine<'_>) -> Result<Option<Version>, DriverError> {
    let arguments = "-n kube-system get configmap kubeadm-config --ignore-not-found -o jsonpath='{.data.ClusterConfiguration}'";
    let found = master.kubectl("join", (arguments, Secret::default()));
    Ok(Record(found.await?.stdout).version().ok())
}

async fn read(api: &Api<'_>, (path, member): (&str, &str)) -> Result<Record, DriverError> {
    let config = api.find(path).await?.unwrap_or_default();
    let text = config["data"][member].as_str();
    Ok(Record(text.unwrap_or_default().to_owned()))
}

/// Keeps the records for [`put_records_back`].
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn keep_records(api: &Api<'_>) -> Result<(), DriverError> {
    let records = [read(api, CLUSTER).await?, read(api, KUBELETS).await?];
    Ok(api.cx.save_checkpoint(BEFORE, &records).await?)
}

/// Puts the records back that this operation has kept, if it has.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn put_records_back(api: &Api<'_>) -> Result<(), DriverError> {
    let Some(before) = api.cx.checkpoint::<[Record; 2]>(BEFORE).await? else {
        return Ok(());
    };
    for (place, before) in [CLUSTER, KUBELETS].into_iter().zip(before) {
        if read(api, place).await? != before {
            let (path, member) = place;
            let change = json!({ "data": { member: before } });
            api.patch(path, (MERGE, change)).await?;
        }
    }
    Ok(())
}
