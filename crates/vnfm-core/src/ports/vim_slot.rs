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

struct Held {
    vim: String,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    requested_at: Timestamp,
    began: Timestamp,
    end: CallEnd,
    /// Span of the call, for traces.
    span: Span,
    /// Released last, after the call was recorded.
    _ticket: Ticket,
}

impl VimSlot {
    /// A slot that was requested at `asked`, for the call that `span` traces.
    pub(crate) fn new(
        ticket: Ticket,
        vim: String,
        observer: Arc<dyn Observer>,
        (clock, requested_at): (Arc<dyn Clock>, Timestamp),
        span: Span,
    ) -> Self {
        let began = clock.now();
        let end = CallEnd::Dropped;
        Self(Some(Held {
            vim,
            observer,
            clock,
            requested_at,
            began,
            end,
            span,
            _ticket: ticket,
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
        let times = (
            since(self.requested_at, self.began),
            since(self.began, self.clock.now()),
        );
        self.observer.vim_called(&self.vim, self.end, times);
    }
}
