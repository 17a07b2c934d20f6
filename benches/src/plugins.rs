//! The plugins' border: a whole hook call, from the request's struct to the effects' struct and back.
//!
//! The plugin is `plugins/template`, loaded as any other. Its hook finds no server to work on, so what is
//! measured is the border itself: the request as JSON (1.3 KB), a thread, the hook's future, two calls of a
//! host service, the effects as JSON.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use serde_json::{Value, json};
use vnfm::SystemClock;
use vnfm_core::ports::{Clock, HookHost, HookRequest, MgmtDrivers, PortError};
use vnfm_plugin_host::{Config, PluginHost};

use crate::figure::{Figure, median};

const LIBRARY: &str = "libmgmt_template.so";
/// Calls that warm up, and calls that are measured.
const CALLS: (usize, usize) = (200, 2000);

/// Takes the figures with the plugin in this folder.
///
/// # Errors
/// When the plugin is missing, is not loaded, or its hook fails.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let library = programs.join(LIBRARY);
    std::fs::copy(&library, dir.path().join(LIBRARY))
        .with_context(|| format!("cannot copy `{}`", library.display()))?;
    let config = Config { dir: dir.path().to_owned(), ..Config::default() };
    let plugins = PluginHost::new(config, Arc::new(SystemClock));
    let pin = plugins.allow(LIBRARY).map_err(|error| anyhow!("{error}"))?;
    let driver = plugins.find(&pin.name, Some(&pin.name)).map_err(|error| anyhow!("{error}"))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let host: Arc<dyn HookHost> = Arc::new(Obliging);
    let mut microseconds = Vec::with_capacity(CALLS.1);
    for call in 0..CALLS.0 + CALLS.1 {
        let request = request()?;
        let began = Instant::now();
        let effects = runtime.block_on(driver.call(request, Arc::clone(&host)));
        let took = began.elapsed().as_secs_f64() * 1e6;
        effects.map_err(|error| anyhow!("the hook failed: {error}"))?;
        if call >= CALLS.0 {
            microseconds.push(took);
        }
    }
    let name = "plugin: whole hook call, 1.3 KB of JSON, two host services, median";
    Ok(vec![Figure::told(name, median(microseconds)?, "µs")])
}

fn request() -> Result<HookRequest> {
    let now = SystemClock.now();
    let body = json!({
        "schemaVersion": 1, "operation": "INSTANTIATE", "hook": "instantiate_end",
        "instance": {
            "id": "2d2a1f8e-6c0a-4a38-9d1b-5a6c54b0b0aa", "vnfInstanceName": "bench", "vnfdId": "b1bb0ce7",
            "vnfProvider": "vnfm", "vnfProductName": "bench", "vnfSoftwareVersion": "1.0", "vnfdVersion": "1.0",
            "metadata": {},
        },
        "inventory": {},
        "additionalParams": {
            "sshCp": "CP1", "username": "ubuntu", "password": "not-a-secret", "text": "x".repeat(700),
        },
        "inputs": {}, "vims": [], "artifacts": [], "attempt": 1,
        "deadline": now.checked_add(Duration::from_mins(1)).context("the clock is at its end")?,
    });
    serde_json::from_value(body).context("the request has not the shape of a hook's")
}

/// A host that grants everything at once.
struct Obliging;

#[async_trait]
impl HookHost for Obliging {
    async fn call(&self, _service: &str, _request: Value) -> Result<Value, PortError> {
        Ok(json!({}))
    }

    fn log(&self, _level: &str, _text: &str) {}
}
