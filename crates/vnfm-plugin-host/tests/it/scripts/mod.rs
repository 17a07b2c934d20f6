//! Hooks that are scripts, run by the plugin `mgmt-script` in separate processes: the environment of a script, its
//! restrictions, and the errors that its author sees.

mod allowed;
mod apart;
mod failures;
mod playbooks;
mod secrets;
mod tacker;

use crate::world::{AMPLE, Folder, RealClock, built, request, runner};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vnfm_core::ports::{
    Code, DriverVersion, Effects, ErrorKind, HookArtifact, HookDriverRef, HookHost, HookRequest,
    HookScriptRef, MgmtDrivers as _, PortError,
};
use vnfm_plugin_host::{AllowedScripts, PluginConfig, PluginHost, ProcessConfig, Scripts};

const PASSWORD: &str = "planted-password";
const BASH: &str = "tosca.artifacts.Implementation.Bash";
const PYTHON: &str = "tosca.artifacts.Implementation.Python";

/// The engine's side with a package, and hosts on which every command prints itself.
#[derive(Default)]
struct Side {
    files: BTreeMap<String, String>,
    calls: Mutex<Vec<(String, Value)>>,
    logs: Mutex<Vec<String>>,
    cancelled: AtomicBool,
    /// True if sudo needs a password on its hosts.
    guarded: AtomicBool,
}

const NO_FILE: Code = Code {
    name: "test.no-file",
    kind: ErrorKind::Refused,
    means: "there is no such file",
    next: "name another",
};

#[async_trait]
impl HookHost for Side {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        self.calls
            .lock()
            .unwrap()
            .push((service.to_owned(), request.clone()));
        match service {
            "artifact.list" => Ok(json!({ "paths": self.files.keys().collect::<Vec<_>>() })),
            "artifact.read" => {
                let content = self.files.get(request["path"].as_str().unwrap());
                let absent = || PortError::new(&NO_FILE, "read a file", "there is none");
                Ok(json!({"contentBase64": BASE64.encode(content.ok_or_else(absent)?)}))
            }
            "ssh.run" => {
                let command = request["command"].as_str().unwrap();
                if self.guarded.load(Ordering::Relaxed) && command.contains("sudo ") {
                    let stderr = "sudo: a password is required\n";
                    return Ok(
                        json!({"exitCode": 1, "stdout": "", "stderr": stderr, "truncated": false}),
                    );
                }
                let stdout = format!("{command}\n");
                Ok(json!({"exitCode": 0, "stdout": stdout, "stderr": "", "truncated": false}))
            }
            "checkpoint.get" => {
                let saved = self.requests("checkpoint.put");
                let last = saved.iter().rev().find(|put| put["key"] == request["key"]);
                Ok(json!({"value": last.map(|put| &put["value"])}))
            }
            "cancelled" => Ok(json!({"cancelled": self.cancelled.load(Ordering::Relaxed)})),
            _ => Ok(json!({})),
        }
    }

    fn log(&self, level: &str, text: &str) {
        self.logs.lock().unwrap().push(format!("{level}: {text}"));
    }
}

impl Side {
    fn with_script(script: &str) -> Arc<Self> {
        Self::with([("Scripts/hook", script)])
    }

    fn with<const N: usize>(files: [(&str, &str); N]) -> Arc<Self> {
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        Arc::new(Self {
            files: files.into(),
            ..Self::default()
        })
    }

    fn logs(&self) -> Vec<String> {
        self.logs.lock().unwrap().clone()
    }

    fn requests(&self, service: &str) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .filter(|(name, _)| name == service)
            .map(|(_, asked)| asked.clone())
            .collect()
    }
}

/// A plugin host that runs scripts, and the parent of their folders.
struct World {
    plugins: PluginHost,
    config: vnfm_plugin_host::Config,
    folders: TempDir,
    _dir: Folder,
}

const WANTED: HookDriverRef<'_> = HookDriverRef {
    implementation: "configure",
    plugin: None,
    script: Some(HookScriptRef {
        path: "Scripts/hook",
        package: "5ca1e",
    }),
    version: DriverVersion::Newest,
};

impl World {
    fn new() -> Self {
        Self::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::All)
    }

    fn with(config: &Value, scripts: impl FnOnce(&mut Scripts)) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let (dir, folders) = (Folder::new(), tempfile::tempdir().unwrap());
        // Like `/tmp`: every hook user must be able to traverse it.
        std::fs::set_permissions(folders.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        dir.put(&built("mgmt-script"), "script.so");
        let mut all = dir.config();
        all.process = Some(ProcessConfig::with_program(runner()));
        let own = PluginConfig {
            config: config.clone(),
            ..PluginConfig::default()
        };
        all.plugins.insert("mgmt-script".into(), own);
        folders.path().clone_into(&mut all.scripts.folder);
        scripts(&mut all.scripts);
        let plugins = PluginHost::new(all.clone(), Arc::new(RealClock));
        plugins.allow("script.so").unwrap();
        Self {
            plugins,
            config: all,
            folders,
            _dir: dir,
        }
    }

    fn plugins_config(&self) -> vnfm_plugin_host::Config {
        self.config.clone()
    }

    async fn run(&self, side: &Arc<Side>, request: HookRequest) -> Result<Effects, PortError> {
        let driver = self.plugins.resolve(&WANTED).unwrap();
        driver.call(request, side.clone()).await
    }

    /// Number of script folders; the spare process has one.
    fn folders(&self) -> usize {
        std::fs::read_dir(self.folders.path()).unwrap().count()
    }
}

fn hook(kind: &str, limit: Duration) -> HookRequest {
    let mut request = request("instantiate_end", limit);
    request.additional_params = json!({
        "login": {"username": "ubuntu", "password": PASSWORD, "connectionPoint": "CP1"},
        "release": 7,
    })
    .as_object()
    .cloned()
    .unwrap();
    request.artifacts = vec![HookArtifact::new("configure", "Scripts/hook", kind)];
    request
}

/// Waits until only the spare process has a folder.
async fn assert_folder_deleted(world: &World) {
    let began = Instant::now();
    while world.folders() > 1 {
        assert!(began.elapsed() < AMPLE, "a hook's folder was not deleted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_python_script_reads_the_request_uses_hosts_and_returns_effects() {
    let world = World::new();
    let side = Side::with([
        ("Scripts/hook", PYTHON_HOOK),
        ("Scripts/words.py", "GREETING = 'from the package'"),
    ]);
    let effects = world.run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    assert_eq!(effects.metadata["release"], 7);
    assert_eq!(effects.metadata["said"], "uptime\n");
    assert_eq!(effects.metadata["words"], "from the package");
    let run = &side.requests("ssh.run")[0];
    assert_eq!(
        (&run["host"]["address"], &run["host"]["username"]),
        (&json!("10.0.0.7"), &json!("ubuntu"))
    );
    assert_eq!(
        run["host"]["password"], PASSWORD,
        "the VNFM logs in, not the script"
    );
    assert_eq!(
        (&run["stdin"], &run["sudo"]),
        (&json!("input"), &json!(true))
    );
    let progress = side.requests("progress");
    assert_eq!(progress[0], json!({"percent": 40, "message": "half of it"}));
    assert_eq!(progress[1]["percent"], 90);
    let logs = side.logs();
    for line in ["warn: little memory", "info: a plain line"] {
        assert!(
            logs.iter().any(|said| said == line),
            "no `{line}` in {logs:?}"
        );
    }
    assert_folder_deleted(&world).await;
}

const PYTHON_HOOK: &str = r#"
import json, sys, vnfm, words
request = json.load(sys.stdin)
host = vnfm.hosts()[0]
vnfm.progress(40, "half of it")
said = vnfm.run(host["name"], "uptime", stdin="input", sudo=True).stdout
print("90% nearly", "warning: little memory", "a plain line", sep="\n", file=sys.stderr)
release = request["additionalParams"]["release"]
print(json.dumps({"schemaVersion": 1, "metadata": {"release": release, "said": said, "words": words.GREETING}}))
"#;

#[tokio::test]
async fn a_shell_script_finds_no_secrets_outside_its_request_and_no_network() {
    let world = World::new();
    let side = Side::with_script(BASH_HOOK);
    let effects = world.run(&side, hook(BASH, AMPLE)).await.unwrap();
    let metadata = |key: &str| effects.metadata[key].as_str().unwrap().to_owned();
    assert_eq!(
        metadata("request"),
        "1",
        "the request is on standard input, with its secrets"
    );
    assert_eq!(metadata("elsewhere"), "", "nowhere else is the password");
    assert_eq!(metadata("interfaces"), "lo");
    assert_eq!(metadata("host"), "web-1");
    assert_eq!(metadata("ran"), "echo hello");
    let names = "HOME LANG LC_ALL PATH PWD PYTHONDONTWRITEBYTECODE PYTHONPATH SHLVL TMPDIR USER VNFM_SOCKET _";
    assert_eq!(metadata("environment"), names);
    let uid: u32 = metadata("uid").parse().unwrap();
    let me = rustix::process::geteuid();
    assert_eq!(
        me.is_root(),
        uid >= 2_000_000_000,
        "root never runs a script: {uid}"
    );
    assert_folder_deleted(&world).await;
}

const BASH_HOOK: &str = r#"
set -eu
request=$(cat)
word=planted-; word+=password # not in this file
count=$(grep -c "$word" <<<"$request")
elsewhere=$(grep -rl "$word" "$HOME/.." /proc/self/environ /proc/$PPID/cmdline 2>/dev/null || true)
interfaces=$(sed -n 's/^ *\([^ ]*\):.*/\1/p' /proc/self/net/dev | tr '\n' ' ')
host=$(vnfm hosts VDU1)
ran=$(vnfm run "$host" 'echo hello')
environment=$(env | sed 's/=.*//' | sort | tr '\n' ' ')
cat <<END
{"schemaVersion": 1, "metadata": {"request": "$count", "elsewhere": "$elsewhere", "interfaces": "${interfaces% }",
 "host": "$host", "ran": "$ran", "environment": "${environment% }", "uid": "$(id -u)"}}
END
"#;

const HTTP_HOOK: &str = r#"
import json, vnfm
try:
    said = vnfm.call("http", method="GET", url="http://127.0.0.1:9890/vnfm/v1/secrets")
except vnfm.Error as error:
    said = f"{error.kind}: {error}"
print(json.dumps({"schemaVersion": 1, "metadata": {"said": said}}))
"#;

#[tokio::test]
async fn a_script_sends_no_http_through_the_server_unless_the_operator_allows_it() {
    let requests = |side: &Side| {
        side.calls
            .lock()
            .unwrap()
            .iter()
            .any(|(name, _)| name == "http")
    };
    let side = Side::with_script(HTTP_HOOK);
    let effects = World::new().run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    let output = effects.metadata["said"].as_str().unwrap();
    assert!(
        output.contains("REFUSED") && output.contains("http: true"),
        "{output}"
    );
    assert!(!requests(&side), "the server was called");
    let allowed = json!({"http": true});
    let world = World::with(&allowed, |scripts| scripts.allow = AllowedScripts::All);
    let side = Side::with_script(HTTP_HOOK);
    world.run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    assert!(requests(&side), "the server decides, by `hooks.networks`");
}

#[tokio::test]
async fn a_script_with_network_has_the_servers_network() {
    let world = World::with(&Value::Null, |scripts| {
        scripts.allow = AllowedScripts::All;
        scripts.network = true;
    });
    let script = r#"cat >/dev/null; echo "{\"schemaVersion\": 1, \"message\": \"$(readlink /proc/self/ns/net)\"}""#;
    let effects = world
        .run(&Side::with_script(script), hook(BASH, AMPLE))
        .await
        .unwrap();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(effects.message.as_deref(), own.to_str());
}

#[tokio::test]
async fn the_deadline_kills_the_script_and_everything_it_started() {
    let world = World::new();
    let script = "sleep 1000 & setsid sleep 1000 & echo begun >&2; sleep 1000";
    let error = world
        .run(
            &Side::with_script(script),
            hook(BASH, Duration::from_secs(3)),
        )
        .await
        .unwrap_err();
    assert_eq!(error.name(), "plugin.deadline", "{error}");
    assert_folder_deleted(&world).await;
    let path = world.folders.path().display().to_string();
    let mine = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&path) && process.join("exe").exists()
    };
    let began = Instant::now();
    let sleeping = || {
        let all = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        all.filter(|process| {
            std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "sleep\n")
        })
        .any(|process| mine(&process))
    };
    while sleeping() {
        assert!(
            began.elapsed() < AMPLE,
            "a process that the script started is still running"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_cancelled_script_gets_sigterm_and_may_clean_up() {
    let world = World::new();
    let side = Side::with_script(
        "trap 'echo tidied >&2; exit 1' TERM; echo begun >&2; while :; do read -t 1 <>/dev/null; done",
    );
    let cancelling = async {
        while !side.logs().iter().any(|line| line == "info: begun") {
            tokio::task::yield_now().await;
        }
        side.cancelled.store(true, Ordering::Relaxed);
    };
    let (outcome, ()) = tokio::join!(world.run(&side, hook(BASH, AMPLE)), cancelling);
    let error = outcome.unwrap_err();
    assert_eq!(error.name(), "cancelled");
    assert!(
        side.logs().iter().any(|line| line == "info: tidied"),
        "{:?}",
        side.logs()
    );
}
