//! Which plugin serves a VNFD's hook: by name, newest version first, loaded at first use.

use crate::config::{AllowedScripts, Config, Runner, Seclusion};
use crate::driver::PluginDriver;
use crate::errors::{MISNAMED, NOT_FOUND, RUNNER, SCRIPT};
use crate::folder::{self, Checked};
use crate::isolation::Isolation;
use crate::library::{self, Inspection, Libraries};
use crate::lock::{LOCK_FILE, Lock, Pin, newer};
use crate::process::{self, ProcessDriver, Starter};
use crate::runner::Threads;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::{
    Clock, Declaration, DriverId, HookDriverRef, HookScriptRef, MgmtDriver, MgmtDrivers, PortError,
    replaced,
};
use vnfm_plugin_abi::Plugin;

/// All plugins of one engine.
///
/// `plugins.lock` is read at each use, so a plugin that is allowed while the server runs is there at once.
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
    /// By the SHA-256 of their libraries.
    loaded: BTreeMap<String, Arc<dyn MgmtDriver>>,
}

/// A pinned plugin, and whether it can be used.
#[derive(Debug)]
#[non_exhaustive]
pub struct PluginStatus {
    /// What is allowed.
    pub pin: Pin,
    /// What it says of itself, or why it cannot be used.
    pub outcome: Result<Declaration, PortError>,
}

enum Found {
    Linked(Arc<dyn MgmtDriver>),
    Pinned(Pin),
}

impl Found {
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
    /// The plugins of the folder that `config` names. Nothing is loaded yet, and nothing has to be there.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Self {
        let seclusion = Seclusion {
            network: true,
            ..config.seclusion("")
        };
        let starter = config.process.clone();
        let starter = starter.map(|process| Arc::new(Starter::new(process, seclusion)));
        Self {
            config,
            starter,
            clock,
            threads: Arc::default(),
            libraries: Libraries::default(),
            state: Mutex::default(),
        }
    }

    /// How hooks in processes are kept from the server on this machine, as a process says that was started for this.
    ///
    /// # Errors
    ///
    /// `Refused` where they cannot be kept from it, so that none runs; what is missing is named.
    pub fn isolation(&self) -> Result<Isolation, PortError> {
        let Some(starter) = &self.starter else {
            let what = "the configuration names no program for processes of hooks";
            return Err(PortError::new(
                &RUNNER,
                "find out how hooks are kept apart",
                what,
            ));
        };
        process::probe(&starter.secluded(self.config.seclusion(&self.config.scripts.plugin)))
    }

    /// Adds a driver that is linked into the program, as the SDK's `static_driver` gives it.
    ///
    /// # Errors
    ///
    /// As for any plugin: its declaration or its configuration has the wrong shape.
    pub fn register(&self, plugin: &'static Plugin) -> Result<(), PortError> {
        library::check(plugin, "register a driver of this program")?;
        let driver = self.driver(plugin)?;
        self.state().linked.push(Arc::new(driver));
        Ok(())
    }

    /// Allows the library `file` of the plugin folder, whose bytes are from now on the only ones that are
    /// loaded as that name and version.
    ///
    /// # Errors
    ///
    /// As for any plugin that cannot be loaded; `Refused` where the list cannot be written.
    pub fn allow(&self, file: &str) -> Result<Pin, PortError> {
        let seen = self.look(&folder::read(&self.config.dir, file)?)?;
        let pin = Pin {
            name: seen.declaration.name,
            version: seen.declaration.version,
            file: file.to_owned(),
            sha256: seen.sha256,
            superseded: false,
        };
        let _one_at_a_time = self.state();
        let mut lock = Lock::read(&self.config.dir)?;
        lock.add(pin.clone());
        lock.write(&self.config.dir)?;
        Ok(pin)
    }

    /// Every pinned plugin, and whether it can be used.
    ///
    /// # Errors
    ///
    /// `Refused` where the list cannot be read.
    pub fn status(&self) -> Result<Vec<PluginStatus>, PortError> {
        let pins = Lock::read(&self.config.dir)?.plugins.into_iter();
        Ok(pins
            .map(|pin| {
                let outcome = self.load(&pin).map(|driver| driver.declaration().clone());
                PluginStatus { pin, outcome }
            })
            .collect())
    }

    /// What the library of `name` (or `name@version`) says of itself.
    ///
    /// # Errors
    ///
    /// `Refused` where there is none, or it cannot be loaded.
    pub fn inspect(&self, name: &str) -> Result<Inspection, PortError> {
        let lock = Lock::read(&self.config.dir)?;
        match self.choose(name, &lock) {
            Some(Found::Pinned(pin)) => self.look(&folder::read_pinned(&self.config.dir, &pin)?),
            _ => Err(self.not_found(name, name, &lock)),
        }
    }

    /// How many threads are left behind by hooks that did not stop when they were told to.
    pub fn left_behind(&self) -> usize {
        self.threads.left_behind()
    }

    /// The folder of the libraries.
    pub fn dir(&self) -> &Path {
        &self.config.dir
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks into a library, in a process of its own where there are processes.
    fn look(&self, checked: &Checked) -> Result<Inspection, PortError> {
        match &self.starter {
            Some(starter) => process::look(starter, checked),
            None => library::look(&self.libraries, checked),
        }
    }

    fn driver(&self, plugin: &'static Plugin) -> Result<PluginDriver, PortError> {
        let (clock, threads) = (self.clock.clone(), self.threads.clone());
        PluginDriver::new(plugin, |name| self.config.of(name), clock, threads)
    }

    /// The driver of a library, in this process or in others.
    fn open(&self, pin: &Pin, checked: &Checked) -> Result<Arc<dyn MgmtDriver>, PortError> {
        if self.config.runner(&pin.name) == Runner::InProcess {
            if pin.name == self.config.scripts.plugin && !self.config.scripts.network {
                let what = "it runs scripts, which have no network only in processes of their own";
                return Err(PortError::new(
                    &RUNNER,
                    format!("load plugin `{pin}`"),
                    what,
                ));
            }
            let driver = self.driver(self.libraries.open(checked)?)?;
            return Ok(Arc::new(driver.of_library(&checked.sha256)));
        }
        let Some(starter) = &self.starter else {
            let what =
                "it runs in processes of its own, and the configuration names no program for them";
            return Err(PortError::new(
                &RUNNER,
                format!("load plugin `{pin}`"),
                what,
            ));
        };
        let config = |name: &str| self.config.of(name);
        let starter = starter.secluded(self.config.seclusion(&pin.name));
        Ok(Arc::new(ProcessDriver::new(
            &starter,
            checked,
            config,
            self.clock.clone(),
        )?))
    }

    fn choose(&self, wanted: &str, lock: &Lock) -> Option<Found> {
        let (name, version) = match wanted.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (wanted, None),
        };
        let linked = self.state().linked.clone().into_iter();
        let linked = linked
            .filter(|driver| driver.declaration().name == name)
            .map(Found::Linked);
        let current = |pin: &&Pin| pin.name == name && !pin.superseded;
        let pinned = lock
            .plugins
            .iter()
            .filter(current)
            .cloned()
            .map(Found::Pinned);
        linked
            .chain(pinned)
            .filter(|found| version.is_none_or(|version| version == found.version()))
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
        let says = driver.declaration();
        if (&says.name, &says.version) != (&pin.name, &pin.version) {
            let what = format!("it calls itself `{}@{}`", says.name, says.version);
            return Err(PortError::new(
                &MISNAMED,
                format!("load plugin `{pin}`"),
                what,
            ));
        }
        if state.loaded.insert(sha256, driver.clone()).is_none() {
            let runner = self.config.runner(&pin.name);
            tracing::info!(plugin = %pin, sha256 = pin.sha256, ?runner, "plugin loaded");
        }
        Ok(driver)
    }

    /// The spelling of the plugin that runs `script`, which must be allowed.
    fn runs(
        &self,
        wanted: &HookDriverRef<'_>,
        script: HookScriptRef<'_>,
    ) -> Result<&str, PortError> {
        let allowed = match self.config.scripts.allow {
            AllowedScripts::All => true,
            AllowedScripts::None => false,
            AllowedScripts::Pinned => {
                Lock::read(&self.config.dir)?.allows_scripts_of(script.package)
            }
        };
        if allowed {
            return Ok(&self.config.scripts.plugin);
        }
        let doing = format!(
            "run `{}` of the package for `{}`",
            script.path, wanted.implementation
        );
        let what = format!(
            "scripts of the package with SHA-256 {} are not allowed (`plugins.scripts.allow` is `{}`, the list is `{}`)",
            script.package,
            self.config.scripts.allow,
            self.dir().join(LOCK_FILE).display(),
        );
        Err(PortError::new(&SCRIPT, doing, what))
    }

    /// The script of a hook that no plugin serves by its name.
    fn script<'a>(&self, wanted: &HookDriverRef<'a>) -> Option<HookScriptRef<'a>> {
        let named = wanted.plugin.is_some()
            || self
                .config
                .implementations
                .contains_key(wanted.implementation);
        wanted.script.filter(|_| !named)
    }

    fn not_found(&self, implementation: &str, wanted: &str, lock: &Lock) -> PortError {
        let pinned = lock.plugins.iter().map(|pin| format!("`{pin}`"));
        let state = self.state();
        let linked = state.linked.iter().map(|driver| {
            let says = driver.declaration();
            format!("`{}@{}`", says.name, says.version)
        });
        let mut there: Vec<_> = pinned.chain(linked).collect();
        there.sort();
        let there = if there.is_empty() {
            "there are none".into()
        } else {
            there.join(", ")
        };
        let doing = format!("find a plugin for implementation `{implementation}`");
        let what = format!(
            "no plugin `{wanted}` among those of `{}`: {there}",
            self.dir().display()
        );
        PortError::new(&NOT_FOUND, doing, what)
    }
}

impl MgmtDrivers for PluginHost {
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
        let wanted = plugin.or(mapped).unwrap_or(implementation);
        let lock = Lock::read(&self.config.dir)?;
        match self.choose(wanted, &lock) {
            Some(Found::Linked(driver)) => Ok(driver),
            Some(Found::Pinned(pin)) => Ok(self.load(&pin)?),
            None => Err(self.not_found(implementation, wanted, &lock)),
        }
    }

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
        let same = |pin: &Pin| began.sha256.as_deref().is_some_and(|sha256| pin.is(sha256));
        let old = Lock::read(&self.config.dir)?.plugins.into_iter().find(same);
        let gone = |why: Option<PortError>| match why {
            Some(why) => replaced(began, Err(why)),
            None => replaced(began, now.map(|driver| driver.id())),
        };
        match old {
            Some(pin) => self.load(&pin).map_err(|why| {
                tracing::warn!(plugin = %pin, error = %why, "an operation began with it");
                gone(Some(why))
            }),
            None => Err(gone(None)),
        }
    }

    fn for_hook(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        match self.script(wanted) {
            Some(script) => self.find(wanted.implementation, Some(self.runs(wanted, script)?)),
            None => self.find(wanted.implementation, wanted.plugin),
        }
    }

    fn for_deployed_hook(
        &self,
        kept: &str,
        wanted: &HookDriverRef<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        // A script's package must be allowed whichever version of the plugin runs it.
        if let Some(script) = self.script(wanted) {
            self.runs(wanted, script)?;
        }
        self.find(wanted.implementation, Some(kept))
    }

    fn for_running_hook(
        &self,
        began: &DriverId,
        wanted: &HookDriverRef<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let plugin = match self.script(wanted) {
            Some(script) => Some(self.runs(wanted, script)?),
            None => wanted.plugin,
        };
        self.find_exact(began, wanted.implementation, plugin)
    }

    fn list(&self) -> Vec<Declaration> {
        let linked: Vec<_> = self
            .state()
            .linked
            .iter()
            .map(|driver| driver.declaration().clone())
            .collect();
        let pinned = self.status().unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of plugins cannot be read");
            Vec::new()
        });
        let usable = pinned.into_iter().filter_map(|status| {
            let pin = status.pin;
            if pin.superseded {
                return None;
            }
            status
                .outcome
                .inspect_err(|error| tracing::warn!(plugin = %pin, %error, "not usable"))
                .ok()
        });
        linked.into_iter().chain(usable).collect()
    }
}
