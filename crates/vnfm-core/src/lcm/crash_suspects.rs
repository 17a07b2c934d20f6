//! Steps suspected of crashing the server: those without an end in the journal, because their process died.
//!
//! | deaths | the step |
//! |---|---|
//! | none, one | runs concurrently with others |
//! | two and more | runs exclusively for a while (journaled before it starts), then concurrently |
//! | one while it ran exclusively | is not started again: the operation stops with that cause |
//!
//! A process that shut down in order, or only lost the lease, did not die ([`Change::RecordOrderlyExit`]). A failed or retried
//! step has a row with an end: what happened before does not count. A process that finds an open row of its own lost its
//! lease for a while, or made room for another suspect.

use super::hook_journal;
use super::op_context::Op;
use super::step::Step;
use crate::context::Context;
use crate::exclusive::{Pass, exclusive_time};
use crate::ports::{
    Change, Code, ErrorKind, JournalRow, OpenStep, PortError, ProcessHistory, StepStatus,
    StoreError, Watcher as _,
};
use futures_util::future::{Either, select};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A step runs exclusively after this many deaths.
const SUSPECT_DEATHS: usize = 2;
/// How often a waiting step checks again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a tenant is penalised for a step that killed a process.
const PENALTY: Duration = Duration::from_hours(1);

/// Conditions under which a step starts.
pub(super) struct Beginning<'s> {
    /// The processes that ran the step, for its journal row.
    pub(super) lives: ProcessHistory,
    /// Set if the step must not start.
    pub(super) refusal: Option<PortError>,
    /// How long it runs exclusively.
    pub(super) alone: Option<Duration>,
    /// Its journal row, once it survived that time.
    pub(super) outlived: Option<Arc<JournalRow>>,
    pass: Option<Pass<'s>>,
}

/// Waits until a step may start; `None` if it must not start any more, because of a cancel request or a shutdown.
pub(super) async fn enter<'e>(
    context: &'e Context,
    op: &Op,
    step: &Step,
) -> Result<Option<Beginning<'e>>, StoreError> {
    load_suspects(context).await?;
    let before = op
        .rows
        .get(step.name)
        .filter(|row| is_open(row))
        .map(|row| row.lives.clone());
    let is_new_here = before
        .as_ref()
        .is_some_and(|before| before.by != *context.owner);
    let mut lives = lives(op, before).await?;
    let mut beginning = Beginning {
        lives: lives.clone(),
        refusal: None,
        alone: None,
        outlived: None,
        pass: None,
    };
    if lives.killed {
        context.exclusion.arrived(&op.fence.op_id);
        context.exclusion.killed(op.tenant());
        beginning.refusal = Some(refusal(op, step, &lives));
        return Ok(Some(beginning));
    }
    let is_suspect = is_new_here && lives.died.len() >= SUSPECT_DEATHS;
    let pass = if is_suspect {
        enter_exclusively(context, op, step, &lives).await
    } else {
        context.exclusion.arrived(&op.fence.op_id);
        enter_concurrently(context, op).await
    };
    let Some(pass) = pass else { return Ok(None) };
    if pass.is_alone() {
        let timeout = if step.is_hook() {
            context.limits().hook
        } else {
            context.limits().step
        };
        let time = exclusive_time(lives.outlived, timeout);
        lives.alone = true;
        beginning.alone = Some(time);
        let (deaths, seconds) = (lives.died.len(), time.as_secs());
        let text = format!(
            "the server died {deaths} times while this step ran; it runs exclusively for up to {seconds} s"
        );
        op.watcher().log("warn", step.name, &text);
        // The process may die before the log is stored the next time.
        op.live.store_log(context.store(), &op.fence.op_id).await;
    }
    beginning.lives = lives;
    beginning.pass = Some(pass);
    Ok(Some(beginning))
}

impl Beginning<'_> {
    /// Waits for the end of the exclusive time, journals it, and lets other steps continue. True if the step must
    /// make room for another suspect.
    pub(super) async fn survive(&mut self, op: &Op, step: &Step, time: Duration) -> bool {
        op.clock().sleep(time).await;
        let Some(row) = op.rows.get(step.name) else {
            return false;
        };
        let lives = ProcessHistory {
            alone: false,
            outlived: row.lives.outlived + 1,
            ..row.lives.clone()
        };
        let row = Arc::new(JournalRow {
            lives,
            ..JournalRow::clone(row)
        });
        let changes = || vec![Change::Journal(row.clone())];
        while let Err(error) = op.context.store().write(Some(&op.fence), changes()).await {
            // As long as the journal says `alone`, nothing else runs.
            tracing::warn!(op_id = op.fence.op_id, %error, "a step still runs exclusively");
            op.clock().sleep(RECHECK_INTERVAL).await;
        }
        self.outlived = Some(row);
        let pass = self.pass.as_mut();
        pass.is_some_and(|pass| pass.end_turn(op.clock().now()))
    }
}

/// The history of processes for the row of a step that this process starts; `before` is that of its open row.
async fn lives(op: &Op, before: Option<ProcessHistory>) -> Result<ProcessHistory, StoreError> {
    let owner = op.context.owner.to_string();
    let Some(mut lives) = before else {
        return Ok(ProcessHistory {
            by: owner,
            ..ProcessHistory::default()
        });
    };
    if lives.by == owner {
        lives.alone = false;
        return Ok(lives);
    }
    let left = op.context.store().orderly_exits(&op.fence.op_id).await?;
    let last = std::mem::replace(&mut lives.by, owner);
    lives.killed |= lives.alone && !left.contains(&last);
    lives.alone = false;
    if !last.is_empty() {
        lives.died.push(last);
    }
    lives.died.retain(|process| !left.contains(process));
    Ok(lives)
}

/// Waits until the step may run concurrently with others.
async fn enter_concurrently<'e>(context: &'e Context, op: &Op) -> Option<Pass<'e>> {
    loop {
        let changed = context.exclusion.listen();
        if let Some(pass) = context.exclusion.enter(op.clock().now()) {
            return Some(pass);
        }
        op.live
            .waiting("another operation, which runs exclusively because the server died during it");
        recheck(op, changed).await?;
    }
}

/// Waits until the step may run exclusively; after the time limit of a step it runs concurrently.
async fn enter_exclusively<'e>(
    context: &'e Context,
    op: &Op,
    step: &Step,
    lives: &ProcessHistory,
) -> Option<Pass<'e>> {
    let began = op.clock().now();
    let mut pass = context
        .exclusion
        .queue_suspect(op.tenant(), lives.outlived, began);
    context.exclusion.arrived(&op.fence.op_id);
    let deaths = lives.died.len();
    loop {
        let changed = context.exclusion.listen();
        let now = op.clock().now();
        if pass.take_turn(now) {
            return Some(pass);
        }
        if now.duration_since(began).unsigned_abs() >= context.limits().step {
            pass.run_concurrently();
            return Some(pass);
        }
        let name = step.name;
        op.live.waiting(&format!(
            "its turn to run exclusively: the server died {deaths} times while step `{name}` ran"
        ));
        recheck(op, changed).await?;
    }
}

/// Waits for a change; `None` if the step must not start any more.
async fn recheck(op: &Op, changed: event_listener::EventListener) -> Option<()> {
    let tick = select(changed, op.clock().sleep(RECHECK_INTERVAL));
    let stopped = pin!(op.live.stop_requested());
    match select(tick, stopped).await {
        Either::Left(_) if !op.context.live.is_paused() => Some(()),
        _ => None,
    }
}

/// Reads once which suspects the journal shows, so that nothing starts concurrently with them.
async fn load_suspects(context: &Context) -> Result<(), StoreError> {
    let mut suspects_loaded = context.suspects_loaded.lock().await;
    if *suspects_loaded {
        return Ok(());
    }
    let now = context.ports.clock.now();
    let is_recent = |open: &OpenStep| {
        let ended = open
            .ended_at
            .map(|at| now.duration_since(at).unsigned_abs());
        ended.is_none_or(|ago| ago < PENALTY)
    };
    let (mut expected, mut killers) = (BTreeSet::new(), BTreeMap::<String, u32>::new());
    for open in context.store().open_steps().await? {
        if open.lives.killed || (open.lives.alone && open.lives.by != *context.owner) {
            if is_recent(&open) {
                *killers.entry(open.tenant).or_default() += 1;
            }
        } else if open.lives.died.len() + 1 >= SUSPECT_DEATHS && open.lives.by != *context.owner {
            expected.insert((open.tenant, open.op_id));
        }
    }
    expected.retain(|(tenant, _)| !killers.contains_key(tenant));
    let expected = expected.into_iter().map(|(_, op_id)| op_id).collect();
    context.exclusion.expect(expected, killers, now);
    *suspects_loaded = true;
    Ok(())
}

/// The error of a step that is not started again because it killed a process.
fn refusal(op: &Op, step: &Step, lives: &ProcessHistory) -> PortError {
    let what = format!(
        "the server died {} times while it ran, the last time with nothing else running",
        lives.died.len()
    );
    if step.is_hook() {
        return PortError::new(&HOOK_DIED, hook_journal::repeat_action(op, step), what);
    }
    PortError::new(&DIED, format!("run step `{}` once more", step.name), what)
}

/// The open row of a step with an end; `None` if it has no open row.
pub(super) fn close_row(op: &Op, step: &Step) -> Option<JournalRow> {
    let row = op.rows.get(step.name).filter(|row| is_open(row))?;
    let lives = ProcessHistory {
        alone: false,
        ..row.lives.clone()
    };
    Some(JournalRow {
        ended_at: Some(op.clock().now()),
        lives,
        ..JournalRow::clone(row)
    })
}

fn is_open(row: &JournalRow) -> bool {
    matches!(row.status, StepStatus::Started | StepStatus::Undoing) && row.ended_at.is_none()
}

pub(super) const DIED: Code = Code {
    name: "op.server-died",
    kind: ErrorKind::Refused,
    means: "the server died repeatedly while this step ran, the last time with nothing else running; it is not started \
            again automatically",
    next: "find out why it died in the logs of the server and the system (memory is the usual cause); fix what the step \
           works on, then retry; or roll back",
};
pub(super) const HOOK_DIED: Code = Code {
    name: "hook.server-died",
    kind: ErrorKind::Refused,
    means: "the server died repeatedly while this hook ran, the last time with nothing else running; it is not started \
            again automatically",
    next: "find out why it died in the server's log; run the plugin in separate processes (`plugins.runners`) or \
           fix it, then retry; or roll back",
};
