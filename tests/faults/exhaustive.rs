//! Every single fault: each operation runs once to learn its calls, then once more for each call and each fault.
//!
//! A case ends where the next can begin, so one instance lives through a case of each operation, from instantiate
//! to terminate; what another case needs as its beginning costs nothing.

use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vnfm_core::lcm::OPERATIONS;
use vnfm_types::LcmOperationType;

use crate::case::{Case, Played, play};
use crate::check;
use crate::plan::{Address, Death, Dice, Fault, Plan, Way};
use crate::process::Process;
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete};
use crate::vnf::{TENANT, Target, Vnf};

/// What is to be run.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// What decides where something is left to chance.
    pub(crate) seed: u64,
    /// Only this operation.
    pub(crate) operation: Option<LcmOperationType>,
    /// Only cases whose fault holds this text.
    pub(crate) only: Option<String>,
    /// Every death by SIGKILL, and not a tenth of them.
    pub(crate) all: bool,
    /// Of so many cases one is run.
    pub(crate) share: usize,
    /// How many sites work side by side.
    pub(crate) workers: usize,
}

/// The kinds of operation, as an instance lives through them.
pub(crate) fn kinds() -> Vec<LcmOperationType> {
    let all = OPERATIONS.iter().map(|operation| operation.kind);
    let between = |kind: &LcmOperationType| {
        !matches!(kind, LcmOperationType::Instantiate | LcmOperationType::Terminate)
    };
    let mut kinds = vec![LcmOperationType::Instantiate];
    kinds.extend(all.filter(between));
    kinds.push(LcmOperationType::Terminate);
    kinds
}

/// A package, and a kind by its place in [`kinds`].
pub(crate) type Key = (Vnf, usize);

/// What each operation of each package met.
pub(crate) type Learnt = BTreeMap<Key, Vec<Address>>;

/// What is left to do.
struct Queue(Mutex<BTreeMap<Key, VecDeque<Case>>>);

impl Queue {
    fn cases(&self) -> MutexGuard<'_, BTreeMap<Key, VecDeque<Case>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, vnf: Vnf, kind: usize) -> Option<Case> {
        self.cases().get_mut(&(vnf, kind))?.pop_front()
    }

    fn left(&self, vnf: Vnf) -> usize {
        let cases = self.cases();
        cases.iter().filter(|(key, _)| key.0 == vnf).map(|(_, cases)| cases.len()).sum()
    }
}

/// Runs all of it.
pub(crate) fn run(choice: &Choice, site: Site, learnt: &Learnt) -> Report {
    let began = Instant::now();
    let queue = Queue(Mutex::new(cases(choice, learnt)));
    for ((vnf, kind), cases) in queue.cases().iter() {
        let calls = learnt.get(&(*vnf, *kind)).map_or(0, Vec::len);
        eprintln!("{} of {vnf:?}: {calls} calls, {} cases", kinds()[*kind], cases.len());
    }
    let report = Mutex::new(Report::new(choice.seed));
    std::thread::scope(|scope| {
        let mut site = Some(site);
        for number in 0..choice.workers {
            let (queue, report, site) = (&queue, &report, site.take());
            scope.spawn(move || work(number, site, queue, report));
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// Runs each operation of each package once; what each meets.
pub(crate) fn learn() -> Result<(Site, Learnt)> {
    let site = Site::build()?;
    let mut calm = Some(site.start()?);
    let mut learnt = BTreeMap::new();
    for vnf in Vnf::ALL {
        let process = calm.take().context("no process")?;
        let target = create(&process, site.facts(), vnf)?;
        calm = Some(process);
        for (index, kind) in kinds().into_iter().enumerate() {
            let played = play(&site, &mut calm, &target, &Case::calm(kind));
            if let Err(error) = &played
                && error.to_string().contains(NOT_YET)
            {
                eprintln!("{kind} of {vnf:?}: {error}");
                calm = Some(give_up(site.start()?, &target)?);
                continue;
            }
            let played = played.with_context(|| format!("{kind} of {vnf:?} without any fault"))?;
            let [met, _] = played.met;
            learnt.insert((vnf, index), met);
        }
        delete(calm.as_ref().context("no process")?, &target)?;
    }
    drop(calm);
    Ok((site, learnt))
}

/// What a driver says that does not know the task.
const NOT_YET: &str = "its driver cannot";

/// Fails what has stopped.
fn give_up(process: Process, target: &Target) -> Result<Process> {
    let engine = process.engine()?;
    process.finish(async {
        for record in check::operations(&engine, &target.instance).await? {
            if !record.op.operation_state.is_final() {
                engine.fail(TENANT, &record.op.id).await?;
            }
        }
        Ok(())
    })?;
    Ok(process)
}

/// The cases of all addresses.
fn cases(choice: &Choice, learnt: &Learnt) -> BTreeMap<Key, VecDeque<Case>> {
    let mut all: BTreeMap<Key, VecDeque<Case>> = BTreeMap::new();
    for (key, addresses) in learnt {
        let kind = kinds()[key.1];
        if choice.operation.is_some_and(|only| only != kind) {
            continue;
        }
        for address in addresses {
            for fault in Fault::ALL {
                let plan = Plan { address: address.clone(), fault };
                let text = plan.to_string();
                if choice.only.as_ref().is_some_and(|only| !text.contains(only.as_str())) {
                    continue;
                }
                let mut dice = Dice::new(choice.seed, &format!("{:?} {kind} {text}", key.0));
                let way = *dice.one(&Way::ALL);
                let signal = choice.all || dice.below(10) == 0;
                let death = if signal { Death::Signal } else { Death::Dropped };
                if dice.below(choice.share) == 0 {
                    let case = Case { kind, first: Some(plan), second: None, way, death };
                    all.entry(key.to_owned()).or_default().push_back(case);
                }
            }
        }
    }
    all
}

/// One worker: instances live at its site until nothing is left to do.
fn work(number: usize, mut site: Option<Site>, queue: &Queue, report: &Mutex<Report>) {
    loop {
        let most = Vnf::ALL.into_iter().max_by_key(|vnf| queue.left(*vnf));
        let Some(vnf) = most.filter(|vnf| queue.left(*vnf) > 0) else { return };
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let here = match site.take() {
                Some(here) => here,
                None => Site::build()?,
            };
            let next = |kind| queue.next(vnf, kind);
            live(&here, vnf, next, |case, played| hear(report, vnf, case, played))?;
            site = Some(here);
            anyhow::Ok(())
        }));
        match lived {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tell(report, number, &format!("{error:#}")),
            Err(_) => tell(report, number, "it panicked"),
        }
    }
}

/// A failure outside of any case.
pub(crate) fn tell(report: &Mutex<Report>, number: usize, why: &str) {
    if why == GIVEN_UP {
        return;
    }
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    report.fail(Failure {
        operation: "site".to_owned(),
        step: format!("worker {number}"),
        fault: String::new(),
        why: why.to_owned(),
    });
}

/// A case failed, and was told: its site is given up.
pub(crate) const GIVEN_UP: &str = "the site is given up";

/// One instance, from its creation to its end, with the cases that `next` has for a kind of operation.
pub(crate) fn live(
    site: &Site,
    vnf: Vnf,
    mut next: impl FnMut(usize) -> Option<Case>,
    mut hear: impl FnMut(&Case, Result<Played>) -> Result<()>,
) -> Result<()> {
    let process = site.start()?;
    let target = create(&process, site.facts(), vnf)?;
    let mut calm = Some(process);
    let kinds = kinds();
    let last = kinds.len() - 1;
    let mut is_there = false;
    loop {
        let (case, otherwise) = if is_there {
            ((1..=last).find_map(&mut next), kinds[last])
        } else {
            (next(0), kinds[0])
        };
        let case = case.unwrap_or_else(|| Case::calm(otherwise));
        let played = catch_unwind(AssertUnwindSafe(|| play(site, &mut calm, &target, &case)));
        hear(&case, played.unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))))?;
        is_there = instantiated(calm.as_ref().context("no process")?, &target)?;
        if !is_there {
            break;
        }
    }
    let process = calm.context("no process")?;
    delete(&process, &target)?;
    drop(process);
    check::pages(&site.data())
}

fn instantiated(process: &Process, target: &Target) -> Result<bool> {
    let engine = process.engine()?;
    process.finish(async {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        Ok(check::is_instantiated(&instance))
    })
}

pub(crate) fn hear(
    report: &Mutex<Report>,
    vnf: Vnf,
    case: &Case,
    played: Result<Played>,
) -> Result<()> {
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    match (played, &case.first) {
        (Ok(played), Some(plan)) if !played.struck[0] => {
            report.miss(&format!("{} of {vnf:?}: {plan}", case.kind));
        }
        (Ok(_), Some(_)) => report.hold(),
        (Ok(_), None) => {}
        (Err(error), first) => {
            let fault = first.as_ref().map(ToString::to_string).unwrap_or_default();
            let step = first.as_ref().map(|plan| plan.address.step.clone()).unwrap_or_default();
            report.fail(Failure {
                operation: format!("{} of {vnf:?}", case.kind),
                step,
                fault: format!("{fault}, {:?}, {:?}", case.way, case.death),
                why: format!("{error:#}"),
            });
            anyhow::bail!(GIVEN_UP);
        }
    }
    Ok(())
}
