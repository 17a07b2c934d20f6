//! A plugin whose hooks run in processes: one process for one hook, and never for a second one.
//!
//! ```text
//! find ──> a process says what the library is; it stays as the spare one        launch.rs
//! call ──> the spare process, or a new one ──> request, services, answer        hook.rs
//!          deadline, or nobody waits any more: it is ended with all it started  launch.rs
//!          it ended without an answer: signal or limit, last lines              end.rs
//!      └─> the next spare process is started beside it
//! ```
//!
//! The spare process makes the start cost nothing: the library is open and the driver made when a hook comes. It
//! has seen no hook yet, so nothing of one instance reaches another; one that is not needed ends by itself.

mod end;
mod hook;
mod launch;
pub(crate) mod wire;

use crate::child::user::Choice;
use crate::config::ProcessLimits;
use crate::driver::{self, Call};
use crate::errors::RUNTIME;
use crate::folder::Checked;
use crate::isolation::Isolation;
use crate::library::{Inspection, Said};
use async_trait::async_trait;
use hook::Told;
use launch::{Launcher, Running};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use vnfm_core::ports::{
    Clock, Declaration, DriverId, Effects, HookHost, HookRequest, MgmtDriver, PortError,
};
use wire::Frame;

/// How the standard library ends the text of `EMFILE` and `ENFILE`.
const SCARCE: &[&str] = &["(os error 24)", "(os error 23)"];
/// How long after such a failure a process is started again.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) use launch::Starter;

/// How long a process waits for a hook before it ends by itself.
pub(crate) const IDLE: Duration = Duration::from_mins(1);

/// What a process is told first.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The library's path, for people.
    pub(crate) shown: String,
    pub(crate) symbol: String,
    pub(crate) symbol_size: u64,
    pub(crate) glibc: Option<String>,
    /// Who to become.
    pub(crate) user: Option<Choice>,
    /// Whether it keeps the engine's network.
    pub(crate) network: bool,
    /// A folder of its own, which goes with it.
    pub(crate) folder: PathBuf,
    /// What the operator lets it read beside the system's programs and libraries.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) limits: ProcessLimits,
    /// There is no library: it only says how it is kept apart.
    pub(crate) probe: bool,
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Loading,
    Creating,
    Waiting,
    Running,
}

impl Phase {
    fn words(self) -> &'static str {
        match self {
            Self::Loading => "while its library was opened",
            Self::Creating => "while its driver was made",
            Self::Waiting => "before the hook began",
            Self::Running => "in the middle of the hook",
        }
    }
}

impl Frame {
    /// Its body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What the library in `checked` says of itself, told by a process.
///
/// # Errors
///
/// As for any library that cannot be loaded.
pub(crate) fn look(starter: &Arc<Starter>, checked: &Checked) -> Result<Inspection, PortError> {
    let launcher = Launcher::new(starter, checked)?;
    let (said, _) = launcher.introduce()?;
    Ok(Inspection::of(said, launcher.glibc(), checked))
}

/// How hooks are kept apart here.
///
/// # Errors
///
/// `Refused` where they cannot be kept apart.
pub(crate) fn probe(starter: &Arc<Starter>) -> Result<Isolation, PortError> {
    Launcher::probe(starter)
}

/// One plugin whose hooks run in processes.
pub(crate) struct ProcessDriver {
    declaration: Declaration,
    sha256: String,
    name: String,
    clock: Arc<dyn Clock>,
    nursery: Arc<Nursery>,
}

/// Where its processes come from.
struct Nursery {
    launcher: Launcher,
    /// The message by which a process makes the driver.
    create: Vec<u8>,
    spare: Mutex<Option<Running>>,
}

impl Nursery {
    fn spare(&self) -> MutexGuard<'_, Option<Running>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Running, PortError> {
        self.launcher.start(&self.create)
    }

    /// Starts a spare process, unless there is one.
    fn refill(&self) {
        if self.spare().is_some() {
            return;
        }
        match self.start() {
            Ok(running) => drop(self.spare().replace(running)),
            // The next hook starts its own, and says why it cannot.
            Err(error) => tracing::warn!(%error, "no spare process"),
        }
    }
}

impl ProcessDriver {
    /// Takes a checked library with its configuration.
    ///
    /// # Errors
    ///
    /// As for any library that cannot be loaded; `Refused` where the configuration has the wrong shape.
    pub(crate) fn new(
        starter: &Arc<Starter>,
        checked: &Checked,
        config: impl FnOnce(&str) -> Value,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PortError> {
        let launcher = Launcher::new(starter, checked)?;
        let (Said { declaration, .. }, mut running) = launcher.introduce()?;
        let name = format!("{}@{}", declaration.name, declaration.version);
        let config = config(&declaration.name);
        driver::check_config(&name, declaration.config_schema.as_ref(), &config)?;
        let create = Frame::new(wire::CREATE, 0, &name, config.to_string().as_bytes()).bytes();
        // If it is gone, the first hook finds that out.
        let _ = std::io::Write::write_all(&mut running.socket, &create);
        let nursery = Arc::new(Nursery {
            launcher,
            create,
            spare: Mutex::new(Some(running)),
        });
        let sha256 = checked.sha256.clone();
        Ok(Self {
            declaration,
            sha256,
            name,
            clock,
            nursery,
        })
    }

    /// A process that was started for this hook, once there are descriptors for it: whoever calls says how long that
    /// may take.
    async fn fresh(&self, runtime: &Handle) -> Result<Result<Running, PortError>, String> {
        loop {
            let nursery = self.nursery.clone();
            let starting = runtime.spawn_blocking(move || nursery.start());
            match starting.await.map_err(|error| error.to_string())? {
                Err(error) if SCARCE.iter().any(|scarce| error.detail().contains(scarce)) => {
                    tracing::warn!(plugin = self.name, %error, "a hook waits for descriptors");
                    self.clock.sleep(PAUSE).await;
                }
                started => return Ok(started),
            }
        }
    }
}

#[async_trait]
impl MgmtDriver for ProcessDriver {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn id(&self) -> DriverId {
        let Declaration { name, version, .. } = self.declaration.clone();
        DriverId {
            name,
            version,
            sha256: Some(self.sha256.clone()),
        }
    }

    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        let Call { doing, limit, body } =
            driver::ready(&request, &self.name, &self.declaration, &*self.clock)?;
        let broken = |what: String| PortError::new(&RUNTIME, doing.clone(), what);
        let runtime = Handle::try_current().map_err(|error| broken(error.to_string()))?;
        let call = Frame::new(wire::CALL, 0, &request.hook, &body);
        let spare = self.nursery.spare().take();
        let was_spare = spare.is_some();
        let limits = self.nursery.launcher.limits();
        let told = Told {
            doing: &doing,
            plugin: &self.name,
            limits,
        };
        let running = match spare {
            Some(running) => running,
            None => self.fresh(&runtime).await.map_err(broken)??,
        };
        let mut outcome = hook::run(running, &call, &host, limit, told).await;
        if was_spare && outcome.as_ref().is_err_and(|failed| failed.too_early) {
            // It waited for a hook for too long, or somebody ended it; this hook has not begun.
            let running = self.fresh(&runtime).await.map_err(broken)??;
            outcome = hook::run(running, &call, &host, limit, told).await;
        }
        let nursery = self.nursery.clone();
        drop(runtime.spawn_blocking(move || nursery.refill()));
        let answer = outcome.map_err(|failed| failed.error)?;
        driver::effects(&doing, &answer, &*host)
    }
}
