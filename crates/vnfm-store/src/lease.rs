//! Leases of operations: a lease has an owner, an epoch and a deadline on the database's clock.
//!
//! A claim raises the epoch, and each write names the epoch of its claim: a process that lost its lease without knowing
//! it can no longer change anything.

use crate::fault::Done;
use crate::write::{Statement, Writing, count, number};
use rusqlite::Connection;
use std::time::Duration;
use vnfm_core::ports::{Claim, Fence, StoreError};
use vnfm_types::CancelMode;

/// The condition appears twice: the inner one chooses an operation, the outer one decides if two processes chose the same.
const CLAIM_ANY: &str = "
    UPDATE ops SET owner = $1, epoch = epoch + 1, lease_until = (SELECT now_ms FROM clock) + $2
    WHERE id = (
        SELECT id FROM ops
        WHERE driven = 1 AND lease_until <= (SELECT now_ms FROM clock)
        ORDER BY started_at, id LIMIT 1
    ) AND driven = 1 AND lease_until <= (SELECT now_ms FROM clock)
    RETURNING tenant, id, epoch";

const CLAIM_ONE: &str = "
    UPDATE ops SET owner = $1, epoch = epoch + 1, lease_until = (SELECT now_ms FROM clock) + $2
    WHERE id = $3 AND driven = 1 AND lease_until <= (SELECT now_ms FROM clock)
    RETURNING tenant, id, epoch";

const RENEW: &str = "
    UPDATE ops SET lease_until = (SELECT now_ms FROM clock) + $3
    WHERE id = $1 AND epoch = $2 AND driven = 1
    RETURNING cancel";

/// Takes over the leases of all owners with a higher epoch, so that their writes are refused from now on. The new owner
/// `$1` drives nothing yet: its leases end at once, and anyone in this process may claim the operations. Only for a caller
/// that knows that every former owner is dead; elsewhere a lease ends by itself.
pub(crate) const TAKE_OVER: &str = "
    UPDATE ops SET owner = $1, epoch = epoch + 1, lease_until = 0 WHERE owner IS NOT NULL AND driven = 1";

/// Claims `op_id`, or the oldest operation, if it must be driven and has no valid lease.
pub(crate) fn claim(
    db: &Connection,
    owner: &str,
    lease: Duration,
    op_id: Option<&str>,
) -> Done<Option<Claim>> {
    let sql = if op_id.is_some() {
        CLAIM_ONE
    } else {
        CLAIM_ANY
    };
    let claimed = Statement::on(db, sql)
        .bind(owner)
        .bind(millis(lease))
        .bind(op_id)
        .rows()?;
    Ok(claimed
        .into_iter()
        .next()
        .map(|(tenant, op_id, epoch)| Claim {
            tenant,
            fence: Fence {
                op_id,
                epoch: count(epoch),
            },
        }))
}

/// Extends the lease; returns the requested cancel mode, if any.
pub(crate) fn renew(db: &Connection, fence: &Fence, lease: Duration) -> Done<Option<CancelMode>> {
    let renew = Statement::on(db, RENEW)
        .bind(&fence.op_id)
        .bind(number(fence.epoch));
    match renew.bind(millis(lease)).value::<Option<String>>()? {
        Some(cancel) => cancel_mode(cancel.as_deref()),
        None => Err(lost(fence).into()),
    }
}

/// Releases the lease, if it is still held.
pub(crate) fn release(db: &Connection, fence: &Fence) -> Done<()> {
    const RELEASE: &str = "UPDATE ops SET owner = NULL, lease_until = 0 WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL";
    Statement::on(db, RELEASE)
        .bind(&fence.op_id)
        .bind(number(fence.epoch))
        .run()
}

/// The first statement of a transaction under a fence.
pub(crate) fn check(writing: &Writing<'_>, fence: &Fence) -> Done<()> {
    let held = writing
        .statement("SELECT epoch FROM ops WHERE id = $1 AND epoch = $2")
        .bind(&fence.op_id)
        .bind(number(fence.epoch));
    if held.found()? {
        Ok(())
    } else {
        Err(lost(fence).into())
    }
}

/// A stored cancel mode.
pub(crate) fn cancel_mode(stored: Option<&str>) -> Done<Option<CancelMode>> {
    match stored {
        None => Ok(None),
        Some("GRACEFUL") => Ok(Some(CancelMode::Graceful)),
        Some("FORCEFUL") => Ok(Some(CancelMode::Forceful)),
        Some(other) => Err(StoreError::Broken(format!("`{other}` is not a cancel mode")).into()),
    }
}

fn lost(fence: &Fence) -> StoreError {
    StoreError::LeaseLost {
        op_id: fence.op_id.clone(),
    }
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4)
}
