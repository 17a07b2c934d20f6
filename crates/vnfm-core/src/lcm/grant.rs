//! Asks the NFVO whether an operation may proceed, and with which resources (SOL003 5.4.1.2, 9.3).
//!
//! ```text
//! ask ─┬─ 201 ─────────────────────────────────► valid? ─► journaled, applied as if it had been requested
//!      ├─ 202 ─ location stored ─ poll … poll ───┘
//!      ├─ 503, no response ─ pause ─ ask … ask       both for at most `Limits::grant`
//!      └─ 403, malformed, not feasible ─► ROLLED_BACK: nothing was created
//! ```
//! A crash during this leaves the request in doubt. SOL003 has no way to look one up by its operation: after a 202 the
//! next process continues to poll the stored location; otherwise it asks again, with the same `vnfLcmOpOccId`.
//! A FORCEFUL cancel ends the wait at once. A GRACEFUL one waits for the granting request to finish or time out, and then
//! ends the operation as ROLLED_BACK (SOL003 5.5.4.6): a call in flight completes, and after a 202 we poll until the
//! NFVO has decided. A failed request is not sent again.

pub use super::approved::Approved;

use super::grant_check;
use super::grant_request;
use super::op_context::Op;
use super::problem::cancelled;
use super::step::{Output, StepOutput as _};
use crate::ports::{
    Backoff, Change, Clock, Code, ErrorKind, Expired, GrantOutcome, Nfvo, PortError, SecretJson,
    Waited,
};
use crate::running_ops::RunningOp;
use futures_util::future::{self, BoxFuture, Either};
use jiff::Timestamp;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_types::{CancelMode, Grant, GrantRequest};

/// Checkpoint key of the location to poll for a pending grant.
const LOCATION_KEY: &str = "place";
const POLL_INTERVAL: Duration = Duration::from_secs(4);

/// Requests a grant and waits until it is decided.
pub(crate) async fn ask(op: &Op) -> Output<Approved> {
    let Some(nfvo) = op.context.ports.nfvo.clone() else {
        return Ok(Approved::default());
    };
    let request = grant_request::request(op)?;
    let limits = op.context.limits();
    let deadline = op.deadline - limits.grant_call - limits.grant_call;
    let location = Arc::new(Location::default());
    location.set(stored_location(op).await?);
    let clock = CancellableClock {
        clock: op.context.ports.clock.clone(),
        live: op.live.clone(),
        location,
    };
    let not_before = clock.now();
    let mut poll = GrantPoll {
        op,
        nfvo: &*nfvo,
        request: &request,
        clock: &clock,
        deadline,
        not_before,
    };
    let mut backoff = Backoff::new(&clock, op.watcher(), deadline, POLL_INTERVAL);
    let grant = loop {
        let reason = match poll.attempt().await? {
            Waited::Done(grant) => break grant,
            Waited::NotYet(reason) => reason,
        };
        if let Err(Expired) = backoff.pause(&reason).await {
            let action = format!("get a grant for {}", op.record.op.operation);
            let seconds = limits.grant.as_secs();
            let what = format!("not within {seconds} s; last state: {reason}");
            return Err(PortError::new(&LATE, action, what));
        }
    };
    let approved = grant_check::GrantReader {
        op,
        request: &request,
        grant: &grant,
    }
    .approved()
    .await?;
    op.watcher().log(
        "info",
        "grant",
        &format!("granted by the NFVO: grant `{}`", grant.id),
    );
    Ok(approved)
}

/// The location to poll, received by an earlier process.
async fn stored_location(op: &Op) -> Result<Option<String>, PortError> {
    let stored = op
        .context
        .store()
        .checkpoint(&op.fence.op_id, Approved::STEP, LOCATION_KEY)
        .await?;
    Ok(stored.and_then(|stored| stored.as_str().map(ToOwned::to_owned)))
}

/// A clock whose pauses end early when the operation is cancelled. A graceful cancel ends them only while the NFVO is
/// not processing a request of ours.
struct CancellableClock {
    clock: Arc<dyn Clock>,
    live: Arc<RunningOp>,
    location: Arc<Location>,
}

/// Where to poll for the decision after a 202.
#[derive(Default)]
struct Location(Mutex<Option<String>>);

impl Location {
    fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, location: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = location;
    }
}

impl CancellableClock {
    fn is_cancelled(&self) -> bool {
        match self.live.cancel_mode() {
            Some(CancelMode::Graceful) => self.location.get().is_none(),
            mode => mode.is_some(),
        }
    }
}

impl Clock for CancellableClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (sleep, live) = (self.clock.sleep(duration), self.live.clone());
        let is_pending = self.location.get().is_some();
        Box::pin(async move {
            if is_pending {
                future::select(sleep, Box::pin(live.aborted())).await;
            } else {
                future::select(sleep, Box::pin(live.stop_requested())).await;
            }
        })
    }
}

/// A grant request that the NFVO has not decided yet.
struct GrantPoll<'a> {
    op: &'a Op,
    nfvo: &'a dyn Nfvo,
    request: &'a GrantRequest,
    /// Has the location to poll.
    clock: &'a CancellableClock,
    deadline: Timestamp,
    /// The NFVO must not be called before this (`Retry-After`).
    not_before: Timestamp,
}

impl GrantPoll<'_> {
    /// Pauses the calls for as long as the NFVO asked, at most until the deadline.
    fn pause_calls(&mut self, pause: Option<Duration>) {
        let (clock, deadline) = (self.clock, self.deadline);
        if let Some(pause) = pause {
            let until = clock.now().saturating_add(pause).unwrap_or(deadline);
            self.not_before = until.min(deadline);
        }
    }

    /// One call to the NFVO, after the requested pause.
    async fn attempt(&mut self) -> Result<Waited<Grant>, PortError> {
        let clock = self.clock;
        let pause = self.not_before.duration_since(clock.now());
        if pause.is_positive() {
            clock.sleep(pause.unsigned_abs()).await;
        }
        if clock.is_cancelled() {
            return Err(cancelled(self.op));
        }
        match self.call_nfvo().await {
            Ok(GrantOutcome::Granted(grant)) => Ok(Waited::Done(*grant)),
            Ok(GrantOutcome::Pending(location, after)) => {
                self.store_location(Some(location)).await?;
                self.pause_calls(after);
                Ok(Waited::NotYet(
                    "the NFVO's decision about the grant".to_owned(),
                ))
            }
            Ok(GrantOutcome::UnknownLocation) => {
                self.store_location(None).await?;
                Ok(Waited::NotYet(
                    "the NFVO, which lost the request; it is sent again".to_owned(),
                ))
            }
            Err(error) if error.is_unavailable() => {
                self.pause_calls(error.retry_after());
                self.op.watcher().log("warn", "grant", &error.to_string());
                Ok(Waited::NotYet(format!("the NFVO: {error}")))
            }
            Err(error) => Err(error),
        }
    }

    async fn call_nfvo(&self) -> Result<GrantOutcome, PortError> {
        let location = self.clock.location.get();
        let call = match &location {
            Some(location) => self.nfvo.poll_grant(location),
            None => self.nfvo.request_grant(self.request),
        };
        let limit = self.op.context.limits().grant_call;
        match future::select(call, self.op.clock().sleep(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let what = format!("no response within {} s", limit.as_secs());
                Err(PortError::new(&SILENT, "ask the NFVO for a grant", what))
            }
        }
    }

    /// Stores the location to poll, also for a process that takes over.
    async fn store_location(&self, location: Option<String>) -> Result<(), PortError> {
        let known = &self.clock.location;
        if known.get() == location {
            return Ok(());
        }
        let stored = Change::Checkpoint {
            op_id: self.op.fence.op_id.clone(),
            step: Approved::STEP.to_owned(),
            key: LOCATION_KEY.to_owned(),
            value: SecretJson::from(json!(location)),
        };
        self.op
            .context
            .store()
            .write(Some(&self.op.fence), vec![stored])
            .await?;
        known.set(location);
        Ok(())
    }
}

const LATE: Code = Code {
    name: "grant.late",
    kind: ErrorKind::Unavailable,
    means: "the NFVO did not decide about a grant within `nfvo.grant_seconds`; nothing was created",
    next: "find out why the NFVO does not decide, then request the operation again",
};
const SILENT: Code = Code {
    name: "grant.silent",
    kind: ErrorKind::Unavailable,
    means: "the NFVO did not respond to a request in time",
    next: "check that the NFVO runs and is reachable from the VNFM",
};
pub(super) const CODES: [&Code; 2] = [&LATE, &SILENT];
