//! Stops a VNF by taking the pods from its workloads, last stage first, and starts it by applying its manifests again.
//!
//! ```text
//! stop   no replicas ─ pods end ─┬─ all ended ───────────────────────────────► delete what has no replicas ─► next stage
//!                                └─ forceful, or the timeout: one second left ─┘
//! start  apply every manifest in order, each stage ready before the next
//! ```

use crate::apply::find_ours;
use crate::client::Session;
use crate::delete::delete_objects;
use crate::driver::KubernetesDriver;
use crate::errors::STILL_THERE;
use crate::heal::{DoomedPod, delete, wait_until_deleted};
use crate::object::merge;
use crate::planned::planned_stages;
use crate::replicas::has_replicas;
use crate::resolved::ResolvedObject;
use crate::stopped::is_deleted;
use crate::surplus::pods_of;
use crate::virtual_machines::halt;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver as _, PortError, Power, PowerChange, Recorded, Stop,
    VimCall,
};
use vnfm_types::VnfOperationalState;

/// Seconds that a pod has left when its stop is forced; with none, its controller would not wait until it has ended.
const FORCED_GRACE: u32 = 1;
/// How long before the deadline a graceful stop is forced.
const FORCING_MARGIN: SignedDuration = SignedDuration::from_secs(10);

#[async_trait]
impl Power for KubernetesDriver {
    fn is_per_vnfc(&self) -> bool {
        false
    }

    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let PowerChange {
            current,
            target,
            stop,
        } = *change;
        if target.deployment.vnf_state == VnfOperationalState::Stopped {
            let session = self.session(cx)?;
            let started = started(target);
            let stages = planned_stages(cx, &session, &started, &current.handle).await?;
            stop_stages(cx, &session, &stages, stop).await?;
        }
        self.converge(cx, &Convergence::update(current, target), &Value::Null)
            .await
    }
}

/// The same instance as it is while it runs.
pub(crate) fn started(allocation: &Allocation) -> Allocation {
    let mut started = allocation.clone();
    Arc::make_mut(&mut started.deployment).vnf_state = VnfOperationalState::Started;
    started
}

/// When pods that have not ended are forced to.
fn forced_at(cx: &VimCall<'_>, stop: Stop) -> Timestamp {
    let now = cx.clock.now();
    let last = cx.deadline.saturating_sub(FORCING_MARGIN);
    let last = last.unwrap_or(cx.deadline);
    match stop {
        Stop::Forceful => now,
        Stop::Graceful(None) => last,
        Stop::Graceful(Some(timeout)) => {
            let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
            now.saturating_add(timeout).unwrap_or(last).min(last)
        }
    }
}

/// Takes the pods from all workloads, last stage first, and waits until they have ended.
///
/// # Errors
///
/// The API server's error, or which pod has not ended at the deadline; the same call resumes.
pub(crate) async fn stop_stages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stages: &[Vec<ResolvedObject>],
    stop: Stop,
) -> Result<(), PortError> {
    let force_at = forced_at(cx, stop);
    for stage in stages.iter().rev() {
        stop_stage(cx, session, stage, force_at).await?;
    }
    Ok(())
}

/// Takes the pods from the workloads of a stage, and waits until they have ended.
async fn stop_stage(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    stage: &[ResolvedObject],
    force_at: Timestamp,
) -> Result<(), PortError> {
    let mut doomed = Vec::new();
    for resolved in stage {
        let target = &resolved.target;
        let kind = target.resource.kind.as_str();
        let none = has_replicas(kind).then(|| json!({"spec": {"replicas": 0}}));
        let Some(none) = none.or_else(|| halt(&resolved.item.object)) else {
            continue;
        };
        if find_ours(session, cx.ownership, target).await?.is_none() {
            continue;
        }
        let action = format!("take the pods from {target}");
        merge(session, target, &action, &none).await?;
        doomed.extend(
            pods_of(cx, session, target)
                .await?
                .iter()
                .map(DoomedPod::new),
        );
    }
    end_pods(cx, session, &doomed, force_at).await?;
    let deleted = stage
        .iter()
        .filter(|one| is_deleted(&one.target.resource.kind));
    let deleted: Vec<_> = deleted.map(|one| one.target.clone()).collect();
    let left = cx.clock.now().duration_until(force_at).as_secs();
    let grace = u32::try_from(left).unwrap_or_default().max(FORCED_GRACE);
    delete_objects(cx, session, &deleted, Some(grace)).await
}

/// Waits until the pods have ended; from `force_at` on, they have a second.
async fn end_pods(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    doomed: &[DoomedPod],
    force_at: Timestamp,
) -> Result<(), PortError> {
    let graceful = VimCall {
        deadline: force_at.min(cx.deadline),
        ..*cx
    };
    if cx.clock.now() < force_at {
        let grace = cx.clock.now().duration_until(force_at);
        match wait_until_deleted(&graceful, session, doomed, grace).await {
            Err(error) if error.code() == &STILL_THERE => {
                let text = format!("{error}: forcing it");
                cx.watcher.log("warn", "kubernetes", &text);
            }
            ended => return ended,
        }
    }
    for one in doomed {
        delete(session, &one.target, &one.uid, Some(FORCED_GRACE)).await?;
    }
    let grace = SignedDuration::from_secs(FORCED_GRACE.into());
    wait_until_deleted(cx, session, doomed, grace).await
}
