//! Events as a stream: the outbox from a given number on. A consumer that remembers the number of the last event it
//! processed continues there after a crash, and misses nothing.

use crate::engine::Engine;
use crate::ports::{ChangeCounters, OutboxRow, StoreError};
use futures_util::Stream;
use futures_util::stream;
use serde::Deserialize;
use std::collections::VecDeque;
use vnfm_types::{LcmOperationState, LcmOperationType, ProblemDetails};

/// Number of events read at once.
const BATCH_SIZE: usize = 100;

/// What an event of [`Engine::events`] is about; [`OutboxRow::body`] has everything that subscribers get.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "notificationType")]
#[non_exhaustive]
pub enum Event {
    /// An instance was created.
    #[serde(rename = "VnfIdentifierCreationNotification")]
    Created,
    /// An instance was deleted.
    #[serde(rename = "VnfIdentifierDeletionNotification")]
    Deleted,
    /// An operation has entered a state.
    #[serde(
        rename = "VnfLcmOperationOccurrenceNotification",
        rename_all = "camelCase"
    )]
    Operation {
        /// The operation occurrence's id.
        #[serde(rename = "vnfLcmOpOccId")]
        op_id: String,
        /// The type of operation.
        operation: LcmOperationType,
        /// The state entered.
        #[serde(rename = "operationState")]
        state: LcmOperationState,
        /// Why it is FAILED_TEMP, FAILED or ROLLED_BACK.
        error: Option<Box<ProblemDetails>>,
    },
    /// VNFCs of an instance changed outside of operations, and its record was updated. SOL003 has no such notification, so
    /// subscribers do not get it.
    #[serde(rename = "VnfcResourcesChanged", rename_all = "camelCase")]
    VnfcResources {
        /// Number of VNFCs that are new in the record.
        added_vnfcs: usize,
        /// Number of VNFCs that are not in the record any more.
        removed_vnfcs: usize,
    },
}

impl OutboxRow {
    /// The event as a type.
    ///
    /// # Errors
    ///
    /// `Broken` if a newer version wrote an event that this one does not know.
    pub fn event(&self) -> Result<Event, StoreError> {
        Event::deserialize(&self.body)
            .map_err(|error| StoreError::Broken(format!("cannot read event {}: {error}", self.seq)))
    }
}

struct EventCursor {
    engine: Engine,
    after: u64,
    seen: ChangeCounters,
    buffered: VecDeque<OutboxRow>,
}

impl Engine {
    /// All notifications of all tenants, in order, with a number (`seq`) above `after`; 0: from the oldest that is retained.
    /// Waits for new ones and never ends by itself. After an error the next item retries at the same position; the caller
    /// decides how long to pause.
    ///
    /// ```
    /// # async fn print_events(engine: vnfm_core::Engine, last: u64) {
    /// use futures_util::StreamExt as _;
    /// let mut events = std::pin::pin!(engine.events(last));
    /// while let Some(Ok(row)) = events.next().await {
    ///     println!("{} {} {:?}", row.seq, row.instance_id, row.event());
    /// }
    /// # }
    /// ```
    pub fn events(
        &self,
        after: u64,
    ) -> impl Stream<Item = Result<OutboxRow, StoreError>> + Send + use<> {
        let (engine, seen, buffered) = (self.clone(), ChangeCounters::default(), VecDeque::new());
        stream::unfold(
            EventCursor {
                engine,
                after,
                seen,
                buffered,
            },
            |mut cursor| async move {
                let next = cursor.next().await;
                Some((next, cursor))
            },
        )
    }
}

impl EventCursor {
    async fn next(&mut self) -> Result<OutboxRow, StoreError> {
        loop {
            if let Some(row) = self.buffered.pop_front() {
                self.after = row.seq;
                return Ok(row);
            }
            // The counters are taken before the read, so what is written between read and wait is not missed.
            let store = self.engine.store();
            self.buffered = store.outbox(self.after, BATCH_SIZE).await?.into();
            if self.buffered.is_empty() {
                self.seen = store.wait_for_changes(self.seen).await;
            }
        }
    }
}
