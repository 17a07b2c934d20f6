//! Every call of a process to its neighbours comes by here: it is counted, and one of them is struck.
//!
//! Calls on the store, on hosts and on hooks are met in front of the port ([`crate::ports`]). Those that the drivers
//! send are counted by the simulated world, which plays their faults as well: the probe tells it so when the step
//! begins, because an address counts within its step.

use jiff::SignedDuration;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::Clock as _;

use crate::call_queue::CallQueue;
use crate::clock::JumpingClock;
use crate::plan::{Address, Fault, Plan, SeededRng};
use crate::ports::WITH_HOSTS;
use crate::world::Control;

/// Counts and strikes; clones are the same.
#[derive(Clone)]
pub(crate) struct Probe {
    inner: Arc<Mutex<Inner>>,
    fired: Arc<Notify>,
    clock: JumpingClock,
    control: Control,
}

/// Faults that come by chance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    /// What it depends on beside the address.
    pub(crate) seed: u64,
    /// How many of a thousand calls are struck.
    pub(crate) per_mille: usize,
}

#[derive(Default)]
struct Inner {
    instance: String,
    /// Where several instances work at once: what each is called.
    names: HashMap<String, String>,
    /// Whose an operation is, of those.
    owners: HashMap<String, String>,
    /// Where each is; without a name where there is one.
    steps: HashMap<String, String>,
    last: String,
    counts: HashMap<(String, String), u32>,
    met: Vec<Address>,
    plan: Option<Plan>,
    chance: Option<Chance>,
    random_fault: Vec<String>,
    learning: bool,
    calls_seen: usize,
    armed: bool,
    struck: bool,
    /// Calls in flight on what is ours, and on hosts.
    in_flight: [usize; 2],
    hosts: HashMap<String, String>,
    line: Option<CallQueue>,
    error: Option<String>,
}

impl Inner {
    fn new() -> Self {
        Self {
            last: BEFORE_FIRST_STEP.to_owned(),
            ..Self::default()
        }
    }
}

/// Where an operation is before its first step.
const BEFORE_FIRST_STEP: &str = "accept";

impl Inner {
    /// The name of an instance, or of that of an operation; empty where there is one.
    fn instance_name(&self, of: &str) -> String {
        self.owners
            .get(of)
            .or_else(|| self.names.get(of))
            .cloned()
            .unwrap_or_default()
    }

    /// The step of the address of what one of them does.
    fn step_name(&self, of: &str) -> String {
        let instance_name = self.instance_name(of);
        let step = self
            .steps
            .get(&instance_name)
            .map_or(BEFORE_FIRST_STEP, String::as_str);
        if instance_name.is_empty() {
            step.to_owned()
        } else {
            format!("{instance_name}: {step}")
        }
    }
}

/// A call in flight, until it is dropped; on what it is says which count it is in.
pub(crate) struct InFlight(Probe, usize);

impl Drop for InFlight {
    fn drop(&mut self) {
        let count = &mut self.0.inner().in_flight[self.1];
        *count = count.saturating_sub(1);
    }
}

impl Probe {
    /// A probe that lets everything pass.
    pub(crate) fn new(clock: JumpingClock, control: Control) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner::new())),
            fired: Arc::default(),
            clock,
            control,
        }
    }

    /// From now on it counts for this instance, and strikes as `plan` says.
    pub(crate) fn begin(&self, instance: &str, plan: Option<Plan>) {
        let instance = instance.to_owned();
        *self.inner() = Inner {
            instance,
            plan,
            ..Inner::new()
        };
    }

    /// From now on it counts for each of these instances, by id and name, and strikes by chance.
    pub(crate) fn watch(&self, names: HashMap<String, String>, chance: Option<Chance>) {
        *self.inner() = Inner {
            names,
            chance,
            ..Inner::new()
        };
    }

    /// From now on those who call go on one after the other, in an order that depends on `seed` and their calls alone.
    pub(crate) fn serialize_calls(&self, seed: u64) {
        self.inner().line = Some(CallQueue::new(seed));
    }

    /// Whether they do.
    pub(crate) fn is_serialized(&self) -> bool {
        self.inner().line.is_some()
    }

    /// Whether somebody waits for their turn.
    pub(crate) fn has_waiting(&self) -> bool {
        self.inner()
            .line
            .as_mut()
            .is_some_and(CallQueue::has_waiting)
    }

    /// Lets one of those who wait go on; whether there was one.
    pub(crate) fn release_next(&self) -> bool {
        self.inner()
            .line
            .as_mut()
            .is_some_and(CallQueue::release_next)
    }

    /// Waits until it is the turn of a call, where they go one after the other.
    async fn wait_turn(&self, of: &str, call: &str) {
        let wait_turn = {
            let mut inner = self.inner();
            let step_name = format!("{} {call}", inner.step_name(of));
            inner.line.as_mut().map(|line| line.enqueue(step_name))
        };
        if let Some(wait_turn) = wait_turn {
            // The line is gone only with the process that stands in it.
            let _ = wait_turn.await;
        }
    }

    /// An operation of an instance is there.
    pub(crate) fn own(&self, op: &str, instance: &str) {
        let mut inner = self.inner();
        if let Some(name) = inner.names.get(instance).cloned() {
            inner.owners.insert(op.to_owned(), name);
        }
    }

    /// From now on it writes down what it meets, the calls on the wire too.
    pub(crate) fn learn(&self) -> anyhow::Result<()> {
        let seen = self.control.calls_until_now()?;
        let mut inner = self.inner();
        (inner.learning, inner.calls_seen) = (true, seen);
        Ok(())
    }

    /// What it has met.
    pub(crate) fn met(&self) -> Vec<Address> {
        self.collect_wire();
        self.inner().met.clone()
    }

    /// What it has struck by chance.
    pub(crate) fn random_faults(&self) -> Vec<String> {
        self.inner().random_fault.clone()
    }

    /// Whether the plan was carried out.
    pub(crate) fn has_struck(&self) -> bool {
        self.inner().struck
    }

    /// Whether somebody waits for an answer that the simulated world was told not to give.
    pub(crate) fn waits_for_silent_call(&self) -> bool {
        let inner = self.inner();
        let silent = |plan: &Plan| plan.fault == Fault::NoAnswer;
        inner.armed && inner.struck && inner.plan.as_ref().is_some_and(silent)
    }

    /// What went wrong with the probe itself.
    pub(crate) fn error(&self) -> Option<String> {
        self.inner().error.clone()
    }

    /// How many calls are in flight on what is ours, and how many on hosts.
    pub(crate) fn in_flight(&self) -> [usize; 2] {
        self.inner().in_flight
    }

    /// Where the operation is.
    pub(crate) fn step(&self) -> String {
        self.inner().last.clone()
    }

    /// A step of an operation begins.
    pub(crate) fn enter(&self, op: &str, step: &str) {
        self.collect_wire();
        let mut inner = self.inner();
        let instance_name = inner.instance_name(op);
        inner.steps.insert(instance_name, step.to_owned());
        step.clone_into(&mut inner.last);
        let due = inner
            .plan
            .as_ref()
            .filter(|plan| plan.address.is_on_the_wire() && plan.address.step == step)
            .filter(|_| !inner.armed)
            .cloned();
        if let Some(plan) = due {
            inner.armed = true;
            if let Err(error) = self.control.arm_plan(&plan, &inner.instance) {
                inner.error = Some(format!("{error:#}"));
            }
        }
    }

    /// Looks whether the simulated world has carried the plan out; then whoever drives the operation may have to end.
    /// Whether it has, since the last look.
    pub(crate) fn poll_wire(&self) -> bool {
        let waits = {
            let inner = self.inner();
            inner.armed && !inner.struck
        };
        let strikes = waits && self.control.has_struck().unwrap_or(false);
        if strikes {
            self.inner().struck = true;
            let jumps = self
                .inner()
                .plan
                .clone()
                .filter(|plan| plan.fault == Fault::ClockJumps);
            if let Some(plan) = jumps {
                self.clock
                    .set_offset(an_hour(plan.address.nth.is_multiple_of(2)));
            }
            if self
                .inner()
                .plan
                .as_ref()
                .is_some_and(|plan| plan.fault.ends_the_drive())
            {
                self.fired.notify_one();
            }
        }
        strikes
    }

    /// Completes when whoever drives the operation has to end.
    pub(crate) async fn fired(&self) {
        self.fired.notified().await;
    }

    /// A call in flight on what is ours.
    pub(crate) fn busy(&self) -> InFlight {
        self.send(0)
    }

    fn send(&self, on: usize) -> InFlight {
        self.inner().in_flight[on] += 1;
        InFlight(self.clone(), on)
    }

    /// Passes a call on, unless it is struck. It is of an operation or an instance, and may take as long as `limit`.
    pub(crate) async fn through<T, E>(
        &self,
        (of, call): (&str, &str),
        limit: Duration,
        work: impl Future<Output = Result<T, E>>,
        error: impl Fn(&str) -> E,
    ) -> Result<T, E> {
        let work = async {
            let _busy = self.send(usize::from(of == WITH_HOSTS));
            work.await
        };
        self.around((of, call), limit, work, error).await
    }

    /// The same for what itself makes calls that are counted.
    pub(crate) async fn around<T, E>(
        &self,
        (of, call): (&str, &str),
        limit: Duration,
        work: impl Future<Output = Result<T, E>>,
        error: impl Fn(&str) -> E,
    ) -> Result<T, E> {
        self.wait_turn(of, call).await;
        let Some((fault, after)) = self.meet(of, call) else {
            return work.await;
        };
        match fault {
            Fault::ErrorBefore => Err(error("told to fail before its effect")),
            Fault::ErrorAfter => {
                work.await?;
                Err(error("told to fail after its effect"))
            }
            Fault::NoAnswer => {
                self.clock.sleep(limit).await;
                Err(error("told not to answer"))
            }
            Fault::ClockJumps => {
                self.clock.set_offset(an_hour(after));
                work.await
            }
            Fault::Dropped | Fault::KilledBefore | Fault::KilledAfter => {
                if after {
                    // What it says nobody hears.
                    drop(work.await);
                }
                self.fired.notify_one();
                pending().await
            }
        }
    }

    /// Counts a call; what goes wrong with it, and whether after its effect.
    fn meet(&self, of: &str, call: &str) -> Option<(Fault, bool)> {
        let mut inner = self.inner();
        let (step, call) = (inner.step_name(of), call.to_owned());
        let nth = count(&mut inner.counts, &step, &call);
        let address = Address {
            step,
            call,
            subject: None,
            nth,
        };
        let planned = inner.plan.as_ref().filter(|plan| plan.address == address);
        let fault = planned.map(|plan| plan.fault).filter(|_| !inner.struck);
        inner.struck |= fault.is_some();
        let chance = inner
            .chance
            .and_then(|chance| random_fault(chance, &address));
        if let Some(fault) = chance {
            inner.random_fault.push(format!("{fault:?} at {address}"));
        }
        let fault = fault.or(chance);
        inner.met.push(address);
        let after = match fault? {
            Fault::KilledAfter => true,
            Fault::Dropped | Fault::ClockJumps => nth.is_multiple_of(2),
            _ => false,
        };
        Some((fault?, after))
    }

    /// A text in which `{id}` stands for the instance; the name of one of several for itself.
    pub(crate) fn without_instance(&self, text: &str) -> String {
        let inner = self.inner();
        let mut text = text.to_owned();
        if !inner.instance.is_empty() {
            text = text.replace(&inner.instance, "{id}");
        }
        for (id, name) in &inner.names {
            text = text.replace(id, name);
        }
        text
    }

    /// The name of the server behind an id, as the books have it.
    pub(crate) fn host(&self, server_id: &str) -> String {
        if let Some(name) = self.inner().hosts.get(server_id) {
            return name.clone();
        }
        let stock = self.control.page("left-behind").unwrap_or_default();
        let found = stock
            .iter()
            .find(|entry| entry["kind"] == "server" && entry["id"] == server_id);
        let name = found
            .and_then(|entry| entry["name"].as_str())
            .unwrap_or("host")
            .to_owned();
        let name = self.without_instance(&name);
        self.inner()
            .hosts
            .insert(server_id.to_owned(), name.clone());
        name
    }

    /// Writes down the calls on the wire since the last look.
    fn collect_wire(&self) {
        let (seen, learning) = {
            let inner = self.inner();
            (inner.calls_seen, inner.learning)
        };
        if !learning {
            return;
        }
        let calls = match self.control.calls_after(seen) {
            Ok(calls) => calls,
            Err(error) => return self.inner().error = Some(format!("{error:#}")),
        };
        let mut inner = self.inner();
        inner.calls_seen += calls.len();
        for call in calls {
            let word = |name: &str| call[name].as_str().unwrap_or_default();
            if matches!(word("neighbour"), "ssh" | "host") {
                continue;
            }
            let subject = stable(&word("subject").replace(&inner.instance, "{id}"));
            let (step, call) = (inner.step_name(""), word("call").to_owned());
            // The world counts by name where there is no subject: all of them.
            let of_name = count(&mut inner.counts, &step, &call);
            let nth = match &subject {
                None => of_name,
                Some(subject) => count(&mut inner.counts, &step, &format!("{call} {subject}")),
            };
            inner.met.push(Address {
                step,
                call,
                subject,
                nth,
            });
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ahead, or back.
fn an_hour(back: bool) -> SignedDuration {
    SignedDuration::from_hours(if back { -1 } else { 1 })
}

/// The next number of a call in a step.
fn count(counts: &mut HashMap<(String, String), u32>, step: &str, call: &str) -> u32 {
    let nth = counts
        .entry((step.to_owned(), call.to_owned()))
        .or_default();
    *nth += 1;
    *nth
}

/// A text in which `#` stands for each id that is made anew whenever the operation runs.
pub(crate) fn without_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let (mut left, mut without) = (text, String::new());
    while let Some(first) = left.chars().next() {
        let id = left
            .get(..LENGTH)
            .is_some_and(|part| uuid::Uuid::try_parse(part).is_ok());
        without.push(if id { '#' } else { first });
        left = &left[if id { LENGTH } else { first.len_utf8() }..];
    }
    without
}

/// A subject that is the same each time the operation runs; none where it holds what is made anew.
fn stable(subject: &str) -> Option<String> {
    let is_id = |word: &str| {
        word.len() >= 5 && word.chars().any(|c| c.is_ascii_digit()) && !word.contains("{id}")
    };
    let of_the_cluster_from_the_beginning = subject.starts_with("standalone ");
    let varies = subject.split(['/', ' ', '-', '.']).any(is_id);
    (of_the_cluster_from_the_beginning && !varies && subject.contains('/'))
        .then(|| subject.to_owned())
}

/// What goes wrong with a call by chance; it depends on seed and address alone.
fn random_fault(chance: Chance, address: &Address) -> Option<Fault> {
    let mut rng = SeededRng::new(chance.seed, &address.to_string());
    (rng.below(1000) < chance.per_mille).then(|| *rng.pick(&Fault::ALL))
}
