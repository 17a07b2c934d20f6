//! Whether the server can do its work: the state of each component. A result is cached, so that frequent requests do not
//! cause more disk writes.

use crate::maintenance::{Maintenance, Part};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use vnfm_plugin_host::PluginHost;

/// How long a result is cached.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// Checks the components that can fail.
#[derive(Default)]
pub(crate) struct Readiness {
    maintenance: Option<Arc<Maintenance>>,
    plugins: Option<Arc<PluginHost>>,
    last: Mutex<Option<(Instant, Vec<Part>)>>,
}

impl Readiness {
    /// Of the database and its folder, and of the plugins.
    pub(crate) fn new(maintenance: Arc<Maintenance>, plugins: Arc<PluginHost>) -> Self {
        Self {
            maintenance: Some(maintenance),
            plugins: Some(plugins),
            last: Mutex::default(),
        }
    }

    /// The components, at most two seconds old.
    pub(crate) async fn parts(&self) -> Vec<Part> {
        let mut last = self.last.lock().await;
        match &*last {
            Some((at, parts)) if at.elapsed() < CACHE_TIME => parts.clone(),
            _ => {
                let parts = self.check().await;
                *last = Some((Instant::now(), parts.clone()));
                parts
            }
        }
    }

    async fn check(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        if let Some(maintenance) = &self.maintenance {
            parts.extend(maintenance.health().await);
        }
        if let Some(plugins) = self.plugins.clone() {
            parts.push(("plugins", check_plugins(plugins).await));
        }
        for (part, state) in &parts {
            if let Err(error) = state {
                tracing::warn!(part, error, "not ready");
            }
        }
        parts
    }
}

/// The plugins that cannot be loaded, with the reasons.
async fn check_plugins(plugins: Arc<PluginHost>) -> Result<(), String> {
    let checking = tokio::task::spawn_blocking(move || plugins.status());
    let all = checking
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())?;
    let errors: Vec<_> = all
        .into_iter()
        .filter_map(|status| Some(format!("{}: {}", status.pin.name, status.outcome.err()?)))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("; "))
    }
}
