//! One case: an operation with one or two faults, from which it must recover.
//!
//! ```text
//! begin ─ drive ─ fault ─┬─ an error ─────────────────────┐
//!                        ├─ the future dropped ─ resumed ─┤ the process ends, the database is opened again
//!                        └─ the process killed ───────────┴─ resumed ─ [fault ─ restart ─] recovery ─ end ─ checks
//! ```

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use vnfm_core::lcm::{OPERATIONS, find};
use vnfm_core::ports::OpRecord;
use vnfm_core::query::Query;
use vnfm_core::{Engine, Why};
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::{InstantiationState, LcmOperationState, LcmOperationType};

use crate::plan::{Address, Death, Fault, Plan, Recovery};
use crate::probe::Probe;
use crate::process::{Process, Ran};
use crate::site::{Site, delete_snapshots, delete_volumes};
use crate::vnf::{Act, Facts, TENANT, Target, begin};
use crate::{check, child};

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The operation that is requested.
    pub(crate) act: Act,
    /// Fault of the first process.
    pub(crate) first: Option<Plan>,
    /// Fault of the process that resumes it.
    pub(crate) second: Option<Plan>,
    /// What to do when it stops as FAILED_TEMP.
    pub(crate) way: Recovery,
    /// How the process is killed.
    pub(crate) death: Death,
    /// Seed of the call order, if calls are serialized.
    pub(crate) order: Option<u64>,
}

impl Case {
    pub(crate) fn without_faults(act: Act) -> Self {
        Self {
            act,
            first: None,
            second: None,
            way: Recovery::Retry,
            death: Death::Dropped,
            order: None,
        }
    }
}

/// The outcome of a case.
pub(crate) struct Outcome {
    /// Calls of the first process and of the one that resumed.
    pub(crate) met: [Vec<Address>; 2],
    /// Whether each of the faults struck.
    pub(crate) struck: [bool; 2],
    /// How long the case took.
    pub(crate) took: Duration,
}

/// Plays a case and checks the invariants.
pub(crate) fn play(
    site: &Site,
    idle: &mut Option<Process>,
    target: &Target,
    case: &Case,
) -> Result<Outcome> {
    let began = Instant::now();
    let mut process = match idle.take() {
        Some(process) => process,
        None => site.start()?,
    };
    let before = known(&process, target)?;
    let mark = check::mark(site, &process)?;
    let ends = |plan: &Plan| plan.fault.ends_the_drive();
    let by_signal = case.death == Death::Signal && case.first.as_ref().is_some_and(ends);
    let (met, struck) = match (&case.first, by_signal) {
        (Some(plan), true) => {
            drop(process);
            let struck = child::killed(site, target, case.act, plan)?;
            process = site.start()?;
            (Vec::new(), struck)
        }
        (first, _) => {
            run_first_process(site, &process, target, case)?;
            let probe = process.probe();
            let met = probe.met();
            let struck = first.is_some() && probe.has_struck();
            if let Some(trouble) = probe.error() {
                bail!("the probe: {trouble}");
            }
            if first.is_some() {
                drop(process);
                process = site.start()?;
            }
            (met, struck)
        }
    };
    site.control().disarm()?;
    let ending = Ending {
        facts: site.facts(),
        target,
        case,
        before: &before,
    };
    let mut outcome = Outcome {
        met: [met, Vec::new()],
        struck: [struck, false],
        took: Duration::ZERO,
    };
    if let Some(second) = &case.second {
        strike_again(&process, &ending, second, &mut outcome)?;
        drop(process);
        site.control().disarm()?;
        process = site.start()?;
    }
    process.probe().begin(&target.instance, None);
    let engine = process.engine()?;
    process.finish(ending.finish(&engine))?;
    // Whatever became of the operation, their deletion leaves nothing (I2).
    delete_snapshots(&process)?;
    delete_volumes(&process)?;
    check::all(site, &process, target, mark)?;
    *idle = Some(process);
    outcome.took = began.elapsed();
    Ok(outcome)
}

/// Recovers while the second fault strikes; the next process sees and repairs the result.
fn strike_again(
    process: &Process,
    ending: &Ending<'_>,
    second: &Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let plan = Some(second.clone());
    begin_probe(process.probe(), ending.target, (ending.case, plan));
    process.probe().learn()?;
    let engine = process.engine()?;
    let ran = process.run(ending.finish(&engine))?;
    outcome.met[1] = process.probe().met();
    outcome.struck[1] = process.probe().has_struck();
    match ran {
        Ran::Through(Err(error)) if !outcome.struck[1] => Err(error),
        _ => Ok(()),
    }
}

fn begin_probe(probe: &Probe, target: &Target, (case, plan): (&Case, Option<Plan>)) {
    probe.begin(&target.instance, plan);
    if let Some(seed) = case.order {
        probe.serialize_calls(seed);
    }
}

/// The ids of an instance's operations.
fn known(process: &Process, target: &Target) -> Result<BTreeSet<String>> {
    let engine = process.engine()?;
    process.finish(async {
        let all = operations(&engine, target).await?;
        Ok(all.into_iter().map(|record| record.op.id).collect())
    })
}

async fn operations(engine: &Engine, target: &Target) -> Result<Vec<OpRecord>> {
    let filter = Query::of_instance(target.instance.clone());
    Ok(engine.store().ops(TENANT, &filter).await?)
}

/// Begins the operation and drives it until it ends, stops, or the fault strikes.
fn run_first_process(site: &Site, process: &Process, target: &Target, case: &Case) -> Result<()> {
    let probe = process.probe();
    begin_probe(probe, target, (case, case.first.clone()));
    if case.first.is_none() {
        probe.learn()?;
    }
    let engine = process.engine()?;
    let ran = process.run(async {
        let op = begin(&engine, site.facts(), target, case.act).await?;
        engine.drive(&op).await?;
        anyhow::Ok(())
    })?;
    match (ran, &case.first) {
        (Ran::Through(Err(error)), None) => Err(error),
        (Ran::Ended, Some(plan)) if plan.fault == Fault::Dropped => {
            site.control().disarm()?;
            expire_lease(&site.data())?;
            process.finish(async {
                engine.resume_all().await?;
                Ok(())
            })
        }
        (Ran::Through(_) | Ran::Ended, _) => Ok(()),
    }
}

/// Expires the lease: its process lives on, but nothing polls the future that held it.
fn expire_lease(data: &Path) -> Result<()> {
    let db = rusqlite::Connection::open(data.join("vnfm.db"))?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute("UPDATE ops SET lease_until = 0 WHERE driven = 1", [])?;
    Ok(())
}

/// Brings the operation of a case to an end.
struct Ending<'a> {
    facts: &'a Facts,
    target: &'a Target,
    case: &'a Case,
    before: &'a BTreeSet<String>,
}

/// Times that an operation may stop before the case fails.
const MAX_STOPS: usize = 6;

impl Ending<'_> {
    /// Resumes the operation, and recovers it if it has stopped. Called again after every crash.
    async fn finish(&self, engine: &Engine) -> Result<()> {
        engine.resume_all().await.context("cannot resume")?;
        let op = self.operation(engine).await?;
        for _ in 0..MAX_STOPS {
            let record = engine.store().op(TENANT, &op).await?;
            match record.op.operation_state {
                state if state.is_final() => return self.check_final_state(engine, &record).await,
                FailedTemp => self.recover(engine, &record).await?,
                _ => {}
            }
            engine.resume_all().await?;
        }
        bail!("I7: operation `{op}` stopped {MAX_STOPS} times")
    }

    /// The operation; begins it if the request was lost.
    async fn operation(&self, engine: &Engine) -> Result<String> {
        let mut new = self.new_ones(engine).await?;
        new.retain(|record| record.op.operation == self.case.act.kind);
        // Failing and terminating may have begun a second one.
        let is_second = |kind| kind == LcmOperationType::Terminate;
        let by_us = self.case.way == Recovery::FailAndTerminate && is_second(self.case.act.kind);
        ensure!(
            new.len() < 2 || by_us,
            "I8: one request created {} operations",
            new.len()
        );
        if let Some(first) = new.first() {
            return Ok(first.op.id.clone());
        }
        let op = begin(engine, self.facts, self.target, self.case.act).await?;
        engine.drive(&op).await?;
        Ok(op)
    }

    /// The operations of the case, in order.
    async fn new_ones(&self, engine: &Engine) -> Result<Vec<OpRecord>> {
        let mut all = operations(engine, self.target).await?;
        all.retain(|record| !self.before.contains(&record.op.id));
        all.sort_by_key(|record| record.op.start_time);
        let open = all
            .iter()
            .filter(|record| !record.op.operation_state.is_final())
            .count();
        ensure!(
            open < 2,
            "I8: {open} operations of one instance have not ended"
        );
        Ok(all)
    }

    async fn recover(&self, engine: &Engine, record: &OpRecord) -> Result<()> {
        let op = &record.op.id;
        let error = record
            .op
            .error
            .as_ref()
            .context("I1: it stopped without an error")?;
        ensure!(
            error.step.is_some() && !error.detail.is_empty(),
            "I1: incomplete error: {error:?}"
        );
        let resumed = |plan: &Plan| plan.fault.ends_the_drive();
        let alone = self.case.second.is_none();
        if alone && self.case.first.as_ref().is_none_or(resumed) {
            bail!(
                "it should have resumed without help, but stopped: {}",
                error.detail
            );
        }
        match self.case.way {
            Recovery::Retry => engine.retry(TENANT, op).await?,
            Recovery::Rollback => {
                match (
                    &record.point_of_no_return,
                    engine.rollback(TENANT, op).await,
                ) {
                    (None, outcome) => outcome?,
                    (Some(step), Err(refusal)) => {
                        ensure!(refusal.why == Why::Conflict && refusal.detail.contains(step));
                        engine.retry(TENANT, op).await?;
                    }
                    (Some(step), Ok(())) => bail!("rolled back after `{step}`"),
                }
            }
            Recovery::FailAndTerminate => engine.fail(TENANT, op).await?,
        }
        Ok(())
    }

    /// Checks the final state; terminates what a failed operation left.
    async fn check_final_state(&self, engine: &Engine, record: &OpRecord) -> Result<()> {
        use LcmOperationState::{Failed, RolledBack};
        let state = record.op.operation_state;
        let is_allowed = match self.case.way {
            Recovery::Retry => state == Completed,
            Recovery::Rollback => true,
            Recovery::FailAndTerminate => matches!(state, Completed | Failed),
        };
        // Only an error in STARTING rolls back without a request: no step of PROCESSING has begun.
        let begun = engine.store().journal(&record.op.id).await?;
        let steps =
            find(OPERATIONS, record.op.operation).map_or(&[][..], |operation| operation.steps);
        let mut steps = steps
            .iter()
            .filter(|step| step.state == LcmOperationState::Processing);
        let has_begun = steps.any(|step| begun.iter().any(|row| row.step == step.name));
        let by_itself = state == RolledBack && !has_begun;
        ensure!(
            is_allowed || by_itself,
            "{:?} ends as {state}",
            self.case.way
        );
        if state == Failed {
            // The instance on its cluster goes first.
            for one in self.target.all().collect::<Vec<_>>().into_iter().rev() {
                self.terminate(engine, one).await?;
            }
        }
        Ok(())
    }

    /// Terminates what a failed operation has left.
    async fn terminate(&self, engine: &Engine, target: &Target) -> Result<()> {
        let terminate = Act::complete_vnf(LcmOperationType::Terminate);
        for _ in 0..MAX_STOPS {
            let instance = engine.store().instance(TENANT, &target.instance).await?;
            if instance.vnf.instantiation_state == InstantiationState::NotInstantiated {
                return Ok(());
            }
            let op = match instance.active_op {
                Some(op) => {
                    engine.retry(TENANT, &op).await?;
                    op
                }
                None => begin(engine, self.facts, target, terminate).await?,
            };
            engine.drive(&op).await?;
        }
        bail!("I7: cannot terminate what a failed operation left")
    }
}
