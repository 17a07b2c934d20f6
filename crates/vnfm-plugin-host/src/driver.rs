//! One plugin as core's `MgmtDriver`: creates the driver at its first hook, runs hooks, parses their effects.
#![expect(unsafe_code, reason = "calls the plugin's `create`")]

use crate::errors::{
    ANSWER, CONFIG, CREATE, CREATE_PANICKED, DEADLINE, PANICKED, PROTOCOL, UNDECLARED,
    failure_error, failure_text,
};
use crate::library;
use crate::services::{HookGuard, LogOnly};
use crate::thread_runner::{self, Threads};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{
    Clock, Declaration, DriverId, Effects, HookHost, HookRequest, MgmtDriver, PortError,
};
use vnfm_plugin_abi::{
    Buf, Driver, FfiError, Host, PANICKED as STATUS_PANICKED, Plugin, READY_ERR, READY_OK, Slice,
};
use vnfm_plugin_messages::Failure;
use vnfm_schema::schema_violations;

/// A plugin whose hooks run in this process, from a library or linked into the program.
pub struct PluginDriver {
    declaration: Declaration,
    /// SHA-256 of its library; `None` if it is linked into the program.
    sha256: Option<String>,
    clock: Arc<dyn Clock>,
    threads: Arc<Threads>,
    factory: Arc<DriverFactory>,
}

impl std::fmt::Debug for PluginDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginDriver({})", self.factory.name)
    }
}

/// Creates the plugin's driver at the first hook; after a failure, the next hook tries again.
struct DriverFactory {
    name: String,
    plugin: &'static Plugin,
    config: Vec<u8>,
    driver_slot: Mutex<Option<Arc<Driver>>>,
}

impl PluginDriver {
    /// # Errors
    ///
    /// `Broken` if its declaration is malformed, `Refused` if `config` does not match its schema.
    pub(crate) fn new(
        plugin: &'static Plugin,
        config: impl FnOnce(&str) -> Value,
        clock: Arc<dyn Clock>,
        threads: Arc<Threads>,
    ) -> Result<Self, PortError> {
        let declaration = library::declaration(plugin)?;
        let name = format!("{}@{}", declaration.name, declaration.version);
        let config = config(&declaration.name);
        check_config(&name, declaration.config_schema.as_ref(), &config)?;
        let config = config.to_string().into_bytes();
        let factory = Arc::new(DriverFactory {
            name,
            plugin,
            config,
            driver_slot: Mutex::new(None),
        });
        Ok(Self {
            declaration,
            sha256: None,
            clock,
            threads,
            factory,
        })
    }

    /// Records that the plugin comes from the library with this SHA-256.
    pub(crate) fn with_library(mut self, sha256: &str) -> Self {
        self.sha256 = Some(sha256.to_owned());
        self
    }
}

pub(crate) const INCOMPLETE_DRIVER: &str = "its driver lacks `call` or `drop`";

/// A hook that may run: the action for errors, the time left, and its serialized request.
pub(crate) struct PreparedCall {
    pub(crate) action: String,
    pub(crate) limit: Duration,
    pub(crate) body: Vec<u8>,
}

fn bad_request(action: &str, detail: String) -> PortError {
    PortError::new(&ANSWER, action, detail)
}

/// Checks that `plugin` has the hook, and that its deadline has not passed.
///
/// # Errors
///
/// `Refused` if the plugin does not declare the hook, `Unavailable` if the deadline has passed.
pub(crate) fn prepare_call(
    request: &HookRequest,
    plugin: &str,
    declared: &Declaration,
    clock: &dyn Clock,
) -> Result<PreparedCall, PortError> {
    let action = format!("run hook `{}` of plugin `{plugin}`", request.hook);
    if !declared.hooks.contains_key(&request.hook) {
        let known: Vec<_> = declared.hooks.keys().collect();
        return Err(PortError::new(
            &UNDECLARED,
            action,
            format!("it implements {known:?}"),
        ));
    }
    let deadline: Timestamp = request
        .deadline
        .parse()
        .map_err(|error| bad_request(&action, format!("its deadline: {error}")))?;
    let left = deadline.duration_since(clock.now());
    if !left.is_positive() {
        return Err(PortError::new(
            &DEADLINE,
            action,
            "its deadline has already passed",
        ));
    }
    let body =
        serde_json::to_vec(request).map_err(|error| bad_request(&action, error.to_string()))?;
    Ok(PreparedCall {
        action,
        limit: left.unsigned_abs(),
        body,
    })
}

#[async_trait]
impl MgmtDriver for PluginDriver {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn id(&self) -> DriverId {
        let Declaration { name, version, .. } = self.declaration.clone();
        DriverId {
            name,
            version,
            sha256: self.sha256.clone(),
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
        } = prepare_call(
            &request,
            &self.factory.name,
            &self.declaration,
            &*self.clock,
        )?;
        let (factory, detail, log_host) = (self.factory.clone(), action.clone(), host.clone());
        let answer = thread_runner::run(&self.threads, &action, limit, |runtime| async move {
            let driver = factory.driver()?;
            let ends = HookGuard::hook(&detail, host, runtime);
            let host = Host::new(ends.services());
            let future = driver.call(host, &request.hook, &body);
            let future = future.ok_or_else(|| protocol(&detail, INCOMPLETE_DRIVER))?;
            future.await.map_err(|error| hook_error(error, detail))
        });
        effects(&action, answer.await??.as_bytes(), &*log_host)
    }
}

/// Reports every member of the configuration that violates the schema, without its value, which may be a secret.
pub(crate) fn check_config(
    name: &str,
    schema: Option<&Value>,
    config: &Value,
) -> Result<(), PortError> {
    let action = format!("configure plugin `{name}`");
    let Some(schema) = schema else { return Ok(()) };
    let errors = schema_violations(schema, config, "config").map_err(|error| {
        PortError::new(
            &CONFIG,
            &*action,
            format!("its schema is not a JSON Schema: {error}"),
        )
    })?;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(PortError::new(&CONFIG, action, errors.join("; ")))
    }
}

impl DriverFactory {
    /// The driver, created if necessary. A plugin that hangs here blocks its own hooks until their deadlines.
    fn driver(&self) -> Result<Arc<Driver>, PortError> {
        let mut driver_slot = self
            .driver_slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = &*driver_slot {
            return Ok(driver.clone());
        }
        let driver = Arc::new(self.create_driver()?);
        *driver_slot = Some(driver.clone());
        Ok(driver)
    }

    fn create_driver(&self) -> Result<Driver, PortError> {
        let action = format!("start plugin `{}`", self.name);
        let Some(create) = self.plugin.create else {
            return Err(protocol(&action, "it has no `create`"));
        };
        let host = Host::new(Arc::new(LogOnly {
            plugin: self.name.clone(),
        }));
        let mut driver = MaybeUninit::<Driver>::uninit();
        let mut error = Buf::EMPTY;
        let config = Slice::new(&self.config);
        // SAFETY: `create` takes the host, reads the configuration and writes the driver or the error.
        let status = unsafe { create(host, config, driver.as_mut_ptr(), &raw mut error) };
        match status {
            // SAFETY: with this status, `create` has written the driver.
            READY_OK => Ok(unsafe { driver.assume_init() }),
            status => Err(create_error(status, error.as_bytes(), action)),
        }
    }
}

/// The error for a failed `create`, from its status and error buffer.
pub(crate) fn create_error(status: u32, error: &[u8], action: String) -> PortError {
    let text = || String::from_utf8_lossy(error);
    match status {
        STATUS_PANICKED => PortError::new(&CREATE_PANICKED, action, text()),
        READY_ERR => match serde_json::from_slice::<Failure>(error) {
            Ok(failure) => PortError::new(&CREATE, action, failure_text(&failure)),
            Err(_) => PortError::new(&CREATE, action, text()),
        },
        other => protocol(&action, &format!("`create` returned {other}")),
    }
}

/// The error for a hook whose future failed.
pub(crate) fn hook_error(error: FfiError, action: String) -> PortError {
    match error {
        FfiError::Answer(bytes) => match serde_json::from_slice::<Failure>(&bytes) {
            Ok(failure) => failure_error(failure, action),
            Err(error) => {
                let detail = format!("it failed, and its error is malformed: {error}");
                PortError::new(&ANSWER, action, detail)
            }
        },
        FfiError::Panicked(said) => PortError::new(&PANICKED, action, said),
        FfiError::Protocol(status) => protocol(&action, &format!("`poll` returned {status}")),
        other => protocol(&action, &format!("{other:?}")),
    }
}

/// The error for a plugin that violates the ABI.
pub(crate) fn protocol(action: &str, detail: &str) -> PortError {
    PortError::new(&PROTOCOL, action, detail)
}

/// Parses the effects that a hook returned.
///
/// Members that only a newer host supports are ignored, with a warning in the operation's log.
///
/// # Errors
///
/// `Broken` if the effects are malformed.
pub(crate) fn effects(
    action: &str,
    bytes: &[u8],
    host: &dyn HookHost,
) -> Result<Effects, PortError> {
    let bad = |detail: String| PortError::new(&ANSWER, action, detail);
    let effects: Effects =
        serde_json::from_slice(bytes).map_err(|error| bad(format!("its effects: {error}")))?;
    if effects.schema_version != 1 {
        return Err(bad(format!(
            "its effects are of schemaVersion {}, not 1",
            effects.schema_version
        )));
    }
    if effects
        .register_vims
        .iter()
        .any(|vim| vim.name.is_empty() || vim.vim_type.is_empty())
    {
        return Err(bad(
            "a VIM in `registerVims` has no name or no vimType".into()
        ));
    }
    for name in unknown(bytes) {
        let line =
            format!("ignoring `{name}` in its effects: this version of vnfm does not support it");
        host.log("warn", &line);
    }
    Ok(effects)
}

/// Members of the effects that this version does not support.
fn unknown(effects: &[u8]) -> Vec<String> {
    match serde_json::from_slice::<Map<String, Value>>(effects) {
        Ok(members) => members
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !Effects::MEMBERS.contains(&name.as_str()))
            .collect(),
        Err(error) => vec![format!("(not an object: {error})")],
    }
}
