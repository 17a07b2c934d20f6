//! Faults in pairs, and random faults while several instances run at once ([`crate::crowd`]).
//!
//! A pair: the second fault strikes while the first one is recovered, in a retry or in a rollback. A piece of this work
//! depends only on the seed and its number, and can be repeated with them.

use crate::case::Case;
use crate::crowd::Crowd;
use crate::exhaustive::{
    Choice, Key, Learnt, SITE_ABANDONED, record_failure, record_outcome, run_lifecycle,
};
use crate::plan::{Address, Fault, Plan, Recovery, SeededRng};
use crate::report::{Failure, Report};
use crate::site::Site;
use crate::vnf::{Act, Vnf};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One of this many pieces is a crowd; the others are pairs.
const CROWD_INTERVAL: usize = 4;

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

    /// Name of the piece, as passed to `--piece`.
    fn name(&self) -> String {
        format!("piece {}", self.number)
    }

    /// One instance, with two faults in each of its operations.
    fn pairs(&self, site: &Site, rng: &mut SeededRng) -> Result<()> {
        let vnf = Vnf::ALL[rng.below(Vnf::ALL.len())];
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

    /// Several instances whose operations overlap.
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
