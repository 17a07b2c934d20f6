//! One plugin as core's `MgmtDriver`: makes the driver at its first hook, runs hooks, reads their answers.
#![expect(unsafe_code, reason = "calls the plugin's `create`")]

use crate::errors::{
    ANSWER, CONFIG, CREATE, CREATE_PANICKED, DEADLINE, HookFailure, PANICKED, PROTOCOL, UNDECLARED,
};
use crate::library;
use crate::runner::{self, Threads};
use crate::services::{HookSide, LogOnly};
use async_trait::async_trait;
use serde_json::Value;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{Clock, Declaration, Effects, HookHost, HookRequest, MgmtDriver, PortError};
use vnfm_plugin_abi::{
    Buf, Driver, FfiError, Host, PANICKED as STATUS_PANICKED, Plugin, READY_ERR, READY_OK, Slice,
};

/// One plugin, loaded or linked into the program.
pub struct PluginDriver {
    declaration: Declaration,
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
        let maker = Arc::new(Maker { name, plugin, config, made: Mutex::new(None) });
        Ok(Self { declaration, clock, threads, maker })
    }

    fn time_left(&self, request: &HookRequest) -> Option<Duration> {
        let left = request.deadline.duration_since(self.clock.now());
        left.is_positive().then(|| left.unsigned_abs())
    }
}

#[async_trait]
impl MgmtDriver for PluginDriver {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        let doing = format!("run hook `{}` of plugin `{}`", request.hook, self.maker.name);
        if !self.declaration.hooks.contains_key(&request.hook) {
            let known: Vec<_> = self.declaration.hooks.keys().collect();
            return Err(PortError::new(&UNDECLARED, doing, format!("it implements {known:?}")));
        }
        let Some(limit) = self.time_left(&request) else {
            return Err(PortError::new(&DEADLINE, doing, "its deadline has passed already"));
        };
        let body = serde_json::to_vec(&request)
            .map_err(|error| PortError::new(&ANSWER, doing.clone(), error.to_string()))?;
        let (maker, what) = (self.maker.clone(), doing.clone());
        let answer = runner::run(&self.threads, &doing, limit, |runtime| async move {
            let driver = maker.driver()?;
            let host = Host::new(Arc::new(HookSide { host, runtime }));
            let future = driver.call(host, &request.hook, &body);
            let future =
                future.ok_or_else(|| protocol(&what, "its driver lacks `call` or `drop`"))?;
            future.await.map_err(|error| hook_error(error, what))
        });
        effects(&doing, answer.await??.as_bytes())
    }
}

/// All places where a configuration does not fit, without what stands there: it may be a secret.
fn check_config(name: &str, schema: Option<&Value>, config: &Value) -> Result<(), PortError> {
    let doing = format!("configure plugin `{name}`");
    let Some(schema) = schema else { return Ok(()) };
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        PortError::new(&CONFIG, &*doing, format!("its schema is no JSON Schema: {error}"))
    })?;
    let errors: Vec<_> = validator
        .iter_errors(config)
        .map(|error| {
            let place = error.instance_path().to_string().replace('/', ".");
            format!("config{place}: {}", error.masked_with("the value"))
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(PortError::new(&CONFIG, doing, errors.join("; "))) }
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
        let host = Host::new(Arc::new(LogOnly { plugin: self.name.clone() }));
        let mut driver = MaybeUninit::<Driver>::uninit();
        let mut error = Buf::EMPTY;
        let config = Slice::new(&self.config);
        // SAFETY: `create` takes the host, reads the configuration and writes one of the other two.
        let status = unsafe { create(host, config, driver.as_mut_ptr(), &raw mut error) };
        match status {
            // SAFETY: the plugin says that it wrote the driver.
            READY_OK => Ok(unsafe { driver.assume_init() }),
            STATUS_PANICKED => Err(PortError::new(&CREATE_PANICKED, doing, error.to_text())),
            READY_ERR => Err(match serde_json::from_slice::<HookFailure>(error.as_bytes()) {
                Ok(failure) => PortError::new(&CREATE, doing, failure.text()),
                Err(_) => PortError::new(&CREATE, doing, error.to_text()),
            }),
            other => Err(protocol(&doing, &format!("`create` answers {other}"))),
        }
    }
}

fn hook_error(error: FfiError, doing: String) -> PortError {
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

fn protocol(doing: &str, what: &str) -> PortError {
    PortError::new(&PROTOCOL, doing, what)
}

fn effects(doing: &str, bytes: &[u8]) -> Result<Effects, PortError> {
    let bad = |what: String| PortError::new(&ANSWER, doing, what);
    let effects: Effects =
        serde_json::from_slice(bytes).map_err(|error| bad(format!("its effects: {error}")))?;
    if effects.schema_version != 1 {
        return Err(bad(format!(
            "its effects are of schemaVersion {}, not 1",
            effects.schema_version
        )));
    }
    if effects.register_vims.iter().any(|vim| vim.name.is_empty() || vim.vim_type.is_empty()) {
        return Err(bad("a VIM in `registerVims` has no name or no vimType".into()));
    }
    Ok(effects)
}
