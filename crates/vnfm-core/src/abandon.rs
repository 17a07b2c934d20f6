//! Abandon: forgets an instance whose VIM is lost, in any state. The last resort when no terminate can complete.
//!
//! One transaction ends the active operation, if there is one, by the usual state transitions; deletes the instance and
//! the VIMs that it registered; and adds a tombstone and an audit entry. Nothing on a VIM is touched: anything left there
//! is an orphan from then on, and the tombstone tells whose.

use crate::engine::Engine;
use crate::instances::identifier_row;
use crate::lcm::Transition;
use crate::overrides::{Overridden, Override};
use crate::ports::{Change, Code, ErrorKind, InstanceRecord, OpRecord, StoreError};
use crate::refusal::{Refusal, Why};
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{
    self, Completed, Failed, FailedTemp, Processing, RolledBack, RollingBack, Starting,
};
use vnfm_types::{AbandonedVim, CancelMode, ProblemDetails, Tombstone};

impl Engine {
    /// Forgets an instance; see the top of the file. With `force` also if a process drives its operation, whose lease is
    /// revoked, and if other instances or VNF snapshots are on a VIM that it registered, which then stays registered without
    /// an owner.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unprocessable` without a reason; `Conflict` if it needs `force`. Nothing is changed then.
    pub async fn abandon(
        &self,
        tenant: &str,
        id: &str,
        force: bool,
        act: Override,
    ) -> Result<(), Refusal> {
        let act = act.with_reason()?;
        let store = self.store();
        let instance = store.instance(tenant, id).await?;
        let op = match &instance.active_op {
            Some(op_id) => Some(store.op(tenant, op_id).await?),
            None => None,
        };
        let mut changes = Vec::new();
        if let Some(op) = &op {
            let op_id = op.op.id.clone();
            changes.push(Change::RevokeLease {
                instance_id: id.to_owned(),
                op_id,
                force,
            });
            changes.extend(self.ended(op, &instance, &act)?);
        }
        changes.push(Change::Abandon {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            force,
        });
        changes.extend(self.unregister_vims_of(tenant, id).await?);
        let tombstone = self.tombstone(&instance, op.as_ref(), &act).await?;
        changes.push(Change::AddTombstone {
            tenant: tenant.to_owned(),
            tombstone: Box::new(tombstone),
        });
        let name = instance.vnf.vnf_instance_name.clone();
        let what = if force {
            "vnf abandon --force"
        } else {
            "vnf abandon"
        };
        let overridden = Overridden {
            tenant,
            what,
            target: id,
            name,
        };
        changes.push(act.audit(overridden, self.now()));
        let deleted_event =
            identifier_row(&instance, "VnfIdentifierDeletionNotification", self.now());
        changes.push(Change::Outbox(Box::new(deleted_event)));
        self.write_abandoned(tenant, changes, force)
            .await
            .map_err(|error| with_force_hint(error, op.as_ref()))?;
        // A step that hangs in this process need not continue: its writes would be refused.
        if let Some(live) = op.and_then(|op| self.context.live.get(&op.op.id)) {
            live.cancel(CancelMode::Forceful);
        }
        self.remove_files(id).await;
        Ok(())
    }

    /// Deletes the tombstone of an abandoned instance, once nothing of it is left anywhere.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unprocessable` without a reason.
    pub async fn remove_tombstone(
        &self,
        tenant: &str,
        id: &str,
        act: Override,
    ) -> Result<(), Refusal> {
        let act = act.with_reason()?;
        let known = self.store().tombstones(tenant).await?;
        let name = known
            .into_iter()
            .find(|tombstone| tombstone.vnf_instance_id == id);
        let name = name.and_then(|tombstone| tombstone.vnf_instance_name);
        let forget = Change::RemoveTombstone {
            tenant: tenant.to_owned(),
            instance_id: id.to_owned(),
        };
        let overridden = Overridden {
            tenant,
            what: "orphans --forget",
            target: id,
            name,
        };
        let audit = act.audit(overridden, self.now());
        Ok(self.store().write(None, vec![forget, audit]).await?)
    }

    /// The transitions that end an operation from its current state.
    fn ended(
        &self,
        op: &OpRecord,
        instance: &InstanceRecord,
        act: &Override,
    ) -> Result<Vec<Change>, StoreError> {
        let moves: &[LcmOperationState] = match op.op.operation_state {
            Starting => &[RolledBack],
            Processing | RollingBack => &[FailedTemp, Failed],
            FailedTemp => &[Failed],
            Completed | Failed | RolledBack => &[],
        };
        let now = self.now();
        let mut record = Arc::new(op.clone());
        let mut changes = Vec::new();
        for next in moves {
            let ended = Transition {
                error: Some(abandoned(op, act)),
                ..Transition::default()
            };
            let (after, more) = ended.apply(*next, &record, instance, now)?;
            changes.extend(more);
            record = after;
        }
        Ok(changes)
    }

    /// Unregisters the VIMs that the instance registered; one that others live on stays, without an owner.
    async fn unregister_vims_of(&self, tenant: &str, id: &str) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::new();
        let mut registered = self.store().vims(tenant).await?;
        registered.retain(|record| record.vim.registered_by.as_deref() == Some(id));
        for mut record in registered {
            let users = self.store().uses(tenant, &record.vim.id).await?;
            if users.iter().any(|lives| lives.instance_id != id) {
                record.vim.registered_by = None;
                changes.push(Change::PutVim(Box::new(record)));
            } else {
                let (tenant, id) = (tenant.to_owned(), record.vim.id);
                changes.push(Change::RemoveVim {
                    tenant,
                    id,
                    force: false,
                });
            }
        }
        Ok(changes)
    }

    /// Writes all of it. With `force`, a VIM that VNF snapshots are on stays registered, without an owner.
    async fn write_abandoned(
        &self,
        tenant: &str,
        mut changes: Vec<Change>,
        force: bool,
    ) -> Result<(), StoreError> {
        loop {
            let error = match self.store().write(None, changes.clone()).await {
                Err(error) if force => error,
                written => return written,
            };
            let StoreError::InUse { id: held, .. } = &error else {
                return Err(error);
            };
            let removes =
                |change: &&mut Change| matches!(change, Change::RemoveVim { id, .. } if id == held);
            let Some(removal) = changes.iter_mut().find(removes) else {
                return Err(error);
            };
            let mut record = self.store().vim(tenant, held).await?;
            record.vim.registered_by = None;
            *removal = Change::PutVim(Box::new(record));
        }
    }

    async fn tombstone(
        &self,
        instance: &InstanceRecord,
        op: Option<&OpRecord>,
        act: &Override,
    ) -> Result<Tombstone, StoreError> {
        let deployment = instance
            .deployment
            .as_ref()
            .or(op.and_then(|op| op.target.as_ref()));
        let mut vims = Vec::new();
        let connections = deployment.map(|deployment| deployment.vim_connection_info.clone());
        for (key, connection) in connections.into_iter().flatten() {
            let id = connection
                .vim_id
                .filter(|_| connection.access_info.is_empty());
            let mut left = AbandonedVim {
                vim_id: id.clone(),
                name: key,
                vim_type: connection.vim_type,
                endpoint: endpoint(&connection.interface_info),
            };
            if let Some(id) = id {
                match self.store().vim(&instance.tenant, &id).await {
                    Ok(record) => {
                        left.endpoint = endpoint(&record.vim.interface_info);
                        (left.name, left.vim_type) = (record.vim.name, record.vim.vim_type);
                    }
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            vims.push(left);
        }
        Ok(Tombstone {
            vnf_instance_id: instance.vnf.id.clone(),
            vnf_instance_name: instance.vnf.vnf_instance_name.clone(),
            vims,
            at: self.now(),
            who: act.who.clone(),
            reason: act.reason.clone(),
        })
    }
}

fn endpoint(interface: &vnfm_types::KeyValuePairs) -> Option<String> {
    interface
        .get("endpoint")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned)
}

/// The error of an operation whose instance was abandoned.
fn abandoned(op: &OpRecord, act: &Override) -> ProblemDetails {
    let before = op
        .op
        .error
        .as_ref()
        .map(|error| format!("; before: {}", error.detail));
    let what = format!(
        "its VNF instance was abandoned by {}: {}",
        act.who, act.reason
    );
    let mut problem = ProblemDetails::new(500, what + &before.unwrap_or_default());
    problem.title = Some(ABANDONED.means.to_owned());
    problem.code = Some(ABANDONED.name.to_owned());
    problem.type_uri = Some(format!("https://vnfm.dev/errors#{}", ABANDONED.name));
    problem.step = op.op.error.as_ref().and_then(|error| error.step.clone());
    problem.retryable = Some(false);
    problem
}

/// Adds a hint on what `--force` would do.
fn with_force_hint(error: StoreError, op: Option<&OpRecord>) -> Refusal {
    let hint = match (&error, op) {
        (StoreError::Busy { op_id, .. }, Some(_)) => Some(format!(
            "`vnfmctl op cancel {op_id} --forceful` stops it; `--force` revokes the lease of the process that drives it"
        )),
        (StoreError::InUse { .. }, _) => Some(
            "terminate or abandon those first; with `--force` the VIMs that they use stay registered".to_owned(),
        ),
        _ => None,
    };
    let refusal = Refusal::from(error);
    match hint {
        Some(hint) if refusal.why == Why::Conflict => refusal.hint(hint),
        _ => refusal,
    }
}

const ABANDONED: Code = Code {
    name: "op.abandoned",
    kind: ErrorKind::Refused,
    means: "the VNF instance was abandoned during the operation",
    next: "`vnfmctl orphans` lists what it left on its VIM; `vnfmctl audit` says who abandoned it and why",
};

pub(crate) const CODES: &[&Code] = &[&ABANDONED];
