//! An operation waits for its turn at its VIM, before its first step here: so many operations work on one VIM at a
//! time, and a thousand of them do not stand on one Heat together.
//!
//! Nothing is held that another operation needs while one waits, so nobody waits in a circle. A wish to cancel, and the
//! end of this process, end the wait: what comes then calls no VIM.

use super::op::Op;
use crate::ports::Watcher as _;
use crate::turns::Ticket;
use futures_util::future::select;
use std::pin::pin;
use vnfm_types::LcmOperationType;

/// Its turn, held as long as it is driven here; none where its VIM is gone, or it calls none.
pub(super) async fn turn(op: &Op) -> Option<Ticket> {
    if op.record.op.operation == LcmOperationType::ModifyInfo {
        return None;
    }
    let (vim, _) = op.vim().await.ok()?;
    let turns = &op.engine.operations;
    let ticket = turns.stand(vim.address());
    let told = |place: usize| {
        let limit = turns.limited_to();
        let name = crate::ports::Vim::name(&vim);
        op.live.waiting(&format!(
            "its turn at VIM `{name}`: operation {place} in line; it gets {limit} at a time"
        ));
        !op.engine.live.is_resting()
    };
    {
        let called = pin!(ticket.called(op.clock(), told));
        let stopped = pin!(op.live.told_to_stop());
        select(called, stopped).await;
    }
    Some(ticket)
}
