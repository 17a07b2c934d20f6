//! Counts every call of a process to its neighbours, and strikes one of them.
//!
//! Calls to the store, hosts and hooks are intercepted in front of the port ([`crate::ports`]). Calls of the drivers are
//! counted by the simulated world, which also injects their faults: the probe arms it when the step begins, because
//! addresses count within a step.

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
use crate::stable_names::stable;
use crate::world::Control;

/// The probe; clones share it.
#[derive(Clone)]
pub(crate) struct Probe {
    inner: Arc<Mutex<Inner>>,
    fired: Arc<Notify>,
    clock: JumpingClock,
    control: Control,
}

/// Faults that strike at random.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    /// Seed; the address decides, too.
    pub(crate) seed: u64,
    /// How many calls per thousand are struck.
    pub(crate) per_mille: usize,
}

#[derive(Default)]
struct Inner {
    instance: String,
    /// Names of instances by id, when several run at once.
    names: HashMap<String, String>,
    /// Instance names by operation id.
    owners: HashMap<String, String>,
    /// Current step by instance name; the empty name for a single instance.
    steps: HashMap<String, String>,
    last: String,
    counts: HashMap<(String, String), u32>,
    met: Vec<Address>,
    plan: Option<Plan>,
    chance: Option<Chance>,
    random_fault: Vec<String>,
    learning: bool,
    calls_seen: u64,
    armed: bool,
    struck: bool,
    /// Calls in flight to the store and hooks, and to hosts.
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

/// Step name before the first step.
const BEFORE_FIRST_STEP: &str = "accept";

impl Inner {
    /// The name of an instance, or of the instance of an operation; empty for a single instance.
    fn instance_name(&self, of: &str) -> String {
        self.owners
            .get(of)
            .or_else(|| self.names.get(of))
            .cloned()
            .unwrap_or_default()
    }

    /// The step of an address, for an instance or operation.
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

/// A call in flight until dropped, and the index of its counter.
pub(crate) struct InFlight(Probe, usize);

impl Drop for InFlight {
    fn drop(&mut self) {
        let count = &mut self.0.inner().in_flight[self.1];
        *count = count.saturating_sub(1);
    }
}

impl Probe {
    /// A probe that passes everything.
    pub(crate) fn new(clock: JumpingClock, control: Control) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner::new())),
            fired: Arc::default(),
            clock,
            control,
        }
    }

    /// The time of the process, as `date +%s.%N` prints it.
    pub(crate) fn time(&self) -> String {
        let milliseconds = self.clock.now().as_millisecond();
        format!(
            "{}.{:03}000000\n",
            milliseconds / 1_000,
            milliseconds % 1_000
        )
    }

    /// Starts counting for this instance, and strikes as planned.
    pub(crate) fn begin(&self, instance: &str, plan: Option<Plan>) {
        let instance = instance.to_owned();
        *self.inner() = Inner {
            instance,
            plan,
            ..Inner::new()
        };
    }

    /// Starts counting for each of these instances (id → name), and strikes at random.
    pub(crate) fn watch(&self, names: HashMap<String, String>, chance: Option<Chance>) {
        *self.inner() = Inner {
            names,
            chance,
            ..Inner::new()
        };
    }

    /// Serializes calls in an order that depends only on `seed` and the calls.
    pub(crate) fn serialize_calls(&self, seed: u64) {
        self.inner().line = Some(CallQueue::new(seed));
    }

    /// Whether calls are made one at a time.
    pub(crate) fn is_serialized(&self) -> bool {
        self.inner().line.is_some()
    }

    /// Whether any serialized call waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.inner()
            .line
            .as_mut()
            .is_some_and(CallQueue::has_waiting)
    }

    /// Releases one waiting call; false if none waits.
    pub(crate) fn release_next(&self) -> bool {
        self.inner()
            .line
            .as_mut()
            .is_some_and(CallQueue::release_next)
    }

    /// Waits for the turn of a call, if calls are serialized.
    async fn wait_turn(&self, of: &str, call: &str) {
        let wait_turn = {
            let mut inner = self.inner();
            let step_name = format!("{} {call}", inner.step_name(of));
            inner.line.as_mut().map(|line| line.enqueue(step_name))
        };
        if let Some(wait_turn) = wait_turn {
            // The queue is dropped only with its process.
            let _ = wait_turn.await;
        }
    }

    /// Records which instance an operation belongs to.
    pub(crate) fn own(&self, op: &str, instance: &str) {
        let mut inner = self.inner();
        if let Some(name) = inner.names.get(instance).cloned() {
            inner.owners.insert(op.to_owned(), name);
        }
    }

    /// Starts recording calls, including those on the wire.
    pub(crate) fn learn(&self) -> anyhow::Result<()> {
        let seen = self.control.calls_until_now()?;
        let mut inner = self.inner();
        (inner.learning, inner.calls_seen) = (true, seen);
        Ok(())
    }

    /// The calls that were recorded so far.
    pub(crate) fn met(&self) -> Vec<Address> {
        self.collect_wire();
        self.inner().met.clone()
    }

    /// The random faults so far.
    pub(crate) fn random_faults(&self) -> Vec<String> {
        self.inner().random_fault.clone()
    }

    /// Whether the planned fault has struck.
    pub(crate) fn has_struck(&self) -> bool {
        self.inner().struck
    }

    /// Whether a call waits for a response that the simulated world withholds.
    pub(crate) fn waits_for_silent_call(&self) -> bool {
        let inner = self.inner();
        let silent = |plan: &Plan| plan.fault == Fault::NoAnswer;
        inner.armed && inner.struck && inner.plan.as_ref().is_some_and(silent)
    }

    /// An error of the probe itself.
    pub(crate) fn error(&self) -> Option<String> {
        self.inner().error.clone()
    }

    /// Calls in flight to the store and hooks, and to hosts.
    pub(crate) fn in_flight(&self) -> [usize; 2] {
        self.inner().in_flight
    }

    pub(crate) fn step(&self) -> String {
        self.inner().last.clone()
    }

    /// Notes that an operation begins a step.
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

    /// Polls whether the simulated world has injected the fault; then the driving of the operation may have to stop.
    /// True if it has done so since the last poll.
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

    /// Completes when the driving of the operation has to stop.
    pub(crate) async fn fired(&self) {
        self.fired.notified().await;
    }

    /// Marks a call to the store or a hook as in flight.
    pub(crate) fn busy(&self) -> InFlight {
        self.send(0)
    }

    fn send(&self, on: usize) -> InFlight {
        self.inner().in_flight[on] += 1;
        InFlight(self.clone(), on)
    }

    /// Makes a call of an operation or instance, unless it is struck. Without response it takes as long as `limit`.
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

    /// As [`Self::through`], for a call that makes counted calls itself.
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
            Fault::ErrorBefore => Err(error("injected failure before the effect")),
            Fault::ErrorAfter => {
                work.await?;
                Err(error("injected failure after the effect"))
            }
            Fault::NoAnswer => {
                self.clock.sleep(limit).await;
                Err(error("injected silence"))
            }
            Fault::ClockJumps => {
                self.clock.set_offset(an_hour(after));
                work.await
            }
            Fault::Dropped | Fault::KilledBefore | Fault::KilledAfter => {
                if after {
                    // The result is lost with the process.
                    drop(work.await);
                }
                self.fired.notify_one();
                pending().await
            }
        }
    }

    /// Counts a call; its fault, and whether that comes after the effect.
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

    /// Replaces instance ids by `{id}`, or by names if there are several instances.
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

    /// The name of a server, from the simulated world.
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

    /// Records the calls on the wire since the last time.
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
        inner.calls_seen += calls.len() as u64;
        for call in calls {
            let word = |name: &str| call[name].as_str().unwrap_or_default();
            if matches!(word("neighbour"), "ssh" | "host") {
                continue;
            }
            let subject = stable(&word("subject").replace(&inner.instance, "{id}"));
            let (step, call) = (inner.step_name(""), word("call").to_owned());
            // Without a subject the world counts all calls of the name.
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

/// An hour, positive or negative.
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

/// The random fault of a call, which depends only on seed and address.
fn random_fault(chance: Chance, address: &Address) -> Option<Fault> {
    let mut rng = SeededRng::new(chance.seed, &address.to_string());
    (rng.below(1000) < chance.per_mille).then(|| *rng.pick(&Fault::ALL))
}
