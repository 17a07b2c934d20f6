//! Faults in pairs, and random faults while several instances run at once.
//!
//! ```text
//! a pair     the second fault strikes while the first one is recovered: in a retry or in a rollback
//! a crowd    VNF-A and several VNF-Bs, on its cluster and elsewhere: random operations, failing calls, crashes and
//!            recoveries; then everything is finished, checked and removed
//! ```
//! A piece of this work depends only on the seed and its number, and can be repeated with them.

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
use crate::exhaustive::{
    Choice, Key, Learnt, SITE_ABANDONED, record_failure, record_outcome, run_lifecycle,
};
use crate::plan::{Address, Fault, Plan, Recovery, SeededRng};
use crate::ports::WITH_HOSTS;
use crate::probe::{Chance, Probe};
use crate::process::{Process, Ran};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete};
use crate::vnf::{Act, Facts, TENANT, Target, Vnf, begin};

/// One of this many pieces is a crowd; the others are pairs.
const CROWD_INTERVAL: usize = 4;
/// Random rounds of a crowd.
const ROUNDS: usize = 6;
/// Struck calls per thousand in a crowd.
const STRUCK: usize = 12;

/// Addresses to strike, forward and in rollback: the first call of each name in each step, in a stable order.
struct KnownAddresses {
    forward: Learnt,
    back: Learnt,
}

impl KnownAddresses {
    fn new(forward: &Learnt, back: &Learnt) -> Self {
        Self {
            forward: stable_addresses(forward),
            back: stable_addresses(back),
        }
    }

    /// Two addresses: the second one is later than the first or, if `back`, in the rollback.
    fn pick_pair(&self, key: Key, back: bool, rng: &mut SeededRng) -> Option<[Address; 2]> {
        let forward = self.forward.get(&key)?;
        let first = rng.pick(forward);
        let behind = forward
            .iter()
            .position(|address| address.step == first.step)?;
        let back = self.back.get(&key).filter(|all| back && !all.is_empty());
        let second = rng.pick(back.map_or(&forward[behind..], Vec::as_slice));
        let mut addresses = [first.clone(), second.clone()];
        for address in &mut addresses {
            address.nth += u32::from(rng.below(4) == 0);
        }
        Some(addresses)
    }
}

/// Removes what varies between runs: how often something is polled, and the order of parallel work on hosts.
fn stable_addresses(learnt: &Learnt) -> Learnt {
    let finish_and_check = |all: &Vec<Address>| {
        let mut steps: Vec<&str> = all.iter().map(|address| address.step.as_str()).collect();
        steps.dedup();
        let address = |one: &Address| steps.iter().position(|step| *step == one.step);
        let mut first: Vec<_> = all
            .iter()
            .filter(|address| address.nth == 1)
            .cloned()
            .collect();
        first.sort_by_key(|one| (address(one), one.clone()));
        first
    };
    learnt
        .iter()
        .map(|(key, all)| (*key, finish_and_check(all)))
        .collect()
}

/// Lets each operation of each package fail at its end and roll back; records the calls of the rollback.
fn learn_undo(site: &Site, learnt: &Learnt) -> Result<Learnt> {
    let mut found = Learnt::new();
    for vnf in Vnf::ALL {
        let mut requested = BTreeSet::new();
        let next = |act: Act| {
            let all = learnt.get(&(vnf, act)).filter(|_| requested.insert(act))?;
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
                way: Recovery::Rollback,
                order,
                ..Case::without_faults(act)
            })
        };
        run_lifecycle(site, vnf, next, |case, played| {
            let met = played?.met.into_iter().next_back().unwrap_or_default();
            let is_back = |address: &Address| address.step.starts_with("undo ");
            found.insert((vnf, case.act), met.into_iter().filter(is_back).collect());
            Ok(())
        })?;
    }
    Ok(found)
}

/// Works for `time`, or on the chosen piece.
pub(crate) fn run(choice: &Choice, time: Duration, learnt: &Learnt) -> Result<Report> {
    let began = Instant::now();
    let site = Site::build()?;
    let back = learn_undo(&site, learnt).context("cannot record the rollbacks")?;
    let calls: usize = back.values().map(Vec::len).sum();
    eprintln!("{calls} calls in rollbacks");
    let known = KnownAddresses::new(learnt, &back);
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
                record_failure(report, "worker", &error.to_string());
            }
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// A pair or a crowd.
struct Piece<'a> {
    seed: u64,
    number: usize,
    known: &'a KnownAddresses,
    report: &'a Mutex<Report>,
}

impl Piece<'_> {
    /// Runs it; the site is kept unless something failed.
    fn play(&self, site: &mut Option<Site>) {
        let mut rng = SeededRng::new(self.seed, &format!("piece {}", self.number));
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let here = match site.take() {
                Some(here) => here,
                None => Site::build()?,
            };
            if rng.below(CROWD_INTERVAL) == 0 {
                self.crowd(&here, &mut rng)?;
            } else {
                self.pairs(&here, &mut rng)?;
            }
            *site = Some(here);
            anyhow::Ok(())
        }));
        match worked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => record_failure(self.report, &self.name(), &format!("{error:#}")),
            Err(_) => record_failure(self.report, &self.name(), "it panicked"),
        }
    }

    /// As passed to `--piece`.
    fn name(&self) -> String {
        format!("piece {}", self.number)
    }

    /// One instance, with two faults in each of its operations.
    fn pairs(&self, site: &Site, rng: &mut SeededRng) -> Result<()> {
        let vnf = if rng.below(3) == 0 { Vnf::A } else { Vnf::B };
        let mut done = BTreeSet::new();
        let next = |act: Act| {
            let key = (vnf, act);
            if !done.insert(act) {
                return None;
            }
            let rng = &mut SeededRng::new(self.seed, &format!("{} {act}", self.name()));
            let way = *rng.pick(&Recovery::ALL);
            let back = way == Recovery::Rollback && rng.below(4) > 0;
            let [first, second] = self.known.pick_pair(key, back, rng)?;
            let mut plan = |address| Plan {
                address,
                fault: *rng.pick(&Fault::ALL),
            };
            let (first, second) = (Some(plan(first)), Some(plan(second)));
            Some(Case {
                first,
                second,
                way,
                order: Some(self.seed),
                ..Case::without_faults(act)
            })
        };
        run_lifecycle(site, vnf, next, |case, played| {
            if let (Ok(played), Some(first), Some(second)) = (&played, &case.first, &case.second) {
                let [one, other] = played.struck;
                self.record_calls(played.met.iter().flatten().map(ToString::to_string));
                self.trace(&format!(
                    "{} {first} {one}; {second} {other}; {:?}",
                    case.act, case.way
                ));
            }
            record_outcome(self.report, vnf, &self.name(), (case, played))
        })
    }

    /// Several instances at once.
    fn crowd(&self, site: &Site, rng: &mut SeededRng) -> Result<()> {
        let began = Instant::now();
        let seed = u64::try_from(rng.below(usize::MAX))?;
        let mut crowd = Crowd::create_members(site, seed)?;
        let outcome = crowd.play().and_then(|()| crowd.remove_all());
        for action in &crowd.actions {
            self.trace(action);
        }
        self.record_calls(crowd.met.drain(..));
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => {
                report.hold("crowd", began.elapsed());
                Ok(())
            }
            Err(error) => {
                report.fail(Failure {
                    operation: "crowd".to_owned(),
                    step: crowd.actions.join("; "),
                    fault: format!("by chance, {}", self.name()),
                    why: format!("{error:#}"),
                });
                bail!(SITE_ABANDONED)
            }
        }
    }

    /// Adds calls to the journal.
    fn record_calls(&self, calls: impl Iterator<Item = String>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report
            .journal
            .extend(calls.map(|call| format!("{}: {call}", self.name())));
    }

    /// Prints what happens, with `VNFM_FAULTS_TRACE`.
    fn trace(&self, action: &str) {
        if std::env::var_os("VNFM_FAULTS_TRACE").is_some() {
            eprintln!("{}: {action}", self.name());
        }
    }
}

/// Instances that run at once.
struct Crowd<'a> {
    site: &'a Site,
    process: Option<Process>,
    members: Vec<Member>,
    seed: u64,
    mark: check::Mark,
    actions: Vec<String>,
    met: Vec<String>,
}

/// An instance of a crowd.
#[derive(Debug, Clone)]
struct Member {
    name: &'static str,
    target: Target,
    /// Its cluster may have been healed since its record was written.
    moved: bool,
}

/// The instances of a crowd.
const MEMBERS: [(&str, Vnf); 4] = [
    ("a", Vnf::A),
    ("b1", Vnf::B),
    ("b2", Vnf::B),
    ("b3", Vnf::B),
];

impl<'a> Crowd<'a> {
    fn create_members(site: &'a Site, seed: u64) -> Result<Self> {
        let process = site.start()?;
        let created = MEMBERS.map(|(name, vnf)| {
            let target = create(&process, site.facts(), vnf)?;
            Ok(Member {
                name,
                target,
                moved: false,
            })
        });
        let members: Result<Vec<_>> = created.into_iter().collect();
        let mark = check::mark(site, &process)?;
        let (process, actions, met) = (Some(process), Vec::new(), Vec::new());
        Ok(Self {
            site,
            process,
            members: members?,
            seed,
            mark,
            actions,
            met,
        })
    }

    fn process(&mut self) -> Result<&Process> {
        if self.process.is_none() {
            self.process = Some(self.site.start()?);
        }
        self.process.as_ref().context("no process")
    }

    /// Runs the random rounds, then finishes and checks everything.
    fn play(&mut self) -> Result<()> {
        for round in 0..ROUNDS {
            self.disturb(round)?;
            self.round(round)?;
        }
        self.finish_and_check()
    }

    /// The generator for one subject, independent of all others.
    fn rng(&self, round: usize, matter: &str) -> SeededRng {
        SeededRng::new(self.seed, &format!("round {round} {matter}"))
    }

    /// Injects faults on the wire. Each counts calls of one instance, so the order of concurrent calls does not matter.
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
        let mut rng = self.rng(round, "the wire");
        for _ in 0..rng.below(3) {
            let Target { vnf, instance, .. } = &rng.pick(&self.members).target;
            let call = *rng.pick(if *vnf == Vnf::A {
                &ON_CLOUD[..]
            } else {
                &ON_CLUSTER
            });
            let (nth, fault) = (rng.below(20) + 1, rng.pick(&faults).clone());
            let mut rule = json!({"call": call, "nth": nth, "fault": fault});
            if *vnf == Vnf::B {
                rule["subject"] = json!(instance);
            }
            self.site.control().arm(&rule)?;
        }
        Ok(())
    }

    /// Begins and recovers operations, and drives them concurrently.
    fn round(&mut self, round: usize) -> Result<()> {
        let facts = self.site.facts();
        let mut members = self.members.clone();
        let rng: Vec<_> = members
            .iter()
            .map(|member| self.rng(round, member.name))
            .collect();
        let chance = Chance {
            seed: self.seed ^ round as u64,
            per_mille: STRUCK,
        };
        let process = self.process()?;
        let probe = ordered_probe(process, &members, (chance.seed, Some(chance)));
        let engine = process.engine()?;
        let (mut actions, mut fatal, mut moved) = (Vec::new(), None, false);
        let ran = process.run(async {
            for (member, mut rng) in members.iter_mut().zip(rng) {
                let instance = engine
                    .store()
                    .instance(TENANT, &member.target.instance)
                    .await?;
                if let Some(op) = &instance.active_op {
                    probe.own(op, &member.target.instance);
                    moved |= member.name == "a";
                }
                let action = advance(&engine, facts, member, &mut rng).await;
                match action {
                    Ok(action) => actions.push(action),
                    Err(error) if error.is::<DoubleAccept>() => fatal = Some(error),
                    Err(error) => actions.push(format!("{} {error:#}", member.name)),
                }
                moved |= actions.last().is_some_and(|action| action == HEAL_OF_A);
            }
            drive_all(&engine, &members).await
        })?;
        actions.extend(probe.random_faults());
        self.met.extend(
            probe
                .met()
                .iter()
                .map(|address| format!("round {round}: {address}")),
        );
        if let Some(fatal) = fatal {
            return Err(fatal);
        }
        // After an error the next process resumes, as after a crash.
        let is_well = matches!(ran, Ran::Through(Ok(())));
        for member in &mut members {
            member.moved |= moved;
        }
        self.members = members;
        self.actions
            .extend(actions.into_iter().filter(|action| !action.is_empty()));
        if !is_well {
            self.process = None;
            self.actions.push("the process ends".to_owned());
        }
        Ok(())
    }

    /// Without further faults everything must end and match its record.
    fn finish_and_check(&mut self) -> Result<()> {
        self.site.control().disarm()?;
        self.process = None;
        let (site, members, mark) = (self.site, self.members.clone(), self.mark);
        let facts = site.facts();
        let seed = self.seed;
        let process = self.process()?;
        let probe = ordered_probe(process, &members, (seed, None));
        let engine = process.engine()?;
        let instances = process.finish(async {
            let (mut instances, mut all, mut moved) = (Vec::new(), Vec::new(), false);
            for Member { name, target, .. } in &members {
                for record in check::operations(&engine, &target.instance).await? {
                    probe.own(&record.op.id, &target.instance);
                    moved |= *name == "a" && !record.op.operation_state.is_final();
                }
            }
            finish_all(&engine, &members).await?;
            heal_if_cluster_was_replaced(&engine, facts, &members).await?;
            for Member {
                target,
                moved: before,
                ..
            } in &members
            {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                let ops = check::operations(&engine, &target.instance).await?;
                check::check_no_open_operation(&instance, &ops)?;
                instances.push((target.vnf, instance, moved || *before));
                all.extend(ops);
            }
            let began = check::outbox(&engine, &all, mark).await?;
            let instances = instances.into_iter().map(|(vnf, instance, moved)| {
                let extent = match last_change(&instance, &all, &began) {
                    Some(Failed) => Extent::Part,
                    _ if moved => Extent::Moved,
                    _ => Extent::Exact,
                };
                (vnf, instance, extent)
            });
            let instances: Vec<_> = instances.collect();
            let (orphans, silent) = engine.orphans(TENANT).await?;
            ensure!(orphans.is_empty(), "I2: {orphans:?}");
            // A termination failed half-way leaves a VIM that no longer responds.
            let all_whole = instances
                .iter()
                .all(|(_, _, extent)| *extent != Extent::Part);
            ensure!(silent.is_empty() || !all_whole, "I5: {silent:?}");
            Ok(instances)
        })?;
        let expected = expected_resources(&instances);
        check::check_resources(&site.new_resources()?, &expected, process)?;
        let violations = site.control().page("violations")?;
        ensure!(violations.is_empty(), "violations: {violations:?}");
        Ok(())
    }

    /// Removes every instance: those on a cluster before the one that provides it.
    fn remove_all(&mut self) -> Result<()> {
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
        let left = site.new_resources()?;
        ensure!(left.is_empty(), "I2: left behind: {left:?}");
        self.process = None;
        check::check_database(&site.data())
    }
}

/// What must exist; VNF-B comes first, because its resources run on those of VNF-A.
fn expected_resources(instances: &[(Vnf, InstanceRecord, Extent)]) -> Vec<Expected<'_>> {
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
    expected
}

/// The final state of the last operation that created or removed resources; a modification does neither.
fn last_change(
    instance: &InstanceRecord,
    ops: &[OpRecord],
    began: &[String],
) -> Option<LcmOperationState> {
    let ops = ops.iter().map(|record| &record.op);
    let of_it = ops.filter(|op| op.vnf_instance_id == instance.vnf.id);
    let created = of_it.filter(|op| op.operation != LcmOperationType::ModifyInfo);
    let last = created.max_by_key(|op| began.iter().position(|id| *id == op.id));
    last.map(|op| op.operation_state)
}

/// If Heat fails at the internal network of VNF-A, it replaces the network and every node: the cluster is recreated
/// empty. An operator then heals the instances on it, which must restore them.
async fn heal_if_cluster_was_replaced(
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
            .any(replaced_control_plane)
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

fn replaced_control_plane(record: &OpRecord) -> bool {
    let changes = record
        .op
        .resource_changes
        .iter()
        .flat_map(|changes| &changes.affected_vnfcs);
    let is_heal = record.op.operation == LcmOperationType::Heal;
    is_heal && changes.into_iter().any(|vnfc| vnfc.vdu_id == "masterNode")
}

/// A probe that distinguishes the members, and orders their calls by the seed.
fn ordered_probe(process: &Process, members: &[Member], by: (u64, Option<Chance>)) -> Probe {
    let names = members
        .iter()
        .map(|one| (one.target.instance.clone(), one.name.to_owned()));
    let probe = process.probe().clone();
    probe.watch(names.collect(), by.1);
    probe.serialize_calls(by.0);
    probe.own(WITH_HOSTS, &members[0].target.instance);
    probe
}

/// Drives open operations as [`Engine::resume_all`] does, but in the order of the instances: `resume_all` orders by id,
/// which is random.
async fn drive_all(engine: &Engine, members: &[Member]) -> Result<(), StoreError> {
    let mut driven = Vec::new();
    for Member { target, .. } in members {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        driven.extend(instance.active_op);
    }
    let driven = driven.iter().map(|op| engine.drive(op));
    futures::future::try_join_all(driven).await.map(drop)
}

/// Finishes every open operation.
async fn finish_all(engine: &Engine, members: &[Member]) -> Result<()> {
    for round in 0..ROUNDS {
        engine.resume_all().await?;
        for Member { target, .. } in members {
            for record in check::operations(engine, &target.instance).await? {
                if record.op.operation_state == FailedTemp {
                    recover_late(engine, round, &record).await?;
                }
            }
        }
    }
    Ok(())
}

/// Recovers a stopped operation as an operator would: retry, then roll back, then fail.
async fn recover_late(engine: &Engine, round: usize, record: &OpRecord) -> Result<()> {
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
            rolled_back => return Ok(rolled_back?),
        }
    }
    Ok(engine.fail(TENANT, op).await?)
}

/// Two concurrent operations of one instance were accepted.
#[derive(Debug, thiserror::Error)]
#[error("I8: `{0}` and `{1}` were accepted for one instance")]
struct DoubleAccept(String, String);

/// The trace of a heal of VNF-A.
const HEAL_OF_A: &str = "a HEAL one VNFC";

/// Chooses and begins the next action of an instance; its trace.
async fn advance(
    engine: &Engine,
    facts: &Facts,
    Member {
        name,
        target,
        moved,
    }: &mut Member,
    rng: &mut SeededRng,
) -> Result<String> {
    let instance = engine.store().instance(TENANT, &target.instance).await?;
    let (is_idle, way) = (rng.below(3) == 0, *rng.pick(&Recovery::ALL));
    if let Some(op) = &instance.active_op {
        let state = engine.store().op(TENANT, op).await?.op.operation_state;
        if state != FailedTemp {
            return Ok(String::new());
        }
        let taken = match way {
            Recovery::Retry => engine.retry(TENANT, op).await,
            Recovery::Rollback => engine.rollback(TENANT, op).await,
            Recovery::FailAndTerminate => engine.fail(TENANT, op).await,
        };
        return match taken {
            Err(refusal) if refusal.why == Why::Conflict => Ok(format!("{name} {way:?} refused")),
            taken => Ok(taken.map(|()| format!("{name} {way:?}"))?),
        };
    }
    if is_idle {
        return Ok(String::new());
    }
    let act = next_act(target.vnf, check::is_instantiated(&instance), rng);
    if act.kind == LcmOperationType::Instantiate && target.vnf == Vnf::B {
        target.vim = pick_cluster(engine, facts, rng).await?;
        *moved = false;
    }
    match begin(engine, facts, target, act).await {
        Ok(first) => match begin(engine, facts, target, act).await {
            Ok(second) => Err(DoubleAccept(first, second).into()),
            Err(_) => Ok(format!("{name} {act}")),
        },
        // An instance runs on it, or it is being deleted.
        Err(refusal) if matches!(refusal.why, Why::Conflict | Why::Unprocessable) => {
            Ok(format!("{name} {act} refused"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// A random operation that the instance may accept while others run on it.
fn next_act(vnf: Vnf, is_there: bool, rng: &mut SeededRng) -> Act {
    let acts = vnf.acts();
    if !is_there {
        return acts[0];
    }
    // VNF-A refuses to heal completely while instances run on its cluster.
    let fits = |act: &&Act| vnf == Vnf::B || act.one || act.kind != LcmOperationType::Heal;
    let later: Vec<_> = acts[1..].iter().filter(fits).copied().collect();
    *rng.pick(&later)
}

/// A cluster for VNF-B: the standalone one, or one that VNF-A has created.
async fn pick_cluster(
    engine: &Engine,
    facts: &Facts,
    rng: &mut SeededRng,
) -> Result<String, StoreError> {
    let vims = engine.store().vims(TENANT).await?;
    let created = vims
        .into_iter()
        .find(|record| record.vim.registered_by.is_some());
    Ok(match created {
        Some(record) if rng.below(3) > 0 => record.vim.id,
        _ => facts.cluster.clone(),
    })
}
