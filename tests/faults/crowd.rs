//! A crowd: VNF-A and several VNF-Bs, on its cluster and elsewhere, with random operations, failing calls, crashes and
//! recoveries; then everything is finished, checked and removed.

use crate::check::{self, without_retained};
use crate::plan::{Recovery, SeededRng};
use crate::ports::WITH_HOSTS;
use crate::probe::{Chance, Probe};
use crate::process::{Process, Ran};
use crate::resources::{Expected, Extent, check_resources};
use crate::site::{Site, create, delete};
use crate::vnf::{Act, Facts, TENANT, Target, Vnf, begin};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use vnfm_core::Engine;
use vnfm_core::Why;
use vnfm_core::ports::{InstanceRecord, OpRecord, StoreError};
use vnfm_types::LcmOperationState::{self, Completed, Failed, FailedTemp};
use vnfm_types::LcmOperationType;

/// Random rounds of a crowd.
const ROUNDS: usize = 6;
/// Struck calls per thousand in a crowd.
const STRUCK: usize = 12;

/// Instances that run at once.
pub(crate) struct Crowd<'a> {
    site: &'a Site,
    process: Option<Process>,
    members: Vec<Member>,
    seed: u64,
    mark: check::Mark,
    pub(crate) actions: Vec<String>,
    pub(crate) met: Vec<String>,
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
    pub(crate) fn create_members(site: &'a Site, seed: u64) -> Result<Self> {
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
    pub(crate) fn play(&mut self) -> Result<()> {
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
        let found = without_retained(process, site.new_resources()?)?;
        check_resources(&found, &expected, process)?;
        let violations = site.control().page("violations")?;
        ensure!(violations.is_empty(), "violations: {violations:?}");
        Ok(())
    }

    /// Removes every instance: those on a cluster before the one that provides it.
    pub(crate) fn remove_all(&mut self) -> Result<()> {
        let (site, members) = (self.site, self.members.clone());
        let process = self.process()?;
        for Member { target, .. } in members.iter().rev() {
            let engine = process.engine()?;
            process.finish(async {
                let instance = engine.store().instance(TENANT, &target.instance).await?;
                if check::is_instantiated(&instance) {
                    let act = Act::complete_vnf(LcmOperationType::Terminate);
                    let op = begin(&engine, site.facts(), target, act).await?;
                    engine.drive(&op).await?;
                    let end = engine.store().op(TENANT, &op).await?.op;
                    ensure!(end.operation_state == Completed, "I7: {:?}", end.error);
                }
                Ok(())
            })?;
            delete(process, target)?;
        }
        let process = self.process()?;
        let left = without_retained(process, site.new_resources()?)?;
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

/// The final state of the last operation that created or removed resources; a modification does neither. Of an instantiation that
/// was failed parts are missing, which no operation but a heal creates.
fn last_change(
    instance: &InstanceRecord,
    ops: &[OpRecord],
    began: &[String],
) -> Option<LcmOperationState> {
    let ops = ops.iter().map(|record| &record.op);
    let changes = ops.filter(|op| {
        op.vnf_instance_id == instance.vnf.id && op.operation != LcmOperationType::ModifyInfo
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|op| began.iter().position(|id| *id == op.id));
    let mut last = None;
    for op in changes {
        let completes = matches!(
            op.operation,
            LcmOperationType::Instantiate | LcmOperationType::Heal | LcmOperationType::Terminate
        );
        if last != Some(Failed) || completes {
            last = Some(op.operation_state);
        }
    }
    last
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
        let op = begin(
            engine,
            facts,
            target,
            Act::complete_vnf(LcmOperationType::Heal),
        )
        .await?;
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

/// Drives open operations as [`Engine::resume_all`] does, but in the order of the instances: `resume_all` orders
/// by id, which is random.
async fn drive_all(engine: &Engine, members: &[Member]) -> Result<(), StoreError> {
    let mut driven = Vec::new();
    for Member { target, .. } in members {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        driven.extend(instance.active_op);
    }
    let driven = driven.iter().map(|op| engine.drive(op));
    futures::future::try_join_all(driven).await.map(drop)
}

/// Drives every open operation to its end.
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
    // VNF-A refuses to heal completely while instances run on its cluster, and must not be stopped under them.
    let concerns_all =
        |act: &Act| matches!(act.kind, LcmOperationType::Heal | LcmOperationType::Operate);
    let fits = |act: &&Act| vnf == Vnf::B || act.one || !concerns_all(act);
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
