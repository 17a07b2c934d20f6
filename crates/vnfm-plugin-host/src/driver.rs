//! One plugin as core's `MgmtDriver`: makes the driver at its first hook, runs hooks, reads their answers.
#![expect(unsafe_code, reason = "calls the plugin's `create`")]

use crate::errors::{
    ANSWER, CONFIG, CREATE, CREATE_PANICKED, DEADLINE, HookFailure, PANICKED, PROTOCOL, UNDECLARED,
};
use crate::library;
use crate::runner::{self, Threads};
use crate::services::{EndsWith, LogOnly};
use async_trait::async_trait;
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
use vnfm_schema::schema_violations;

/// One plugin, loaded or linked into the program.
pub struct PluginDriver {
    declaration: Declaration,
    /// Of its library; nothing where it is linked into the program.
    sha256: Option<String>,
    clock: Arc<dyn Clock>,
    threads: Arc<Threads>,
    maker: Arc<Maker>,
}

impl std::fmt::Debug for PluginDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginDriver({})", self.maker.name)
    }
}

/// Makes the plugin's driver at the first hook; a plugin that refuses is asked again at the next.
struct Maker {
    name: String,
    plugin: &'static Plugin,
    config: Vec<u8>,
    made: Mutex<Option<Arc<Driver>>>,
}

impl PluginDriver {
    /// Takes a checked plugin with its configuration.
    ///
    /// # Errors
    ///
    /// `Broken` where its declaration, `Refused` where its configuration has the wrong shape.
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
        let maker = Arc::new(Maker {
            name,
            plugin,
            config,
            made: Mutex::new(None),
        });
        Ok(Self {
            declaration,
            sha256: None,
            clock,
            threads,
            maker,
        })
    }

    /// The same, out of a library.
    pub(crate) fn of_library(mut self, sha256: &str) -> Self {
        self.sha256 = Some(sha256.to_owned());
        self
    }
}

/// What a driver is that cannot be called.
pub(crate) const NOT_WHOLE: &str = "its driver lacks `call` or `drop`";

/// A hook that may run: what is being done, for how long, and its request as it crosses the boundary.
pub(crate) struct Call {
    pub(crate) doing: String,
    pub(crate) limit: Duration,
    pub(crate) body: Vec<u8>,
}

/// Checks that `plugin` has the hook, and that there is time left for it.
///
/// # Errors
///
/// `Refused` where it does not declare it, `Unavailable` where its deadline is over.
pub(crate) fn ready(
    request: &HookRequest,
    plugin: &str,
    declared: &Declaration,
    clock: &dyn Clock,
) -> Result<Call, PortError> {
    let doing = format!("run hook `{}` of plugin `{plugin}`", request.hook);
    if !declared.hooks.contains_key(&request.hook) {
        let known: Vec<_> = declared.hooks.keys().collect();
        return Err(PortError::new(
            &UNDECLARED,
            doing,
            format!("it implements {known:?}"),
        ));
    }
    let left = request.deadline.duration_since(clock.now());
    if !left.is_positive() {
        return Err(PortError::new(
            &DEADLINE,
            doing,
            "its deadline has passed already",
        ));
    }
    let body = serde_json::to_vec(request)
        .map_err(|error| PortError::new(&ANSWER, doing.clone(), error.to_string()))?;
    Ok(Call {
        doing,
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
        let Call { doing, limit, body } =
            ready(&request, &self.maker.name, &self.declaration, &*self.clock)?;
        let (maker, what, told) = (self.maker.clone(), doing.clone(), host.clone());
        let answer = runner::run(&self.threads, &doing, limit, |runtime| async move {
            let driver = maker.driver()?;
            let ends = EndsWith::hook(&what, host, runtime);
            let host = Host::new(ends.side());
            let future = driver.call(host, &request.hook, &body);
            let future = future.ok_or_else(|| protocol(&what, NOT_WHOLE))?;
            future.await.map_err(|error| hook_error(error, what))
        });
        effects(&doing, answer.await??.as_bytes(), &*told)
    }
}

/// All places where a configuration does not fit, without what stands there: it may be a secret.
pub(crate) fn check_config(
    name: &str,
    schema: Option<&Value>,
    config: &Value,
) -> Result<(), PortError> {
    let doing = format!("configure plugin `{name}`");
    let Some(schema) = schema else { return Ok(()) };
    let errors = schema_violations(schema, config, "config").map_err(|error| {
        PortError::new(
            &CONFIG,
            &*doing,
            format!("its schema is no JSON Schema: {error}"),
        )
    })?;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(PortError::new(&CONFIG, doing, errors.join("; ")))
    }
}

impl Maker {
    /// The driver, made now or before. A plugin that hangs here holds up its own hooks until their deadlines.
    fn driver(&self) -> Result<Arc<Driver>, PortError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = &*made {
            return Ok(driver.clone());
        }
        let driver = Arc::new(self.make()?);
        *made = Some(driver.clone());
        Ok(driver)
    }

    fn make(&self) -> Result<Driver, PortError> {
        let doing = format!("start plugin `{}`", self.name);
        let Some(create) = self.plugin.create else {
            return Err(protocol(&doing, "it has no `create`"));
        };
        let host = Host::new(Arc::new(LogOnly {
            plugin: self.name.clone(),
        }));
        let mut driver = MaybeUninit::<Driver>::uninit();
        let mut error = Buf::EMPTY;
        let config = Slice::new(&self.config);
        // SAFETY: `create` takes the host, reads the configuration and writes one of the other two.
        let status = unsafe { create(host, config, driver.as_mut_ptr(), &raw mut error) };
        match status {
            // SAFETY: the plugin says that it wrote the driver.
            READY_OK => Ok(unsafe { driver.assume_init() }),
            status => Err(create_error(status, error.as_bytes(), doing)),
        }
    }
}

/// Why a plugin makes no driver, from what `create` answered.
pub(crate) fn create_error(status: u32, error: &[u8], doing: String) -> PortError {
    let text = || String::from_utf8_lossy(error);
    match status {
        STATUS_PANICKED => PortError::new(&CREATE_PANICKED, doing, text()),
        READY_ERR => match serde_json::from_slice::<HookFailure>(error) {
            Ok(failure) => PortError::new(&CREATE, doing, failure.text()),
            Err(_) => PortError::new(&CREATE, doing, text()),
        },
        other => protocol(&doing, &format!("`create` answers {other}")),
    }
}

/// Why a hook has no effects, from what its future answered.
pub(crate) fn hook_error(error: FfiError, doing: String) -> PortError {
    match error {
        FfiError::Answer(bytes) => match serde_json::from_slice::<HookFailure>(&bytes) {
            Ok(failure) => failure.into_error(doing),
            Err(error) => {
                let what = format!("it failed, and its error has the wrong shape: {error}");
                PortError::new(&ANSWER, doing, what)
            }
        },
        FfiError::Panicked(said) => PortError::new(&PANICKED, doing, said),
        FfiError::Protocol(status) => protocol(&doing, &format!("`poll` answers {status}")),
        other => protocol(&doing, &format!("{other:?}")),
    }
}

/// The plugin broke the rules of the ABI.
pub(crate) fn protocol(doing: &str, what: &str) -> PortError {
    PortError::new(&PROTOCOL, doing, what)
}

/// Reads what a hook answered.
///
/// A newer SDK than this host may ask for more than it knows: that is not done, and said in the operation's log.
///
/// # Errors
///
/// `Broken` where it has the wrong shape.
pub(crate) fn effects(
    doing: &str,
    bytes: &[u8],
    host: &dyn HookHost,
) -> Result<Effects, PortError> {
    let bad = |what: String| PortError::new(&ANSWER, doing, what);
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
        let line = format!(
            "its effects ask for `{name}`: this version of vnfm does not know it, and does not do it"
        );
        host.log("warn", &line);
    }
    Ok(effects)
}

/// Members of effects that are none of ours.
fn unknown(effects: &[u8]) -> Vec<String> {
    let asked: Map<String, Value> = serde_json::from_slice(effects).unwrap_or_default();
    let known = serde_json::to_value(Effects::default()).unwrap_or_default();
    asked
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| known.get(name).is_none())
        .collect()
}
