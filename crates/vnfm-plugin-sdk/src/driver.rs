//! The trait that an author implements, and the list of hooks that is also the plugin's declaration.

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

/// The VNF vendor's side of lifecycle operations. The crate's [front page](crate) has one with a hook.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use vnfm_plugin_sdk::{DriverError, Hooks, MgmtDriver};
///
/// /// What the operator configures, as `plugins.config.NAME` of the server.
/// #[derive(Deserialize, JsonSchema)]
/// pub struct Config {
///     /// How many servers are worked on at once.
///     at_once: usize,
/// }
///
/// pub struct Rolling {
///     at_once: usize,
/// }
///
/// impl MgmtDriver for Rolling {
///     type Config = Config;
///
///     fn new(config: Config) -> Result<Self, DriverError> {
///         match config.at_once {
///             0 => Err(DriverError::new("bad-config", "`at_once` is 0: nothing would ever be done")),
///             at_once => Ok(Self { at_once }),
///         }
///     }
///
///     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
///         hooks
///     }
/// }
///
/// assert_eq!(Rolling::new(Config { at_once: 0 }).err().unwrap().code, "bad-config");
/// assert_eq!(Rolling::new(Config { at_once: 2 }).unwrap().at_once, 2);
/// ```
pub trait MgmtDriver: Sized + Send + Sync + 'static {
    /// What the operator configures; [`NoConfig`] where there is nothing.
    type Config: DeserializeOwned + JsonSchema;

    /// Makes the driver; no host is touched yet.
    ///
    /// # Errors
    ///
    /// Where the configuration makes no sense; it ends the hook that needed the driver.
    fn new(config: Self::Config) -> Result<Self, DriverError>;

    /// Lists the hooks that this driver has; no other is ever called.
    fn hooks(hooks: Hooks<Self>) -> Hooks<Self>;
}

/// Name and version of an exported driver; written by [`crate::export_mgmt_driver!`].
///
/// ```
/// use vnfm_plugin_sdk::Export;
///
/// /// How a VNFD names the driver to stay on this very version.
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
    /// Name of the plugin.
    const NAME: &'static str;
    /// Its version, `MAJOR.MINOR.PATCH`.
    const VERSION: &'static str;
}

/// A driver that is not configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoConfig {}

/// A hook that takes no parameters; what is given is ignored.
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
///         // A rollback calls the opposite, with `undo` set and the hook's checkpoints.
///         hooks.on("heal_start", Self::heal_start).undone_by("heal_start", Self::back_in_service)
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
///     async fn back_in_service(
///         self: Arc<Self>,
///         _: HookContext,
///         _: HookRequest<NoParams>,
///     ) -> Result<Effects, DriverError> {
///         Ok(Effects::none().message("back in service"))
///     }
/// }
///
/// assert_eq!(Hooks::<Drain>::of().declaration()["hooks"]["heal_start"]["undo"], true);
/// let undone = TestHost::new().run::<Drain>(request("heal_start").undo()).unwrap();
/// assert_eq!(undone.message.as_deref(), Some("back in service"));
/// ```
pub struct Hooks<D> {
    by_name: BTreeMap<String, Hook<D>>,
    opposites: BTreeMap<String, Run<D>>,
}

impl<D> std::fmt::Debug for Hooks<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl<D: MgmtDriver> Hooks<D> {
    /// The hooks of `D`.
    pub fn of() -> Self {
        D::hooks(Self {
            by_name: BTreeMap::new(),
            opposites: BTreeMap::new(),
        })
    }

    /// Adds the hook `name`, such as `instantiate_end`. `P` is what it wants to find in `additionalParams`; its
    /// JSON Schema is what requests are checked by before anything is made.
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

    /// Adds the opposite of the hook `name`, which [`Hooks::on`] adds: a rollback calls it where the hook was begun,
    /// whether or not it came to its end, with [`HookRequest::undo`] set and the hook's own checkpoints. It says "make
    /// it not so": undoing what was never done succeeds. Of its answer only the message counts.
    #[must_use]
    pub fn undone_by<P, F, Running>(mut self, name: &str, handler: F) -> Self
    where
        P: DeserializeOwned + JsonSchema,
        F: Fn(Arc<D>, HookContext, HookRequest<P>) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<Effects, DriverError>> + Send + 'static,
    {
        self.opposites.insert(name.to_owned(), typed(handler));
        self
    }

    /// Runs one hook. [`TestHost::run`](crate::testkit::TestHost::run) is what tests need.
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
    /// let told = request("heal_end").json().clone();
    /// let request: HookRequest = vnfm_plugin_sdk::serde_json::from_value(told).unwrap();
    /// let hooks = Hooks::<Greeter>::of();
    /// let error = block_on(hooks.run(Arc::new(Greeter), TestHost::new().context(), request)).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown-hook: there is no hook `heal_end`; there is `instantiate_end`");
    /// ```
    ///
    /// # Errors
    ///
    /// As the hook says; `unknown-hook` where the driver does not have it, or not its opposite; `bad-parameters` where
    /// `additionalParams` do not fit.
    pub async fn run(
        &self,
        driver: Arc<D>,
        cx: HookContext,
        request: HookRequest,
    ) -> Result<Effects, DriverError> {
        let run = match self.by_name.get(&request.hook) {
            Some(_) if request.undo => self.opposites.get(&request.hook),
            Some(hook) => Some(&hook.run),
            None => None,
        };
        match run {
            Some(run) => run(driver, cx, request).await,
            None => Err(self.unknown(&request.hook, request.undo)),
        }
    }

    fn unknown(&self, name: &str, undo: bool) -> DriverError {
        if undo && self.by_name.contains_key(name) {
            return DriverError::new("unknown-hook", format!("hook `{name}` has no opposite"));
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
            format!("there is no hook `{name}`; there is {known}"),
        )
    }

    /// What the plugin says of itself, as JSON.
    pub fn declaration(&self) -> Value {
        let hooks: serde_json::Map<String, Value> = self
            .by_name
            .iter()
            .map(|(name, hook)| {
                let mut said = json!({ "parameters": hook.parameters });
                if self.opposites.contains_key(name) {
                    said["undo"] = true.into();
                }
                (name.clone(), said)
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
