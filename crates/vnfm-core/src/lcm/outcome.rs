//! The record of an instance that an operation has changed.

use super::changes::{inventory, show_states};
use super::heal;
use super::hook_journal;
use super::op_context::Op;
use super::operation::Completion;
use crate::deployment::Deployment;
use crate::deployment::max_scale_levels;
use crate::ports::{InstanceRecord, PortError, Recorded};
use std::sync::Arc;

/// The resources in the record from before the operation.
pub(crate) fn recorded(instance: &InstanceRecord) -> Recorded {
    Recorded {
        handle: instance.handle.clone(),
        inventory: inventory(instance),
        ..Recorded::default()
    }
}

/// The instance with these resources and this deployment, and with what the hooks want changed.
pub(super) fn with_deployment(
    op: &Op,
    now: Recorded,
    reached: &Deployment,
) -> Result<InstanceRecord, PortError> {
    let mut record = heal::with_resources(op, now)?;
    let mut deployment = reached.clone();
    let is_new_package = deployment.leaves_package(&op.instance.vnf_pkg_id);
    if let Some(noted) = record.deployment.as_ref().filter(|_| !is_new_package) {
        deployment.credentials.clone_from(&noted.credentials);
        deployment.plugins.clone_from(&noted.plugins);
    }
    if let Some(info) = &mut record.vnf.instantiated_vnf_info {
        if is_new_package {
            hook_journal::note_plugins(op, &mut deployment, &mut info.metadata);
        }
        deployment.settle_states(&info.vnfc_resource_info);
        show_states(&mut info.vnfc_resource_info, &deployment);
        info.flavour_id = deployment.flavour_id.to_string();
        info.vnf_state = deployment.vnf_state;
        info.scale_status = deployment.scale_status();
        let flavour = op
            .package()
            .ok()
            .and_then(|package| package.vnfd().flavour(&deployment.flavour_id));
        if let Some(flavour) = flavour {
            info.max_scale_levels = max_scale_levels(flavour);
        }
    }
    record.deployment = Some(Arc::new(deployment));
    Ok(record)
}

/// The instance after the undo of its change, which left `now`: pods, for example, come back under other names. Without an
/// undo the record stays.
pub(super) fn restored(op: &Op, now: Option<Recorded>) -> Result<Completion, PortError> {
    let before = op.record.before.as_deref();
    let instance = now
        .zip(before)
        .map(|(now, before)| with_deployment(op, now, before));
    Ok(Completion {
        instance: instance.transpose()?,
        ..Completion::default()
    })
}
