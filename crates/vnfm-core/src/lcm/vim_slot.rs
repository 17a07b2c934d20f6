//! Before its first step an operation waits for a slot at its VIM. This limits the concurrent operations per VIM, so
//! that a thousand of them do not overload one Heat.
//!
//! A waiting operation holds nothing that another one needs, so deadlocks are impossible. A cancel request and the shutdown
//! of this process end the wait: what follows does not call the VIM.

use super::op_context::Op;
use crate::ports::Watcher as _;
use crate::vim_limiter::Ticket;
use futures_util::future::select;
use std::pin::pin;

/// The operation's slot, held while it is driven here; `None` if its VIM is not registered or it needs none.
pub(super) async fn acquire(op: &Op) -> Option<Ticket> {
    if !op.operation.uses_vim {
        return None;
    }
    let (vim, _) = op.vim().await.ok()?;
    let limiter = &op.context.operation_slots;
    let ticket = limiter.request(vim.address());
    let report = |position: usize| {
        let limit = limiter.max();
        let name = crate::ports::Vim::name(&vim);
        op.live.waiting(&format!(
            "a free slot at VIM `{name}`: operation {position} in the queue, {limit} at a time"
        ));
        !op.context.live.is_paused()
    };
    {
        let called = pin!(ticket.wait_for_slot(op.clock(), report));
        let stopped = pin!(op.live.stop_requested());
        select(called, stopped).await;
    }
    Some(ticket)
}
