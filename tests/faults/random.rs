//! Faults in pairs, and by chance while several instances work at once.
//!
//! ```text
//! a pair     the second fault strikes the process that mends what the first one did: on its way forward, or back
//! a crowd    VNF-A, VNF-Bs beside it and on it: operations begin as chance has it, calls fail, processes die,
//!            ways on are taken; then all is brought to an end and checked, and all of it goes
//! ```
//! A piece of this work depends on the seed and its own number alone, and is run again by them.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vnfm_core::Engine;
use vnfm_core::Why;
use vnfm_core::ports::{InstanceRecord, OpRecord, StoreError};
use vnfm_types::LcmOperationState::{self, Completed, Failed, FailedTemp};
use vnfm_types::LcmOperationType;

use crate::case::Case;
use crate::check::{self, Expected, Extent};
use crate::exhaustive::{Choice, GIVEN_UP, Key, Learnt, hear, live, tell};
use crate::plan::{Address, Dice, Fault, Plan, Way};
use crate::ports::WITH_HOSTS;
use crate::probe::{Chance, Probe};
use crate::process::{Process, Ran};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete};
use crate::vnf::{Act, Facts, TENANT, Target, Vnf, begin};

/// Of so many pieces of work one is a crowd; the others are lives in pairs.
const CROWDS: usize = 4;
/// How often chance decides in a crowd.
const ROUNDS: usize = 6;
/// How many of a thousand calls of a crowd are struck.
const STRUCK: usize = 12;

/// What there is to strike, forward and back: the first call of each name in each step, in an order that does not vary.
struct Known {
    forward: Learnt,
    back: Learnt,
}

impl Known {
    fn new(forward: &Learnt, back: &Learnt) -> Self {
        Self {
            forward: settled(forward),
            back: settled(back),
        }
    }

    /// Two places: the second one lies behind the first one or, where there is a way back, on that.
    fn two(&self, key: Key, back: bool, dice: &mut Dice) -> Option<[Address; 2]> {
        let forward = self.forward.get(&key)?;
        let first = dice.one(forward);
        let behind = forward
            .iter()
            .position(|address| address.step == first.step)?;
        let back = self.back.get(&key).filter(|all| back && !all.is_empty());
        let second = dice.one(back.map_or(&forward[behind..], Vec::as_slice));
        let mut places = [first.clone(), second.clone()];
        for place in &mut places {
            place.nth += u32::from(dice.below(4) == 0);
        }
        Some(places)
    }
}

/// How often something is looked at varies, and in which order hosts are worked on side by side.
fn settled(learnt: &Learnt) -> Learnt {
    let settle = |all: &Vec<Address>| {
        let mut steps: Vec<&str> = all.iter().map(|address| address.step.as_str()).collect();
        steps.dedup();
        let place = |one: &Address| steps.iter().position(|step| *step == one.step);
        let mut first: Vec<_> = all
            .iter()
            .filter(|address| address.nth == 1)
            .cloned()
            .collect();
        first.sort_by_key(|one| (place(one), one.clone()));
        first
    };
    learnt
        .iter()
        .map(|(key, all)| (*key, settle(all)))
        .collect()
}

/// Lets each act of each package fail at its end and go back; what it meets on its way.
fn ways_back(site: &Site, learnt: &Learnt) -> Result<Learnt> {
    let mut found = Learnt::new();
    for vnf in Vnf::ALL {
        let mut asked = BTreeSet::new();
        let next = |act: Act| {
            let all = learnt.get(&(vnf, act)).filter(|_| asked.insert(act))?;
            let last = all
                .iter()
                .rev()
                .find(|address| !address.call.starts_with("store "))?;
            let first = Plan {
                address: last.clone(),
                fault: Fault::NoAnswer,
            };
            let nowhere = Address {
                step: "nowhere".to_owned(),
                ..last.clone()
            };
            let second = Plan {
                address: nowhere,
                fault: Fault::ErrorBefore,
            };
            let (first, second) = (Some(first), Some(second));
            let order = Some(0);
            Some(Case {
                first,
                second,
                way: Way::Rollback,
                order,
                ..Case::calm(act)
            })
        };
        live(site, vnf, next, |case, played| {
            let met = played?.met.into_iter().next_back().unwrap_or_default();
            let is_back = |address: &Address| address.step.starts_with("undo ");
            found.insert((vnf, case.act), met.into_iter().filter(is_back).collect());
            Ok(())
        })?;
    }
    Ok(found)
}

/// Works for `time`, or on the one piece that was chosen.
pub(crate) fn run(choice: &Choice, time: Duration, learnt: &Learnt) -> Result<Report> {
    let began = Instant::now();
    let site = Site::build()?;
    let back = ways_back(&site, learnt).context("cannot learn the ways back")?;
    let calls: usize = back.values().map(Vec::len).sum();
    eprintln!("{calls} calls on ways back");
    let known = Known::new(learnt, &back);
    let report = Mutex::new(Report::new(choice.seed));
    let number = AtomicUsize::new(choice.piece.unwrap_or(0));
    let workers = if choice.piece.is_some() {
        1
    } else {
        choice.workers
    };
    std::thread::scope(|scope| {
        let mut site = Some(site);
        for worker in 0..workers {
            let named = std::thread::Builder::new().name(format!("worker {worker}"));
            let (known, report, number, mut site) = (&known, &report, &number, site.take());
            let works = move || {
                loop {
                    let number = number.fetch_add(1, Ordering::Relaxed);
                    let is_over = match choice.piece {
                        Some(chosen) => number > chosen,
                        None => began.elapsed() >= time,
                    };
                    if is_over {
                        return;
                    }
                    let piece = Piece {
                        seed: choice.seed,
                        number,
                        known,
                        report,
                    };
                    piece.play(&mut site);
                }
            };
            if let Err(error) = named.spawn_scoped(scope, works) {
                tell(report, "worker", &error.to_string());
            }
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// One piece of work.
struct Piece<'a> {
    seed: u64,
    number: usize,
    known: &'a Known,
    report: &'a Mutex<Report>,
}

impl Piece<'_> {
    /// Its site survives it if all went well.
    fn play(&self, site: &mut Option<Site>) {
        let mut dice = Dice::new(self.seed, &format!("piece {}", self.number));
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let here = match site.take() {
                Some(here) => here,
                None => Site::build()?,
            };
            if dice.below(CROWDS) == 0 {
                self.crowd(&here, &mut dice)?;
            } else {
                self.pairs(&here, &mut dice)?;
            }
            *site = Some(here);
            anyhow::Ok(())
        }));
        match worked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tell(self.report, &self.name(), &format!("{error:#}")),
            Err(_) => tell(self.report, &self.name(), "it panicked"),
        }
    }

    /// As `--piece` takes it.
    fn name(&self) -> String {
        format!("piece {}", self.number)
    }

    /// One instance lives with two faults in each of its operations.
    fn pairs(&self, site: &Site, dice: &mut Dice) -> Result<()> {
        let vnf = if dice.below(3) == 0 { Vnf::A } else { Vnf::B };
        let mut done = BTreeSet::new();
        let next = |act: Act| {
            let key = (vnf, act);
            if !done.insert(act) {
                return None;
            }
            let dice = &mut Dice::new(self.seed, &format!("{} {act}", self.name()));
            let way = *dice.one(&Way::ALL);
            let back = way == Way::Rollback && dice.below(4) > 0;
            let [first, second] = self.known.two(key, back, dice)?;
            let mut plan = |address| Plan {
                address,
                fault: *dice.one(&Fault::ALL),
            };
            let (first, second) = (Some(plan(first)), Some(plan(second)));
            Some(Case {
                first,
                second,
                way,
                order: Some(self.seed),
                ..Case::calm(act)
            })
        };
        live(site, vnf, next, |case, played| {
            if let (Ok(played), Some(first), Some(second)) = (&played, &case.first, &case.second) {
                let [one, other] = played.struck;
                self.write_down(played.met.iter().flatten().map(ToString::to_string));
                self.trace(&format!(
                    "{} {first} {one}; {second} {other}; {:?}",
                    case.act, case.way
                ));
            }
            hear(self.report, vnf, &self.name(), (case, played))
        })
    }

    /// Several instances at once.
    fn crowd(&self, site: &Site, dice: &mut Dice) -> Result<()> {
        let began = Instant::now();
        let seed = u64::try_from(dice.below(usize::MAX))?;
        let mut crowd = Crowd::gather(site, seed)?;
        let outcome = crowd.play().and_then(|()| crowd.leave());
        for what in &crowd.did {
            self.trace(what);
        }
        self.write_down(crowd.met.drain(..));
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => {
                report.hold("crowd", began.elapsed());
                Ok(())
            }
            Err(error) => {
                report.fail(Failure {
                    operation: "crowd".to_owned(),
                    step: crowd.did.join("; "),
                    fault: format!("by chance, {}", self.name()),
                    why: format!("{error:#}"),
                });
                bail!(GIVEN_UP)
            }
        }
    }

    /// What was called, in order.
    fn write_down(&self, calls: impl Iterator<Item = String>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report
            .journal
            .extend(calls.map(|call| format!("{}: {call}", self.name())));
    }

    /// What happens, for those who want to see it.
    fn trace(&self, what: &str) {
        if std::env::var_os("VNFM_FAULTS_TRACE").is_some() {
            eprintln!("{}: {what}", self.name());
        }
    }
}

/// Instances that work at once.
struct Crowd<'a> {
    site: &'a Site,
    process: Option<Process>,
    members: Vec<Member>,
    seed: u64,
    mark: check::Mark,
    did: Vec<String>,
    met: Vec<String>,
}

/// One of them.
#[derive(Debug, Clone)]
struct Member {
    name: &'static str,
    target: Target,
    /// What it lives on may have been healed since its record was written.
    moved: bool,
}

/// Who is in a crowd.
const MEMBERS: [(&str, Vnf); 4] = [
    ("a", Vnf::A),
    ("b1", Vnf::B),
    ("b2", Vnf::B),
    ("b3", Vnf::B),
];

impl<'a> Crowd<'a> {
    fn gather(site: &'a Site, seed: u64) -> Result<Self> {
        let process = site.start()?;
        let made = MEMBERS.map(|(name, vnf)| {
            let target = create(&process, site.facts(), vnf)?;
            Ok(Member {
                name,
                target,
                moved: false,
            })
        });
        let members: Result<Vec<_>> = made.into_iter().collect();
        let mark = check::mark(site, &process)?;
        let (process, did, met) = (Some(process), Vec::new(), Vec::new());
        Ok(Self {
            site,
            process,
            members: members?,
            seed,
            mark,
            did,
            met,
        })
    }

    fn process(&mut self) -> Result<&Process> {
        if self.process.is_none() {
            self.process = Some(self.site.start()?);
        }
        self.process.as_ref().context("no process")
    }

    /// Chance has its way, then all is brought to an end and checked.
    fn play(&mut self) -> Result<()> {
        for round in 0..ROUNDS {
            self.disturb(round)?;
            self.round(round)?;
        }
        self.settle()
    }

    /// What decides about one matter; it does not depend on what others did.
    fn dice(&self, round: usize, matter: &str) -> Dice {
        Dice::new(self.seed, &format!("round {round} {matter}"))
    }

    /// Some calls on the wire go wrong. They count for one instance: in which order several call is not to matter.
    fn disturb(&self, round: usize) -> Result<()> {
        const ON_CLOUD: [&str; 2] = ["heat.*", "keystone.*"];
        const ON_CLUSTER: [&str; 4] = [
            "kubernetes.apply",
            "kubernetes.delete",
            "kubernetes.get",
            "kubernetes.watch",
        ];
        let faults = [
            json!({"status": 503}),
            json!({"drop": "before"}),
            json!({"drop": "after"}),
        ];
        let mut dice = self.dice(round, "the wire");
        for _ in 0..dice.below(3) {
            let Target { vnf, instance, .. } = &dice.one(&self.members).target;
            let call = *dice.one(if *vnf == Vnf::A {
                &ON_CLOUD[..]
            } else {
                &ON_CLUSTER
            });
            let (nth, fault) = (dice.below(20) + 1, dice.one(&faults).clone());
            let mut rule = json!({"call": call, "nth": nth, "fault": fault});
            if *vnf == Vnf::B {
                rule["subject"] = json!(instance);
            }
            self.site.control().arm(&rule)?;
        }
        Ok(())
    }

    /// Operations begin, ways on are taken, and what is to be driven is driven, side by side.
    fn round(&mut self, round: usize) -> Result<()> {
        let facts = self.site.facts();
        let mut members = self.members.clone();
        let dice: Vec<_> = members
            .iter()
            .map(|member| self.dice(round, member.name))
            .collect();
        let chance = Chance {
            seed: self.seed ^ round as u64,
            per_mille: STRUCK,
        };
        let process = self.process()?;
        let probe = in_order(process, &members, (chance.seed, Some(chance)));
        let engine = process.engine()?;
        let (mut did, mut broken, mut moved) = (Vec::new(), None, false);
        let ran = process.run(async {
            for (member, mut dice) in members.iter_mut().zip(dice) {
                let instance = engine
                    .store()
                    .instance(TENANT, &member.target.instance)
                    .await?;
                if let Some(op) = &instance.active_op {
                    probe.own(op, &member.target.instance);
                    moved |= member.name == "a";
                }
                let what = move_on(&engine, facts, member, &mut dice).await;
                match what {
                    Ok(what) => did.push(what),
                    Err(error) if error.is::<Doubled>() => broken = Some(error),
                    Err(error) => did.push(format!("{} {error:#}", member.name)),
                }
                moved |= did.last().is_some_and(|what| what == HEAL_OF_A);
            }
            drive_all(&engine, &members).await
        })?;
        did.extend(probe.struck_by_chance());
        self.met.extend(
            probe
                .met()
                .iter()
                .map(|address| format!("round {round}: {address}")),
        );
        if let Some(broken) = broken {
            return Err(broken);
        }
        // What an error leaves is taken up by the next process, as after a crash.
        let is_well = matches!(ran, Ran::Through(Ok(())));
        for member in &mut members {
            member.moved |= moved;
        }
        self.members = members;
        self.did
            .extend(did.into_iter().filter(|what| !what.is_empty()));
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
        let facts = site.facts();
        let seed = self.seed;
        let process = self.process()?;
        let probe = in_order(process, &members, (seed, None));
        let engine = process.engine()?;
        let instances = process.finish(async {
            let (mut instances, mut all, mut moved) = (Vec::new(), Vec::new(), false);
            for Member { name, target, .. } in &members {
                for record in check::operations(&engine, &target.instance).await? {
                    probe.own(&record.op.id, &target.instance);
                    moved |= *name == "a" && !record.op.operation_state.is_final();
                }
            }
            end_all(&engine, &members).await?;
            heal_who_lost_its_cluster(&engine, facts, &members).await?;
            for Member {
                target,
                moved: before,
                ..
            } in &members
            {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                let ops = check::operations(&engine, &target.instance).await?;
                check::one_at_a_time(&instance, &ops)?;
                instances.push((target.vnf, instance, moved || *before));
                all.extend(ops);
            }
            let began = check::outbox(&engine, &all, mark).await?;
            let instances = instances.into_iter().map(|(vnf, instance, moved)| {
                let extent = match last_made(&instance, &all, &began) {
                    Some(Failed) => Extent::Part,
                    _ if moved => Extent::Moved,
                    _ => Extent::Exact,
                };
                (vnf, instance, extent)
            });
            let instances: Vec<_> = instances.collect();
            let (orphans, silent) = engine.orphans(TENANT).await?;
            ensure!(orphans.is_empty(), "I2: {orphans:?}");
            // A termination that was failed half-way leaves a VIM behind that nobody is at any more.
            let all_whole = instances
                .iter()
                .all(|(_, _, extent)| *extent != Extent::Part);
            ensure!(silent.is_empty() || !all_whole, "I5: {silent:?}");
            Ok(instances)
        })?;
        // What VNF-B has lies on what VNF-A has.
        let mut expected: Vec<_> = instances
            .iter()
            .filter(|(_, instance, _)| check::is_instantiated(instance))
            .map(|(vnf, instance, extent)| Expected {
                vnf: *vnf,
                instance,
                extent: *extent,
            })
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
        for Member { target, .. } in members.iter().rev() {
            let engine = process.engine()?;
            process.finish(async {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                if check::is_instantiated(&instance) {
                    let act = Act::whole(LcmOperationType::Terminate);
                    let op = begin(&engine, site.facts(), target, act).await?;
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

/// How the last operation ended that made or took away what there is; a modification leaves that as it is, whatever it
/// is.
fn last_made(
    instance: &InstanceRecord,
    ops: &[OpRecord],
    began: &[String],
) -> Option<LcmOperationState> {
    let ops = ops.iter().map(|record| &record.op);
    let of_it = ops.filter(|op| op.vnf_instance_id == instance.vnf.id);
    let made = of_it.filter(|op| op.operation != LcmOperationType::ModifyInfo);
    let last = made.max_by_key(|op| began.iter().position(|id| *id == op.id));
    last.map(|op| op.operation_state)
}

/// Where Heat fails at the network between VNF-A's nodes, it replaces the network, and with it every node: the cluster
/// is made anew, empty. What an operator then does is to heal whoever lived on it, and that has to bring it back.
async fn heal_who_lost_its_cluster(
    engine: &Engine,
    facts: &Facts,
    members: &[Member],
) -> Result<()> {
    for Member { target, .. } in members.iter().filter(|one| one.target.vnf == Vnf::B) {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        let Ok(vim) = engine.store().vim(TENANT, &target.vim).await else {
            continue;
        };
        let Some(host) = vim
            .vim
            .registered_by
            .filter(|_| check::is_instantiated(&instance))
        else {
            continue;
        };
        if !check::operations(engine, &host)
            .await?
            .iter()
            .any(replaced_the_control_plane)
        {
            continue;
        }
        let op = begin(engine, facts, target, Act::whole(LcmOperationType::Heal)).await?;
        engine.drive(&op).await?;
        let end = engine.store().op(TENANT, &op).await?.op;
        ensure!(end.operation_state == Completed, "I7: {:?}", end.error);
    }
    Ok(())
}

fn replaced_the_control_plane(record: &OpRecord) -> bool {
    let changes = record
        .op
        .resource_changes
        .iter()
        .flat_map(|changes| &changes.affected_vnfcs);
    let is_heal = record.op.operation == LcmOperationType::Heal;
    is_heal && changes.into_iter().any(|vnfc| vnfc.vdu_id == "masterNode")
}

/// A probe that tells the members apart, and lets their calls come in an order that is the seed's.
fn in_order(process: &Process, members: &[Member], by: (u64, Option<Chance>)) -> Probe {
    let names = members
        .iter()
        .map(|one| (one.target.instance.clone(), one.name.to_owned()));
    let probe = process.probe().clone();
    probe.watch(names.collect(), by.1);
    probe.keep_order(by.0);
    probe.own(WITH_HOSTS, &members[0].target.instance);
    probe
}

/// Drives what is to be driven as [`Engine::resume_all`] does, but in the order of the instances: which operation that
/// takes over first depends on ids.
async fn drive_all(engine: &Engine, members: &[Member]) -> Result<(), StoreError> {
    let mut driven = Vec::new();
    for Member { target, .. } in members {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        driven.extend(instance.active_op);
    }
    let driven = driven.iter().map(|op| engine.drive(op));
    futures::future::try_join_all(driven).await.map(drop)
}

/// Every operation that is not ended goes on, or out.
async fn end_all(engine: &Engine, members: &[Member]) -> Result<()> {
    for round in 0..ROUNDS {
        engine.resume_all().await?;
        for Member { target, .. } in members {
            for record in check::operations(engine, &target.instance).await? {
                if record.op.operation_state == FailedTemp {
                    way_out(engine, round, &record).await?;
                }
            }
        }
    }
    Ok(())
}

/// What an operator does with an operation that has stopped: tries again, then goes back, then gives it up.
async fn way_out(engine: &Engine, round: usize, record: &OpRecord) -> Result<()> {
    let (op, cause) = (&record.op.id, &record.op.error);
    ensure!(
        round + 1 < ROUNDS,
        "I7: {} stopped {ROUNDS} times: {cause:?}",
        record.op.operation
    );
    if round < ROUNDS / 2 {
        return Ok(engine.retry(TENANT, op).await?);
    }
    if round + 2 < ROUNDS {
        match engine.rollback(TENANT, op).await {
            Err(refusal) if refusal.why == Why::Conflict => {}
            gone_back => return Ok(gone_back?),
        }
    }
    Ok(engine.fail(TENANT, op).await?)
}

/// Two operations of one instance were accepted.
#[derive(Debug, thiserror::Error)]
#[error("I8: `{0}` and `{1}` were accepted for one instance")]
struct Doubled(String, String);

/// What is said when VNF-A is healed.
const HEAL_OF_A: &str = "a HEAL one VNFC";

/// What one instance does next, in a word; chance decides.
async fn move_on(
    engine: &Engine,
    facts: &Facts,
    Member {
        name,
        target,
        moved,
    }: &mut Member,
    dice: &mut Dice,
) -> Result<String> {
    let instance = engine.store().instance(TENANT, &target.instance).await?;
    let (is_idle, way) = (dice.below(3) == 0, *dice.one(&Way::ALL));
    if let Some(op) = &instance.active_op {
        let state = engine.store().op(TENANT, op).await?.op.operation_state;
        if state != FailedTemp {
            return Ok(String::new());
        }
        let taken = match way {
            Way::Retry => engine.retry(TENANT, op).await,
            Way::Rollback => engine.rollback(TENANT, op).await,
            Way::FailAndTerminate => engine.fail(TENANT, op).await,
        };
        return match taken {
            Err(refusal) if refusal.why == Why::Conflict => Ok(format!("{name} {way:?} refused")),
            taken => Ok(taken.map(|()| format!("{name} {way:?}"))?),
        };
    }
    if is_idle {
        return Ok(String::new());
    }
    let act = next_act(target.vnf, check::is_instantiated(&instance), dice);
    if act.kind == LcmOperationType::Instantiate && target.vnf == Vnf::B {
        target.vim = somewhere(engine, facts, dice).await?;
        *moved = false;
    }
    match begin(engine, facts, target, act).await {
        Ok(first) => match begin(engine, facts, target, act).await {
            Ok(second) => Err(Doubled(first, second).into()),
            Err(_) => Ok(format!("{name} {act}")),
        },
        // Something lives on it, or it is going away.
        Err(refusal) if matches!(refusal.why, Why::Conflict | Why::Unprocessable) => {
            Ok(format!("{name} {act} refused"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// What an instance that is there, or is not, may be asked for while others live on it.
fn next_act(vnf: Vnf, is_there: bool, dice: &mut Dice) -> Act {
    let acts = vnf.acts();
    if !is_there {
        return acts[0];
    }
    // Healing all of VNF-A is refused by its cluster as long as somebody lives there.
    let fits = |act: &&Act| vnf == Vnf::B || act.one || act.kind != LcmOperationType::Heal;
    let later: Vec<_> = acts[1..].iter().filter(fits).copied().collect();
    *dice.one(&later)
}

/// A cluster for VNF-B: the one that was there, or one that VNF-A has made.
async fn somewhere(engine: &Engine, facts: &Facts, dice: &mut Dice) -> Result<String, StoreError> {
    let vims = engine.store().vims(TENANT).await?;
    let made = vims
        .into_iter()
        .find(|record| record.vim.registered_by.is_some());
    Ok(match made {
        Some(record) if dice.below(3) > 0 => record.vim.id,
        _ => facts.cluster.clone(),
    })
}
