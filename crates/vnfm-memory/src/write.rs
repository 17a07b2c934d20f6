//! A list of changes is applied completely or not at all: each change to the table that it concerns.

use crate::state::State;
use crate::{
    instances, links, ops, packages_and_outbox, quotas, schedules, snapshots, vims, volumes,
};
use jiff::Timestamp;
use vnfm_core::ports::{Change, Fence, StoreError};

impl State {
    /// Writes all of `changes`, or none. The caller drops the returned old rows after releasing the lock.
    pub(crate) fn write(
        &mut self,
        fence: Option<&Fence>,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<impl Sized + use<>, StoreError> {
        // Discard what a panic left half-written.
        self.roll_back();
        let news = self.news;
        let held = fence.map_or(Ok(()), |fence| ops::is_held(self, fence));
        let mut changes = changes.into_iter();
        let written = held.and_then(|()| changes.try_for_each(|change| self.apply(change, now)));
        if let Err(error) = written {
            self.news = news;
            self.roll_back();
            return Err(error);
        }
        Ok(self.commit())
    }

    fn apply(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError> {
        match change {
            Change::AddInstance(record) => instances::add(self, *record, now),
            Change::PutInstance(record) => instances::put(self, *record, now),
            Change::SetOnFailure {
                tenant,
                id,
                on_failure,
            } => instances::set_on_failure(self, (&tenant, &id), on_failure),
            Change::RemoveInstance { tenant, id } => instances::remove(self, &tenant, &id),
            Change::Abandon { tenant, id, force } => instances::abandon(self, &tenant, &id, force),
            Change::AddOp(record) => ops::add(self, *record, now),
            Change::PutOp { record, from } => ops::put(self, record, from, now),
            Change::RuleOutRollback { op_id, step } => ops::rule_out_rollback(self, &op_id, step),
            Change::Cancel { op_id, mode } => ops::cancel(self, &op_id, mode),
            Change::RevokeLease {
                instance_id,
                op_id,
                force,
            } => ops::revoke_lease(self, (&instance_id, &op_id), force, now),
            Change::Journal(row) => ops::journal(self, row),
            Change::RecordOrderlyExit { process, op_id } => {
                self.left.put((process, op_id.unwrap_or_default()), ());
                Ok(())
            }
            Change::Checkpoint {
                op_id,
                step,
                key,
                value,
            } => ops::checkpoint(self, (op_id, step, key), value),
            Change::RemoveCheckpoints { op_id, step } => {
                let first = (op_id.clone(), step.clone(), String::new());
                self.checkpoints
                    .remove_from(first, |(op, of, _)| *op == op_id && *of == step);
                Ok(())
            }
            Change::AddSnapshot(record) => snapshots::add(self, *record, now),
            Change::PutSnapshot(record) => snapshots::put(self, *record, now),
            Change::FillSnapshot(contents) => snapshots::fill(self, *contents, now),
            Change::RemoveSnapshot {
                tenant,
                id,
                version,
            } => snapshots::remove(self, (&tenant, &id), version),
            Change::AddLink(record) => links::add(self, *record),
            Change::PutLink(record) => links::put(self, *record),
            Change::RemoveLink { tenant, id } => links::remove(self, &tenant, &id),
            Change::SetLinkUses {
                tenant,
                instance_id,
                links: all,
            } => links::set_uses(self, &tenant, &instance_id, &all),
            other => self.apply_volumes(other),
        }
    }

    /// Retained volumes and schedules.
    fn apply_volumes(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::SetSchedule(record) => schedules::set(self, *record),
            Change::PutSchedule(record) => schedules::put(self, *record),
            Change::RemoveSchedule {
                tenant,
                instance_id,
            } => schedules::remove(self, &tenant, &instance_id),
            Change::AddVolume(record) => {
                volumes::add(self, *record);
                Ok(())
            }
            Change::FinishVolume(record) => volumes::finish(self, *record),
            Change::SetVolumeState { tenant, id, state } => {
                volumes::set_state(self, (&tenant, &id), state)
            }
            Change::RemoveVolume {
                tenant,
                id,
                used_by,
            } => volumes::remove(self, (&tenant, &id), used_by.as_deref()),
            Change::SetVolumeUses {
                tenant,
                instance_id,
                volumes: all,
            } => volumes::set_uses(self, &tenant, &instance_id, &all),
            other => self.apply_vims(other),
        }
    }

    fn apply_vims(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::AddVim(record) => vims::add(self, *record),
            Change::PutVim(record) => vims::put(self, *record),
            Change::RemoveVim { tenant, id, force } => vims::remove(self, &tenant, &id, force),
            Change::AddUse(lives_on) => vims::add_use(self, lives_on),
            Change::RemoveUses { instance_id } => {
                vims::remove_uses(self, &instance_id);
                Ok(())
            }
            Change::MarkVimsLeaving {
                tenant,
                instance_id,
                op_id,
                besides,
            } => vims::retire(self, (&tenant, &instance_id), &op_id, &besides),
            Change::UnmarkVimsLeaving { op_id } => {
                let first = (op_id.clone(), String::new(), String::new());
                self.retiring.remove_from(first, |(op, ..)| *op == op_id);
                Ok(())
            }
            other => self.apply_packages_and_outbox(other),
        }
    }

    fn apply_packages_and_outbox(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::AddPackage(record) => packages_and_outbox::add_package(self, *record),
            Change::PutPackage(record) => packages_and_outbox::put_package(self, *record),
            Change::RemovePackage { tenant, id } => {
                packages_and_outbox::remove_package(self, &tenant, &id)
            }
            Change::Outbox(row) => {
                packages_and_outbox::add_notification(self, *row);
                Ok(())
            }
            Change::AddSubscription(record) => packages_and_outbox::subscribe(self, *record),
            Change::RemoveSubscription { tenant, id } => {
                packages_and_outbox::unsubscribe(self, &tenant, &id)
            }
            Change::AdvanceSubscription {
                tenant,
                id,
                seq,
                lost,
            } => {
                packages_and_outbox::sent(self, &(tenant, id), seq, lost);
                Ok(())
            }
            Change::Audit { tenant, entry } => {
                packages_and_outbox::audit(self, tenant, *entry);
                Ok(())
            }
            Change::AddTombstone { tenant, tombstone } => {
                packages_and_outbox::add_tombstone(self, tenant, *tombstone);
                Ok(())
            }
            Change::RemoveTombstone {
                tenant,
                instance_id,
            } => packages_and_outbox::remove_tombstone(self, &tenant, &instance_id),
            Change::PinHostKey { pin, key } => packages_and_outbox::pin(self, *pin, key),
            Change::RemoveHostKey(host) => packages_and_outbox::unpin(self, host),
            other => self.apply_quotas(other),
        }
    }

    fn apply_quotas(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Reserve {
                tenant,
                id,
                what,
                amount,
            } => {
                self.reservations.put(id, (tenant, what, amount));
                Ok(())
            }
            Change::Release { id } => {
                self.reservations.remove(&id);
                Ok(())
            }
            Change::PackageSize { tenant, id, bytes } => {
                packages_and_outbox::package(self, &tenant, &id)?;
                self.package_sizes.put(id, bytes);
                Ok(())
            }
            Change::CheckQuota {
                tenant,
                what,
                most,
                adds,
            } => quotas::within(self, tenant, what, (most, adds)),
            other => Err(StoreError::Broken(format!(
                "this store does not support {other:?}"
            ))),
        }
    }
}
