//! What happens, as a stream: the outbox, from a number on. Whoever remembers the number of the last event that they
//! have dealt with goes on there after a crash, and misses nothing.

use crate::engine::Engine;
use crate::ports::{News, OutboxRow, StoreError};
use futures_util::Stream;
use futures_util::stream;
use std::collections::VecDeque;

/// How many events are read at once.
const HANDFUL: usize = 100;

struct Reading {
    engine: Engine,
    after: u64,
    seen: News,
    ahead: VecDeque<OutboxRow>,
}

impl Engine {
    /// Everything that subscribers are told, of all tenants, in order, with a number (`seq`) above `after`; 0: from the
    /// beginning, as far as it is kept. It waits for what is new and never ends by itself. After an error the next
    /// item tries again at the same place; what pause is right there is the caller's to say.
    ///
    /// ```
    /// # async fn told(engine: vnfm_core::Engine, last: u64) {
    /// use futures_util::StreamExt as _;
    /// let mut events = std::pin::pin!(engine.events(last));
    /// while let Some(Ok(event)) = events.next().await {
    ///     println!("{} {} {}", event.seq, event.instance_id, event.kind);
    /// }
    /// # }
    /// ```
    pub fn events(
        &self,
        after: u64,
    ) -> impl Stream<Item = Result<OutboxRow, StoreError>> + Send + use<> {
        let (engine, seen, ahead) = (self.clone(), News::default(), VecDeque::new());
        stream::unfold(
            Reading {
                engine,
                after,
                seen,
                ahead,
            },
            |mut reading| async move {
                let next = reading.next().await;
                Some((next, reading))
            },
        )
    }
}

impl Reading {
    async fn next(&mut self) -> Result<OutboxRow, StoreError> {
        loop {
            if let Some(row) = self.ahead.pop_front() {
                self.after = row.seq;
                return Ok(row);
            }
            // What is written between the look and the wait is news, too: the count was taken before.
            let store = self.engine.store();
            self.ahead = store.outbox(self.after, HANDFUL).await?.into();
            if self.ahead.is_empty() {
                self.seen = store.news(self.seen).await;
            }
        }
    }
}
