//! The driver trait, and the list of hooks from which the plugin's declaration is generated.

use crate::context::HookContext;
use crate::error::DriverError;
use crate::messages::effects::Effects;
use crate::messages::request::HookRequest;
use futures::future::BoxFuture;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A VNF vendor's lifecycle code. See the [crate documentation](crate) for an example with a hook.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use vnfm_plugin_sdk::{DriverError, Hooks, MgmtDriver};
///
/// /// Read from `plugins.config.NAME` of the server's configuration.
/// #[derive(Deserialize, JsonSchema)]
/// pub struct Config {
///     /// Servers to configure concurrently.
///     concurrency: usize,
/// }
///
/// pub struct Rolling {
///     concurrency: usize,
/// }
///
/// impl MgmtDriver for Rolling {
///     type Config = Config;
///
///     fn new(config: Config) -> Result<Self, DriverError> {
///         match config.concurrency {
///             0 => Err(DriverError::new("bad-config", "`concurrency` must be at least 1")),
///             concurrency => Ok(Self { concurrency }),
///         }
///     }
///
///     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
///         hooks
///     }
/// }
///
/// assert_eq!(Rolling::new(Config { concurrency: 0 }).err().unwrap().code, "bad-config");
/// assert_eq!(Rolling::new(Config { concurrency: 2 }).unwrap().concurrency, 2);
/// ```
pub trait MgmtDriver: Sized + Send + Sync + 'static {
    /// The plugin's configuration; [`NoConfig`] if it has none.
    type Config: DeserializeOwned + JsonSchema;

    /// Creates the driver. It must not contact any host yet.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid; the hook that needed the driver fails with this error.
    fn new(config: Self::Config) -> Result<Self, DriverError>;

    /// Lists the hooks that this driver implements; the VNFM calls no others.
    fn hooks(hooks: Hooks<Self>) -> Hooks<Self>;
}

/// Name and version of an exported driver; implemented by [`crate::export_mgmt_driver!`].
///
/// ```
/// use vnfm_plugin_sdk::Export;
///
/// /// The driver's name in a VNFD that pins this exact version.
/// fn pinned<D: Export>() -> String {
///     format!("{}@{}", D::NAME, D::VERSION)
/// }
/// # use vnfm_plugin_sdk::prelude::*;
/// # struct Nothing;
/// # impl MgmtDriver for Nothing {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks }
/// # }
/// # impl Export for Nothing {
/// #     const NAME: &'static str = "nothing";
/// #     const VERSION: &'static str = "1.2.3";
/// # }
/// assert_eq!(pinned::<Nothing>(), "nothing@1.2.3");
/// ```
pub trait Export: MgmtDriver {
    /// Name of the plugin, by which a VNFD refers to it.
    const NAME: &'static str;
    /// Version of the plugin, `MAJOR.MINOR.PATCH`.
    const VERSION: &'static str;
}

/// Configuration of a driver that has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoConfig {}

/// Parameters of a hook that takes none; any `additionalParams` are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoParams {}

type Run<D> = Box<
    dyn Fn(Arc<D>, HookContext, HookRequest) -> BoxFuture<'static, Result<Effects, DriverError>>
        + Send
        + Sync,
>;

struct Hook<D> {
    parameters: Value,
    run: Run<D>,
}

/// The hooks of a driver, by name.
///
/// ```
/// use std::sync::Arc;
/// use vnfm_plugin_sdk::prelude::*;
/// use vnfm_plugin_sdk::testkit::{TestHost, request};
///
/// struct Drain;
///
/// impl MgmtDriver for Drain {
///     type Config = NoConfig;
///
///     fn new(_: NoConfig) -> Result<Self, DriverError> {
///         Ok(Self)
///     }
///
///     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
///         // A rollback calls `uncordon` with `undo` set; it can read the checkpoints of `heal_start`.
///         hooks.on("heal_start", Self::heal_start).on_undo("heal_start", Self::uncordon)
///     }
/// }
///
/// impl Drain {
///     async fn heal_start(
///         self: Arc<Self>,
///         _: HookContext,
///         _: HookRequest<NoParams>,
///     ) -> Result<Effects, DriverError> {
///         Ok(Effects::none().message("drained"))
///     }
///
///     async fn uncordon(
///         self: Arc<Self>,
///         _: HookContext,
///         _: HookRequest<NoParams>,
///     ) -> Result<Effects, DriverError> {
///         Ok(Effects::none().message("back in service"))
///     }
/// }
///
/// assert_eq!(Hooks::<Drain>::declared().declaration()["hooks"]["heal_start"]["undo"], true);
/// let undone = TestHost::new().run::<Drain>(request("heal_start").undo()).unwrap();
/// assert_eq!(undone.message.as_deref(), Some("back in service"));
/// ```
pub struct Hooks<D> {
    by_name: BTreeMap<String, Hook<D>>,
    undo_handlers: BTreeMap<String, Run<D>>,
}

impl<D> std::fmt::Debug for Hooks<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl<D: MgmtDriver> Hooks<D> {
    /// The hooks that `D` lists in [`MgmtDriver::hooks`].
    pub fn declared() -> Self {
        D::hooks(Self {
            by_name: BTreeMap::new(),
            undo_handlers: BTreeMap::new(),
        })
    }

    /// Adds the hook `name`, such as `instantiate_end`. `P` is the type of its `additionalParams`; requests are
    /// validated against its JSON Schema before any resource is created.
    #[must_use]
    pub fn on<P, F, Running>(mut self, name: &str, handler: F) -> Self
    where
        P: DeserializeOwned + JsonSchema,
        F: Fn(Arc<D>, HookContext, HookRequest<P>) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<Effects, DriverError>> + Send + 'static,
    {
        let parameters = schema_for!(P).to_value();
        self.by_name.insert(
            name.to_owned(),
            Hook {
                parameters,
                run: typed(handler),
            },
        );
        self
    }

    /// Adds the undo handler of the hook `name`, which [`Hooks::on`] adds. A rollback calls it if the hook was started,
    /// finished or not, with [`HookRequest::undo`] set and access to the hook's checkpoints. It must be idempotent:
    /// undoing something that never happened succeeds. Only the message of its effects is used.
    #[must_use]
    pub fn on_undo<P, F, Running>(mut self, name: &str, handler: F) -> Self
    where
        P: DeserializeOwned + JsonSchema,
        F: Fn(Arc<D>, HookContext, HookRequest<P>) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<Effects, DriverError>> + Send + 'static,
    {
        self.undo_handlers.insert(name.to_owned(), typed(handler));
        self
    }

    /// Runs one hook. Tests use [`TestHost::run`](crate::testkit::TestHost::run) instead.
    ///
    /// ```
    /// # use vnfm_plugin_sdk::prelude::*;
    /// # use std::sync::Arc;
    /// # struct Greeter;
    /// # impl MgmtDriver for Greeter {
    /// #     type Config = NoConfig;
    /// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
    /// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
    /// # }
    /// # impl Greeter {
    /// #     async fn end(self: Arc<Self>, _: HookContext, _: HookRequest<NoParams>) -> Result<Effects, DriverError> {
    /// #         Ok(Effects::none())
    /// #     }
    /// # }
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on, request};
    ///
    /// let json = request("heal_end").json().clone();
    /// let request: HookRequest = vnfm_plugin_sdk::serde_json::from_value(json).unwrap();
    /// let hooks = Hooks::<Greeter>::declared();
    /// let error = block_on(hooks.run(Arc::new(Greeter), TestHost::new().context(), request)).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown-hook: unknown hook `heal_end`; this driver has `instantiate_end`");
    /// ```
    ///
    /// # Errors
    ///
    /// The hook's own error; `unknown-hook` if the driver has no such hook or no undo handler for it;
    /// `bad-parameters` if `additionalParams` do not match `P`.
    pub async fn run(
        &self,
        driver: Arc<D>,
        cx: HookContext,
        request: HookRequest,
    ) -> Result<Effects, DriverError> {
        let run = match self.by_name.get(&request.hook) {
            Some(_) if request.undo => self.undo_handlers.get(&request.hook),
            Some(hook) => Some(&hook.run),
            None => None,
        };
        match run {
            Some(run) => run(driver, cx, request).await,
            None => Err(self.unknown_hook(&request.hook, request.undo)),
        }
    }

    fn unknown_hook(&self, name: &str, undo: bool) -> DriverError {
        if undo && self.by_name.contains_key(name) {
            return DriverError::new("unknown-hook", format!("hook `{name}` has no undo handler"));
        }
        let known = self
            .by_name
            .keys()
            .map(|known| format!("`{known}`"))
            .collect::<Vec<_>>();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        DriverError::new(
            "unknown-hook",
            format!("unknown hook `{name}`; this driver has {known}"),
        )
    }

    /// The plugin's declaration as JSON: its hooks with their parameter schemas, and its configuration schema.
    pub fn declaration(&self) -> Value {
        let hooks: serde_json::Map<String, Value> = self
            .by_name
            .iter()
            .map(|(name, hook)| {
                let mut hook_declaration = json!({ "parameters": hook.parameters });
                if self.undo_handlers.contains_key(name) {
                    hook_declaration["undo"] = true.into();
                }
                (name.clone(), hook_declaration)
            })
            .collect();
        json!({
            "schemaVersion": crate::SCHEMA_VERSION,
            "hooks": hooks,
            "configSchema": schema_for!(D::Config).to_value(),
        })
    }
}

/// A handler of typed parameters as one that takes them as they come.
fn typed<D, P, F, Running>(handler: F) -> Run<D>
where
    D: MgmtDriver,
    P: DeserializeOwned,
    F: Fn(Arc<D>, HookContext, HookRequest<P>) -> Running + Send + Sync + 'static,
    Running: Future<Output = Result<Effects, DriverError>> + Send + 'static,
{
    Box::new(move |driver, cx, request| match request.typed::<P>() {
        Ok(request) => Box::pin(handler(driver, cx, request)),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    })
}
