//! The statements of each [`Change`], made by one pure function per change. Each change is one conditional statement; if
//! it affects no row, a question in the same transaction finds the reason, and the whole list is rolled back.

mod instances;
mod links;
mod ops;
mod overrides;
mod packages;
mod pins;
mod schedules;
mod snapshots;
mod subscriptions;
#[cfg(test)]
mod tests;
mod vims;
mod volumes;

use crate::fault::Done;
use crate::refusals::absent;
use crate::secret_keys::SecretKeys;
use crate::statement::Statement;
use crate::tenant_usage;
use vnfm_core::ports::{Change, OutboxRow, StoreError};
use vnfm_types::LogLine;

pub(crate) use ops::status_text;

const LOG_LINES: i64 = 2_000;
const LOG_LINE_BYTES: usize = 4_096;

/// The statements that write a change, in order; secrets are sealed with the first of `keys`.
pub(crate) fn statements(change: &Change, keys: &SecretKeys) -> Done<Vec<Statement>> {
    match change {
        Change::AddInstance(record) => instances::add(record, keys),
        Change::PutInstance(record) => instances::put(record, keys),
        Change::SetOnFailure {
            tenant,
            id,
            on_failure,
        } => instances::set_on_failure((tenant, id), on_failure.as_ref()),
        Change::RemoveInstance { tenant, id } => Ok(instances::remove(tenant, id)),
        Change::AddOp(record) => ops::add(record, keys),
        Change::PutOp { record, from } => ops::put(record, *from, keys),
        Change::RuleOutRollback { op_id, step } => Ok(ops::rule_out_rollback(op_id, step)),
        Change::Cancel { op_id, mode } => Ok(ops::cancel(op_id, *mode)),
        Change::Journal(row) => ops::journal(row, keys),
        Change::RecordOrderlyExit { process, op_id } => Ok(ops::left_in_order(
            process,
            op_id.as_deref().unwrap_or_default(),
        )),
        Change::Checkpoint {
            op_id,
            step,
            key,
            value,
        } => ops::checkpoint([op_id, step, key], value, keys),
        Change::RemoveCheckpoints { op_id, step } => Ok(ops::forget_checkpoints(op_id, step)),
        Change::AddUse(lives_on) => Ok(vims::add_use(lives_on)),
        Change::RemoveUses { instance_id } => Ok(vims::remove_uses(instance_id)),
        Change::MarkVimsLeaving {
            tenant,
            instance_id,
            op_id,
            besides,
        } => Ok(vims::mark_leaving((tenant, instance_id), op_id, besides)),
        Change::UnmarkVimsLeaving { op_id } => Ok(vims::unmark_leaving(op_id)),
        Change::AddVim(record) => vims::add(record, keys),
        Change::PutVim(record) => vims::put(record, keys),
        Change::RemoveVim { tenant, id, force } => Ok(vims::remove(tenant, id, *force)),
        Change::AddPackage(record) => packages::add(record, keys),
        Change::PutPackage(record) => packages::put(record, keys),
        Change::RemovePackage { tenant, id } => Ok(packages::remove(tenant, id)),
        Change::Outbox(row) => outbox(row),
        Change::AddSnapshot(record) => snapshots::add(record, keys),
        Change::PutSnapshot(record) => snapshots::put(record, keys),
        Change::FillSnapshot(contents) => snapshots::fill(contents, keys),
        Change::RemoveSnapshot {
            tenant,
            id,
            version,
        } => Ok(snapshots::remove(tenant, id, *version)),
        Change::AddSubscription(record) => subscriptions::add(record, keys),
        Change::RemoveSubscription { tenant, id } => Ok(subscriptions::remove(tenant, id)),
        Change::AdvanceSubscription {
            tenant,
            id,
            seq,
            lost,
        } => Ok(subscriptions::sent((tenant, id), (*seq, *lost))),
        other => shared_statements(other, keys),
    }
}

/// The statements of a change that concerns what is apart from instances: host keys, shared virtual links, retained volumes,
/// schedules.
fn shared_statements(change: &Change, keys: &SecretKeys) -> Done<Vec<Statement>> {
    match change {
        Change::PinHostKey { pin, key } => Ok(pins::pin(pin, key)),
        Change::RemoveHostKey(host) => Ok(pins::forget(host)),
        Change::AddLink(record) => links::add(record),
        Change::PutLink(record) => links::put(record),
        Change::RemoveLink { tenant, id } => Ok(links::remove(tenant, id)),
        Change::SetLinkUses {
            tenant,
            instance_id,
            links,
        } => Ok(links::set_uses(tenant, instance_id, links)),
        Change::SetSchedule(record) => schedules::set(record, keys),
        Change::PutSchedule(record) => schedules::put(record, keys),
        Change::RemoveSchedule {
            tenant,
            instance_id,
        } => Ok(schedules::remove(tenant, instance_id)),
        Change::AddVolume(record) => volumes::add(record),
        Change::FinishVolume(record) => volumes::finish(record),
        Change::SetVolumeState { tenant, id, state } => Ok(volumes::set_state(tenant, id, *state)),
        Change::RemoveVolume {
            tenant,
            id,
            used_by,
        } => Ok(volumes::remove(tenant, id, used_by.as_deref())),
        Change::SetVolumeUses {
            tenant,
            instance_id,
            volumes,
        } => Ok(volumes::set_uses(tenant, instance_id, volumes)),
        other => override_statements(other),
    }
}

/// The statements of a change that an operator makes by hand, and of its record.
fn override_statements(change: &Change) -> Done<Vec<Statement>> {
    match change {
        Change::Audit { tenant, entry } => overrides::audit(tenant, entry),
        Change::RevokeLease {
            instance_id,
            op_id,
            force,
        } => Ok(overrides::revoke_lease((instance_id, op_id), *force)),
        Change::Abandon { tenant, id, force } => Ok(overrides::abandon(tenant, id, *force)),
        Change::AddTombstone { tenant, tombstone } => overrides::add_tombstone(tenant, tombstone),
        Change::RemoveTombstone {
            tenant,
            instance_id,
        } => Ok(overrides::forget(tenant, instance_id)),
        other => quota_statements(other),
    }
}

/// The statements of a change that concerns quotas.
fn quota_statements(change: &Change) -> Done<Vec<Statement>> {
    match change {
        Change::Reserve {
            tenant,
            id,
            what,
            amount,
        } => Ok(tenant_usage::reserve((tenant, id), *what, *amount)),
        Change::Release { id } => Ok(tenant_usage::release(id)),
        Change::PackageSize { tenant, id, bytes } => {
            Ok(tenant_usage::package_size((tenant, id), *bytes))
        }
        Change::CheckQuota {
            tenant,
            what,
            most,
            adds,
        } => tenant_usage::within(tenant, *what, (*most, *adds)),
        other => {
            let name = describe(other);
            Err(StoreError::Broken(format!("this store does not know how to {name}")).into())
        }
    }
}

/// The action of a change, for errors.
pub(crate) fn describe(change: &Change) -> &'static str {
    match change {
        Change::AddInstance(_) => "add an instance",
        Change::PutInstance(_) => "write an instance",
        Change::SetOnFailure { .. } => "set the policy of an instance",
        Change::RemoveInstance { .. } => "remove an instance",
        Change::AddOp(_) => "add an operation",
        Change::PutOp { .. } => "write an operation",
        Change::RuleOutRollback { .. } => "rule out a rollback",
        Change::Cancel { .. } => "request a cancellation",
        Change::Journal(_) => "write the journal",
        Change::RecordOrderlyExit { .. } => "record an orderly shutdown",
        Change::Checkpoint { .. } => "write a checkpoint",
        Change::RemoveCheckpoints { .. } => "remove checkpoints",
        Change::AddUse(_) => "record the use of a VIM",
        Change::RemoveUses { .. } => "remove the uses of VIMs",
        Change::MarkVimsLeaving { .. } => "mark an instance's VIMs as leaving",
        Change::UnmarkVimsLeaving { .. } => "unmark leaving VIMs",
        Change::AddVim(_) => "add a VIM",
        Change::PutVim(_) => "write a VIM",
        Change::RemoveVim { .. } => "remove a VIM",
        Change::AddPackage(_) => "add a VNF package",
        Change::PutPackage(_) => "write a VNF package",
        Change::RemovePackage { .. } => "remove a VNF package",
        Change::Outbox(_) => "write the outbox",
        Change::AddSnapshot(_) => "add a snapshot",
        Change::PutSnapshot(_) => "write a snapshot",
        Change::FillSnapshot(_) => "write the contents of a snapshot",
        Change::RemoveSnapshot { .. } => "remove a snapshot",
        Change::AddLink(_) => "add a shared virtual link",
        Change::PutLink(_) => "write a shared virtual link",
        Change::RemoveLink { .. } => "remove a shared virtual link",
        Change::SetLinkUses { .. } => "record which shared virtual links an instance uses",
        Change::SetSchedule(_) => "set a schedule",
        Change::PutSchedule(_) => "write a schedule",
        Change::RemoveSchedule { .. } => "remove a schedule",
        Change::AddVolume(_) => "add a retained volume",
        Change::FinishVolume(_) => "record that a volume was created",
        Change::SetVolumeState { .. } => "set the state of a retained volume",
        Change::RemoveVolume { .. } => "remove a retained volume",
        Change::SetVolumeUses { .. } => "record which retained volumes an instance uses",
        Change::AddSubscription(_) => "add a subscription",
        Change::RemoveSubscription { .. } => "remove a subscription",
        Change::AdvanceSubscription { .. } => "advance a subscription",
        Change::Audit { .. } => "write the audit",
        Change::RevokeLease { .. } => "revoke a lease",
        Change::Abandon { .. } => "abandon an instance",
        Change::AddTombstone { .. } => "write a tombstone",
        Change::RemoveTombstone { .. } => "remove a tombstone",
        Change::PinHostKey { .. } => "pin a host key",
        Change::RemoveHostKey(_) => "remove a host key",
        Change::Reserve { .. } => "reserve a part of a quota",
        Change::Release { .. } => "release a part of a quota",
        Change::PackageSize { .. } => "record the size of a package",
        Change::CheckQuota { .. } => "check a quota",
        _ => "write a change",
    }
}

/// The number is taken in the transaction that writes the row, so rows appear in the order of their numbers.
/// The counter outlives removed rows, so no number is used twice. Each row also has a number per tenant, the
/// only one that tenants see.
fn outbox(row: &OutboxRow) -> Done<Vec<Statement>> {
    const NUMBER: &str = "
        INSERT INTO outbox_numbers (tenant, value)
        SELECT $1, value + 1 FROM counters WHERE name = 'outbox_numbers'
        ON CONFLICT (tenant) DO UPDATE SET value = outbox_numbers.value + 1";
    const ADD: &str = "
        INSERT INTO outbox (seq, tenant, instance_id, kind, body, at, about, number)
        SELECT CASE WHEN value > newest THEN value ELSE newest END + 1, $1, $2, $3, $4, $5, $6,
            (SELECT value FROM outbox_numbers WHERE tenant = $1)
        FROM counters, (SELECT COALESCE(MAX(seq), 0) AS newest FROM outbox) AS rows WHERE name = 'outbox'";
    Ok(vec![
        Statement::new(NUMBER).bind(&row.tenant),
        Statement::new(ADD)
            .bind(&row.tenant)
            .bind(&row.instance_id)
            .bind(&row.kind)
            .bind(serde_json::to_string(&row.body)?)
            .bind(row.at.to_string())
            .bind(serde_json::to_string(&row.about)?),
    ])
}

/// Appends to an operation's log and removes its oldest lines beyond [`LOG_LINES`].
pub(crate) fn append_log(op_id: &str, lines: &[LogLine]) -> Vec<Statement> {
    const APPEND: &str = "
        INSERT INTO log (op_id, seq, at, level, source, text)
        SELECT id, COALESCE((SELECT MAX(seq) FROM log WHERE op_id = $1), 0) + 1, $2, $3, $4, $5
        FROM ops WHERE id = $1";
    const BOUND: &str = "
        DELETE FROM log WHERE op_id = $1 AND seq <= (SELECT MAX(seq) FROM log WHERE op_id = $1) - $2";
    let append = |line: &LogLine| {
        Statement::new(APPEND)
            .bind(op_id)
            .bind(line.at.to_string())
            .bind(cut(&line.level))
            .bind(cut(&line.source))
            .bind(cut(&line.text))
            .or(absent("operation", op_id))
    };
    let bound = Statement::new(BOUND).bind(op_id).bind(LOG_LINES);
    lines.iter().map(append).chain([bound]).collect()
}

/// `text`, truncated to [`LOG_LINE_BYTES`] at a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOG_LINE_BYTES)]
}
