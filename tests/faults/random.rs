//! Faults in pairs, and by chance while several instances work at once; all of it comes again with its seed.
//!
//! ```text
//! a pair     the second fault strikes the process that mends what the first one did: on its way forward, or back
//! a crowd    VNF-A, VNF-Bs beside it and on it: operations begin as chance has it, calls fail, processes die,
//!            ways on are taken; then all is brought to an end and checked, and all of it goes
//! ```

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vnfm_core::Engine;
use vnfm_core::Why;
use vnfm_core::ports::StoreError;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp};
use vnfm_types::LcmOperationType;

use crate::case::Case;
use crate::check::{self, Expected};
use crate::exhaustive::{Choice, GIVEN_UP, Key, Learnt, hear, kinds, live, tell};
use crate::plan::{Address, Death, Dice, Fault, Plan, Way};
use crate::probe::Chance;
use crate::process::{Process, Ran};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete};
use crate::vnf::{TENANT, Target, Vnf, begin};

/// Of so many pieces of work one is a crowd; the others are lives in pairs.
const CROWDS: usize = 4;
/// How often chance decides in a crowd.
const ROUNDS: usize = 6;
/// How many of a thousand calls of a crowd are struck.
const STRUCK: usize = 12;

/// What processes met that mended something, by package, kind and way.
struct Pool(Mutex<BTreeMap<(Key, bool), Vec<Address>>>);

impl Pool {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Key, bool), Vec<Address>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somewhere on the way forward or, once it is known, back.
    fn one(&self, key: Key, back: bool, dice: &mut Dice) -> Option<Address> {
        let known = self.known();
        let all = known.get(&(key, back)).filter(|all| !all.is_empty());
        let all = all.or_else(|| known.get(&(key, false)))?;
        Some(dice.one(all).clone())
    }

    fn add(&self, key: Key, back: bool, met: Vec<Address>) {
        let mut known = self.known();
        let all = known.entry((key, back)).or_default();
        for address in met {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
}

/// Works for `time`.
pub(crate) fn run(choice: &Choice, time: Duration, learnt: &Learnt) -> Report {
    let began = Instant::now();
    let pool = Pool(Mutex::default());
    for (key, addresses) in learnt {
        pool.add(*key, false, addresses.clone());
    }
    let report = Mutex::new(Report::new(choice.seed));
    std::thread::scope(|scope| {
        for number in 0..choice.workers {
            let (pool, report) = (&pool, &report);
            scope.spawn(move || {
                let mut site = None;
                for round in 0.. {
                    if began.elapsed() >= time {
                        return;
                    }
                    let dice = Dice::new(choice.seed, &format!("worker {number} round {round}"));
                    piece(&mut site, dice, pool, (number, report));
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// One piece of work; its site survives it if all went well.
fn piece(
    site: &mut Option<Site>,
    mut dice: Dice,
    pool: &Pool,
    (number, report): (usize, &Mutex<Report>),
) {
    let worked = catch_unwind(AssertUnwindSafe(|| {
        let here = match site.take() {
            Some(here) => here,
            None => Site::build()?,
        };
        if dice.below(CROWDS) == 0 {
            crowded(&here, &mut dice, report)?;
        } else {
            in_pairs(&here, &mut dice, pool, report)?;
        }
        *site = Some(here);
        anyhow::Ok(())
    }));
    match worked {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tell(report, number, &format!("{error:#}")),
        Err(_) => tell(report, number, "it panicked"),
    }
}

/// One instance lives with two faults in each of its operations.
fn in_pairs(site: &Site, dice: &mut Dice, pool: &Pool, report: &Mutex<Report>) -> Result<()> {
    let vnf = if dice.below(3) == 0 { Vnf::A } else { Vnf::B };
    let mut done = vec![false; kinds().len()];
    let next = |kind: usize| {
        if std::mem::replace(&mut done[kind], true) {
            return None;
        }
        let way = *dice.one(&Way::ALL);
        let back = way == Way::Rollback && dice.below(4) > 0;
        let first = pool.one((vnf, kind), false, dice)?;
        let second = pool.one((vnf, kind), back, dice)?;
        let mut plan = |address| Plan { address, fault: *dice.one(&Fault::ALL) };
        let (first, second) = (Some(plan(first)), Some(plan(second)));
        Some(Case { kind: kinds()[kind], first, second, way, death: Death::Dropped })
    };
    live(site, vnf, next, |case, played| {
        if let Ok(played) = &played {
            let kind = kinds().iter().position(|kind| *kind == case.kind).unwrap_or_default();
            let of_way_back = |address: &&Address| address.step.starts_with("undo ");
            let back = played.met[1].iter().filter(of_way_back).cloned().collect();
            pool.add((vnf, kind), true, back);
        }
        hear(report, vnf, case, played)
    })
}

/// Several instances at once.
fn crowded(site: &Site, dice: &mut Dice, report: &Mutex<Report>) -> Result<()> {
    let seed = u64::try_from(dice.below(usize::MAX))?;
    let mut crowd = Crowd::gather(site, seed)?;
    let outcome = crowd.play(dice).and_then(|()| crowd.leave());
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Ok(()) => {
            report.hold();
            Ok(())
        }
        Err(error) => {
            report.fail(Failure {
                operation: "crowd".to_owned(),
                step: crowd.did.join("; "),
                fault: format!("by chance, {seed}"),
                why: format!("{error:#}"),
            });
            bail!(GIVEN_UP)
        }
    }
}

/// Instances that work at once.
struct Crowd<'a> {
    site: &'a Site,
    process: Option<Process>,
    members: Vec<Target>,
    seed: u64,
    mark: check::Mark,
    did: Vec<String>,
}

impl<'a> Crowd<'a> {
    fn gather(site: &'a Site, seed: u64) -> Result<Self> {
        let process = site.start()?;
        let members = [Vnf::A, Vnf::B, Vnf::B, Vnf::B];
        let members: Result<Vec<_>> =
            members.into_iter().map(|vnf| create(&process, site.facts(), vnf)).collect();
        let mark = check::mark(&process)?;
        let (process, did) = (Some(process), Vec::new());
        Ok(Self { site, process, members: members?, seed, mark, did })
    }

    fn process(&mut self) -> Result<&Process> {
        if self.process.is_none() {
            self.process = Some(self.site.start()?);
        }
        self.process.as_ref().context("no process")
    }

    /// Chance has its way, then all is brought to an end and checked.
    fn play(&mut self, dice: &mut Dice) -> Result<()> {
        for round in 0..ROUNDS {
            self.disturb(dice)?;
            let chance = Chance { seed: self.seed ^ round as u64, per_mille: STRUCK };
            self.round(dice, Some(chance))?;
        }
        self.settle()
    }

    /// Some calls on the wire go wrong.
    fn disturb(&self, dice: &mut Dice) -> Result<()> {
        const CALLS: [&str; 6] = [
            "heat.*",
            "kubernetes.apply",
            "kubernetes.delete",
            "kubernetes.get",
            "keystone.*",
            "kubernetes.watch",
        ];
        let faults = [json!({"status": 503}), json!({"drop": "before"}), json!({"drop": "after"})];
        for _ in 0..dice.below(3) {
            let (call, nth) = (*dice.one(&CALLS), dice.below(20) + 1);
            let fault = dice.one(&faults).clone();
            self.site.control().arm(&json!({"call": call, "nth": nth, "fault": fault}))?;
        }
        Ok(())
    }

    /// Operations begin, ways on are taken, and what is to be driven is driven, side by side.
    fn round(&mut self, dice: &mut Dice, chance: Option<Chance>) -> Result<()> {
        let facts = self.site.facts();
        let mut members = self.members.clone();
        let process = self.process()?;
        process.probe().begin("", None);
        process.probe().by_chance(chance);
        let engine = process.engine()?;
        let (mut did, mut broken) = (Vec::new(), None);
        let ran = process.run(async {
            for target in &mut members {
                match move_on(&engine, facts, target, dice).await {
                    Ok(what) => did.push(what),
                    Err(error) if error.is::<Doubled>() => broken = Some(error),
                    Err(error) => did.push(format!("{error:#}")),
                }
            }
            engine.resume_all().await
        })?;
        if let Some(broken) = broken {
            return Err(broken);
        }
        // What an error leaves is taken up by the next process, as after a crash.
        let is_well = matches!(ran, Ran::Through(Ok(())));
        self.members = members;
        self.did.extend(did.into_iter().filter(|what| !what.is_empty()));
        if !is_well {
            self.process = None;
            self.did.push("the process ends".to_owned());
        }
        Ok(())
    }

    /// Nothing goes wrong any more: everything ends, and is as its record says.
    fn settle(&mut self) -> Result<()> {
        self.site.control().disarm()?;
        self.process = None;
        let (site, members, mark) = (self.site, self.members.clone(), self.mark);
        let process = self.process()?;
        let engine = process.engine()?;
        let instances = process.finish(async {
            let (mut instances, mut all) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                engine.resume_all().await?;
                for target in &members {
                    for record in check::operations(&engine, &target.instance).await? {
                        if record.op.operation_state == FailedTemp {
                            engine.retry(TENANT, &record.op.id).await?;
                        }
                    }
                }
            }
            for target in &members {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                let ops = check::operations(&engine, &target.instance).await?;
                check::one_at_a_time(&instance, &ops)?;
                let last = ops.iter().max_by_key(|record| record.op.start_time);
                let is_whole = last.is_none_or(|last| last.op.operation_state != Failed);
                instances.push((target.vnf, instance, is_whole));
                all.extend(ops);
            }
            check::outbox(&engine, &all, mark).await?;
            let (orphans, silent) = engine.orphans(TENANT).await?;
            ensure!(orphans.is_empty(), "I2: {orphans:?}");
            // A termination that was failed half-way leaves a VIM behind that nobody is at any more.
            let all_whole = instances.iter().all(|(_, _, is_whole)| *is_whole);
            ensure!(silent.is_empty() || !all_whole, "I5: {silent:?}");
            Ok(instances)
        })?;
        // What VNF-B has lies on what VNF-A has.
        let mut expected: Vec<_> = instances
            .iter()
            .filter(|(_, instance, _)| check::is_instantiated(instance))
            .map(|(vnf, instance, is_whole)| Expected { vnf: *vnf, instance, is_whole: *is_whole })
            .collect();
        expected.sort_by_key(|one| std::cmp::Reverse(one.vnf));
        check::exist(&site.ours()?, &expected, process)?;
        let violations = site.control().page("violations")?;
        ensure!(violations.is_empty(), "violations: {violations:?}");
        Ok(())
    }

    /// All of them go: those on a cluster before the one that carries it.
    fn leave(&mut self) -> Result<()> {
        let (site, members) = (self.site, self.members.clone());
        let process = self.process()?;
        for target in members.iter().rev() {
            let engine = process.engine()?;
            process.finish(async {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                if check::is_instantiated(&instance) {
                    let kind = LcmOperationType::Terminate;
                    let op = begin(&engine, site.facts(), target, kind).await?;
                    engine.drive(&op).await?;
                    let end = engine.store().op(TENANT, &op).await?.op;
                    ensure!(end.operation_state == Completed, "I7: {:?}", end.error);
                }
                Ok(())
            })?;
            delete(process, target)?;
        }
        let left = site.ours()?;
        ensure!(left.is_empty(), "I2: left behind: {left:?}");
        self.process = None;
        check::pages(&site.data())
    }
}

/// Two operations of one instance were accepted.
#[derive(Debug, thiserror::Error)]
#[error("I8: `{0}` and `{1}` were accepted for one instance")]
struct Doubled(String, String);

/// What one instance does next, in a word; chance decides.
async fn move_on(
    engine: &Engine,
    facts: &crate::vnf::Facts,
    target: &mut Target,
    dice: &mut Dice,
) -> Result<String> {
    let instance = engine.store().instance(TENANT, &target.instance).await?;
    let name = format!("{:?} {}", target.vnf, &target.instance[..4]);
    if let Some(op) = &instance.active_op {
        let state = engine.store().op(TENANT, op).await?.op.operation_state;
        if state != FailedTemp {
            return Ok(String::new());
        }
        let way = *dice.one(&Way::ALL);
        match way {
            Way::Retry => engine.retry(TENANT, op).await?,
            Way::Rollback => engine.rollback(TENANT, op).await?,
            Way::FailAndTerminate => engine.fail(TENANT, op).await?,
        }
        return Ok(format!("{name} {way:?}"));
    }
    if dice.below(3) == 0 {
        return Ok(String::new());
    }
    let is_there = check::is_instantiated(&instance);
    let kind = if is_there { LcmOperationType::Terminate } else { LcmOperationType::Instantiate };
    if !is_there && target.vnf == Vnf::B {
        target.vim = somewhere(engine, facts, dice).await?;
    }
    match begin(engine, facts, target, kind).await {
        Ok(first) => match begin(engine, facts, target, kind).await {
            Ok(second) => Err(Doubled(first, second).into()),
            Err(_) => Ok(format!("{name} {kind}")),
        },
        // Something lives on it, or it is going away.
        Err(refusal) if matches!(refusal.why, Why::Conflict | Why::Unprocessable) => {
            Ok(format!("{name} {kind} refused"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// A cluster for VNF-B: the one that was there, or one that VNF-A has made.
async fn somewhere(
    engine: &Engine,
    facts: &crate::vnf::Facts,
    dice: &mut Dice,
) -> Result<String, StoreError> {
    let vims = engine.store().vims(TENANT).await?;
    let made = vims.into_iter().find(|record| record.vim.registered_by.is_some());
    Ok(match made {
        Some(record) if dice.below(3) > 0 => record.vim.id,
        _ => facts.cluster.clone(),
    })
}
