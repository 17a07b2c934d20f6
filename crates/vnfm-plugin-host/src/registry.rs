//! Selects the plugin of a VNFD's hook: by name, the newest version unless one is named, loaded at first use.

use crate::config::{AllowedScripts, Config, Confinement, Runner};
use crate::driver::PluginDriver;
use crate::errors::{MISNAMED, NOT_FOUND, RUNNER, SCRIPT};
use crate::folder::{self, Checked};
use crate::isolation::Isolation;
use crate::library::{self, Inspection, Libraries};
use crate::lock::{LOCK_FILE, Lock, Pin, newer};
use crate::process_runner::{self, ProcessDriver, Starter};
use crate::script_driver;
use crate::thread_runner::Threads;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::{
    Clock, Declaration, DriverId, DriverVersion, HookDriverRef, HookScriptRef, MgmtDriver,
    MgmtDrivers, PortError, ScriptProtocol, replaced,
};
use vnfm_plugin_abi::Plugin;

/// All plugins of one engine.
///
/// `plugins.lock` is read at each use, so a plugin can be allowed while the server runs.
pub struct PluginHost {
    config: Config,
    clock: Arc<dyn Clock>,
    threads: Arc<Threads>,
    libraries: Libraries,
    starter: Option<Arc<Starter>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    linked: Vec<Arc<dyn MgmtDriver>>,
    /// Keyed by the SHA-256 of the library.
    loaded: BTreeMap<String, Arc<dyn MgmtDriver>>,
}

/// A pinned plugin and whether it is usable.
#[derive(Debug)]
#[non_exhaustive]
pub struct PluginStatus {
    /// Its declaration, or the reason that it cannot be used.
    pub pin: Pin,
    /// The plugin's declaration, or why it cannot be used.
    pub outcome: Result<Declaration, PortError>,
}

enum Candidate {
    Linked(Arc<dyn MgmtDriver>),
    Pinned(Pin),
}

impl Candidate {
    fn version(&self) -> &str {
        match self {
            Self::Linked(driver) => &driver.declaration().version,
            Self::Pinned(pin) => &pin.version,
        }
    }
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginHost")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl PluginHost {
    /// Creates a host for the plugins in `config.dir`. Loads nothing yet; the folder need not exist.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Self {
        let confinement = Confinement {
            network: true,
            ..config.confinement("")
        };
        let starter = config.process.clone();
        let starter = starter.map(|process| Arc::new(Starter::new(process, confinement)));
        Self {
            config,
            starter,
            clock,
            threads: Arc::default(),
            libraries: Libraries::default(),
            state: Mutex::default(),
        }
    }

    /// Starts a process to find out how this machine isolates hook processes.
    ///
    /// # Errors
    ///
    /// `Refused` if it cannot isolate them, in which case no hook runs; the message names what is missing.
    pub fn isolation(&self) -> Result<Isolation, PortError> {
        let Some(starter) = &self.starter else {
            let detail = "the configuration names no program for hook processes";
            return Err(PortError::new(
                &RUNNER,
                "check the isolation of hooks",
                detail,
            ));
        };
        process_runner::probe(
            &starter.confined(self.config.confinement(&self.config.scripts.plugin)),
        )
    }

    /// Adds a driver that is linked into the program; the SDK's `static_driver` returns it.
    ///
    /// # Errors
    ///
    /// `Broken` or `Refused` if its declaration or its configuration is malformed.
    pub fn register(&self, plugin: &'static Plugin) -> Result<(), PortError> {
        library::check(plugin, "register a driver of this program")?;
        let driver = self.driver(plugin)?;
        self.state().linked.push(Arc::new(driver));
        Ok(())
    }

    /// Allows the library `file` of the plugin folder: pins its SHA-256 for its name and version.
    ///
    /// # Errors
    ///
    /// The error of loading it; `Refused` if `plugins.lock` cannot be written.
    pub fn allow(&self, file: &str) -> Result<Pin, PortError> {
        let seen = self.inspect_checked(&folder::read(&self.config.dir, file)?)?;
        let pin = Pin {
            name: seen.declaration.name,
            version: seen.declaration.version,
            file: file.to_owned(),
            sha256: seen.sha256,
            superseded: false,
        };
        let _one_at_a_time = self.state();
        let mut lock = Lock::read(&self.config.dir)?;
        lock.add_plugin(pin.clone());
        lock.write(&self.config.dir)?;
        Ok(pin)
    }

    /// Every pinned plugin and whether it is usable. Loads those that are not loaded yet.
    ///
    /// # Errors
    ///
    /// `Refused` if `plugins.lock` cannot be read.
    pub fn status(&self) -> Result<Vec<PluginStatus>, PortError> {
        let pins = Lock::read(&self.config.dir)?.plugins.into_iter();
        Ok(pins
            .map(|pin| {
                let outcome = self.load(&pin).map(|driver| driver.declaration().clone());
                PluginStatus { pin, outcome }
            })
            .collect())
    }

    /// Inspects the pinned library of `name` or `name@version`.
    ///
    /// # Errors
    ///
    /// `Refused` if there is none, or it cannot be loaded.
    pub fn inspect(&self, name: &str) -> Result<Inspection, PortError> {
        let lock = Lock::read(&self.config.dir)?;
        match self.select(name, &lock) {
            Some(Candidate::Pinned(pin)) => {
                self.inspect_checked(&folder::read_pinned(&self.config.dir, &pin)?)
            }
            _ => Err(self.not_found(name, name, &lock)),
        }
    }

    /// Number of threads abandoned because their hooks did not stop after their deadlines.
    pub fn abandoned_threads(&self) -> usize {
        self.threads.left_behind()
    }

    /// The folder with the libraries and `plugins.lock`.
    pub fn dir(&self) -> &Path {
        &self.config.dir
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inspects a library, in a separate process if one is configured.
    fn inspect_checked(&self, checked: &Checked) -> Result<Inspection, PortError> {
        match &self.starter {
            Some(starter) => process_runner::inspect(starter, checked),
            None => library::inspect_checked(&self.libraries, checked),
        }
    }

    fn driver(&self, plugin: &'static Plugin) -> Result<PluginDriver, PortError> {
        let (clock, threads) = (self.clock.clone(), self.threads.clone());
        PluginDriver::new(
            plugin,
            |name| self.config.plugin_config(name),
            clock,
            threads,
        )
    }

    /// The driver of a library, with hooks in this process or in separate ones.
    fn open(&self, pin: &Pin, checked: &Checked) -> Result<Arc<dyn MgmtDriver>, PortError> {
        if self.config.runner(&pin.name) == Runner::InProcess {
            if pin.name == self.config.scripts.plugin && !self.config.scripts.network {
                let detail =
                    "it runs scripts, and only separate processes can be denied the network";
                return Err(PortError::new(
                    &RUNNER,
                    format!("load plugin `{pin}`"),
                    detail,
                ));
            }
            let driver = self.driver(self.libraries.open(checked)?)?;
            return Ok(Arc::new(driver.with_library(&checked.sha256)));
        }
        let Some(starter) = &self.starter else {
            let detail = "its hooks run in separate processes, and the configuration names no program for them";
            return Err(PortError::new(
                &RUNNER,
                format!("load plugin `{pin}`"),
                detail,
            ));
        };
        let config = |name: &str| self.config.plugin_config(name);
        let starter = starter.confined(self.config.confinement(&pin.name));
        Ok(Arc::new(ProcessDriver::new(
            &starter,
            checked,
            config,
            self.clock.clone(),
        )?))
    }

    fn select(&self, requested: &str, lock: &Lock) -> Option<Candidate> {
        let (name, version) = match requested.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (requested, None),
        };
        let linked = self.state().linked.clone().into_iter();
        let linked = linked
            .filter(|driver| driver.declaration().name == name)
            .map(Candidate::Linked);
        let current = |pin: &&Pin| pin.name == name && !pin.superseded;
        let pinned = lock
            .plugins
            .iter()
            .filter(current)
            .cloned()
            .map(Candidate::Pinned);
        linked
            .chain(pinned)
            .filter(|candidate| version.is_none_or(|version| version == candidate.version()))
            .max_by(|a, b| newer(a.version(), b.version()))
    }

    fn load(&self, pin: &Pin) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let sha256 = pin.sha256.to_ascii_lowercase();
        let mut state = self.state();
        let driver = if let Some(driver) = state.loaded.get(&sha256) {
            driver.clone()
        } else {
            let checked = folder::read_pinned(&self.config.dir, pin)?;
            self.open(pin, &checked)?
        };
        let declaration = driver.declaration();
        if (&declaration.name, &declaration.version) != (&pin.name, &pin.version) {
            let detail = format!(
                "its declaration says `{}@{}`",
                declaration.name, declaration.version
            );
            return Err(PortError::new(
                &MISNAMED,
                format!("load plugin `{pin}`"),
                detail,
            ));
        }
        if state.loaded.insert(sha256, driver.clone()).is_none() {
            let runner = self.config.runner(&pin.name);
            tracing::info!(plugin = %pin, sha256 = pin.sha256, ?runner, "plugin loaded");
        }
        Ok(driver)
    }

    /// The protocol of `script`, if its package is allowed to run scripts; `None` is JSON.
    fn allowed_protocol(
        &self,
        hook: &HookDriverRef<'_>,
        script: HookScriptRef<'_>,
    ) -> Result<Option<ScriptProtocol>, PortError> {
        let lock = Lock::read(&self.config.dir)?;
        let pin = lock.package(script.package);
        let allowed = match self.config.scripts.allow {
            AllowedScripts::All => true,
            AllowedScripts::None => false,
            AllowedScripts::Pinned => pin.is_some(),
        };
        if allowed {
            return Ok(pin.and_then(|pin| pin.protocol));
        }
        let action = format!(
            "run `{}` of the package for `{}`",
            script.path, hook.implementation
        );
        let detail = format!(
            "scripts of the package with SHA-256 {} are not allowed (`plugins.scripts.allow` is `{}`, the lock file is `{}`)",
            script.package,
            self.config.scripts.allow,
            self.dir().join(LOCK_FILE).display(),
        );
        Err(PortError::new(&SCRIPT, action, detail))
    }

    /// The hook's script, unless a plugin is named for the hook or mapped to its implementation.
    fn script<'a>(&self, hook: &HookDriverRef<'a>) -> Option<HookScriptRef<'a>> {
        let named = hook.plugin.is_some()
            || self
                .config
                .implementations
                .contains_key(hook.implementation);
        hook.script.filter(|_| !named)
    }

    fn not_found(&self, implementation: &str, requested: &str, lock: &Lock) -> PortError {
        let pinned = lock.plugins.iter().map(|pin| format!("`{pin}`"));
        let state = self.state();
        let linked = state.linked.iter().map(|driver| {
            let declaration = driver.declaration();
            format!("`{}@{}`", declaration.name, declaration.version)
        });
        let mut available: Vec<_> = pinned.chain(linked).collect();
        available.sort();
        let available = if available.is_empty() {
            "none are installed".into()
        } else {
            available.join(", ")
        };
        let action = format!("find a plugin for implementation `{implementation}`");
        let detail = format!(
            "no plugin `{requested}` in `{}`; available: {available}",
            self.dir().display()
        );
        PortError::new(&NOT_FOUND, action, detail)
    }
}

impl PluginHost {
    /// The newest plugin of a name, or the version that the name contains.
    fn find(
        &self,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let mapped = self
            .config
            .implementations
            .get(implementation)
            .map(String::as_str);
        let requested = plugin.or(mapped).unwrap_or(implementation);
        let lock = Lock::read(&self.config.dir)?;
        match self.select(requested, &lock) {
            Some(Candidate::Linked(driver)) => Ok(driver),
            Some(Candidate::Pinned(pin)) => Ok(self.load(&pin)?),
            None => Err(self.not_found(implementation, requested, &lock)),
        }
    }

    /// The driver with which an operation began: linked, newest, or another one in `plugins.lock`.
    fn find_exact(
        &self,
        began: &DriverId,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let linked = self
            .state()
            .linked
            .iter()
            .find(|driver| driver.id() == *began)
            .cloned();
        if let Some(driver) = linked {
            return Ok(driver);
        }
        let now = self.find(implementation, plugin);
        if let Ok(driver) = &now
            && driver.id() == *began
        {
            return Ok(driver.clone());
        }
        let same = |pin: &Pin| {
            began
                .sha256
                .as_deref()
                .is_some_and(|sha256| pin.has_hash(sha256))
        };
        let old = Lock::read(&self.config.dir)?.plugins.into_iter().find(same);
        let unavailable = |error: Option<PortError>| match error {
            Some(error) => replaced(began, Err(error)),
            None => replaced(began, now.map(|driver| driver.id())),
        };
        match old {
            Some(pin) => self.load(&pin).map_err(|error| {
                tracing::warn!(plugin = %pin, %error, "cannot load the plugin that the operation started with");
                unavailable(Some(error))
            }),
            None => Err(unavailable(None)),
        }
    }
}

impl MgmtDrivers for PluginHost {
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        // The script's package must be allowed, whichever version of the plugin runs it.
        let script = self.script(wanted);
        let protocol = script.map(|script| self.allowed_protocol(wanted, script));
        let protocol = protocol.transpose()?;
        let runs_script = protocol.map(|_| self.config.scripts.plugin.as_str());
        let plugin = runs_script.or(wanted.plugin);
        let implementation = wanted.implementation;
        let driver = match wanted.version {
            DriverVersion::Newest => self.find(implementation, plugin),
            DriverVersion::Deployed(deployed) => self.find(implementation, Some(deployed)),
            DriverVersion::Exact(began) => self.find_exact(began, implementation, plugin),
        }?;
        Ok(script_driver::with_protocol(driver, protocol.flatten()))
    }

    fn list(&self) -> Vec<Declaration> {
        let linked: Vec<_> = self
            .state()
            .linked
            .iter()
            .map(|driver| driver.declaration().clone())
            .collect();
        let pinned = self.status().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the plugin list");
            Vec::new()
        });
        let usable = pinned.into_iter().filter_map(|status| {
            let pin = status.pin;
            if pin.superseded {
                return None;
            }
            status
                .outcome
                .inspect_err(|error| tracing::warn!(plugin = %pin, %error, "plugin is not usable"))
                .ok()
        });
        linked.into_iter().chain(usable).collect()
    }
}
