//! Loads an operation that a process is about to drive: its records, its journal, its package, and the grant that it has.

use super::approved::Approved;
use super::op_context::Op;
use super::operation::{self, Operation};
use crate::context::Context;
use crate::json::to_json_or_log;
use crate::ports::{Fence, Ownership, StoreError};
use crate::redact::Redactor;
use std::sync::Arc;

/// Loads the records, the journal and the package that the steps need.
pub(super) async fn load(
    context: &Context,
    operations: &[&'static Operation],
    tenant: &str,
    fence: Fence,
) -> Result<Op, StoreError> {
    let store = context.store();
    let record = store.op(tenant, &fence.op_id).await?;
    let kind = record.op.operation;
    let operation = operation::find(operations, kind)
        .ok_or_else(|| StoreError::Broken(format!("unknown operation {kind}")))?;
    let instance = store.instance(tenant, &record.op.vnf_instance_id).await?;
    let journal = store.journal(&fence.op_id).await?;
    let rows = journal
        .into_iter()
        .map(|row| (row.step.clone(), Arc::new(row)))
        .collect();
    let (packages, current) = (&context.ports.packages, &instance.vnf_pkg_id);
    let package_before = packages.package(tenant, current).await;
    let target = record.target.as_deref();
    let package = match target.filter(|target| target.leaves_package(current)) {
        Some(target) => packages.package(tenant, &target.vnf_pkg_id).await,
        None => package_before.clone(),
    };
    let live = context.live.add(&fence.op_id, context.ports.clock.clone());
    let ownership = Ownership {
        installation_id: store.installation_id().to_owned(),
        tenant: tenant.to_owned(),
        instance_id: instance.vnf.id.clone(),
        op_id: fence.op_id.clone(),
    };
    let deadline = context.now();
    let mut op = Op {
        context: context.clone(),
        operation,
        record: Arc::new(record),
        instance,
        fence,
        live,
        rows,
        unwritten: Vec::new(),
        deadline,
        package,
        package_before,
        ownership,
    };
    set_missing_levels(&mut op);
    apply_grant(&mut op);
    hide_secrets(&op);
    Ok(op)
}

/// Sets the levels of an operation that began before levels were recorded.
fn set_missing_levels(op: &mut Op) {
    let record = Arc::make_mut(&mut op.record);
    for (deployment, package) in [
        (&mut record.before, &op.package_before),
        (&mut record.target, &op.package),
    ] {
        if let (Some(deployment), Ok(package)) = (deployment, package)
            && deployment.vdu_instances.is_empty()
            && let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id)
        {
            // A flavour that does not define its number of VNFCs is refused when it is planned.
            let _ = Arc::make_mut(deployment).set_levels(flavour);
        }
    }
}

/// Applies the grant, if there is one, to the target and the request of the operation.
pub(super) fn apply_grant(op: &mut Op) {
    let Ok(Some(approved)) = op.output::<Approved>() else {
        return;
    };
    let rule = op.operation.grant.as_ref();
    approved.apply(Arc::make_mut(&mut op.record), rule);
    hide_secrets(op);
}

/// Hides the secrets of the request from everything the operation logs or reports from now on.
fn hide_secrets(op: &Op) {
    let mut found = Redactor::default();
    found.add_well_known(&op.record.request);
    for deployment in [&op.record.before, &op.record.target].into_iter().flatten() {
        if let Some(deployment) = to_json_or_log("a deployment", &**deployment) {
            found.add_well_known(&deployment);
        }
    }
    op.live.add_secrets(&found);
}
