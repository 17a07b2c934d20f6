//! The plugin's side of the C ABI: exports a driver, and calls the host's services.
#![expect(
    unsafe_code,
    reason = "the functions that the host calls write through its pointers"
)]

use crate::context::{HookContext, Level, Services};
use crate::driver::{Export, Hooks, MgmtDriver};
use crate::error::{DriverError, ErrorKind, ServiceError};
use crate::messages::request::HookRequest;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use vnfm_plugin_abi::panics::{panic_text, remember};
use vnfm_plugin_abi::{
    ABI_MAJOR, ABI_MINOR, BoxAnswer, Buf, Driver, DriverSide, FLAG_PANICS_CONTAINED, FfiError,
    Host, LOG_ERROR, MAGIC, PANICKED, Plugin, READY_ERR, READY_OK, Slice,
};

/// The plugin table that a library exports for driver `D`; used by [`crate::export_mgmt_driver!`].
///
/// ```
/// use vnfm_plugin_sdk::abi::{ABI_MAJOR, Plugin};
/// # use vnfm_plugin_sdk::prelude::*;
/// # struct Nothing;
/// # impl MgmtDriver for Nothing {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks }
/// # }
/// # impl vnfm_plugin_sdk::Export for Nothing {
/// #     const NAME: &'static str = "nothing";
/// #     const VERSION: &'static str = "1.2.3";
/// # }
///
/// static TABLE: Plugin = vnfm_plugin_sdk::plugin::<Nothing>();
/// assert_eq!(TABLE.abi_major, ABI_MAJOR);
/// ```
///
/// Since the library has its own copy of `std`, its panic hook is replaced: panics go to the host's log.
pub const fn plugin<D: Export>() -> Plugin {
    table::<D, true>()
}

/// The plugin table of a driver that is linked into the program instead of loaded as a library. It exchanges the same
/// messages. The program's panic hook stays.
///
/// ```no_run
/// # use vnfm_plugin_sdk::prelude::*;
/// # struct Nothing;
/// # impl MgmtDriver for Nothing {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks }
/// # }
/// # impl vnfm_plugin_sdk::Export for Nothing {
/// #     const NAME: &'static str = "nothing";
/// #     const VERSION: &'static str = "1.2.3";
/// # }
/// // An embedder passes this to `PluginHost::register`.
/// let linked: &'static vnfm_plugin_sdk::abi::Plugin = vnfm_plugin_sdk::static_driver::<Nothing>();
/// # let _ = linked;
/// ```
pub fn static_driver<D: Export>() -> &'static Plugin {
    const { &table::<D, false>() }
}

const fn table<D: Export, const OWN_STD: bool>() -> Plugin {
    Plugin {
        magic: MAGIC,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        size: size_of::<Plugin>(),
        flags: if cfg!(panic = "unwind") {
            FLAG_PANICS_CONTAINED
        } else {
            0
        },
        name: Slice::from_static(D::NAME),
        version: Slice::from_static(D::VERSION),
        sdk_version: Slice::from_static(concat!("rust-", env!("CARGO_PKG_VERSION"))),
        declare: Some(declare::<D>),
        create: Some(create::<D, OWN_STD>),
    }
}

unsafe extern "C" fn declare<D: MgmtDriver>(out: *mut Buf) -> u32 {
    let declared = catch_unwind(|| json_bytes(&Hooks::<D>::declared().declaration()));
    let (status, bytes) = match declared {
        Ok(bytes) => (READY_OK, bytes),
        Err(payload) => (PANICKED, panic_text(payload)),
    };
    // SAFETY: the host lends an empty buffer for this call.
    unsafe { out.write(bytes.into()) };
    status
}

unsafe extern "C" fn create<D: MgmtDriver, const OWN_STD: bool>(
    host: Host,
    config: Slice,
    out: *mut Driver,
    error: *mut Buf,
) -> u32 {
    let created = catch_unwind(AssertUnwindSafe(|| {
        if OWN_STD {
            log_panics_to(host);
        }
        // SAFETY: the host lends the configuration for this call.
        new_driver::<D>(unsafe { config.as_bytes() })
    }));
    let (status, bytes) = match created {
        Ok(Ok(driver)) => {
            // SAFETY: the host lends the memory for this call and takes ownership of the driver.
            unsafe { out.write(driver) };
            return READY_OK;
        }
        Ok(Err(refusal)) => (READY_ERR, json_bytes(&refusal)),
        Err(payload) => (PANICKED, panic_text(payload)),
    };
    // SAFETY: the host lends an empty buffer for this call.
    unsafe { error.write(bytes.into()) };
    status
}

fn new_driver<D: MgmtDriver>(config: &[u8]) -> Result<Driver, DriverError> {
    let config = serde_json::from_slice(config).map_err(|error| {
        DriverError::new(
            "bad-config",
            format!("invalid plugin configuration: {error}"),
        )
    })?;
    let driver = Arc::new(D::new(config)?);
    Ok(Driver::new(Arc::new(CreatedDriver {
        driver,
        hooks: Hooks::declared(),
    })))
}

fn log_panics_to(host: Host) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.to_string();
            host.log(LOG_ERROR, &text);
            remember(text);
        }));
    });
}

struct CreatedDriver<D> {
    driver: Arc<D>,
    hooks: Hooks<D>,
}

impl<D: MgmtDriver> DriverSide for CreatedDriver<D> {
    fn call(self: Arc<Self>, host: Host, hook: &str, request: &[u8]) -> BoxAnswer {
        let (hook, request) = (hook.to_owned(), request.to_vec());
        Box::pin(async move {
            let mut request: HookRequest = serde_json::from_slice(&request)
                .map_err(|error| DriverError::new("bad-request", error.to_string()))
                .map_err(|error| json_bytes(&error))?;
            request.hook = hook;
            let cx = HookContext::new(Arc::new(HostServices { host }));
            let result = self.hooks.run(self.driver.clone(), cx, request).await;
            result
                .map(|effects| json_bytes(&effects))
                .map_err(|error| json_bytes(&error))
        })
    }
}

/// The services of the host, called over the ABI.
struct HostServices {
    host: Host,
}

impl Services for HostServices {
    fn call(
        &self,
        service: &str,
        request: Value,
    ) -> BoxFuture<'static, Result<Value, ServiceError>> {
        let response = self.host.call(service, &json_bytes(&request));
        let service = service.to_owned();
        Box::pin(async move {
            let broken = |detail: String| ServiceError::new(&service, ErrorKind::Broken, detail);
            match response.await {
                Ok(bytes) => serde_json::from_slice(bytes.as_bytes()).map_err(|error| {
                    broken(format!("the host's response is not valid JSON: {error}"))
                }),
                Err(FfiError::Answer(bytes)) => Err(match serde_json::from_slice(&bytes) {
                    Ok(ServiceError { kind, detail, .. }) => {
                        ServiceError::new(&service, kind, detail)
                    }
                    Err(_) => broken(String::from_utf8_lossy(&bytes).into_owned()),
                }),
                Err(FfiError::Panicked(text)) => Err(broken(format!("the host panicked: {text}"))),
                Err(other) => Err(broken(format!(
                    "the host violated the plugin ABI: {other:?}"
                ))),
            }
        })
    }

    fn log(&self, level: Level, text: &str) {
        self.host.log(level.number(), text);
    }
}

/// A message as JSON. For one that has no JSON form, which is a bug, an error that the host shows.
fn json_bytes<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|error| {
        let detail = format!("cannot write a message as JSON: {error}");
        json!({"code": "bad-message", "detail": detail, "retryable": false})
            .to_string()
            .into_bytes()
    })
}
