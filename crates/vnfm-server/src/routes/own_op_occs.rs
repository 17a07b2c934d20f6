//! Our own view of an operation: what it does, why it waits, its log, as JSON and as server-sent events.

use crate::access::Tenant;
use crate::access::quota::Watching;
use crate::problem::{Answer, Problem};
use crate::query;
use crate::state::App;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use std::collections::BTreeMap;
use std::convert::Infallible;
use vnfm_types::{LogLine, Progress};

pub(super) async fn progress(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer<Json<Progress>> {
    Ok(Json(app.engine.progress(&tenant, &id).await?))
}

pub(super) async fn log(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<Json<Vec<LogLine>>> {
    query::known(&asked, &["after"])?;
    let after = asked
        .get("after")
        .map_or(Ok(0), |after| after.parse())
        .map_err(|_| {
            Problem::bad_request("query parameter `after` has to be the number of a log line")
        })?;
    Ok(Json(app.engine.log(&tenant, &id, after).await?))
}

/// One event per change, until the operation is no longer driven; the last one carries the state that it ended in.
pub(super) async fn events(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let first = app.engine.progress(&tenant, &id).await?;
    let watching = app.access.watch(&tenant)?;
    let seen = Seen {
        app,
        tenant,
        id,
        last: None,
        next: Some(first),
        _watching: watching,
    };
    Ok(Sse::new(stream::unfold(seen, following)).keep_alive(KeepAlive::default()))
}

struct Seen {
    app: App,
    tenant: String,
    id: String,
    last: Option<Progress>,
    next: Option<Progress>,
    /// Its place among the requests of the tenant that wait.
    _watching: Watching,
}

async fn following(mut seen: Seen) -> Option<(Result<Event, Infallible>, Seen)> {
    loop {
        let now = match seen.next.take() {
            Some(first) => first,
            None if seen
                .last
                .as_ref()
                .is_some_and(|last| !last.operation_state.is_driven()) =>
            {
                return None;
            }
            None => {
                seen.app.engine.changed(&seen.id).await;
                seen.app
                    .engine
                    .progress(&seen.tenant, &seen.id)
                    .await
                    .ok()?
            }
        };
        if seen.last.as_ref() == Some(&now) {
            continue;
        }
        let event = Event::default()
            .event("progress")
            .json_data(&now)
            .unwrap_or_default();
        seen.last = Some(now);
        return Some((Ok(event), seen));
    }
}
