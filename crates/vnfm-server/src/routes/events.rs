//! What happened to the instances of a tenant, in order: our own API over the outbox, for whoever wants to look on
//! without a callback. A request may wait for something new, so that a client that asks again and again misses nothing
//! and asks rarely.
//!
//! Numbers count the events of the tenant alone, and no row of another one is read: how many others have is not told.

use crate::access::Principal;
use crate::problem::{Answer, Problem};
use crate::query;
use crate::state::App;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Semaphore;
use vnfm_core::ports::{ChangeCounters, OutboxRow, StoreError};
use vnfm_core::query::Query as Filtered;

/// How many events one answer has at most.
const EVENTS: usize = 500;
/// How many bytes they have at most, unless the first one alone has more. A connection holds no more than this while a
/// slow client reads.
const BYTES: usize = 64 << 10;
/// How many rows are read at once: a row has the whole notification, an event a few of its members.
const ROWS: usize = 50;
/// The longest that a request may wait, in seconds.
const LONGEST: u64 = 60;
/// So many requests read rows at a time, however many wait for events: as many as the database has readers.
static READING: Semaphore = Semaphore::const_new(4);

/// Events with a higher number than `after`; where there is none, what comes within `wait_seconds`.
pub(super) async fn list(
    State(app): State<App>,
    who: Principal,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<Response> {
    query::known(&asked, &["after", "wait_seconds"])?;
    let mut page = Page::after(number(&asked, "after", u64::MAX)?);
    let wait = Duration::from_secs(number(&asked, "wait_seconds", LONGEST)?);
    page.read(&app, &who).await?;
    if page.count == 0 && !wait.is_zero() {
        let _watching = app.access.watch(&who.tenant)?;
        let looking = async {
            let mut seen = ChangeCounters::default();
            loop {
                // What came since the look above is news as well.
                seen = app.engine.store().wait_for_changes(seen).await;
                page.read(&app, &who).await?;
                if page.count > 0 {
                    return Ok::<_, StoreError>(());
                }
            }
        };
        if let Ok(found) = tokio::time::timeout(wait, looking).await {
            found?;
        }
    }
    let Page { events, next, .. } = page;
    let body = format!(r#"{{"events":[{events}],"next":{next}}}"#);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The events of an answer, written as they are read: nothing else of their rows is kept.
struct Page {
    /// The last that was looked at.
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

    /// Takes what there is behind `next`, as far as there is room.
    async fn read(&mut self, app: &App, who: &Principal) -> Result<(), StoreError> {
        // It is never closed.
        let _reading = READING.acquire().await.ok();
        loop {
            let rows = app
                .engine
                .store()
                .events(&who.tenant, self.next, ROWS)
                .await?;
            let is_last = rows.len() < ROWS;
            for row in rows {
                let is_seen =
                    who.only.sees(&row.about) && !is_hidden(app, who, &row.instance_id).await?;
                if is_seen && !self.takes(&event(&row).to_string()) {
                    return Ok(());
                }
                self.next = row.seq;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Adds an event, if there is room for it.
    fn takes(&mut self, event: &str) -> bool {
        if self.count == EVENTS || (self.count > 0 && self.events.len() + event.len() >= BYTES) {
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

/// Whether an instance is there, and somewhere by now where it is not seen: what it was before is not told either.
async fn is_hidden(app: &App, who: &Principal, instance_id: &str) -> Result<bool, StoreError> {
    if who.only.is_unlimited() {
        return Ok(false);
    }
    let (store, one) = (app.engine.store(), Filtered::only("id", instance_id));
    let seen = Filtered {
        scope: who.only.clone(),
        ..one.clone()
    };
    Ok(store.instances(&who.tenant, &seen).await?.is_empty()
        && !store.instances(&who.tenant, &one).await?.is_empty())
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
    for member in ["operation", "operationState", "vnfLcmOpOccId"] {
        if let Some(value) = row.body.get(member) {
            event[member] = value.clone();
        }
    }
    if let Some(why) = row.body.pointer("/error/detail") {
        event["detail"] = why.clone();
    }
    event
}

fn number(asked: &BTreeMap<String, String>, name: &str, most: u64) -> Answer<u64> {
    let given = asked.get(name).map_or(Ok(0), |given| given.parse());
    given.ok().filter(|number| *number <= most).ok_or_else(|| {
        let what = if most == u64::MAX {
            format!("query parameter `{name}` has to be the number of an event")
        } else {
            format!("query parameter `{name}` has to be a number up to {most}")
        };
        Problem::bad_request(what)
    })
}
