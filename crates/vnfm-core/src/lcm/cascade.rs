//! Terminates, before an instance, those that run on the clusters which it registered.
//!
//! ```text
//! terminate A, cascade ─┬─ accept: the instances on clusters of A, on clusters of those, and so on. In one transaction
//!                       │  all these clusters are marked as leaving, so that no other instance can come to them
//!                       └─ step: each instance on A's own clusters ── an ordinary terminate, which cascades in turn
//! ```
//!
//! The step drives the operations that it begins, and waits for those that another process drives. After a crash it finds
//! them again: each is the active operation of its instance. If one does not complete, the step fails with the ids, once
//! the others have ended.

use super::accept;
use super::op_context::Op;
use super::operation::{Begin, Dependant, Requested};
use super::step::Output;
use super::step_runner;
use crate::context::Context;
use crate::ports::{Backoff, Code, ErrorKind, OpRecord, PortError, Store, StoreError};
use crate::query::{Query, VisibilityScope};
use crate::refusal::{self, Refusal, Why};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_types::InstantiationState;
use vnfm_types::LcmOperationState::{Completed, FailedTemp};

/// Time limit of the step: every step of the operations that it waits for has a limit of its own.
pub(super) const TIME_LIMIT: Duration = Duration::from_hours(24 * 7);
/// About how often the step looks at an operation that another process drives.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The instances that a cascading terminate ends first, each after those that run on its own clusters.
///
/// # Errors
///
/// `Forbidden` if one is outside the scope; `Conflict` if one has an operation that has not ended.
pub(super) async fn dependants(requested: &Requested<'_>) -> Result<Vec<Dependant>, Refusal> {
    let (store, tenant) = (requested.context.store(), requested.tenant());
    let root = requested.instance.vnf.id.clone();
    let mut found: Vec<Dependant> = Vec::new();
    let mut next = vec![root.clone()];
    while let Some(provider) = next.pop() {
        for id in users(store, tenant, &provider).await? {
            if id == root || found.iter().any(|known| known.id == id) {
                continue;
            }
            found.push(checked(store, (tenant, &id), requested.scope).await?);
            next.push(id);
        }
    }
    found.reverse();
    Ok(found)
}

/// A dependant that the caller may terminate, and that is free.
async fn checked(
    store: &dyn Store,
    (tenant, id): (&str, &str),
    scope: &VisibilityScope,
) -> Result<Dependant, Refusal> {
    let visible = Query {
        limit: 1,
        scope: scope.clone(),
        ..Query::only("id", id)
    };
    let Some(record) = store.instances(tenant, &visible).await?.pop() else {
        let what = "a VNF instance on a cluster of this one is outside the scope of your role";
        return Err(Refusal::new(Why::Forbidden, &OUT_OF_SCOPE, what));
    };
    if let Some(op_id) = record.active_op {
        let instance_id = id.to_owned();
        return Err(StoreError::Busy { instance_id, op_id }.into());
    }
    Ok(Dependant {
        id: record.vnf.id,
        name: record.vnf.vnf_instance_name,
    })
}

/// The tenant's other instances on VIMs that an instance registered, and on the clusters behind them.
async fn users(
    store: &dyn Store,
    tenant: &str,
    provider: &str,
) -> Result<BTreeSet<String>, StoreError> {
    let mut found = BTreeSet::new();
    for record in store.vims(tenant).await? {
        if record.tenant != tenant || record.vim.registered_by.as_deref() != Some(provider) {
            continue;
        }
        let uses = store.uses(tenant, &record.vim.id).await?.into_iter();
        // Those of other tenants make the mark on the cluster fail.
        let others = uses.filter(|one| one.tenant == tenant && one.instance_id != provider);
        found.extend(others.map(|one| one.instance_id));
    }
    Ok(found)
}

/// The step: terminates the instances on the clusters of the operation's instance.
pub(super) async fn terminate_dependants(op: &Op) -> Output<()> {
    let store = op.context.store();
    let users = users(store, op.tenant(), &op.instance.vnf.id).await?;
    let all = users.iter().map(|id| terminate(op, id));
    let failed = join_all(all).await.into_iter().filter_map(Result::err);
    let together = failed.reduce(|first, next| first.with_detail(&next.to_string()));
    together.map_or(Ok(()), Err)
}

async fn terminate(op: &Op, id: &str) -> Output<()> {
    let store = op.context.store();
    loop {
        let instance = match store.instance(op.tenant(), id).await {
            Err(StoreError::NotFound { .. }) => return Ok(()),
            found => found?,
        };
        let op_id = match (instance.active_op, instance.vnf.instantiation_state) {
            (Some(active), _) => active,
            (None, InstantiationState::NotInstantiated) => return Ok(()),
            (None, InstantiationState::Instantiated) => match begin(op, id).await {
                Ok(begun) => begun,
                // Another operation of this instance began in the meantime, or it is one of its own dependants that is busy.
                Err(refusal)
                    if refusal.code == &refusal::BUSY && is_busy(store, op, id).await? =>
                {
                    continue;
                }
                Err(refusal) => return Err(failed(id, refusal.detail)),
            },
        };
        let ended = ended(op, id, &op_id).await?.op;
        let is_ours = ended.operation == op.operation.kind;
        match ended.operation_state {
            Completed if is_ours => return Ok(()),
            state if is_ours || state == FailedTemp => {
                let cause = ended.error.map(|error| error.detail).unwrap_or_default();
                let what = format!("its operation `{op_id}` is {state}: {cause}");
                let next =
                    format!("`vnfmctl op explain {op_id}` shows what is possible; then retry");
                return Err(failed(id, what).hint(next));
            }
            _ => {}
        }
    }
}

async fn is_busy(store: &dyn Store, op: &Op, id: &str) -> Result<bool, StoreError> {
    let instance = store.instance(op.tenant(), id).await?;
    Ok(instance.active_op.is_some())
}

/// Begins the terminate of a dependant, in the way that the caller wants for its provider.
async fn begin(op: &Op, id: &str) -> Result<String, Refusal> {
    let mut body = (*op.record.request).clone();
    if let Some(members) = body.as_object_mut() {
        // They belong to the other VNF.
        members.remove("additionalParams");
    }
    let begin = Begin {
        cascade: true,
        automatic: true,
        ..Begin::new(op.operation, body)
    };
    let begun = accept::begin(&op.context, op.tenant(), id, begin).await?;
    let text = format!("operation `{begun}` terminates VNF instance `{id}`");
    op.watcher().log("info", "terminate_dependants", &text);
    Ok(begun)
}

/// An operation of a dependant once it has ended or stopped. It is driven here, unless another process does.
async fn ended(op: &Op, id: &str, op_id: &str) -> Output<OpRecord> {
    let (context, store) = (&op.context, op.context.store());
    let waiting = format!("operation `{op_id}` of VNF instance `{id}`, which runs on its cluster");
    let mut backoff = Backoff::new(op.clock(), op.watcher(), op.deadline, LOOK_INTERVAL);
    loop {
        let record = store.op(op.tenant(), op_id).await?;
        if !record.op.operation_state.is_driven() {
            return Ok(record);
        }
        op.watcher().waiting(&waiting);
        let is_ours = record.op.operation == op.operation.kind;
        if is_ours && !context.live.is_paused() {
            let lease = context.limits().lease;
            let claim = store.claim(&context.owner, lease, Some(op_id)).await?;
            if let Some(claim) = claim {
                let mut driving = Driving(Some((context, op_id)));
                step_runner::drive(context, &[op.operation], claim).await?;
                driving.0 = None;
                continue;
            }
        }
        let looked = backoff.pause(&waiting).await;
        looked.map_err(|_| failed(id, format!("its operation `{op_id}` has not ended in time")))?;
    }
}

/// An operation that this process drives. If the step that waits for it is dropped, its lease ends by itself, and another
/// driver continues.
struct Driving<'a>(Option<(&'a Context, &'a str)>);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if let Some((context, op_id)) = self.0 {
            if let Some(live) = context.live.get(op_id) {
                context.live.remove(op_id, &live);
            }
            context.exclusion.arrived(op_id);
        }
    }
}

fn failed(id: &str, why: impl Into<String>) -> PortError {
    PortError::new(
        &NOT_TERMINATED,
        format!("terminate VNF instance `{id}` first"),
        why,
    )
    .on(id)
}

/// An instance on the cluster of the one to be terminated did not terminate.
const NOT_TERMINATED: Code = Code::new(
    "op.dependant",
    ErrorKind::Refused,
    "a VNF instance on the cluster of the one to be terminated could not be terminated",
    "retry its operation, or fail it; then retry this one, which terminates those that are left",
);
const OUT_OF_SCOPE: Code = Code::new(
    "access.dependant",
    ErrorKind::Refused,
    "a VNF instance that would be terminated too is outside the scope of the caller's role",
    "send the request with a role that covers all VNF instances on the cluster",
);
pub(super) const CODES: [&Code; 2] = [&NOT_TERMINATED, &OUT_OF_SCOPE];
