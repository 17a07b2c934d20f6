//! Every single fault: each operation runs once to record its calls, then once for each call and each fault.
//!
//! A case ends in a state in which the next can begin, so one instance plays a case of each operation from instantiate
//! to terminate, and no case needs a setup of its own.

use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vnfm_types::LcmOperationType;

use crate::case::{Case, Outcome, play};
use crate::check;
use crate::plan::{Address, Death, Fault, Plan, Recovery, SeededRng};
use crate::report::{Failure, Report};
use crate::site::{Site, create, delete, grant_zone, host, is_instantiated, prepare};
use crate::vnf::{Act, Vnf};

/// Which of the cases to run.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// Seed of all random choices.
    pub(crate) seed: u64,
    pub(crate) operation: Option<LcmOperationType>,
    /// Only cases whose fault contains this text.
    pub(crate) only: Option<String>,
    /// An earlier version begins operations and is killed; this one resumes them.
    pub(crate) upgrade: bool,
    /// Kill every process with SIGKILL, not only a tenth.
    pub(crate) all: bool,
    /// One of this many cases is run.
    pub(crate) share: usize,
    /// Number of sites that run in parallel.
    pub(crate) workers: usize,
    /// Only this piece of the random faults.
    pub(crate) piece: Option<usize>,
}

/// A package and a requested operation.
pub(crate) type Key = (Vnf, Act);

/// The calls of each operation of each package.
pub(crate) type Learnt = BTreeMap<Key, Vec<Address>>;

struct Queue(Mutex<BTreeMap<Key, VecDeque<Case>>>);

impl Queue {
    fn cases(&self) -> MutexGuard<'_, BTreeMap<Key, VecDeque<Case>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, vnf: Vnf, act: Act) -> Option<Case> {
        self.cases().get_mut(&(vnf, act))?.pop_front()
    }

    fn left(&self, vnf: Vnf) -> usize {
        let cases = self.cases();
        cases
            .iter()
            .filter(|(key, _)| key.0 == vnf)
            .map(|(_, cases)| cases.len())
            .sum()
    }
}

/// Runs every case that was chosen.
pub(crate) fn run(choice: &Choice, site: Site, learnt: &Learnt) -> Report {
    let began = Instant::now();
    let queue = Queue(Mutex::new(cases(choice, learnt)));
    for (key, cases) in queue.cases().iter() {
        let calls = learnt.get(key).map_or(0, Vec::len);
        eprintln!("{}: {calls} calls, {} cases", describe(*key), cases.len());
    }
    let report = Mutex::new(Report::new(choice.seed));
    std::thread::scope(|scope| {
        let mut site = Some(site);
        for number in 0..choice.workers {
            let (queue, report, site) = (&queue, &report, site.take());
            let named = std::thread::Builder::new().name(format!("worker {number}"));
            let work = move || work(number, site, queue, report);
            if let Err(error) = named.spawn_scoped(scope, work) {
                record_failure(report, "worker", &error.to_string());
            }
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// Runs each operation of each package once and records its calls.
pub(crate) fn learn() -> Result<(Site, Learnt)> {
    let site = Site::build()?;
    let mut idle = Some(site.start()?);
    let mut learnt = BTreeMap::new();
    for vnf in Vnf::ALL {
        let process = idle.take().context("no process")?;
        let mut target = create(&process, site.facts(), vnf)?;
        idle = Some(process);
        for act in vnf.acts() {
            let process = idle.as_ref().context("no process")?;
            host(process, site.facts(), &mut target, act.carries)?;
            prepare(process, site.facts(), &target, act)?;
            let key = (vnf, act);
            let in_order = Case {
                order: Some(0),
                ..Case::without_faults(act)
            };
            let played = play(&site, &mut idle, &target, &in_order);
            let played = played.with_context(|| format!("{} without any fault", describe(key)))?;
            let [met, _] = played.met;
            learnt.insert(key, met);
        }
        delete(idle.as_ref().context("no process")?, &target)?;
    }
    drop(idle);
    Ok((site, learnt))
}

/// An operation as reports name it.
fn describe((vnf, act): Key) -> String {
    let on_it = if act.carries { " with VNF-B on it" } else { "" };
    format!("{act} of {vnf:?}{on_it}")
}

/// The cases for all addresses.
fn cases(choice: &Choice, learnt: &Learnt) -> BTreeMap<Key, VecDeque<Case>> {
    let mut all: BTreeMap<Key, VecDeque<Case>> = BTreeMap::new();
    for (key, addresses) in learnt {
        let (vnf, act) = *key;
        if choice.operation.is_some_and(|only| only != act.kind) {
            continue;
        }
        // An earlier version does not have them.
        if choice.upgrade && matches!(vnf, Vnf::C | Vnf::D | Vnf::E | Vnf::F) {
            continue;
        }
        for address in addresses {
            for fault in Fault::ALL {
                // An earlier version can only be killed.
                if choice.upgrade && !fault.ends_the_drive() {
                    continue;
                }
                let plan = Plan {
                    address: address.clone(),
                    fault,
                };
                let text = plan.to_string();
                if choice
                    .only
                    .as_ref()
                    .is_some_and(|only| !text.contains(only.as_str()))
                {
                    continue;
                }
                let mut rng = SeededRng::new(choice.seed, &format!("{vnf:?} {act} {text}"));
                let way = *rng.pick(&Recovery::ALL);
                let signal = choice.all || choice.upgrade || rng.below(10) == 0;
                let death = if signal {
                    Death::Signal
                } else {
                    Death::Dropped
                };
                if rng.below(choice.share) == 0 {
                    let case = Case {
                        act,
                        first: Some(plan),
                        second: None,
                        way,
                        death,
                        order: None,
                    };
                    all.entry(key.to_owned()).or_default().push_back(case);
                }
            }
        }
    }
    all
}

/// One worker: plays cases at its own site until none remain.
fn work(number: usize, mut site: Option<Site>, queue: &Queue, report: &Mutex<Report>) {
    loop {
        let most = Vnf::ALL.into_iter().max_by_key(|vnf| queue.left(*vnf));
        let Some(vnf) = most.filter(|vnf| queue.left(*vnf) > 0) else {
            return;
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            let here = match site.take() {
                Some(here) => here,
                None => Site::build()?,
            };
            let next = |act| queue.next(vnf, act);
            run_lifecycle(&here, vnf, next, |case, played| {
                record_outcome(report, vnf, "", (case, played))
            })?;
            site = Some(here);
            anyhow::Ok(())
        }));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                record_failure(report, &format!("worker {number}"), &format!("{error:#}"));
            }
            Err(_) => record_failure(report, &format!("worker {number}"), "it panicked"),
        }
    }
}

/// Records a failure outside of any case.
pub(crate) fn record_failure(report: &Mutex<Report>, source: &str, why: &str) {
    if why == SITE_ABANDONED {
        return;
    }
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    report.fail(Failure {
        operation: "site".to_owned(),
        step: source.to_owned(),
        fault: String::new(),
        why: why.to_owned(),
    });
}

/// A failed case has been recorded, and its site cannot be used further.
pub(crate) const SITE_ABANDONED: &str = "the site is abandoned";

/// Runs one instance from creation to deletion, with the cases that `next` returns for each operation.
pub(crate) fn run_lifecycle(
    site: &Site,
    vnf: Vnf,
    mut next: impl FnMut(Act) -> Option<Case>,
    mut record_outcome: impl FnMut(&Case, Result<Outcome>) -> Result<()>,
) -> Result<()> {
    let process = site.start()?;
    let mut target = create(&process, site.facts(), vnf)?;
    let mut idle = Some(process);
    let acts = vnf.acts();
    let (first, last) = (acts[0], acts[acts.len() - 1]);
    let mut is_there = false;
    loop {
        let (case, otherwise) = if is_there {
            (acts[1..].iter().copied().find_map(&mut next), last)
        } else {
            (next(first), first)
        };
        let case = case.unwrap_or_else(|| Case::without_faults(otherwise));
        let process = idle.as_ref().context("no process")?;
        host(process, site.facts(), &mut target, case.act.carries)?;
        prepare(process, site.facts(), &target, case.act)?;
        let played = catch_unwind(AssertUnwindSafe(|| play(site, &mut idle, &target, &case)));
        record_outcome(
            &case,
            played.unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))),
        )?;
        is_there = is_instantiated(idle.as_ref().context("no process")?, &target)?;
        if !is_there {
            break;
        }
    }
    let process = idle.context("no process")?;
    grant_zone(&process, None)?;
    host(&process, site.facts(), &mut target, false)?;
    delete(&process, &target)?;
    drop(process);
    check::check_database(&site.data())
}

/// Adds the outcome of a case to the report.
pub(crate) fn record_outcome(
    report: &Mutex<Report>,
    vnf: Vnf,
    piece: &str,
    (case, played): (&Case, Result<Outcome>),
) -> Result<()> {
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    match (played, &case.first) {
        (Ok(played), Some(plan)) if !played.struck[0] => {
            report.miss(&format!("{}: {plan}", describe((vnf, case.act))));
        }
        (Ok(played), Some(plan)) => report.hold(&format!("{:?}", plan.fault), played.took),
        (Ok(_), None) => {}
        (Err(error), first) => {
            let plans = [first, &case.second].into_iter().flatten();
            let mut parts: Vec<_> = plans.map(ToString::to_string).collect();
            parts.extend([format!("{:?}", case.way), format!("{:?}", case.death)]);
            parts.extend(Some(piece.to_owned()).filter(|piece| !piece.is_empty()));
            let step = first
                .as_ref()
                .map(|plan| plan.address.step.clone())
                .unwrap_or_default();
            report.fail(Failure {
                operation: describe((vnf, case.act)),
                step,
                fault: parts.join(", "),
                why: format!("{error:#}"),
            });
            anyhow::bail!(SITE_ABANDONED);
        }
    }
    Ok(())
}
