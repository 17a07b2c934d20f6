//! Modify the information of a VNF (SOL003 5.4.3.3.4): the whole flow, top to bottom.
//!
//! ```text
//!  PATCH …/vnf_instances/{id}
//!    │  target: validate, then one transaction: occurrence in PROCESSING, the instance's one active
//!    │  operation, the first notification                            202 Accepted + Location
//!    ▼
//! PROCESSING ──check_vim──modify──► COMPLETED: the instance matches the request
//! ```
//!
//! It needs no grant (SOL003 9.3), and so has no STARTING: PROCESSING is its initial state (5.6.2.2), and
//! a failure leads to FAILED_TEMP.
//!
//! The body is a merge patch (RFC 7396): members it omits stay, a null removes one. Nothing on a VIM is touched, and the
//! instance is written together with the final state, so an operation that fails has changed nothing.
//!
//! | step      | state      | does                                                          | undo |
//! |-----------|------------|---------------------------------------------------------------|------|
//! | check_vim | PROCESSING | if the VIM is to be reached differently: tries the connection | —    |
//! | modify    | PROCESSING | determines what changes                                       | —    |

use super::Op;
use super::operation::{Body, Completion, Operation, Requested, Requires, Target};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::support::Support;
use crate::json::{differing_paths, to_json};
use crate::patch::{Connections, check_declared, merge_patch};
use crate::ports::{InstanceRecord, PortError, StoreError};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::future::ready;
use vnfm_types::LcmOperationState::{Completed, Processing};
use vnfm_types::{
    KeyValuePairs, LcmOperationState, LcmOperationType, VnfInfoModificationRequest,
    VnfInfoModifications,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ModifyInfo,
    task: None,
    interface_operation: "modify_information",
    body: Body::new::<VnfInfoModificationRequest>("VnfInfoModificationRequest"),
    requires: Requires::Nothing,
    support: Support::Always,
    uses_vim: false,
    frees_space: false,
    skippable_hooks: false,
    checks_parameters: false,
    grant: None,
    target: |requested| Box::pin(target(requested)),
    hook_request: |_, _| Ok(()),
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::new("check_vim", Processing, |op| silent(check_vim(op))),
    Step::new("modify", Processing, |op| journaled(ready(modify(op)))),
];

/// The deployment with the VIM connections as patched. Refuses what the VNFD does not declare, and invalid connections.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let (context, instance) = (requested.context, requested.instance);
    let mut request: VnfInfoModificationRequest = requested.request()?;
    let vnfd_id = request.vnfd_id.as_ref();
    if let Some(vnfd_id) = vnfd_id.filter(|id| **id != instance.vnf.vnfd_id) {
        let what =
            format!("the VNFD of an instance cannot change: vnfdId cannot become `{vnfd_id}`");
        let refusal = Refusal::new(Why::Unprocessable, &refusal::UNDECLARED, what);
        return Err(refusal.hint("change to the package of another VNFD with `change_vnfpkg`"));
    }
    check_declared(context, instance, &request).await?;
    if let Some(patch) = &mut request.vim_connection_info {
        let connections = Connections::from_instance(instance)
            .patched(patch.as_ref())
            .map_err(bad_vim)?;
        if let Some(patch) = patch {
            let tenant = requested.tenant();
            connections.check_registered(context, tenant, patch).await?;
        }
    }
    let after = modified(instance, &request).map_err(Refusal::unprocessable)?;
    Ok(Target {
        modifies: differing(instance, &after)?,
        deployment: after.deployment,
        body: to_json("the request", &request)?,
        ..requested.unchanged()
    })
}

/// Paths of what differs between two records of an instance.
fn differing(before: &InstanceRecord, after: &InstanceRecord) -> Result<Vec<String>, StoreError> {
    let shown = |record: &InstanceRecord| to_json("the instance", &record.vnf);
    let logins = |record: &InstanceRecord| {
        let deployment = record.deployment.as_deref();
        let connections = deployment.map(|deployment| &deployment.vim_connection_info);
        to_json("the connections", &connections)
            .map(|connections| json!({"vimConnectionInfo": connections}))
    };
    let shown = differing_paths(&shown(before)?, &shown(after)?);
    let logins = differing_paths(&logins(before)?, &logins(after)?);
    let all: BTreeSet<_> = shown.into_iter().chain(logins).collect();
    Ok(all.into_iter().collect())
}

fn bad_vim(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what)
}

/// Tries a new VIM connection before it is stored: the instance's resources must exist on that VIM.
async fn check_vim(op: &Op) -> Output<()> {
    let request: VnfInfoModificationRequest = op.request()?;
    let Some(patch) = &request.vim_connection_info else {
        return Ok(());
    };
    let connections = Connections::from_instance(&op.instance).patched(patch.as_ref());
    let connections = connections.map_err(|what| vims::as_port_error(bad_vim(what)))?;
    let Some(changed) = connections.changed_connections() else {
        return Ok(());
    };
    let (vim, driver) = vims::of_connections(&op.context, op.tenant(), changed)
        .await
        .map_err(vims::as_port_error)?;
    driver.check(&vim).await?;
    let owned = driver
        .owned(&vim, op.context.store().installation_id())
        .await?;
    let id = &op.instance.vnf.id;
    if owned
        .iter()
        .any(|resource| resource.instance_id.as_ref() == Some(id))
    {
        return Ok(());
    }
    let what = "the VIM that the connection now leads to holds none of the instance's resources";
    Err(vims::as_port_error(bad_vim(what.to_owned())))
}

/// The changed attributes, for `changedInfo` of the occurrence.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Modified(pub VnfInfoModifications);

impl StepOutput for Modified {
    const STEP: &'static str = "modify";
}

fn modify(op: &Op) -> Output<Modified> {
    let request: VnfInfoModificationRequest = op.request()?;
    let after = modified(&op.instance, &request)?;
    Ok(Modified(changed(&op.instance, &after)))
}

/// The instance after the modification.
fn modified(
    instance: &InstanceRecord,
    request: &VnfInfoModificationRequest,
) -> Result<InstanceRecord, PortError> {
    let mut record = instance.clone();
    if let Some(patch) = &request.vim_connection_info {
        let connections = Connections::from_instance(instance).patched(patch.as_ref());
        connections
            .map_err(|what| vims::as_port_error(bad_vim(what)))?
            .store_into(&mut record);
    }
    let vnf = &mut record.vnf;
    if let Some(name) = &request.vnf_instance_name {
        vnf.vnf_instance_name.clone_from(name);
    }
    if let Some(description) = &request.vnf_instance_description {
        vnf.vnf_instance_description.clone_from(description);
    }
    for (values, patch) in [
        (&mut vnf.metadata, &request.metadata),
        (&mut vnf.extensions, &request.extensions),
        (
            &mut vnf.vnf_configurable_properties,
            &request.vnf_configurable_properties,
        ),
    ] {
        if let Some(patch) = patch {
            merge_patch(values, patch.as_ref());
        }
    }
    Ok(record)
}

/// The attributes that a modification changes, with their new values.
fn changed(before: &InstanceRecord, after: &InstanceRecord) -> VnfInfoModifications {
    let (before, after) = (&before.vnf, &after.vnf);
    let text = |before: &Option<String>, after: &Option<String>| {
        (before != after).then(|| after.clone().unwrap_or_default())
    };
    VnfInfoModifications {
        vnf_instance_name: text(&before.vnf_instance_name, &after.vnf_instance_name),
        vnf_instance_description: text(
            &before.vnf_instance_description,
            &after.vnf_instance_description,
        ),
        vnf_configurable_properties: changed_values(
            &before.vnf_configurable_properties,
            &after.vnf_configurable_properties,
        ),
        metadata: changed_values(&before.metadata, &after.metadata),
        extensions: changed_values(&before.extensions, &after.extensions),
        vim_connection_info: after
            .vim_connection_info
            .iter()
            .filter(|(key, connection)| before.vim_connection_info.get(*key) != Some(connection))
            .map(|(key, connection)| (key.clone(), connection.clone()))
            .collect(),
    }
}

fn changed_values(before: &KeyValuePairs, after: &KeyValuePairs) -> KeyValuePairs {
    let is_other = |(key, value): &(&String, &Value)| before.get(*key) != Some(*value);
    after
        .iter()
        .filter(is_other)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// On completion, the instance as requested.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    if state != Completed {
        return Ok(Completion::default());
    }
    let after = modified(&op.instance, &op.request()?)?;
    let changed_info = op.output::<Modified>()?.map(|modified| modified.0);
    Ok(Completion {
        instance: Some(after),
        changed_info,
        ..Completion::default()
    })
}
