//! Events of a tenant's instances, in order: our own API over the outbox, for clients without a callback. A request
//! may wait for new events (long polling), so that a client misses nothing and polls rarely.
//!
//! Event numbers count only the tenant's own events, and rows of other tenants are not read: how many events
//! others have is not disclosed.

use crate::access::Principal;
use crate::access::quota::Quotas;
use crate::problem::{HandlerResult, Problem};
use crate::query;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use vnfm_core::Engine;
use vnfm_core::ports::{ChangeCounters, OutboxRow, StoreError};
use vnfm_core::query::Query as Filtered;

/// Maximum number of events in a response.
const MAX_EVENTS: usize = 500;
/// Maximum size of the events in a response, unless the first one alone is larger. Bounds the memory of a connection
/// while a slow client reads.
const MAX_BYTES: usize = 64 << 10;
/// Rows per read: a row has the full notification, an event only a few of its members.
const ROWS_PER_READ: usize = 50;
/// Maximum of `wait_seconds`, in seconds.
const MAX_WAIT_SECONDS: u64 = 60;
/// Limits the requests that read rows concurrently to the number of database readers.
static READING: Semaphore = Semaphore::const_new(4);

/// Returns events with a number greater than `after`; without any, waits up to `wait_seconds` for new ones.
pub(super) async fn list(
    State(engine): State<Engine>,
    State(quotas): State<Arc<Quotas>>,
    principal: Principal,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<Response> {
    query::known(&query, &["after", "wait_seconds"])?;
    let mut page = Page::after(number(&query, "after", u64::MAX)?);
    let wait = Duration::from_secs(number(&query, "wait_seconds", MAX_WAIT_SECONDS)?);
    page.read(&engine, &principal).await?;
    if page.count == 0 && !wait.is_zero() {
        let _watching = quotas.watch(&principal.tenant)?;
        let waiting = async {
            let mut counters = ChangeCounters::default();
            loop {
                // Also detects events that arrived since the read above.
                counters = engine.store().wait_for_changes(counters).await;
                page.read(&engine, &principal).await?;
                if page.count > 0 {
                    return Ok::<_, StoreError>(());
                }
            }
        };
        if let Ok(found) = tokio::time::timeout(wait, waiting).await {
            found?;
        }
    }
    let Page { events, next, .. } = page;
    let body = format!(r#"{{"events":[{events}],"next":{next}}}"#);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The events of a response, serialized as they are read: the rest of the rows is dropped.
struct Page {
    /// Number of the last event that was read.
    next: u64,
    events: String,
    count: usize,
}

impl Page {
    fn after(next: u64) -> Self {
        Self {
            next,
            events: String::new(),
            count: 0,
        }
    }

    /// Adds the events after `next`, up to the limits.
    async fn read(&mut self, engine: &Engine, principal: &Principal) -> Result<(), StoreError> {
        // The semaphore is never closed.
        let _reading = READING.acquire().await.ok();
        loop {
            let rows = engine
                .store()
                .events(&principal.tenant, self.next, ROWS_PER_READ)
                .await?;
            let is_last = rows.len() < ROWS_PER_READ;
            for row in rows {
                let is_visible = principal.scope.sees(&row.about)
                    && !is_hidden(engine, principal, &row.instance_id).await?;
                if is_visible && !self.add(&event(&row).to_string()) {
                    return Ok(());
                }
                self.next = row.seq;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Adds an event, if the limits allow it.
    fn add(&mut self, event: &str) -> bool {
        if self.count == MAX_EVENTS
            || (self.count > 0 && self.events.len() + event.len() >= MAX_BYTES)
        {
            return false;
        }
        if self.count > 0 {
            self.events.push(',');
        }
        self.events.push_str(event);
        self.count += 1;
        true
    }
}

/// Whether an instance exists but is now outside the caller's scope: its earlier events are then hidden too.
async fn is_hidden(
    engine: &Engine,
    principal: &Principal,
    instance_id: &str,
) -> Result<bool, StoreError> {
    if principal.scope.is_unlimited() {
        return Ok(false);
    }
    let (store, one) = (engine.store(), Filtered::only("id", instance_id));
    let visible = Filtered {
        scope: principal.scope.clone(),
        ..one.clone()
    };
    Ok(store
        .instances(&principal.tenant, &visible)
        .await?
        .is_empty()
        && !store.instances(&principal.tenant, &one).await?.is_empty())
}

fn event(row: &OutboxRow) -> Value {
    let mut event = json!({
        "seq": row.seq,
        "at": row.at,
        "notificationType": row.kind,
        "vnfInstanceId": row.instance_id,
    });
    if let Some(name) = &row.about.vnf_instance_name {
        event["vnfInstanceName"] = name.as_str().into();
    }
    for member in [
        "operation",
        "operationState",
        "vnfLcmOpOccId",
        "addedVnfcs",
        "removedVnfcs",
    ] {
        if let Some(value) = row.body.get(member) {
            event[member] = value.clone();
        }
    }
    if let Some(detail) = row.body.pointer("/error/detail") {
        event["detail"] = detail.clone();
    }
    event
}

fn number(query: &BTreeMap<String, String>, name: &str, max: u64) -> HandlerResult<u64> {
    let given = query.get(name).map_or(Ok(0), |given| given.parse());
    given.ok().filter(|number| *number <= max).ok_or_else(|| {
        let detail = if max == u64::MAX {
            format!("query parameter `{name}` must be the number of an event")
        } else {
            format!("query parameter `{name}` must be a number up to {max}")
        };
        Problem::bad_request(detail)
    })
}
