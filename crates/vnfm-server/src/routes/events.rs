//! What happened to the instances of a tenant, in order: our own API over the outbox, for whoever wants to look on
//! without a callback. A request may wait for something new, so that a client that asks again and again misses nothing
//! and asks rarely.
//!
//! Numbers count the events of the tenant alone, and no row of another one is read: how many others have is not told.

use crate::access::Principal;
use crate::problem::{Answer, Problem};
use crate::query;
use crate::state::App;
use axum::Json;
use axum::extract::{Query, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_core::ports::{News, OutboxRow, StoreError};
use vnfm_core::query::Query as Filtered;

/// How many events one answer has at most.
const EVENTS: usize = 500;
/// How many rows are read at once.
const ROWS: usize = 500;
/// The longest that a request may wait, in seconds.
const LONGEST: u64 = 60;

/// Events with a higher number than `after`; where there is none, what comes within `wait_seconds`.
pub(super) async fn list(
    State(app): State<App>,
    who: Principal,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<Json<Value>> {
    query::known(&asked, &["after", "wait_seconds"])?;
    let mut next = number(&asked, "after", u64::MAX)?;
    let wait = Duration::from_secs(number(&asked, "wait_seconds", LONGEST)?);
    let mut events = Vec::new();
    read(&app, &who, &mut next, &mut events).await?;
    if events.is_empty() && !wait.is_zero() {
        let _watching = app.access.watch(&who.tenant)?;
        let looking = async {
            let mut seen = News::default();
            loop {
                // What came since the look above is news as well.
                seen = app.engine.store().news(seen).await;
                read(&app, &who, &mut next, &mut events).await?;
                if !events.is_empty() {
                    return Ok::<_, StoreError>(());
                }
            }
        };
        if let Ok(found) = tokio::time::timeout(wait, looking).await {
            found?;
        }
    }
    Ok(Json(json!({"events": events, "next": next})))
}

/// What there is behind `next`, which is then the last that was looked at.
async fn read(
    app: &App,
    who: &Principal,
    next: &mut u64,
    events: &mut Vec<Value>,
) -> Result<(), StoreError> {
    while events.len() < EVENTS {
        let rows = app.engine.store().events(&who.tenant, *next, ROWS).await?;
        let is_last = rows.len() < ROWS;
        for row in rows {
            if events.len() == EVENTS {
                return Ok(());
            }
            *next = row.seq;
            let is_seen =
                who.only.sees(&row.about) && !is_hidden(app, who, &row.instance_id).await?;
            events.extend(is_seen.then(|| event(&row)));
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Whether an instance is there, and somewhere by now where it is not seen: what it was before is not told either.
async fn is_hidden(app: &App, who: &Principal, instance_id: &str) -> Result<bool, StoreError> {
    if who.only.is_whole() {
        return Ok(false);
    }
    let (store, one) = (app.engine.store(), Filtered::only("id", instance_id));
    let seen = Filtered { sight: who.only.clone(), ..one.clone() };
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
