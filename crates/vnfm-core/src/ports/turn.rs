//! A turn at a VIM, which a driver holds during each call.

use super::{CallEnd, Clock, Observer};
use crate::turns::Ticket;
use jiff::Timestamp;
use std::sync::Arc;
use tracing::Span;

/// The turn of one call; given back when dropped.
#[derive(Default)]
#[must_use = "the call is to be made while it is held"]
pub struct Turn(Option<Counted>);

struct Counted {
    vim: String,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    asked: Timestamp,
    began: Timestamp,
    end: CallEnd,
    /// The call's, for whoever takes traces.
    span: Span,
    /// Given back last.
    _ticket: Ticket,
}

impl Turn {
    /// One that somebody waited for since `asked`, to do what `span` tells.
    pub(crate) fn new(
        ticket: Ticket,
        vim: String,
        observer: Arc<dyn Observer>,
        (clock, asked): (Arc<dyn Clock>, Timestamp),
        span: Span,
    ) -> Self {
        let began = clock.now();
        let end = CallEnd::Dropped;
        Self(Some(Counted {
            vim,
            observer,
            clock,
            asked,
            began,
            end,
            span,
            _ticket: ticket,
        }))
    }

    /// The call ended, well or not.
    pub fn ended(mut self, well: bool) {
        if let Some(counted) = &mut self.0 {
            counted.end = if well {
                CallEnd::Answered
            } else {
                CallEnd::Failed
            };
            if !well {
                counted.span.record("otel.status_code", "ERROR");
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let since =
            |from: Timestamp, to: Timestamp| to.duration_since(from).try_into().unwrap_or_default();
        let times = (
            since(self.asked, self.began),
            since(self.began, self.clock.now()),
        );
        self.observer.vim_called(&self.vim, self.end, times);
    }
}
