//! One function per [`Change`]. Each is one conditional statement; if it changes no row, a second statement in the same
//! transaction finds the reason, and the whole list is rolled back.

mod instances;
mod ops;
mod overrides;
mod packages;
mod pins;
mod statement;
mod subscriptions;
mod vims;

use crate::fault::Done;
use crate::keys::SecretKeys;
use crate::{lease, usage};
use rusqlite::Connection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query, query_scalar};
use uuid::Uuid;
use vnfm_core::ports::{Change, OutboxRow, StoreError};
use vnfm_types::LogLine;

pub(crate) use ops::status_text;
pub(crate) use statement::Statement;

/// The writer thread's connection and the keys.
#[derive(Clone, Copy)]
pub(crate) struct Writing<'t> {
    pub(crate) db: &'t Connection,
    pub(crate) keys: &'t SecretKeys,
}

const LOG_LINES: i64 = 2_000;
const LOG_LINE_BYTES: usize = 4_096;
/// Key in `meta` of a text that the keys must unseal before a database is used.
const KEY_CHECK: &str = "key_check";

/// Writes one change, if its condition holds.
pub(crate) fn apply(writing: &Writing<'_>, change: &Change) -> Done<()> {
    match change {
        Change::AddInstance(record) => instances::add(writing, record),
        Change::PutInstance(record) => instances::put(writing, record),
        Change::RemoveInstance { tenant, id } => instances::remove(writing, tenant, id),
        Change::AddOp(record) => ops::add(writing, record),
        Change::PutOp { record, from } => ops::put(writing, record, *from),
        Change::Cancel { op_id, mode } => ops::cancel(writing, op_id, *mode),
        Change::Journal(row) => ops::journal(writing, row),
        Change::RecordOrderlyExit { process, op_id } => {
            ops::left_in_order(writing, process, op_id.as_deref().unwrap_or_default())
        }
        Change::Checkpoint {
            op_id,
            step,
            key,
            value,
        } => ops::checkpoint(writing, [op_id, step, key], value),
        Change::RemoveCheckpoints { op_id, step } => ops::forget_checkpoints(writing, op_id, step),
        Change::AddUse(lives_on) => vims::add_use(writing, lives_on),
        Change::RemoveUses { instance_id } => vims::remove_uses(writing, instance_id),
        Change::MarkVimsLeaving {
            tenant,
            instance_id,
            op_id,
        } => vims::mark_leaving(writing, tenant, instance_id, op_id),
        Change::UnmarkVimsLeaving { op_id } => vims::unmark_leaving(writing, op_id),
        Change::AddVim(record) => vims::add(writing, record),
        Change::PutVim(record) => vims::put(writing, record),
        Change::RemoveVim { tenant, id, force } => vims::remove(writing, tenant, id, *force),
        Change::AddPackage(record) => packages::add(writing, record),
        Change::PutPackage(record) => packages::put(writing, record),
        Change::RemovePackage { tenant, id } => packages::remove(writing, tenant, id),
        Change::Outbox(row) => outbox(writing, row),
        Change::AddSubscription(record) => subscriptions::add(writing, record),
        Change::RemoveSubscription { tenant, id } => subscriptions::remove(writing, tenant, id),
        Change::AdvanceSubscription {
            tenant,
            id,
            seq,
            lost,
        } => subscriptions::sent(writing, (tenant, id), (*seq, *lost)),
        Change::Audit { tenant, entry } => overrides::audit(writing, tenant, entry),
        Change::RevokeLease {
            instance_id,
            op_id,
            force,
        } => overrides::revoke_lease(writing, (instance_id, op_id), *force),
        Change::Abandon { tenant, id, force } => overrides::abandon(writing, (tenant, id), *force),
        Change::AddTombstone { tenant, tombstone } => {
            overrides::add_tombstone(writing, tenant, tombstone)
        }
        Change::RemoveTombstone {
            tenant,
            instance_id,
        } => overrides::forget(writing, tenant, instance_id),
        Change::PinHostKey { pin, key } => pins::pin(writing, pin, key),
        Change::RemoveHostKey(host) => pins::forget(writing, host),
        other => apply_to_quotas(writing, other),
    }
}

/// Writes a change that concerns quotas.
fn apply_to_quotas(writing: &Writing<'_>, change: &Change) -> Done<()> {
    match change {
        Change::Reserve {
            tenant,
            id,
            what,
            amount,
        } => usage::reserve(writing, (tenant, id), *what, *amount),
        Change::Release { id } => usage::release(writing, id),
        Change::PackageSize { tenant, id, bytes } => {
            usage::package_size(writing, (tenant, id), *bytes)
        }
        Change::CheckQuota {
            tenant,
            what,
            most,
            adds,
        } => usage::within(writing, tenant, *what, (*most, *adds)),
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
        Change::RemoveInstance { .. } => "remove an instance",
        Change::AddOp(_) => "add an operation",
        Change::PutOp { .. } => "write an operation",
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

/// Prepares a database for use: checks the keys, takes over the leases of dead processes, removes their reservations, and
/// returns the installation id. Call it only while the lock on the file proves that no other process has it open.
pub(crate) async fn prepare(connection: &mut SqliteConnection, keys: &SecretKeys) -> Done<String> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let known: Option<String> = query_scalar("SELECT value FROM meta WHERE key = $1")
        .bind(KEY_CHECK)
        .fetch_optional(&mut *tx)
        .await?;
    if let Some(sealed) = &known {
        keys.unseal(Some(sealed))?;
    } else {
        let sealed = keys.seal(&serde_json::Value::from("vnfm").into())?;
        query("INSERT INTO meta (key, value) VALUES ($1, $2)")
            .bind(KEY_CHECK)
            .bind(sealed)
            .execute(&mut *tx)
            .await?;
    }
    let id = installation(&mut tx).await?;
    query(lease::TAKE_OVER)
        .bind(format!("opened-{}", Uuid::new_v4()))
        .execute(&mut *tx)
        .await?;
    query("DELETE FROM reservations").execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(id)
}

/// The installation's id, created if there is none.
pub(crate) async fn installation(connection: &mut SqliteConnection) -> Done<String> {
    query(
        "INSERT INTO meta (key, value) VALUES ('installation_id', $1) ON CONFLICT (key) DO NOTHING",
    )
    .bind(Uuid::new_v4().to_string())
    .execute(&mut *connection)
    .await?;
    let id = query_scalar("SELECT value FROM meta WHERE key = 'installation_id'");
    Ok(id.fetch_one(connection).await?)
}

/// True if the database has sealed values.
pub(crate) async fn is_used(connection: &mut SqliteConnection) -> Done<bool> {
    let known: Option<i64> = query_scalar("SELECT 1 FROM meta WHERE key = $1")
        .bind(KEY_CHECK)
        .fetch_optional(connection)
        .await?;
    Ok(known.is_some())
}

/// The number is taken in the transaction that writes the row, so rows appear in the order of their numbers. The counter
/// outlives removed rows, so no number is used twice. Each row also has a number per tenant, the only one that tenants
/// see.
fn outbox(writing: &Writing<'_>, row: &OutboxRow) -> Done<()> {
    const NUMBER: &str = "
        INSERT INTO outbox_numbers (tenant, value)
        SELECT $1, value + 1 FROM counters WHERE name = 'outbox_numbers'
        ON CONFLICT (tenant) DO UPDATE SET value = outbox_numbers.value + 1 RETURNING value";
    const ADD: &str = "
        INSERT INTO outbox (seq, tenant, instance_id, kind, body, at, about, number)
        SELECT CASE WHEN value > newest THEN value ELSE newest END + 1, $1, $2, $3, $4, $5, $6, $7
        FROM counters, (SELECT COALESCE(MAX(seq), 0) AS newest FROM outbox) AS rows WHERE name = 'outbox'";
    let number: i64 = writing.statement(NUMBER).bind(&row.tenant).one()?;
    writing
        .statement(ADD)
        .bind(&row.tenant)
        .bind(&row.instance_id)
        .bind(&row.kind)
        .bind(serde_json::to_string(&row.body)?)
        .bind(row.at.to_string())
        .bind(serde_json::to_string(&row.about)?)
        .bind(number)
        .run()
}

/// Appends to an operation's log and removes its oldest lines beyond [`LOG_LINES`].
pub(crate) fn append_log(writing: &Writing<'_>, op_id: &str, lines: &[LogLine]) -> Done<()> {
    const APPEND: &str = "
        INSERT INTO log (op_id, seq, at, level, source, text)
        SELECT id, COALESCE((SELECT MAX(seq) FROM log WHERE op_id = $1), 0) + 1, $2, $3, $4, $5
        FROM ops WHERE id = $1";
    const BOUND: &str = "
        DELETE FROM log WHERE op_id = $1 AND seq <= (SELECT MAX(seq) FROM log WHERE op_id = $1) - $2";
    for line in lines {
        let append = writing
            .statement(APPEND)
            .bind(op_id)
            .bind(line.at.to_string())
            .bind(cut(&line.level))
            .bind(cut(&line.source))
            .bind(cut(&line.text));
        if !append.changed()? {
            return Err(absent("operation", op_id).into());
        }
    }
    writing.statement(BOUND).bind(op_id).bind(LOG_LINES).run()
}

/// `text`, truncated to [`LOG_LINE_BYTES`] at a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOG_LINE_BYTES)]
}

pub(crate) fn absent(what: &'static str, id: &str) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_owned(),
    }
}

/// Converts a count for the database.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a count from the database.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
