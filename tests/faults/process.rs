//! One life of a server process: the engine with its real adapters over the database file, on a runtime of its own.
//!
//! Killing it drops the runtime, so nothing keeps running. Its clock advances only when nothing else happens: the pacer, a
//! separate thread, jumps once the runtime and every thread of the simulated world have slept for a moment. While a call
//! is in flight that moment is longer, because the world may be polling by its own clock.

use anyhow::{Context as _, Result, bail};
use futures::future::{Either, select};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::interval;
use vnfm_core::ports::StoreError;
use vnfm_core::{Drivers, Engine, EngineParts, Limits};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Grants, Login, NfvoAddress, Tls};
use vnfm_openstack::OpenStack;
use vnfm_outbound::Destinations;
use vnfm_plugin_host::{Config, PluginHost};
use vnfm_store::{PackageDir, SecretKeys, SqliteStore};

use crate::clock::JumpingClock;
use crate::idle::{self, IdleWatch};
use crate::ports::{ProbedHooks, ProbedHosts, ProbedStore, StoreProbe};
use crate::probe::Probe;
use crate::world::Control;

/// Polling interval of the pacer.
const TICK: Duration = Duration::from_millis(1);
/// Idle polls in a row before time jumps, when something sleeps for a polling interval or a response is withheld.
const SHORT: u32 = 1;
/// The same when a command on a host may wait for a withheld response: less than the 10 ms at which hosts poll.
const STILL: u32 = 5;
/// The same when nothing is known to wait for time.
const LONG: u32 = 100;
/// The same while a call is in flight.
const VERY_LONG: u32 = 2000;
/// Limit for one piece of work.
const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Process {
    engine: Option<Engine>,
    storage: Option<Storage>,
    runtime: Option<Runtime>,
    clock: JumpingClock,
    probe: Probe,
    world: Control,
}

/// Database and packages, for administrative tasks.
type Storage = (Arc<SqliteStore>, Arc<PackageDir>);

/// How the work of a process ended.
pub(crate) enum Ran<T> {
    /// The work completed with this result.
    Through(T),
    /// The probe stopped it at a call.
    Ended,
}

/// Deadlines as in production, with long leases so that few renewals happen.
fn limits() -> Limits {
    Limits {
        lease: Duration::from_mins(5),
        ..Limits::default()
    }
}

impl Process {
    /// Starts on the data in `folder`.
    pub(crate) fn start(folder: &Path, control: &Control) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let clock = JumpingClock::new(control.latest());
        let probe = Probe::new(clock.clone(), control.clone());
        let (engine, storage) = {
            let _on = runtime.enter();
            let nfvo = control.endpoint("nfvo")?;
            runtime.block_on(compose(folder, (&clock, &probe), &nfvo))?
        };
        Ok(Self {
            engine: Some(engine),
            storage: Some(storage),
            runtime: Some(runtime),
            clock,
            probe,
            world: control.clone(),
        })
    }

    pub(crate) fn engine(&self) -> Result<Engine> {
        self.engine.clone().context("the process has ended")
    }

    /// Its database and packages, bypassing the probe.
    pub(crate) fn storage(&self) -> Result<Storage> {
        self.storage.clone().context("the process has ended")
    }

    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    /// The control API of the simulated world.
    pub(crate) fn control(&self) -> &Control {
        &self.world
    }

    /// Runs `work` until it completes or the probe stops it.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> Result<Ran<T>> {
        let runtime = self.runtime.as_ref().context("the process has ended")?;
        let watch = IdleWatch::new(self.world.process(), idle::this_thread()?)?;
        let (over, until) = mpsc::channel();
        let (give_up, stuck) = oneshot::channel();
        let mut pacer = Pacer {
            clock: self.clock.clone(),
            probe: self.probe.clone(),
            watch,
            still: [0, 0],
            polled: Polled::No,
        };
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("pacer".to_owned());
            named.spawn_scoped(scope, move || {
                if pacer.run(&until) {
                    let _ = give_up.send(()); // it may have ended in this very moment
                }
            })?;
            let ran = runtime.block_on(async {
                let stuck = pin!(stuck);
                let fired = pin!(self.probe.fired());
                let work = pin!(work);
                // The probe is polled first: a dead process does no further work.
                match select(fired, select(work, stuck)).await {
                    Either::Left(_) => Ok(Ran::Ended),
                    Either::Right((Either::Left((done, _)), _)) => Ok(Ran::Through(done)),
                    Either::Right(_) => {
                        bail!("no end within {TIMEOUT:?}, at `{}`", self.probe.step())
                    }
                }
            });
            drop::<mpsc::Sender<()>>(over);
            ran
        })
    }

    /// Runs `work`, which must complete.
    pub(crate) fn finish<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.run(work)? {
            Ran::Through(done) => done,
            Ran::Ended => bail!("a fault struck where none was planned"),
        }
    }
}

/// Advances the clock while nothing else happens.
struct Pacer {
    clock: JumpingClock,
    probe: Probe,
    watch: IdleWatch,
    /// Idle polls in a row of our process and of the world; a jump wakes sleepers of ours, not of the world.
    still: [u32; 2],
    polled: Polled,
}

/// Whether the world's fault script was polled since the last activity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Polled {
    /// It has not been polled yet.
    No,
    /// Polled, and not idle since: it runs because it had to respond to the poll.
    Now,
    /// It was polled, and is idle again.
    Yes,
}

impl Pacer {
    /// Paces until the work is over; true if that took too long.
    fn run(&mut self, until: &mpsc::Receiver<()>) -> bool {
        let began = Instant::now();
        while until.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
            if began.elapsed() > TIMEOUT {
                return true;
            }
            self.look();
        }
        false
    }

    fn look(&mut self) {
        let idle = self.watch.idle();
        self.count(idle);
        if idle != [true, true] {
            return;
        }
        if self.polled == Polled::No {
            self.polled = Polled::Now;
            if self.probe.poll_wire() {
                // The struck work may have to stop, and time must not pass before.
                return;
            }
        }
        let [own, world] = self.required_idle_polls();
        if self.still[0] < own || self.still[1] < world {
            return;
        }
        self.still[0] = 0;
        if !self.probe.is_serialized() {
            self.clock.jump();
        } else if self.watch.helpers_sleep() && !self.probe.release_next() {
            self.clock.jump_to_one();
        }
    }

    /// Counts a poll. If the world's response to a poll counted as activity, each response would cause a new poll, and the
    /// world would never be idle for long.
    fn count(&mut self, [own, world]: [bool; 2]) {
        self.still[0] = if own { self.still[0] + 1 } else { 0 };
        if world {
            self.still[1] += 1;
            if self.polled == Polled::Now {
                self.polled = Polled::Yes;
            }
        } else if !own || self.polled != Polled::Now {
            self.still[1] = 0;
            self.polled = Polled::No;
        }
    }

    /// Number of idle polls required of our process and of the world.
    fn required_idle_polls(&self) -> [u32; 2] {
        let (in_vain, has_waiting) = (self.probe.waits_for_silent_call(), self.probe.has_waiting());
        match self.probe.in_flight() {
            [0, 0] if in_vain || has_waiting || self.clock.is_paused() => [SHORT, SHORT],
            [0, 0] => [LONG, SHORT],
            // It may be the call without response, or a command on a host that waits for it.
            [0, _] if in_vain => [SHORT, STILL],
            // A host may be booting, which our client polls by its own clock.
            [0, _] if has_waiting => [LONG, STILL],
            _ => [VERY_LONG, SHORT],
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.engine = None;
        self.storage = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn compose(
    folder: &Path,
    (clock, probe): (&JumpingClock, &Probe),
    nfvo: &str,
) -> Result<(Engine, Storage)> {
    vnfm_store::check_files(folder)?;
    let database = open(folder).await?;
    let store = Arc::new(ProbedStore::new(
        database.clone(),
        StoreProbe(probe.clone()),
    ));
    let packages = PackageDir::open(&folder.join("packages"), vnfm_descriptor::Limits::default())?;
    let packages = Arc::new(packages);
    let storage = (database, packages.clone());
    let time: Arc<JumpingClock> = Arc::new(clock.clone());
    let hooks = PluginHost::new(Config::default(), time.clone());
    hooks.register(vnfm_plugin_sdk::static_driver::<
        kubernetes_cluster::KubernetesCluster,
    >())?;
    let hosts = vnfm::Hosts::new(store.clone(), Destinations::anywhere());
    let engine = Engine::new(EngineParts {
        store,
        packages,
        drivers: Drivers::default()
            .with(OpenStack::new(time.clone(), Destinations::anywhere()))
            .with(KubernetesDriver::new(Destinations::anywhere())),
        mgmt: Arc::new(ProbedHooks {
            inner: hooks,
            probe: probe.clone(),
        }),
        host: Arc::new(ProbedHosts {
            inner: hosts,
            probe: probe.clone(),
        }),
        nfvo: Some(Arc::new(Grants::new(address(nfvo), time.clone())?)),
        schemas: Arc::new(vnfm::schema_violations),
        clock: time,
        limits: limits(),
        operations: vnfm_core::lcm::OPERATIONS,
    });
    Ok((engine, storage))
}

/// The world's NFVO. The engine, whose time jumps, limits how long calls take.
fn address(nfvo: &str) -> NfvoAddress {
    NfvoAddress {
        endpoint: nfvo.to_owned(),
        login: Login::None,
        tls: Tls::default(),
        proxy: None,
        root: "http://vnfm.example.com".to_owned(),
        time: TIMEOUT,
    }
}

/// Opens the database. The last thread of a killed process may hold it for another moment.
async fn open(folder: &Path) -> Result<Arc<SqliteStore>> {
    let began = Instant::now();
    let mut ticks = interval(TICK);
    loop {
        ticks.tick().await;
        let keys = SecretKeys::open(&folder.join("secrets.key"))?;
        match SqliteStore::open(&folder.join("vnfm.db"), keys).await {
            Ok(store) => return Ok(Arc::new(store)),
            Err(StoreError::Unavailable(_)) if began.elapsed() < TIMEOUT / 6 => {}
            Err(error) => return Err(error.into()),
        }
    }
}
