//! Which steps are suspects: those that have no end in the journal, because the process that ran them died.
//!
//! | deaths | the step |
//! |---|---|
//! | none, one | runs beside others |
//! | two and more | runs alone for a while, says so in the journal before it begins, then beside the others |
//! | one while it ran alone | is not begun again: the operation stops with that cause |
//!
//! A process that stopped in order, or only lost the lease, did not die ([`Change::LeftInOrder`]). A step that failed, or
//! that somebody retries, has a row with an end: what was before it does not count. A process that finds its own
//! open row lost its lease for a while, or made room for another suspect.

use super::hook_journal;
use super::op::Op;
use super::step::Step;
use crate::engine::Engine;
use crate::ports::{
    Change, Code, ErrorKind, JournalRow, Lives, OpenStep, PortError, StepStatus, StoreError,
    Watcher as _,
};
use crate::solitude::{Pass, time_alone};
use futures_util::future::{Either, select};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// With so many deaths a step runs alone.
const SUSPECT: usize = 2;
/// How often a step that rests looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a step that killed a process is held against its tenant.
const HELD_AGAINST: Duration = Duration::from_hours(1);

/// How a step begins.
pub(super) struct Beginning<'s> {
    /// What its row keeps.
    pub(super) lives: Lives,
    /// Why it does not begin.
    pub(super) refusal: Option<PortError>,
    /// The time that it runs alone.
    pub(super) alone: Option<Duration>,
    /// Its row, once it outlived that.
    pub(super) outlived: Option<Arc<JournalRow>>,
    pass: Option<Pass<'s>>,
}

/// Waits until a step may begin; `None`: it is not to begin any more, because somebody cancels or this process stops.
pub(super) async fn enter<'e>(
    engine: &'e Engine,
    op: &Op,
    step: &Step,
) -> Result<Option<Beginning<'e>>, StoreError> {
    learn(engine).await?;
    let before = op
        .rows
        .get(step.name)
        .filter(|row| is_open(row))
        .map(|row| row.lives.clone());
    let is_new_here = before
        .as_ref()
        .is_some_and(|before| before.by != *engine.owner);
    let mut lives = lives(op, before).await?;
    let mut beginning = Beginning {
        lives: lives.clone(),
        refusal: None,
        alone: None,
        outlived: None,
        pass: None,
    };
    if lives.killed {
        engine.solitude.is_here(&op.fence.op_id);
        engine.solitude.killed(op.tenant());
        beginning.refusal = Some(refusal(op, step, &lives));
        return Ok(Some(beginning));
    }
    let is_suspect = is_new_here && lives.died.len() >= SUSPECT;
    let pass = if is_suspect {
        alone(engine, op, (step, &lives)).await
    } else {
        engine.solitude.is_here(&op.fence.op_id);
        beside(engine, op).await
    };
    let Some(pass) = pass else { return Ok(None) };
    if pass.is_alone() {
        let longest = if step.hook {
            engine.limits().hook
        } else {
            engine.limits().step
        };
        let time = time_alone(lives.outlived, longest);
        lives.alone = true;
        beginning.alone = Some(time);
        let (deaths, seconds) = (lives.died.len(), time.as_secs());
        let text = format!(
            "the server died {deaths} times while this step ran: it runs alone for up to {seconds} s"
        );
        op.watcher().log("warn", step.name, &text);
        // The process may die before the log is stored the next time.
        op.live.store_log(engine.store(), &op.fence.op_id).await;
    }
    beginning.lives = lives;
    beginning.pass = Some(pass);
    Ok(Some(beginning))
}

impl Beginning<'_> {
    /// Waits for the end of the time that the step runs alone, writes it down, and lets the others go on. True where the
    /// step is to make room for another suspect.
    pub(super) async fn outlive(&mut self, op: &Op, step: &Step, time: Duration) -> bool {
        op.clock().sleep(time).await;
        let Some(row) = op.rows.get(step.name) else {
            return false;
        };
        let lives = Lives {
            alone: false,
            outlived: row.lives.outlived + 1,
            ..row.lives.clone()
        };
        let row = Arc::new(JournalRow {
            lives,
            ..JournalRow::clone(row)
        });
        let changes = || vec![Change::Journal(row.clone())];
        while let Err(error) = op.engine.store().write(Some(&op.fence), changes()).await {
            // As long as the journal says `alone` nothing else runs.
            tracing::warn!(op_id = op.fence.op_id, %error, "a step still runs alone");
            op.clock().sleep(LOOK_AGAIN).await;
        }
        self.outlived = Some(row);
        let pass = self.pass.as_mut();
        pass.is_some_and(|pass| pass.end_turn(op.clock().now()))
    }
}

/// What the row of a step keeps of the processes that ran it, once this one begins it; `before` is what an open one has.
async fn lives(op: &Op, before: Option<Lives>) -> Result<Lives, StoreError> {
    let owner = op.engine.owner.to_string();
    let Some(mut lives) = before else {
        return Ok(Lives {
            by: owner,
            ..Lives::default()
        });
    };
    if lives.by == owner {
        lives.alone = false;
        return Ok(lives);
    }
    let left = op.engine.store().left_in_order(&op.fence.op_id).await?;
    let last = std::mem::replace(&mut lives.by, owner);
    lives.killed |= lives.alone && !left.contains(&last);
    lives.alone = false;
    if !last.is_empty() {
        lives.died.push(last);
    }
    lives.died.retain(|process| !left.contains(process));
    Ok(lives)
}

/// Waits until it may run beside others.
async fn beside<'e>(engine: &'e Engine, op: &Op) -> Option<Pass<'e>> {
    loop {
        let changed = engine.solitude.listen();
        if let Some(pass) = engine.solitude.enter(op.clock().now()) {
            return Some(pass);
        }
        op.live
            .waiting("another operation, which runs alone because the server died during it");
        look_again(op, changed).await?;
    }
}

/// Waits until it may run alone; after the time of a step it runs beside others.
async fn alone<'e>(
    engine: &'e Engine,
    op: &Op,
    (step, lives): (&Step, &Lives),
) -> Option<Pass<'e>> {
    let began = op.clock().now();
    let mut pass = engine.solitude.stand(op.tenant(), lives.outlived, began);
    engine.solitude.is_here(&op.fence.op_id);
    let deaths = lives.died.len();
    loop {
        let changed = engine.solitude.listen();
        let now = op.clock().now();
        if pass.take_turn(now) {
            return Some(pass);
        }
        if now.duration_since(began).unsigned_abs() >= engine.limits().step {
            pass.run_beside();
            return Some(pass);
        }
        let name = step.name;
        op.live.waiting(&format!(
            "its turn to run alone: the server died {deaths} times while step `{name}` ran"
        ));
        look_again(op, changed).await?;
    }
}

/// Waits for a change; `None` where the step is not to begin any more.
async fn look_again(op: &Op, changed: event_listener::EventListener) -> Option<()> {
    let tick = select(changed, op.clock().sleep(LOOK_AGAIN));
    let stopped = pin!(op.live.told_to_stop());
    match select(tick, stopped).await {
        Either::Left(_) if !op.engine.live.is_resting() => Some(()),
        _ => None,
    }
}

/// Learns once which suspects the journal shows, so that nothing begins beside them.
async fn learn(engine: &Engine) -> Result<(), StoreError> {
    let mut learned = engine.learned.lock().await;
    if *learned {
        return Ok(());
    }
    let now = engine.parts.clock.now();
    let is_recent = |open: &OpenStep| {
        let ended = open
            .ended_at
            .map(|at| now.duration_since(at).unsigned_abs());
        ended.is_none_or(|ago| ago < HELD_AGAINST)
    };
    let (mut expected, mut killers) = (BTreeSet::new(), BTreeMap::<String, u32>::new());
    for open in engine.store().open_steps().await? {
        if open.lives.killed || (open.lives.alone && open.lives.by != *engine.owner) {
            if is_recent(&open) {
                *killers.entry(open.tenant).or_default() += 1;
            }
        } else if open.lives.died.len() + 1 >= SUSPECT && open.lives.by != *engine.owner {
            expected.insert((open.tenant, open.op_id));
        }
    }
    expected.retain(|(tenant, _)| !killers.contains_key(tenant));
    let expected = expected.into_iter().map(|(_, op_id)| op_id).collect();
    engine.solitude.expect(expected, killers, now);
    *learned = true;
    Ok(())
}

/// Why a step that killed a process is not begun again.
fn refusal(op: &Op, step: &Step, lives: &Lives) -> PortError {
    let what = format!(
        "the server died {} times while it ran, the last time with nothing else running",
        lives.died.len()
    );
    if step.hook {
        return PortError::new(&HOOK_DIED, hook_journal::once_more(op, step), what);
    }
    PortError::new(&DIED, format!("run step `{}` once more", step.name), what)
}

/// The row of a step that was begun, with its end; `None` where there is nothing to end.
pub(super) fn ended(op: &Op, step: &Step) -> Option<JournalRow> {
    let row = op.rows.get(step.name).filter(|row| is_open(row))?;
    let lives = Lives {
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

/// The server died in a step that ran alone.
pub(crate) const DIED: Code = Code {
    name: "op.server-died",
    kind: ErrorKind::Refused,
    means: "the server died again and again while this step ran, at last with nothing else running: it is not begun \
            again by itself",
    next: "see in the server's log, and in the system's, why it ended (memory is the usual cause); mend what the step \
           works on, then retry; or roll back",
};
/// The server died in a hook that ran alone.
pub(crate) const HOOK_DIED: Code = Code {
    name: "hook.server-died",
    kind: ErrorKind::Refused,
    means: "the server died again and again while this hook ran, at last with nothing else running: it is not begun \
            again by itself",
    next: "see in the server's log why it ended; let the plugin run in processes of its own (`plugins.runners`) or \
           mend it, then retry; or roll back",
};
