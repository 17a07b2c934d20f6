//! The NFVO is asked whether an operation may go on, and with what (SOL003 5.4.1.2, 9.3).
//!
//! ```text
//!  ask ─┬─ 201 ──────────────────────────────► fits? ─► journaled; the operation does it as if it had been requested
//!       ├─ 202 ─ the place is kept ─ look … look ──┘
//!       ├─ 503, silence ─ pause ─ ask … ask            both at most until `Limits::grant`
//!       └─ 403, another shape, a thing that we cannot do ─► ROLLED_BACK: nothing was made
//! ```
//! A process that ends meanwhile leaves a request in doubt. SOL003 has no way to look one up by the operation: where a
//! 202 had come the next process goes on looking there; else it asks again, with the same `vnfLcmOpOccId`.
//! A FORCEFUL cancel ends a wait at once. A GRACEFUL one waits for the granting request to finish or time out, and then
//! ends the operation as ROLLED_BACK (SOL003 5.5.4.6): a call that is on its way ends, and a 202 is followed until the
//! NFVO has decided. A request that has failed is not sent again.

use super::Op;
use super::approve;
use super::needs;
use super::runner::cancelled;
use super::step::{Output, StepOutput};
use crate::hooks;
use crate::live::LiveOp;
use crate::ports::{
    Change, Clock, Code, ErrorKind, GrantAnswer, Granted, Nfvo, OpRecord, PortError, SecretJson,
    Waited, wait,
};
use futures_util::future::{self, BoxFuture, Either};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_types::{
    CancelMode, ExtVirtualLinkData, Grant, GrantRequest, KeyValuePairs, LcmOperationType,
    VimConnectionInfo,
};

/// What the journal keeps of a grant that is not decided: where to look for it.
const PLACE: &str = "place";
/// The usual pause between two looks.
const USUAL: Duration = Duration::from_secs(4);

/// What was approved, as far as it changes what the operation does.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approved {
    /// The grant; `None` where a local policy approved.
    pub grant_id: Option<String>,
    /// Whether the VIM is another one than that of the request.
    pub elsewhere: bool,
    /// The VIM.
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// External links, over those of the request.
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Parameters, over those of the request.
    pub additional_params: KeyValuePairs,
    /// What was decided about resources.
    pub granted: Granted,
}

impl StepOutput for Approved {
    const STEP: &'static str = "grant";
}

impl Approved {
    /// Brings it into the request and the target of the operation; twice is once.
    pub(super) fn apply(self, record: &mut OpRecord) {
        record.op.grant_id = self.grant_id;
        if !self.additional_params.is_empty()
            && let Some(request) = record.request.to_mut().as_object_mut()
        {
            let params = request
                .entry("additionalParams")
                .or_insert_with(|| json!({}));
            if let Some(params) = params.as_object_mut() {
                hooks::override_with(params, &self.additional_params);
            }
        }
        let (LcmOperationType::Instantiate, Some(target)) =
            (record.op.operation, record.target.as_mut())
        else {
            return;
        };
        let target = Arc::make_mut(target);
        hooks::override_with(&mut target.additional_params, &self.additional_params);
        if !self.vim_connection_info.is_empty() {
            target.vim_connection_info = self.vim_connection_info;
        }
        if !self.ext_virtual_links.is_empty() {
            let old = std::mem::take(&mut target.ext_virtual_links);
            target.ext_virtual_links = over(old, self.ext_virtual_links);
        }
        if !self.granted.is_empty() {
            target.placement = self.granted.with_links(&target.ext_managed_virtual_links);
        }
    }
}

/// External links with what `new` says of the same links and of the same CPs instead of what `old` says.
fn over(mut old: Vec<ExtVirtualLinkData>, new: Vec<ExtVirtualLinkData>) -> Vec<ExtVirtualLinkData> {
    old.retain(|link| new.iter().all(|other| other.id != link.id));
    for link in &mut old {
        let is_bound_anew = |cpd: &str| {
            new.iter()
                .flat_map(|other| &other.ext_cps)
                .any(|data| data.cpd_id == cpd)
        };
        link.ext_cps.retain(|data| !is_bound_anew(&data.cpd_id));
    }
    old.retain(|link| !link.ext_cps.is_empty());
    old.extend(new);
    old
}

/// Asks until it is decided.
pub(crate) async fn ask(op: &Op) -> Output<Approved> {
    let Some(nfvo) = op.engine.parts.nfvo.clone() else {
        return Ok(Approved::default());
    };
    let request = needs::request(op)?;
    let limits = op.engine.limits();
    let until = op.deadline - limits.grant_call - limits.grant_call;
    let place = Arc::new(Place::default());
    place.set(kept(op).await?);
    let clock = Cut {
        clock: op.engine.parts.clock.clone(),
        live: op.live.clone(),
        place,
    };
    let rest = Mutex::new(clock.now());
    let times = (&clock, until);
    let asking = Asking {
        op,
        nfvo: &*nfvo,
        request: &request,
        times,
        rest,
    };
    let last = Mutex::new(String::new());
    let seen = |reason: &str| {
        reason.clone_into(&mut last.lock().unwrap_or_else(PoisonError::into_inner));
        op.watcher().waiting(reason);
    };
    let looked = wait(&clock, until, USUAL, seen, || asking.once()).await?;
    let Some(grant) = looked else {
        let doing = format!("get a grant for {}", op.record.op.operation);
        let why = last.into_inner().unwrap_or_else(PoisonError::into_inner);
        let what = format!(
            "not within {} s; the last was: {why}",
            limits.grant.as_secs()
        );
        return Err(PortError::new(&LATE, doing, what));
    };
    let approved = approve::Reading {
        op,
        request: &request,
        grant: &grant,
    }
    .approved()
    .await?;
    op.watcher().log(
        "info",
        "grant",
        &format!("the NFVO granted it: grant `{}`", grant.id),
    );
    Ok(approved)
}

/// Where an earlier process was told to look.
async fn kept(op: &Op) -> Result<Option<String>, PortError> {
    let kept = op
        .engine
        .store()
        .checkpoint(&op.fence.op_id, Approved::STEP, PLACE)
        .await?;
    Ok(kept.and_then(|kept| kept.as_str().map(ToOwned::to_owned)))
}

/// Time whose pauses end early where the operation is to be cancelled: by a graceful cancel only while the NFVO has no
/// request of ours.
struct Cut {
    clock: Arc<dyn Clock>,
    live: Arc<LiveOp>,
    place: Arc<Place>,
}

/// Where the answer to a request is to be found, once there was a 202.
#[derive(Default)]
struct Place(Mutex<Option<String>>);

impl Place {
    fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, place: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

impl Cut {
    /// Whether the request is given up now.
    fn is_cancelled(&self) -> bool {
        match self.live.cancel_mode() {
            Some(CancelMode::Graceful) => self.place.get().is_none(),
            mode => mode.is_some(),
        }
    }
}

impl Clock for Cut {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (sleep, live) = (self.clock.sleep(duration), self.live.clone());
        let is_pending = self.place.get().is_some();
        Box::pin(async move {
            if is_pending {
                future::select(sleep, Box::pin(live.told_to_go())).await;
            } else {
                future::select(sleep, Box::pin(live.told_to_stop())).await;
            }
        })
    }
}

/// A request, and where its answer is to be found once there was a 202.
struct Asking<'a> {
    op: &'a Op,
    nfvo: &'a dyn Nfvo,
    request: &'a GrantRequest,
    /// Time with the place of the answer, and when it is over.
    times: (&'a Cut, Timestamp),
    /// Until when the NFVO wants to be left alone.
    rest: Mutex<Timestamp>,
}

impl Asking<'_> {
    /// Leaves the NFVO alone for as long as it wants, at most until the time is over.
    fn rest(&self, pause: Option<Duration>) {
        let (clock, over) = self.times;
        let until = pause.map(|pause| clock.now().saturating_add(pause).unwrap_or(over).min(over));
        if let Some(until) = until {
            *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }

    /// One call, once the NFVO may be asked.
    async fn once(&self) -> Result<Waited<Grant>, PortError> {
        let (clock, _) = self.times;
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = until.duration_since(clock.now());
        if pause.is_positive() {
            clock.sleep(pause.unsigned_abs()).await;
        }
        if clock.is_cancelled() {
            return Err(cancelled(self.op));
        }
        match self.answer().await {
            Ok(GrantAnswer::Granted(grant)) => Ok(Waited::Done(*grant)),
            Ok(GrantAnswer::Later(place, after)) => {
                self.keep(Some(place)).await?;
                self.rest(after);
                Ok(Waited::NotYet(
                    "the NFVO to decide about the grant".to_owned(),
                ))
            }
            Ok(GrantAnswer::Forgotten) => {
                self.keep(None).await?;
                Ok(Waited::NotYet(
                    "the NFVO, which forgot the request: asking again".to_owned(),
                ))
            }
            Err(error) if error.is_unavailable() => {
                self.rest(error.retry_after());
                self.op.watcher().log("warn", "grant", &error.to_string());
                Ok(Waited::NotYet(format!("the NFVO: {error}")))
            }
            Err(error) => Err(error),
        }
    }

    async fn answer(&self) -> Result<GrantAnswer, PortError> {
        let place = self.times.0.place.get();
        let call = match &place {
            Some(place) => self.nfvo.look(place),
            None => self.nfvo.ask(self.request),
        };
        let limit = self.op.engine.limits().grant_call;
        match future::select(call, self.op.clock().sleep(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let what = format!("no answer within {} s", limit.as_secs());
                Err(PortError::new(&SILENT, "ask the NFVO for a grant", what))
            }
        }
    }

    /// Keeps where to look, also for a process that takes over.
    async fn keep(&self, place: Option<String>) -> Result<(), PortError> {
        let known = &self.times.0.place;
        if known.get() == place {
            return Ok(());
        }
        let kept = Change::Checkpoint {
            op_id: self.op.fence.op_id.clone(),
            step: Approved::STEP.to_owned(),
            key: PLACE.to_owned(),
            value: SecretJson::from(json!(place)),
        };
        self.op
            .engine
            .store()
            .write(Some(&self.op.fence), vec![kept])
            .await?;
        known.set(place);
        Ok(())
    }
}

/// The NFVO did not decide in time.
const LATE: Code = Code {
    name: "grant.late",
    kind: ErrorKind::Unavailable,
    means: "the NFVO did not decide about a grant within `nfvo.grant_seconds`; nothing was made",
    next: "see why the NFVO does not decide, then ask for the operation again",
};
/// One call was not answered in time.
const SILENT: Code = Code {
    name: "grant.silent",
    kind: ErrorKind::Unavailable,
    means: "the NFVO did not answer a request in time",
    next: "check that the NFVO runs and can be reached from here",
};
pub(super) const CODES: [&Code; 2] = [&LATE, &SILENT];

#[cfg(test)]
mod tests {
    use super::over;
    use serde_json::json;
    use vnfm_types::ExtVirtualLinkData;

    fn links(links: &[(&str, &str, &[&str])]) -> Vec<ExtVirtualLinkData> {
        let link = |(id, network, cps): &(&str, &str, &[&str])| {
            let cps: Vec<_> = cps.iter().map(|cp| json!({"cpdId": cp})).collect();
            serde_json::from_value(json!({"id": id, "resourceId": network, "extCps": cps})).unwrap()
        };
        links.iter().map(link).collect()
    }

    #[test]
    fn a_link_of_the_grant_stands_for_the_same_one_and_the_same_cps_of_the_request() {
        let old = links(&[
            ("a", "net-a", &["x"]),
            ("b", "net-b", &["y", "z"]),
            ("c", "net-c", &["v"]),
        ]);
        let new = links(&[("a", "net-1", &["x"]), ("d", "net-2", &["y", "v"])]);
        let wanted = links(&[
            ("b", "net-b", &["z"]),
            ("a", "net-1", &["x"]),
            ("d", "net-2", &["y", "v"]),
        ]);
        assert_eq!(over(old, new.clone()), wanted);
        assert_eq!(over(wanted.clone(), new), wanted, "twice is once");
    }
}
