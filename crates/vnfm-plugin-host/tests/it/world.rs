//! Shared by the tests: a plugin folder, a host, a request.

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use vnfm_core::ports::{Clock, Code, ErrorKind, HookHost, HookRequest, PortError};
use vnfm_plugin_host::{Config, PluginConfig, PluginHost, ProcessConfig, Runner};

pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        // The plugin host reads the clock and never sleeps.
        Box::pin(std::future::pending())
    }
}

/// The program that runs hooks, as cargo built it.
pub(crate) const RUNNER: &str = env!("CARGO_BIN_EXE_vnfm-plugin-runner");

/// The program that runs hooks: the copy in this test's folder, if there is one.
pub(crate) fn runner() -> PathBuf {
    let beside = std::env::current_exe()
        .unwrap()
        .with_file_name("vnfm-plugin-runner");
    if beside.is_file() {
        beside
    } else {
        RUNNER.into()
    }
}
/// Both runners, for tests that apply to each.
pub(crate) const RUNNERS: [Runner; 2] = [Runner::InProcess, Runner::Process];

/// A plugin folder of our own, mode 0700.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Copies a library into the folder.
    pub(crate) fn put(&self, from: &Path, file: &str) -> PathBuf {
        let to = self.path().join(file);
        std::fs::copy(from, &to).unwrap_or_else(|e| panic!("cannot copy {}: {e}", from.display()));
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755)).unwrap();
        to
    }

    pub(crate) fn config(&self) -> Config {
        self.config_of(Runner::InProcess)
    }

    /// A configuration in which every plugin uses this runner.
    pub(crate) fn config_of(&self, runner: Runner) -> Config {
        let plugin = |name: &str| {
            (
                name.to_owned(),
                PluginConfig {
                    runner,
                    ..PluginConfig::default()
                },
            )
        };
        let all = [
            "c-plugin",
            "fixture-misbehaving",
            "gone",
            "link",
            "mgmt-template",
            "old-rust",
            "other-name",
            "outside",
            "text",
        ];
        let plugins = all.into_iter().map(plugin).collect();
        let process =
            (runner == Runner::Process).then(|| ProcessConfig::with_program(self::runner()));
        Config {
            dir: self.path().to_owned(),
            plugins,
            process,
            ..Config::default()
        }
    }

    pub(crate) fn host(&self) -> PluginHost {
        PluginHost::new(self.config(), Arc::new(RealClock))
    }

    pub(crate) fn host_of(&self, runner: Runner) -> PluginHost {
        PluginHost::new(self.config_of(runner), Arc::new(RealClock))
    }

    pub(crate) fn configured(&self, name: &str, config: Value) -> PluginHost {
        let mut all = self.config();
        all.plugins.entry(name.to_owned()).or_default().config = config;
        PluginHost::new(all, Arc::new(RealClock))
    }
}

/// The library of a plugin package, built by cargo along with this test.
pub(crate) fn built(package: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name(format!("lib{}.so", package.replace('-', "_")))
}

/// A host that records the calls it gets.
#[derive(Default)]
pub(crate) struct Remembering {
    pub(crate) calls: Mutex<Vec<(String, Value)>>,
    pub(crate) logs: Mutex<Vec<String>>,
    pub(crate) checkpoints: Mutex<BTreeMap<String, Value>>,
    pub(crate) asked: Notify,
}

const NO_SERVICE: Code = Code {
    name: "test.no-service",
    kind: ErrorKind::Refused,
    means: "there is no such service",
    next: "ask for another",
};

impl Remembering {
    pub(crate) fn services(&self) -> Vec<String> {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .map(|(service, _)| service.clone())
            .collect()
    }

    pub(crate) fn logs(&self) -> Vec<String> {
        self.logs.lock().unwrap().clone()
    }
}

#[async_trait]
impl HookHost for Remembering {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        self.calls
            .lock()
            .unwrap()
            .push((service.to_owned(), request.clone()));
        self.asked.notify_one();
        let key = request["key"].as_str().unwrap_or_default().to_owned();
        match service {
            "progress" => {
                // Needs the runtime, and wakes the poller from another thread.
                tokio::task::spawn(tokio::task::yield_now()).await.unwrap();
                Ok(json!({}))
            }
            "waiting" | "ssh.put" | "ssh.wait" => Ok(json!({})),
            "ssh.run" => {
                Ok(json!({"exitCode": 0, "stdout": "hello", "stderr": "", "truncated": false}))
            }
            "checkpoint.get" => Ok(json!({"value": self.checkpoints.lock().unwrap().get(&key)})),
            "checkpoint.put" => {
                self.checkpoints
                    .lock()
                    .unwrap()
                    .insert(key, request["value"].clone());
                Ok(json!({}))
            }
            other => Err(PortError::new(
                &NO_SERVICE,
                format!("serve `{other}`"),
                "unknown",
            )),
        }
    }

    fn log(&self, level: &str, text: &str) {
        self.logs.lock().unwrap().push(format!("{level}: {text}"));
    }
}

/// A request for `hook` with a deadline in `limit`.
pub(crate) fn request(hook: &str, limit: Duration) -> HookRequest {
    let deadline = Timestamp::now() + limit;
    serde_json::from_value(json!({
        "schemaVersion": 1,
        "operation": "INSTANTIATE",
        "hook": hook,
        "instance": {
            "id": "i-1", "vnfdId": "d-1", "vnfProvider": "p", "vnfProductName": "n",
            "vnfSoftwareVersion": "1", "vnfdVersion": "1", "vdus": ["VDU1", "VDU2"], "metadata": {},
        },
        "inventory": {"vnfcResourceInfo": [{
            "id": "vnfc-1", "vduId": "VDU1", "computeResource": {"resourceId": "server-1"},
            "vnfcCpInfo": [{"id": "cp-1", "cpdId": "CP1", "cpProtocolInfo": [{
                "layerProtocol": "IP_OVER_ETHERNET",
                "ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "addresses": ["10.0.0.7"]}]},
            }]}],
            "metadata": {"name": "web-1"},
        }]},
        "additionalParams": {},
        "inputs": {}, "vims": [], "artifacts": [],
        "deadline": deadline, "attempt": 1,
    }))
    .unwrap()
}

/// A timeout that no test should reach.
pub(crate) const AMPLE: Duration = Duration::from_mins(1);
