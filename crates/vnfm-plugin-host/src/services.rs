//! The host's side of a running hook: calls that come over the boundary go to core's `HookHost`.

use crate::errors::{service_error, service_failure};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use vnfm_core::ports::{ErrorKind, HookHost};
use vnfm_plugin_abi::{Answer, BoxAnswer, HostSide, LOG_ERROR, LOG_INFO, LOG_WARN};

/// The host of one running hook.
pub(crate) struct HookSide {
    pub(crate) host: Arc<dyn HookHost>,
    pub(crate) runtime: Handle,
}

impl HostSide for HookSide {
    fn log(&self, level: u32, text: &str) {
        self.host.log(level_name(level), text);
    }

    fn call(&self, service: &str, request: &[u8]) -> BoxAnswer {
        let request = match serde_json::from_slice(request) {
            Ok(request) => request,
            Err(error) => {
                let what = format!("the request of `{service}` is no JSON: {error}");
                return Box::pin(std::future::ready(Err(failure(ErrorKind::Refused, &what))));
            }
        };
        let (host, service) = (self.host.clone(), service.to_owned());
        let future = Box::pin(async move {
            match host.call(&service, request).await {
                Ok(answer) => Ok(answer.to_string().into_bytes()),
                Err(error) => Err(service_error(&error).to_string().into_bytes()),
            }
        });
        Box::pin(OnRuntime { runtime: self.runtime.clone(), future })
    }
}

/// The host while a driver is made: it logs, and has no services yet.
pub(crate) struct LogOnly {
    pub(crate) plugin: String,
}

impl HostSide for LogOnly {
    fn log(&self, level: u32, text: &str) {
        let plugin = &self.plugin;
        match level {
            LOG_ERROR => tracing::error!(%plugin, "{text}"),
            LOG_WARN => tracing::warn!(%plugin, "{text}"),
            LOG_INFO => tracing::info!(%plugin, "{text}"),
            _ => tracing::debug!(%plugin, "{text}"),
        }
    }

    fn call(&self, service: &str, _: &[u8]) -> BoxAnswer {
        let what = format!("service `{service}` is there for hooks, not while a driver is made");
        Box::pin(std::future::ready(Err(failure(ErrorKind::Refused, &what))))
    }
}

fn failure(kind: ErrorKind, what: &str) -> Vec<u8> {
    service_failure(kind, what).to_string().into_bytes()
}

fn level_name(level: u32) -> &'static str {
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
