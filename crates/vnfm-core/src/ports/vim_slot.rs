//! A slot at a VIM, which a driver holds during each call.

use super::{CallEnd, Clock, Observer};
use crate::vim_limiter::Ticket;
use jiff::Timestamp;
use std::sync::Arc;
use tracing::Span;

/// The slot of one call; released when dropped.
#[derive(Default)]
#[must_use = "make the call while holding it"]
pub struct VimSlot(Option<Held>);

/// A call that has its slot.
pub(crate) struct SlotCall {
    /// Its turn among the calls to the VIM.
    pub(crate) ticket: Ticket,
    /// Registry id of the VIM, or `inline`.
    pub(crate) vim: String,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) clock: Arc<dyn Clock>,
    /// When it began to wait for the slot.
    pub(crate) requested_at: Timestamp,
    /// Traces the call.
    pub(crate) span: Span,
}

struct Held {
    vim: String,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    requested_at: Timestamp,
    began: Timestamp,
    end: CallEnd,
    /// Span of the call.
    span: Span,
    /// Released last.
    _ticket: Ticket,
}

impl VimSlot {
    /// The slot of a call that begins now.
    pub(crate) fn for_call(call: SlotCall) -> Self {
        Self(Some(Held {
            began: call.clock.now(),
            vim: call.vim,
            observer: call.observer,
            clock: call.clock,
            requested_at: call.requested_at,
            end: CallEnd::Dropped,
            span: call.span,
            _ticket: call.ticket,
        }))
    }

    /// Records how the call ended.
    pub fn ended(mut self, well: bool) {
        if let Some(held) = &mut self.0 {
            held.end = if well {
                CallEnd::Answered
            } else {
                CallEnd::Failed
            };
            if !well {
                held.span.record("otel.status_code", "ERROR");
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let since =
            |from: Timestamp, to: Timestamp| to.duration_since(from).try_into().unwrap_or_default();
        let waited = since(self.requested_at, self.began);
        let took = since(self.began, self.clock.now());
        self.observer.vim_called(&self.vim, self.end, waited, took);
    }
}
