//! The host's side of a running hook: passes its service calls to core's `HookHost`.

use crate::errors::{service_error, service_failure as failure};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use vnfm_core::ports::{ErrorKind, HookHost};
use vnfm_plugin_abi::{Answer, BoxAnswer, HostSide, LOG_ERROR, LOG_INFO, LOG_WARN};

/// The host of one running hook.
pub(crate) struct HookServices {
    /// The action, for logs and errors.
    action: String,
    runtime: Handle,
    /// `None` once the hook has ended: a plugin may hold on to its context indefinitely.
    host: RwLock<Option<Arc<dyn HookHost>>>,
}

/// Cuts the plugin off from the host when the hook ends, however it ends.
pub(crate) struct HookGuard(Arc<HookServices>);

impl HookGuard {
    /// The services of a hook that is starting.
    pub(crate) fn hook(action: &str, host: Arc<dyn HookHost>, runtime: Handle) -> Self {
        let host = RwLock::new(Some(host));
        Self(Arc::new(HookServices {
            action: action.to_owned(),
            runtime,
            host,
        }))
    }

    /// The host as the plugin receives it.
    pub(crate) fn services(&self) -> Arc<HookServices> {
        self.0.clone()
    }
}

impl Drop for HookGuard {
    fn drop(&mut self) {
        self.0
            .host
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl HookServices {
    fn host(&self) -> Option<Arc<dyn HookHost>> {
        self.host
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The error of a call that arrives after the hook has ended.
    fn ended(&self, service: &str) -> Vec<u8> {
        let action = &self.action;
        tracing::warn!(
            action,
            service,
            "a plugin called a service after its hook had ended"
        );
        let detail = format!("the hook has ended, and its services with it (`{action}`)");
        failure(ErrorKind::Refused, &detail)
    }
}

impl HostSide for HookServices {
    fn log(&self, level: u32, text: &str) {
        match self.host() {
            Some(host) => host.log(level_name(level), text),
            None => log(&self.action, level, text),
        }
    }

    fn call(&self, service: &str, request: &[u8]) -> BoxAnswer {
        let Some(host) = self.host() else {
            return Box::pin(std::future::ready(Err(self.ended(service))));
        };
        let future = serve(host, service.to_owned(), request.to_vec());
        Box::pin(OnRuntime {
            runtime: self.runtime.clone(),
            future: Box::pin(future),
        })
    }
}

/// Serves one call of a hook, with serialized request, response and error.
pub(crate) async fn serve(host: Arc<dyn HookHost>, service: String, request: Vec<u8>) -> Answer {
    let request = serde_json::from_slice(&request).map_err(|error| {
        let detail = format!("the request of `{service}` is not JSON: {error}");
        failure(ErrorKind::Refused, &detail)
    })?;
    match host.call(&service, request).await {
        Ok(answer) => Ok(answer.to_string().into_bytes()),
        Err(error) => Err(service_error(&error)),
    }
}

/// The host while a driver is created: it logs, and offers no services yet.
pub(crate) struct LogOnly {
    pub(crate) plugin: String,
}

impl HostSide for LogOnly {
    fn log(&self, level: u32, text: &str) {
        log(&self.plugin, level, text);
    }

    fn call(&self, service: &str, _: &[u8]) -> BoxAnswer {
        Box::pin(std::future::ready(Err(no_services_yet(service))))
    }
}

/// Logs a line that belongs to a plugin but not to a hook.
pub(crate) fn log(plugin: &str, level: u32, text: &str) {
    match level {
        LOG_ERROR => tracing::error!(%plugin, "{text}"),
        LOG_WARN => tracing::warn!(%plugin, "{text}"),
        LOG_INFO => tracing::info!(%plugin, "{text}"),
        _ => tracing::debug!(%plugin, "{text}"),
    }
}

/// The error of a service call while a driver is created.
pub(crate) fn no_services_yet(service: &str) -> Vec<u8> {
    let detail =
        format!("service `{service}` is available to hooks, not while a driver is created");
    failure(ErrorKind::Refused, &detail)
}

/// The name of a log level of the ABI.
pub(crate) fn level_name(level: u32) -> &'static str {
    match level {
        LOG_ERROR => "error",
        LOG_WARN => "warn",
        LOG_INFO => "info",
        _ => "debug",
    }
}

/// Enters core's runtime for each poll, because a plugin may poll it on a thread of its own.
struct OnRuntime {
    runtime: Handle,
    future: BoxAnswer,
}

impl Future for OnRuntime {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let runtime = self.runtime.clone();
        let _entered = runtime.enter();
        self.future.as_mut().poll(context)
    }
}
