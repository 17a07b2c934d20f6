//! One life of a server process: the engine with its real adapters over the database file, on a runtime of its own.
//!
//! Killing it drops the runtime, and nothing of it runs on. Its time passes only when nothing else happens: the
//! pacer, a thread of its own, jumps once the runtime and every thread of the world have slept for a moment. Where a call
//! is in flight all the same that moment is longer, for the world may look again by a clock of its own.

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

/// Between two looks of the pacer.
const TICK: Duration = Duration::from_millis(1);
/// Looks in a row that find everybody at rest until time jumps: somebody pauses, or an answer will not come.
const SHORT: u32 = 1;
/// The same where a command on a host may wait in vain: less than the ten milliseconds after which one looks again there.
const STILL: u32 = 5;
/// The same where nothing is known that time would end.
const LONG: u32 = 100;
/// The same where a call is known to be in flight.
const VERY_LONG: u32 = 2000;
/// How long a case may take in all.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A process.
pub(crate) struct Process {
    engine: Option<Engine>,
    storage: Option<Storage>,
    runtime: Option<Runtime>,
    clock: JumpingClock,
    probe: Probe,
    world: Control,
}

/// What lies in the data folder, as those use it who look after it.
type Storage = (Arc<SqliteStore>, Arc<PackageDir>);

/// How a piece of work went.
pub(crate) enum Ran<T> {
    /// To its end.
    Through(T),
    /// The probe ended it.
    Ended,
}

/// Limits under which deadlines are as long as in earnest, and few renewals lie before them.
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

    /// Its engine.
    pub(crate) fn engine(&self) -> Result<Engine> {
        self.engine.clone().context("the process has ended")
    }

    /// Its database and packages, without the probe.
    pub(crate) fn storage(&self) -> Result<Storage> {
        self.storage.clone().context("the process has ended")
    }

    /// Its probe.
    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Works until `work` is done, or the probe ends it.
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
                // What fired is looked at first: a dead process does no further piece of work.
                match select(fired, select(work, stuck)).await {
                    Either::Left(_) => Ok(Ran::Ended),
                    Either::Right((Either::Left((done, _)), _)) => Ok(Ran::Through(done)),
                    Either::Right(_) => {
                        bail!(
                            "it did not end within {TIMEOUT:?}, at `{}`",
                            self.probe.step()
                        )
                    }
                }
            });
            drop::<mpsc::Sender<()>>(over);
            ran
        })
    }

    /// Works until `work` is done, which nothing may end.
    pub(crate) fn finish<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.run(work)? {
            Ran::Through(done) => done,
            Ran::Ended => bail!("a fault struck where none was planned"),
        }
    }
}

/// Lets time pass while nothing else happens.
struct Pacer {
    clock: JumpingClock,
    probe: Probe,
    watch: IdleWatch,
    /// Looks in a row that found our process at rest, and the world; a jump wakes whoever pauses, and not the world.
    still: [u32; 2],
    polled: Polled,
}

/// Whether the world was asked about its script since somebody last did something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Polled {
    /// It was not.
    No,
    /// It was, and has not been seen at rest since: that it runs is our own doing, for it had to answer.
    Now,
    /// It was, and has come to rest.
    Yes,
}

impl Pacer {
    /// Paces until there is nobody any more, or for too long; whether it was that.
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
                // Whoever it struck may have to end, and no time passes for the dead.
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

    /// Counts a look. Did the world's answer to us count as work of its own, it would be asked after each answer, and
    /// never be at rest for long.
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

    /// For how many looks our process has to be at rest, and the world.
    fn required_idle_polls(&self) -> [u32; 2] {
        let (in_vain, has_waiting) = (self.probe.waits_for_silent_call(), self.probe.has_waiting());
        match self.probe.in_flight() {
            [0, 0] if in_vain || has_waiting || self.clock.is_paused() => [SHORT, SHORT],
            [0, 0] => [LONG, SHORT],
            // It may be the one without an answer, or wait for that one: a command that asks a neighbour.
            [0, _] if in_vain => [SHORT, STILL],
            // A host may just boot, for which our client looks by a clock of its own.
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
        schemas: Arc::new(vnfm::misfits),
        clock: time,
        limits: limits(),
    });
    Ok((engine, storage))
}

/// The world's NFVO. How long a call may take is the engine's to say, whose time jumps.
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

/// Opens the database. The last thread of a process that was killed lets go of it a moment later.
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
