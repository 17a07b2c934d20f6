//! The host's side of a running hook: calls that come over the boundary go to core's `HookHost`.

use crate::errors::{service_error, service_failure};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use vnfm_core::ports::{ErrorKind, HookHost};
use vnfm_plugin_abi::{Answer, BoxAnswer, HostSide, LOG_ERROR, LOG_INFO, LOG_WARN};

/// The host of one running hook, for as long as it runs.
pub(crate) struct HookSide {
    /// What runs, for people.
    doing: String,
    runtime: Handle,
    /// Nothing once the hook has ended: a plugin may hold its context for ever.
    host: RwLock<Option<Arc<dyn HookHost>>>,
}

/// Takes the host from its plugin when the hook ends, whichever way.
pub(crate) struct EndsWith(Arc<HookSide>);

impl EndsWith {
    /// The host of a hook that begins.
    pub(crate) fn hook(doing: &str, host: Arc<dyn HookHost>, runtime: Handle) -> Self {
        let host = RwLock::new(Some(host));
        Self(Arc::new(HookSide {
            doing: doing.to_owned(),
            runtime,
            host,
        }))
    }

    /// What the plugin gets.
    pub(crate) fn side(&self) -> Arc<HookSide> {
        self.0.clone()
    }
}

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0
            .host
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl HookSide {
    fn host(&self) -> Option<Arc<dyn HookHost>> {
        self.host
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The answer to who asks after the end.
    fn ended(&self, service: &str) -> Vec<u8> {
        let doing = &self.doing;
        tracing::warn!(
            doing,
            service,
            "a plugin asks for a service after the end of its hook"
        );
        let what = format!("the hook has ended, and its services with it (`{doing}`)");
        failure(ErrorKind::Refused, &what)
    }
}

impl HostSide for HookSide {
    fn log(&self, level: u32, text: &str) {
        match self.host() {
            Some(host) => host.log(level_name(level), text),
            None => log(&self.doing, level, text),
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

/// Serves one call of a hook; the answer and the error as they cross the boundary.
pub(crate) async fn serve(host: Arc<dyn HookHost>, service: String, request: Vec<u8>) -> Answer {
    let request = serde_json::from_slice(&request).map_err(|error| {
        let what = format!("the request of `{service}` is no JSON: {error}");
        failure(ErrorKind::Refused, &what)
    })?;
    match host.call(&service, request).await {
        Ok(answer) => Ok(answer.to_string().into_bytes()),
        Err(error) => Err(service_error(&error).to_string().into_bytes()),
    }
}

/// The host while a driver is made: it logs, and has no services yet.
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

/// A line of a driver that no hook said.
pub(crate) fn log(plugin: &str, level: u32, text: &str) {
    match level {
        LOG_ERROR => tracing::error!(%plugin, "{text}"),
        LOG_WARN => tracing::warn!(%plugin, "{text}"),
        LOG_INFO => tracing::info!(%plugin, "{text}"),
        _ => tracing::debug!(%plugin, "{text}"),
    }
}

/// Why `service` is not served while a driver is made.
pub(crate) fn no_services_yet(service: &str) -> Vec<u8> {
    let what = format!("service `{service}` is there for hooks, not while a driver is made");
    failure(ErrorKind::Refused, &what)
}

/// An error of a service, as it crosses the boundary.
pub(crate) fn failure(kind: ErrorKind, what: &str) -> Vec<u8> {
    service_failure(kind, what).to_string().into_bytes()
}

/// The name of a level that the boundary numbers.
pub(crate) fn level_name(level: u32) -> &'static str {
    match level {
        LOG_ERROR => "error",
        LOG_WARN => "warn",
        LOG_INFO => "info",
        _ => "debug",
    }
}

/// Whoever polls it, on a thread of the plugin's own, say: core's services find their runtime.
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
