//! Whether a cluster follows its pods again after a control plane was restarted.
//!
//! An API server may respond long before that: nothing replaces pods, and no Service stops leading to pods that are gone, until a
//! controller manager has taken the lead, which may be half a minute later, and until kube-proxy, which `kubeadm upgrade apply`
//! replaces, runs on every node. Nodes must not be drained before.

use crate::api::Api;
use serde_json::Value;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

const LEADER: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const PROXY: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";
const INTERVAL: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_mins(5);

/// Waits until a controller manager leads, and kube-proxy runs on every node in its current version. A cluster without either
/// is not waited for.
///
/// # Errors
///
/// `timed-out` after five minutes; those of the API server.
pub(crate) async fn wait(api: &Api<'_>) -> Result<(), DriverError> {
    let before = renewal(api).await?;
    let leads = || async {
        let now = renewal(api).await?;
        Ok((now.is_none() || now != before).then_some(()))
    };
    api.cx
        .wait_until(
            "a leading kube-controller-manager",
            INTERVAL,
            TIMEOUT,
            leads,
        )
        .await?;
    let runs = || async {
        let proxy = api.find(PROXY).await?;
        Ok(proxy.is_none_or(|set| is_rolled_out(&set)).then_some(()))
    };
    api.cx
        .wait_until("kube-proxy on every node", INTERVAL, TIMEOUT, runs)
        .await
}

/// When the leading controller manager has renewed its lease last; it does so every two seconds.
async fn renewal(api: &Api<'_>) -> Result<Option<String>, DriverError> {
    let lease = api.find(LEADER).await?;
    let renewed = lease.and_then(|lease| Some(lease["spec"]["renewTime"].as_str()?.to_owned()));
    Ok(renewed)
}

/// Whether the controllers know the current version of a `DaemonSet`, and all its pods are of it and available.
fn is_rolled_out(set: &Value) -> bool {
    let status = |name: &str| set["status"][name].as_u64().unwrap_or(0);
    let wanted = status("desiredNumberScheduled");
    status("observedGeneration") >= set["metadata"]["generation"].as_u64().unwrap_or(0)
        && status("updatedNumberScheduled") == wanted
        && status("numberAvailable") == wanted
}

#[cfg(test)]
mod tests {
    use super::is_rolled_out;
    use serde_json::json;

    #[test]
    fn a_daemon_set_is_rolled_out_once_its_controller_has_replaced_all_pods() {
        let set = |observed: u32, updated: u32, available: u32| {
            json!({ "metadata": { "generation": 2 }, "status": { "observedGeneration": observed,
                "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available } })
        };
        assert!(is_rolled_out(&set(2, 3, 3)));
        assert!(
            !is_rolled_out(&set(1, 3, 3)),
            "its controller did not see the change"
        );
        assert!(
            !is_rolled_out(&set(2, 2, 3)),
            "a pod is of the version before"
        );
        assert!(!is_rolled_out(&set(2, 3, 2)), "a pod is not available");
    }
}
