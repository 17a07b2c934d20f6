//! One life of a server process: the engine with its real adapters over the database file, on a runtime of its own.
//!
//! Killing it drops the runtime, and nothing of it runs on. Its time passes only when nothing else happens: the
//! pacer jumps once the runtime has been idle for a moment in which every thread of the world slept as well. Where a call
//! is in flight all the same that moment is longer, for the world may look again by a clock of its own.

use anyhow::{Context as _, Result, bail};
use futures::future::{Either, select};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};
use vnfm_core::ports::StoreError;
use vnfm_core::{Drivers, Engine, EngineParts, Limits};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Grants, Login, NfvoAddress, Tls};
use vnfm_openstack::OpenStack;
use vnfm_plugin_host::{Config, PluginHost};
use vnfm_store::{PackageDir, SecretKeys, SqliteStore};

use crate::clock::JumpingClock;
use crate::ports::{WatchedHooks, WatchedHosts, WatchedStore};
use crate::probe::Probe;
use crate::world::Control;

/// Between two looks of the pacer.
const TICK: Duration = Duration::from_millis(1);
/// How often the runtime wakes for one look of the pacer: its timer is rounded.
const OWN_WAKES: u64 = 2;
/// Idle looks until time jumps: somebody pauses, or the answer that is missing will not come.
const SHORT: u32 = 2;
/// The same where nothing is known that time would end.
const LONG: u32 = 100;
/// The same where a call is known to be in flight.
const VERY_LONG: u32 = 2000;
/// Looks for which the world sleeps until a command on a host is taken for one that waits in vain: what looks again
/// there does so every ten milliseconds.
const STILL: u32 = 20;
/// How long a case may take in all.
const STUCK: Duration = Duration::from_mins(1);

/// A process.
pub(crate) struct Process {
    engine: Option<Engine>,
    runtime: Option<Runtime>,
    wakes: Arc<AtomicU64>,
    clock: JumpingClock,
    probe: Probe,
    world: Control,
}

/// How a piece of work went.
pub(crate) enum Ran<T> {
    /// To its end.
    Through(T),
    /// The probe ended it.
    Ended,
}

/// Limits under which deadlines are as long as in earnest, and few renewals lie before them.
fn limits() -> Limits {
    Limits { lease: Duration::from_mins(5), ..Limits::default() }
}

impl Process {
    /// Starts on the data in `folder`.
    pub(crate) fn start(folder: &Path, control: &Control) -> Result<Self> {
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = wakes.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_unpark(move || _ = woken.fetch_add(1, Ordering::Relaxed))
            .build()?;
        let clock = JumpingClock::new();
        let probe = Probe::new(clock.clone(), control.clone());
        let engine = {
            let _on = runtime.enter();
            let nfvo = control.endpoint("nfvo")?;
            runtime.block_on(compose(folder, (&clock, &probe), &nfvo))?
        };
        Ok(Self {
            engine: Some(engine),
            runtime: Some(runtime),
            wakes,
            clock,
            probe,
            world: control.clone(),
        })
    }

    /// Its engine.
    pub(crate) fn engine(&self) -> Result<Engine> {
        self.engine.clone().context("the process has ended")
    }

    /// Its probe.
    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Works until `work` is done, or the probe ends it.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> Result<Ran<T>> {
        let runtime = self.runtime.as_ref().context("the process has ended")?;
        runtime.block_on(async {
            let paced = pin!(self.pace());
            let work = pin!(work);
            let fired = pin!(self.probe.fired());
            let ended = pin!(select(paced, fired));
            match select(work, ended).await {
                Either::Left((done, _)) => Ok(Ran::Through(done)),
                Either::Right((Either::Right(_), _)) => Ok(Ran::Ended),
                Either::Right((Either::Left((stuck, _)), _)) => bail!(stuck),
            }
        })
    }

    /// Works until `work` is done, which nothing may end.
    pub(crate) fn finish<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.run(work)? {
            Ran::Through(done) => done,
            Ran::Ended => bail!("a fault struck where none was planned"),
        }
    }

    /// Lets time pass while nothing else happens; what it returns is why it gave up.
    async fn pace(&self) -> String {
        let began = Instant::now();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut wakes, mut idle, mut still) = (self.wakes.load(Ordering::Relaxed), 0, 0);
        let mut looked = false;
        loop {
            ticks.tick().await;
            let now = self.wakes.load(Ordering::Relaxed);
            idle = match now.wrapping_sub(wakes) {
                1..=OWN_WAKES => idle + 1,
                // Now and then the timers of a runtime have to be put in order.
                seen if seen <= 2 * OWN_WAKES => idle,
                _ => 0,
            };
            wakes = now;
            if began.elapsed() > STUCK {
                return format!("it did not end within {STUCK:?}, at `{}`", self.probe.step());
            }
            still = if self.world.rests() { still + 1 } else { 0 };
            looked &= idle > 0 && still > 0;
            if idle < SHORT || still < SHORT {
                continue;
            }
            if !looked {
                self.probe.look_at_the_wire();
                looked = true;
            }
            let patience = self.patience();
            if idle >= patience.idle && still >= patience.still {
                self.clock.jump();
                idle = 0;
            }
        }
    }

    /// A jump wakes whoever pauses here and not the world, so how long that has slept counts on.
    fn patience(&self) -> Patience {
        let [ours, on_hosts] = self.probe.in_flight();
        let in_vain = self.probe.waits_in_vain();
        let (idle, still) = match (ours, on_hosts) {
            (0, 0) if in_vain || self.clock.is_paused() => (SHORT, SHORT),
            (0, 0) => (LONG, SHORT),
            // It may be the one without an answer, or wait for that one: a command that asks a neighbour.
            (0, _) if in_vain => (SHORT, STILL),
            _ => (VERY_LONG, SHORT),
        };
        Patience { idle, still }
    }
}

/// For how many looks nothing has happened until time jumps.
struct Patience {
    idle: u32,
    still: u32,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.engine = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn compose(
    folder: &Path,
    (clock, probe): (&JumpingClock, &Probe),
    nfvo: &str,
) -> Result<Engine> {
    let database = open(folder).await?;
    let store = Arc::new(WatchedStore { inner: database, probe: probe.clone() });
    let packages = PackageDir::open(&folder.join("packages"), vnfm_descriptor::Limits::default())?;
    let time: Arc<JumpingClock> = Arc::new(clock.clone());
    let hooks = PluginHost::new(Config::default(), time.clone());
    hooks.register(vnfm_plugin_sdk::static_driver::<kubernetes_cluster::KubernetesCluster>())?;
    let hosts = vnfm::Hosts::new(store.clone());
    Ok(Engine::new(EngineParts {
        store,
        packages: Arc::new(packages),
        drivers: Drivers::default()
            .with(OpenStack::new(time.clone()))
            .with(KubernetesDriver::new()),
        mgmt: Arc::new(WatchedHooks { inner: hooks, probe: probe.clone() }),
        host: Arc::new(WatchedHosts { inner: hosts, probe: probe.clone() }),
        nfvo: Some(Arc::new(Grants::new(address(nfvo), time.clone())?)),
        schemas: Arc::new(vnfm::misfits),
        clock: time,
        limits: limits(),
    }))
}

/// The world's NFVO. How long a call may take is the engine's to say, whose time jumps.
fn address(nfvo: &str) -> NfvoAddress {
    NfvoAddress {
        endpoint: nfvo.to_owned(),
        login: Login::None,
        tls: Tls::default(),
        proxy: None,
        root: "http://vnfm.example.com".to_owned(),
        time: STUCK,
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
            Err(StoreError::Unavailable(_)) if began.elapsed() < STUCK / 6 => {}
            Err(error) => return Err(error.into()),
        }
    }
}
