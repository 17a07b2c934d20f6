//! A plugin whose hooks run in processes: one process per hook, never reused.
//!
//! ```text
//! find ──> a process describes the library, and stays as the spare one          launch.rs
//! call ──> the spare process, or a new one ──> request, services, result        hook.rs
//!          deadline or cancelled: it is killed with everything it started       launch.rs
//!          it ended without a result: signal or limit, last lines               end.rs
//!      └─> meanwhile the next spare process is started
//! ```
//!
//! The spare process hides the start-up time: when a hook is called, the library is open and the driver created. It
//! has run no hook yet, so no data of one instance reaches another. An unused one exits after a while.

mod end;
mod hook;
mod launch;
pub(crate) mod load;
mod phase;
pub(crate) mod wire;

use crate::driver::{self, PreparedCall};
use crate::errors::RUNTIME;
use crate::folder::Checked;
use crate::isolation::Isolation;
use crate::library::{Inspection, PluginInfo};
use async_trait::async_trait;
use hook::HookLabels;
use launch::{Launcher, Running};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use vnfm_core::ports::{
    Clock, Declaration, DriverId, Effects, HookHost, HookRequest, MgmtDriver, PortError,
};
use wire::Frame;

/// How the standard library's messages for `EMFILE` and `ENFILE` end.
const OUT_OF_DESCRIPTORS: &[&str] = &["(os error 24)", "(os error 23)"];
/// How long after such a failure a process is started again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) use launch::Starter;

/// How long a process waits for a hook before it ends by itself.
pub(crate) const SPARE_LIFETIME: Duration = Duration::from_mins(1);

impl Frame {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Inspects the library in `checked` in a separate process.
///
/// # Errors
///
/// Why the library cannot be loaded.
pub(crate) fn inspect(starter: &Arc<Starter>, checked: &Checked) -> Result<Inspection, PortError> {
    let launcher = Launcher::new(starter, checked)?;
    let (info, _) = launcher.declare()?;
    Ok(Inspection::from_checked(info, launcher.glibc(), checked))
}

/// How this machine isolates hooks.
///
/// # Errors
///
/// `Refused` if no process can be isolated on this machine.
pub(crate) fn probe(starter: &Arc<Starter>) -> Result<Isolation, PortError> {
    Launcher::probe(starter)
}

/// A plugin whose hooks run in separate processes.
pub(crate) struct ProcessDriver {
    declaration: Declaration,
    sha256: String,
    name: String,
    clock: Arc<dyn Clock>,
    pool: Arc<ProcessPool>,
}

/// Starts the plugin's processes and holds the spare one.
struct ProcessPool {
    launcher: Launcher,
    /// The serialized message that makes a process create the driver.
    create: Vec<u8>,
    spare: Mutex<Option<Running>>,
}

impl ProcessPool {
    fn spare(&self) -> MutexGuard<'_, Option<Running>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Running, PortError> {
        self.launcher.start(&self.create)
    }

    /// Starts a spare process if there is none.
    fn refill(&self) {
        if self.spare().is_some() {
            return;
        }
        match self.start() {
            Ok(running) => drop(self.spare().replace(running)),
            // The next hook starts its own process, and reports why it cannot.
            Err(error) => tracing::warn!(%error, "cannot start a spare process"),
        }
    }
}

impl ProcessDriver {
    /// # Errors
    ///
    /// Why the library cannot be loaded; `Refused` if the configuration does not match its schema.
    pub(crate) fn new(
        starter: &Arc<Starter>,
        checked: &Checked,
        config: impl FnOnce(&str) -> Value,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PortError> {
        let launcher = Launcher::new(starter, checked)?;
        let (PluginInfo { declaration, .. }, mut running) = launcher.declare()?;
        let name = format!("{}@{}", declaration.name, declaration.version);
        let config = config(&declaration.name);
        driver::check_config(&name, declaration.config_schema.as_ref(), &config)?;
        let create = Frame::new(wire::CREATE, 0, &name, config.to_string().as_bytes()).bytes();
        // If it has ended, the first hook finds out.
        let _ = std::io::Write::write_all(&mut running.socket, &create);
        let pool = Arc::new(ProcessPool {
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
            pool,
        })
    }

    /// Starts a process for a hook. Waits while the server is out of file descriptors; the caller limits how long.
    async fn start_process(&self, runtime: &Handle) -> Result<Result<Running, PortError>, String> {
        loop {
            let pool = self.pool.clone();
            let starting = runtime.spawn_blocking(move || pool.start());
            match starting.await.map_err(|error| error.to_string())? {
                Err(error)
                    if OUT_OF_DESCRIPTORS
                        .iter()
                        .any(|scarce| error.detail().contains(scarce)) =>
                {
                    tracing::warn!(plugin = self.name, %error, "a hook waits for file descriptors");
                    self.clock.sleep(RETRY_INTERVAL).await;
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
        let PreparedCall {
            action,
            limit,
            body,
        } = driver::prepare_call(&request, &self.name, &self.declaration, &*self.clock)?;
        let broken = |detail: String| PortError::new(&RUNTIME, action.clone(), detail);
        let runtime = Handle::try_current().map_err(|error| broken(error.to_string()))?;
        let call = Frame::new(wire::CALL, 0, &request.hook, &body);
        let spare = self.pool.spare().take();
        let was_spare = spare.is_some();
        let limits = self.pool.launcher.limits();
        let labels = HookLabels {
            action: &action,
            plugin: &self.name,
            limits,
        };
        let running = match spare {
            Some(running) => running,
            None => self.start_process(&runtime).await.map_err(broken)??,
        };
        let mut outcome = hook::run(running, &call, &host, limit, labels).await;
        if was_spare && outcome.as_ref().is_err_and(|failed| failed.before_hook) {
            // The spare process timed out or was killed; this hook has not started.
            let running = self.start_process(&runtime).await.map_err(broken)??;
            outcome = hook::run(running, &call, &host, limit, labels).await;
        }
        let pool = self.pool.clone();
        drop(runtime.spawn_blocking(move || pool.refill()));
        let answer = outcome.map_err(|failed| failed.error)?;
        driver::effects(&action, &answer, &*host)
    }
}
