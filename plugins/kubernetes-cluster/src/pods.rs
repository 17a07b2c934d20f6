//! Waits until the pods of VNFs on the cluster run again, after they lost their nodes.

use crate::api::{Api, Pod};
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

/// How long pods may take to be scheduled, unless the caller says otherwise.
pub(crate) const SCHEDULE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long they may take to become ready on their nodes.
const POD_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval between two checks: the first and the maximum.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
const MAX_INTERVAL: Duration = Duration::from_secs(2);

/// Waits until the pods of the dependent VNF instances run again. A scheduled pod that does not become ready is its own
/// VNF's problem: it causes a warning, not an error. Pods on a lost node are skipped; they wait for that node's heal.
///
/// # Errors
///
/// `pods-pending`, naming the pods, if they are not scheduled within `schedule_timeout`.
pub(crate) async fn wait_for_pods(
    api: &Api<'_>,
    others: &[Dependent],
    schedule_timeout: Duration,
) -> Result<(), DriverError> {
    let ids: Vec<_> = others.iter().map(|other| other.id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let (mut waited, mut pause) = (Duration::ZERO, MIN_INTERVAL);
    loop {
        let mut pods = api.pods_of(&ids).await?;
        pods.retain(|pod| !pod.is_terminating() && !pod.is_ready_or_done());
        if !pods.is_empty() {
            let nodes = api.nodes().await?;
            let lost = |pod: &Pod| nodes.iter().any(|n| n.is_silent() && pod.is_on(n.name()));
            pods.retain(|pod| !lost(pod));
        }
        if pods.is_empty() {
            return Ok(());
        }
        let unready: Vec<_> = pods.iter().map(describe).collect();
        let unready = unready.join("; ");
        let unscheduled = pods.iter().any(Pod::is_unscheduled);
        let timeout = if unscheduled {
            schedule_timeout
        } else {
            POD_TIMEOUT
        };
        if waited >= timeout {
            if unscheduled {
                let detail =
                    format!("the nodes are ready, but pods cannot be scheduled: {unready}");
                return Err(DriverError::new("pods-pending", detail)
                    .retryable()
                    .phase("pods"));
            }
            api.cx.warn(&format!(
                "pods not ready after {} s: {unready}",
                timeout.as_secs()
            ));
            return Ok(());
        }
        let reason = format!("pods to run again: {unready}");
        api.cx.pause(&reason, pause).await?;
        waited += pause;
        pause = (pause * 2).min(MAX_INTERVAL);
    }
}

fn describe(pod: &Pod) -> String {
    format!("`{}`: {}", pod.name(), pod.problem())
}
