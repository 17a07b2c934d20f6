//! Our own view of an operation: its progress, what it waits for and its log, as JSON and as server-sent events.

use crate::access::Tenant;
use crate::access::quota::Quotas;
use crate::access::quota::WatchGuard;
use crate::problem::{HandlerResult, Problem};
use crate::query;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use vnfm_core::Engine;
use vnfm_types::{LogLine, Progress};

pub(super) async fn progress(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<Json<Progress>> {
    Ok(Json(engine.progress(&tenant, &id).await?))
}

pub(super) async fn log(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<Json<Vec<LogLine>>> {
    query::known(&query, &["after"])?;
    let after = query
        .get("after")
        .map_or(Ok(0), |after| after.parse())
        .map_err(|_| {
            Problem::bad_request("query parameter `after` must be the number of a log line")
        })?;
    Ok(Json(engine.log(&tenant, &id, after).await?))
}

/// One event per change, until the operation stops; the last one has its final state.
pub(super) async fn events(
    State(engine): State<Engine>,
    State(quotas): State<Arc<Quotas>>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let first = engine.progress(&tenant, &id).await?;
    let guard = quotas.watch(&tenant)?;
    let state = StreamState {
        engine,
        tenant,
        id,
        last: None,
        next: Some(first),
        _watching: guard,
    };
    Ok(Sse::new(stream::unfold(state, next_event)).keep_alive(KeepAlive::default()))
}

struct StreamState {
    engine: Engine,
    tenant: String,
    id: String,
    last: Option<Progress>,
    next: Option<Progress>,
    /// Counts against the tenant's quota for waiting requests.
    _watching: WatchGuard,
}

async fn next_event(mut state: StreamState) -> Option<(Result<Event, Infallible>, StreamState)> {
    loop {
        let current = match state.next.take() {
            Some(first) => first,
            None if state
                .last
                .as_ref()
                .is_some_and(|last| !last.operation_state.is_driven()) =>
            {
                return None;
            }
            None => {
                state.engine.changed(&state.id).await;
                state.engine.progress(&state.tenant, &state.id).await.ok()?
            }
        };
        if state.last.as_ref() == Some(&current) {
            continue;
        }
        let event = Event::default()
            .event("progress")
            .json_data(&current)
            .unwrap_or_default();
        state.last = Some(current);
        return Some((Ok(event), state));
    }
}
