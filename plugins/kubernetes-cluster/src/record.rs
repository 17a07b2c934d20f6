//! What kubeadm has recorded of the cluster in the ConfigMap `kubeadm-config`.
//!
//! `kubeadm upgrade apply` writes it before its last steps, in the format of its own version. When such a step fails and the
//! host gets back what it had, the record must be the old one as well: the next upgrade counts from its version, and the kubeadm
//! that was put back may not read the new format.

use crate::api::{Api, MERGE};
use crate::versions::Version;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vnfm_plugin_sdk::prelude::*;

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
/// The checkpoint with the record of before the upgrade.
const BEFORE: &str = "upgrade-record";

/// kubeadm's `ClusterConfiguration`, as it has written it.
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
            let detail =
                format!("`{PATH}` names no version: the cluster was not installed by kubeadm");
            DriverError::new("version-unknown", detail).phase("preflight")
        })
    }
}

/// What kubeadm has recorded; empty if it has not.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn recorded(api: &Api<'_>) -> Result<Record, DriverError> {
    let config = api.find(PATH).await?.unwrap_or_default();
    let text = config["data"]["ClusterConfiguration"].as_str();
    Ok(Record(text.unwrap_or_default().to_owned()))
}

/// Keeps the record for [`put_record_back`].
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn keep_record(api: &Api<'_>) -> Result<(), DriverError> {
    let record = recorded(api).await?;
    Ok(api.cx.save_checkpoint(BEFORE, &record).await?)
}

/// Puts the record back that this operation has kept, if it has.
///
/// # Errors
///
/// If the API server does not respond.
pub(crate) async fn put_record_back(api: &Api<'_>) -> Result<(), DriverError> {
    let Some(before) = api.cx.checkpoint::<Record>(BEFORE).await? else {
        return Ok(());
    };
    if recorded(api).await? == before {
        return Ok(());
    }
    let change = json!({ "data": { "ClusterConfiguration": before } });
    api.patch(PATH, (MERGE, change)).await.map(|_| ())
}
