//! The plugin interface: a bare call of the C ABI, and complete hook calls from the request struct to the
//! effects struct, in both runners.
//!
//! The plugin is `plugins/template`, loaded as any other. Its hook finds no server to work on, so only the interface is
//! measured: the request as JSON (1.3 KB), a thread or a process, the future of the hook, two calls of a host service,
//! and the effects as JSON.
//!
//! A hook in a process uses the spare process, which waits with the library open and the driver created; the cost of
//! starting one is measured separately.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Looking, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use vnfm::SystemClock;
use vnfm_core::ports::{Clock, HookHost, HookRequest, MgmtDriver, MgmtDrivers, PortError};
use vnfm_plugin_abi::{Answer, BoxAnswer, Driver, DriverSide, Host, HostSide};
use vnfm_plugin_host::{Config, PluginConfig, PluginHost, ProcessConfig, Runner};

use crate::figure::{Figure, median};

const LIBRARY: &str = "libmgmt_template.so";
const NAME: &str = "mgmt-template";
/// Number of warm-up calls and of measured calls.
const CALLS: (usize, usize) = (200, 2000);
/// The same for hooks that must start a process.
const PROCESSES: (usize, usize) = (5, 100);
/// Enough time for the next process to get ready.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs the benchmarks with the plugin in this folder.
///
/// # Errors
/// If the plugin or the program that runs its hooks is missing, or its hook fails.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let full_hook = "whole hook call, 1.3 KB of JSON, two host services";
    let in_process = Plugin::new(programs, Runner::InProcess)?;
    let mut figures = vec![Figure::at_most(
        0.2,
        "plugin: call of the C ABI, 64 B there and back, mean",
        abi_call()?,
        "µs",
    )];
    let took = in_process.calls(&runtime, CALLS, Duration::ZERO)?;
    figures.push(Figure::at_most(
        40.0,
        format!("plugin: {full_hook}, median"),
        took,
        "µs",
    ));
    let process = Plugin::new(programs, Runner::Process)?;
    let took = process.calls(&runtime, PROCESSES, PAUSE)?;
    let name = format!("plugin: {full_hook}, in the spare process, median");
    figures.push(Figure::at_most(1000.0, name, took, "µs"));
    let took = process.calls(&runtime, PROCESSES, Duration::ZERO)?;
    let name = format!("plugin: {full_hook}, with the start of its process, median");
    figures.push(Figure::untargeted(name, took, "µs"));
    Ok(figures)
}

/// The plugin in one runner.
struct Plugin {
    driver: Arc<dyn MgmtDriver>,
    _dir: tempfile::TempDir,
}

impl Plugin {
    fn new(programs: &Path, runner: Runner) -> Result<Self> {
        let dir = tempfile::tempdir().context("cannot create a temporary folder")?;
        let library = programs.join(LIBRARY);
        std::fs::copy(&library, dir.path().join(LIBRARY))
            .with_context(|| format!("cannot copy `{}`", library.display()))?;
        let plugin = PluginConfig {
            runner,
            ..PluginConfig::default()
        };
        let config = Config {
            dir: dir.path().to_owned(),
            plugins: BTreeMap::from([(NAME.to_owned(), plugin)]),
            process: Some(ProcessConfig {
                arguments: vec!["plugin-runner".to_owned()],
                ..ProcessConfig::with_program(programs.join("vnfm-server"))
            }),
            ..Config::default()
        };
        let plugins = PluginHost::new(config, Arc::new(SystemClock));
        plugins.allow(LIBRARY).map_err(|error| anyhow!("{error}"))?;
        let driver = plugins
            .resolve(&NAME.into())
            .map_err(|error| anyhow!("{error}"))?;
        Ok(Self { driver, _dir: dir })
    }

    /// The median of complete calls in microseconds, with a pause before each.
    fn calls(
        &self,
        runtime: &Runtime,
        (warm_up, measured): (usize, usize),
        pause: Duration,
    ) -> Result<f64> {
        let host: Arc<dyn HookHost> = Arc::new(Obliging);
        let mut microseconds = Vec::with_capacity(measured);
        for call in 0..warm_up + measured {
            let request = request()?;
            std::thread::park_timeout(pause);
            let began = Instant::now();
            let effects = runtime.block_on(self.driver.call(request, Arc::clone(&host)));
            let took = began.elapsed().as_secs_f64() * 1e6;
            effects.map_err(|error| anyhow!("the hook failed: {error}"))?;
            if call >= warm_up {
                microseconds.push(took);
            }
        }
        median(microseconds)
    }
}

/// Returns its input, through the function tables of a plugin.
struct Echo;

impl DriverSide for Echo {
    fn call(self: Arc<Self>, _host: Host, _hook: &str, request: &[u8]) -> BoxAnswer {
        let answer = request.to_vec();
        Box::pin(async { Ok(answer) })
    }
}

impl HostSide for Echo {
    fn log(&self, _level: u32, _text: &str) {}

    fn call(&self, _service: &str, _request: &[u8]) -> BoxAnswer {
        let answer: Answer = Ok(Vec::new());
        Box::pin(std::future::ready(answer))
    }
}

/// The mean duration of a call including its host, future and result, in microseconds.
fn abi_call() -> Result<f64> {
    const MANY: u32 = 200_000;
    let (driver, host) = (Driver::new(Arc::new(Echo)), Host::new(Arc::new(Echo)));
    let mut looking = Looking::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..MANY {
        let called = driver.call(host.clone(), "instantiate_end", &[7; 64]);
        let mut future = called.context("the driver lacks a function")?;
        match Pin::new(&mut future).poll(&mut looking) {
            Poll::Ready(Ok(answer)) if answer.as_bytes().len() == 64 => {}
            other => bail!("the call returned no result: {other:?}"),
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(MANY))
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
        "deadline": now.checked_add(Duration::from_mins(1)).context("the deadline is out of range")?,
    });
    serde_json::from_value(body).context("the request is not a valid hook request")
}

/// A host whose services succeed at once.
struct Obliging;

#[async_trait]
impl HookHost for Obliging {
    async fn call(&self, _service: &str, _request: Value) -> Result<Value, PortError> {
        Ok(json!({}))
    }

    fn log(&self, _level: &str, _text: &str) {}
}
