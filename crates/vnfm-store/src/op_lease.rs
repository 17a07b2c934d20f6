//! Leases of operations: a lease has an owner, an epoch and a deadline on the database's clock.
//!
//! A claim raises the epoch, and each write names the epoch of its claim: a process that lost its lease without knowing
//! it can no longer change anything.

use crate::fault::Done;
use crate::statement::{Query, Statement};
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
/// drives nothing yet: its leases end at once, and anyone in this process may claim the operations. Only for a caller that
/// knows that every former owner is dead; elsewhere a lease ends by itself.
pub(crate) fn take_over(owner: &str) -> Statement {
    const TAKE_OVER: &str = "
        UPDATE ops SET owner = $1, epoch = epoch + 1, lease_until = 0 WHERE owner IS NOT NULL AND driven = 1";
    Statement::new(TAKE_OVER).bind(owner)
}

/// Claims `op_id`, or the oldest operation, if it must be driven and has no valid lease. [`claimed`] reads its row.
pub(crate) fn claim(owner: &str, lease: Duration, op_id: Option<&str>) -> Query {
    let sql = if op_id.is_some() {
        CLAIM_ONE
    } else {
        CLAIM_ANY
    };
    Query::new(sql).bind(owner).bind(millis(lease)).bind(op_id)
}

pub(crate) fn claimed((tenant, op_id, epoch): (String, String, i64)) -> Claim {
    Claim {
        tenant,
        fence: Fence {
            op_id,
            epoch: u64::try_from(epoch).unwrap_or_default(),
        },
    }
}

/// Extends the lease. [`renewed`] reads its row: the requested cancel mode, if any.
pub(crate) fn renew(fence: &Fence, lease: Duration) -> Query {
    Query::new(RENEW)
        .bind(&fence.op_id)
        .bind(fence.epoch)
        .bind(millis(lease))
}

pub(crate) fn renewed(fence: &Fence, row: Option<(Option<String>,)>) -> Done<Option<CancelMode>> {
    match row {
        Some((cancel,)) => cancel_mode(cancel.as_deref()),
        None => Err(lost(fence).into()),
    }
}

/// Releases the lease, if it is still held.
pub(crate) fn release(fence: &Fence) -> Statement {
    const RELEASE: &str = "UPDATE ops SET owner = NULL, lease_until = 0 WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL";
    Statement::new(RELEASE).bind(&fence.op_id).bind(fence.epoch)
}

/// The first statement of a transaction under a fence: the operation still has its epoch, and nobody
/// claims it before the commit.
pub(crate) fn held(fence: &Fence) -> Statement {
    Statement::new("SELECT epoch FROM ops WHERE id = $1 AND epoch = $2")
        .bind(&fence.op_id)
        .bind(fence.epoch)
        .held_or(lost(fence))
}

/// Parses a cancel mode that the database stores.
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
