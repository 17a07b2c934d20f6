//! Hooks that are scripts, by the plugin `mgmt-script` in processes of its own: what a script finds, what it may not, and
//! every way in which it goes wrong, as its author reads it.

mod apart;
mod playbooks;
mod secrets;

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
    Code, Effects, ErrorKind, HookDriverRef, HookHost, HookRequest, HookScriptRef,
    MgmtDrivers as _, PortError,
};
use vnfm_plugin_host::{
    AllowedScripts, Lock, PackagePin, PluginConfig, PluginHost, ProcessConfig, Scripts,
};

const PASSWORD: &str = "planted-password";
const BASH: &str = "tosca.artifacts.Implementation.Bash";
const PYTHON: &str = "tosca.artifacts.Implementation.Python";

/// An engine's side with a package, and a host that answers every command with what it was asked.
#[derive(Default)]
struct Side {
    files: BTreeMap<String, String>,
    calls: Mutex<Vec<(String, Value)>>,
    logs: Mutex<Vec<String>>,
    cancelled: AtomicBool,
    /// Becoming root needs a password on its hosts.
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
            "cancelled" => Ok(json!({"cancelled": self.cancelled.load(Ordering::Relaxed)})),
            _ => Ok(json!({})),
        }
    }

    fn log(&self, level: &str, text: &str) {
        self.logs.lock().unwrap().push(format!("{level}: {text}"));
    }
}

impl Side {
    fn of(script: &str) -> Arc<Self> {
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

    fn asked(&self, service: &str) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .filter(|(name, _)| name == service)
            .map(|(_, asked)| asked.clone())
            .collect()
    }
}

/// A plugin host that runs scripts, with a place for their folders.
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
};

impl World {
    fn new() -> Self {
        Self::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::All)
    }

    fn with(config: &Value, scripts: impl FnOnce(&mut Scripts)) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let (dir, folders) = (Folder::new(), tempfile::tempdir().unwrap());
        // As `/tmp`: whoever a hook runs as has to come through.
        std::fs::set_permissions(folders.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        dir.put(&built("mgmt-script"), "script.so");
        let mut all = dir.config();
        all.process = Some(ProcessConfig::by(runner()));
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
        let driver = self.plugins.for_hook(&WANTED).unwrap();
        driver.call(request, side.clone()).await
    }

    /// How many folders are there; the spare process has one.
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
    request.artifacts = vec![json!({"name": "configure", "path": "Scripts/hook", "type": kind})];
    request
}

/// Nothing of the hook is left but what the spare process has.
async fn is_gone(world: &World) {
    let began = Instant::now();
    while world.folders() > 1 {
        assert!(began.elapsed() < AMPLE, "a hook's folder stays");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_python_script_reads_the_request_uses_hosts_and_answers_effects() {
    let world = World::new();
    let side = Side::with([
        ("Scripts/hook", PYTHON_HOOK),
        ("Scripts/words.py", "GREETING = 'from the package'"),
    ]);
    let effects = world.run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    assert_eq!(effects.metadata["release"], 7);
    assert_eq!(effects.metadata["said"], "uptime\n");
    assert_eq!(effects.metadata["words"], "from the package");
    let run = &side.asked("ssh.run")[0];
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
    let progress = side.asked("progress");
    assert_eq!(progress[0], json!({"percent": 40, "message": "half of it"}));
    assert_eq!(progress[1]["percent"], 90);
    let logs = side.logs();
    for line in ["warn: little memory", "info: a plain line"] {
        assert!(
            logs.iter().any(|said| said == line),
            "no `{line}` in {logs:?}"
        );
    }
    is_gone(&world).await;
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
async fn a_shell_script_finds_nothing_secret_outside_of_its_request_and_no_network() {
    let world = World::new();
    let side = Side::of(BASH_HOOK);
    let effects = world.run(&side, hook(BASH, AMPLE)).await.unwrap();
    let said = |key: &str| effects.metadata[key].as_str().unwrap().to_owned();
    assert_eq!(
        said("request"),
        "1",
        "the request is on standard input, with its secrets"
    );
    assert_eq!(said("elsewhere"), "", "nowhere else is the password");
    assert_eq!(said("interfaces"), "lo");
    assert_eq!(said("host"), "web-1");
    assert_eq!(said("ran"), "echo hello");
    let names = "HOME LANG LC_ALL PATH PWD PYTHONDONTWRITEBYTECODE PYTHONPATH SHLVL TMPDIR USER VNFM_SOCKET _";
    assert_eq!(said("environment"), names);
    let uid: u32 = said("uid").parse().unwrap();
    let me = rustix::process::geteuid();
    assert_eq!(
        me.is_root(),
        uid >= 2_000_000_000,
        "root never runs a script: {uid}"
    );
    is_gone(&world).await;
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
    let asked = |side: &Side| {
        side.calls
            .lock()
            .unwrap()
            .iter()
            .any(|(name, _)| name == "http")
    };
    let side = Side::of(HTTP_HOOK);
    let effects = World::new().run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    let said = effects.metadata["said"].as_str().unwrap();
    assert!(
        said.contains("REFUSED") && said.contains("http: true"),
        "{said}"
    );
    assert!(!asked(&side), "the server was asked");
    let allowed = json!({"http": true});
    let world = World::with(&allowed, |scripts| scripts.allow = AllowedScripts::All);
    let side = Side::of(HTTP_HOOK);
    world.run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    assert!(asked(&side), "the server decides, by `hooks.networks`");
}

#[tokio::test]
async fn with_a_network_it_has_the_servers_own() {
    let world = World::with(&Value::Null, |scripts| {
        scripts.allow = AllowedScripts::All;
        scripts.network = true;
    });
    let script = r#"cat >/dev/null; echo "{\"schemaVersion\": 1, \"message\": \"$(readlink /proc/self/ns/net)\"}""#;
    let effects = world
        .run(&Side::of(script), hook(BASH, AMPLE))
        .await
        .unwrap();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(effects.message.as_deref(), own.to_str());
}

/// What an author reads: (script, kind, code, kind of error, words).
type Row<'a> = (&'a str, &'a str, &'a str, ErrorKind, &'a [&'a str]);

#[tokio::test]
async fn each_mistake_of_an_author_ends_the_hook_with_words_that_lead_on() {
    use ErrorKind::{Refused, Unavailable};
    let world = World::new();
    let rows: &[Row<'_>] = &[
        (
            "echo the last words >&2; exit 3",
            BASH,
            "script-failed",
            Refused,
            &["Scripts/hook", "exit code 3", "the last words"],
        ),
        (
            "exit 75",
            BASH,
            "script-failed",
            Unavailable,
            &["may work later"],
        ),
        (
            "no-such-command",
            BASH,
            "script-failed",
            Refused,
            &["127", "command was not found"],
        ),
        ("kill -9 $$", BASH, "script-killed", Refused, &["signal: 9"]),
        (
            "raise ValueError('of mine')",
            PYTHON,
            "script-failed",
            Refused,
            &["ValueError: of mine", "exit code 1"],
        ),
        (
            "import nowhere",
            PYTHON,
            "script-failed",
            Refused,
            &["No module named 'nowhere'"],
        ),
        (
            "echo installed",
            BASH,
            "bad-effects",
            Refused,
            &["not JSON", "standard error", "installed"],
        ),
        (
            "echo '{}'",
            BASH,
            "bad-effects",
            Refused,
            &["schemaVersion"],
        ),
        (
            r#"echo '{"schemaVersion": 1, "metadata": []}'"#,
            BASH,
            "bad-effects",
            Refused,
            &["effects.metadata", "object"],
        ),
        (
            "import vnfm; vnfm.run('web-9', 'true')",
            PYTHON,
            "script-failed",
            Refused,
            &["no host `web-9`", "web-1"],
        ),
        (
            "vnfm run web-9 true",
            BASH,
            "script-failed",
            Refused,
            &["no host `web-9`", "web-1"],
        ),
    ];
    for (script, kind, code, error_kind, words) in rows {
        let error = world
            .run(&Side::of(script), hook(kind, AMPLE))
            .await
            .unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            (*code, *error_kind),
            "{script}: {error}"
        );
        let as_a_hook = match error_kind {
            Unavailable => "plugin.hook-unavailable",
            _ => "plugin.hook-failed",
        };
        assert_eq!(error.code().name, as_a_hook);
        for word in *words {
            assert!(
                error.to_string().contains(word),
                "{script}: no `{word}` in {error}"
            );
        }
    }
    is_gone(&world).await;
}

#[tokio::test]
async fn a_hook_without_a_script_and_one_whose_script_is_not_there_are_told_apart() {
    let world = World::new();
    let side = Side::of("true");
    let mut nothing = hook(BASH, AMPLE);
    nothing.artifacts[0]["type"] = json!("tosca.artifacts.Implementation.Perl");
    let error = world.run(&side, nothing).await.unwrap_err();
    assert_eq!(error.name(), "no-script");
    assert!(error.to_string().contains("Implementation.Perl"), "{error}");
    assert!(
        error.to_string().contains("Implementation.Ansible"),
        "{error}"
    );
    let mut absent = hook(BASH, AMPLE);
    absent.artifacts[0]["path"] = json!("Scripts/gone");
    let error = world.run(&side, absent).await.unwrap_err();
    assert_eq!(error.name(), "no-script");
    assert!(
        error.to_string().contains("no file `Scripts/gone`"),
        "{error}"
    );
}

#[tokio::test]
async fn an_interpreter_that_is_not_there_is_named_with_what_brings_it() {
    let config = json!({"bash": "/usr/bin/no-bash", "python": "/proc"});
    let world = World::with(&config, |scripts| scripts.allow = AllowedScripts::All);
    let side = Side::of("true");
    for (kind, words) in [
        (BASH, ["/usr/bin/no-bash", "Debian: bash"]),
        (PYTHON, ["/proc", "Permission denied"]),
    ] {
        let error = world.run(&side, hook(kind, AMPLE)).await.unwrap_err();
        assert_eq!(error.name(), "no-interpreter", "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "no `{word}` in {error}");
        }
    }
}

#[tokio::test]
async fn a_wrong_login_is_named_before_anything_runs() {
    let world = World::new();
    let mut request = hook(BASH, AMPLE);
    request.additional_params["login"]["privatKey"] = json!(PASSWORD);
    let error = world.run(&Side::of("exit 1"), request).await.unwrap_err();
    assert_eq!(error.name(), "bad-login");
    let text = error.to_string();
    assert!(
        text.contains("privatKey") && !text.contains(PASSWORD),
        "{text}"
    );
}

#[tokio::test]
async fn the_deadline_ends_the_script_with_all_that_it_started() {
    let world = World::new();
    let script = "sleep 1000 & setsid sleep 1000 & echo begun >&2; sleep 1000";
    let error = world
        .run(&Side::of(script), hook(BASH, Duration::from_secs(3)))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "plugin.deadline", "{error}");
    is_gone(&world).await;
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
            "something that the script started is still there"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_process_that_somebody_kills_is_told_from_one_that_crashed() {
    let world = World::new();
    let side = Side::of("kill -9 $PPID; read -t 60 <> <(:)");
    let error = world.run(&side, hook(BASH, AMPLE)).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.killed", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    is_gone(&world).await;
}

#[tokio::test]
async fn a_cancelled_operation_tells_the_script_which_may_tidy_up() {
    let world = World::new();
    let side = Side::of(
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

#[tokio::test]
async fn scripts_run_only_where_somebody_allowed_their_package() {
    let world = World::with(&Value::Null, |_| {});
    let refused = || match world.plugins.for_hook(&WANTED) {
        Err(error) => error,
        Ok(_) => panic!("it may run"),
    };
    let error = refused();
    assert_eq!(error.name(), "plugin.script-not-allowed");
    for word in ["Scripts/hook", "5ca1e", "plugins.lock", "pinned"] {
        assert!(error.to_string().contains(word), "no `{word}` in {error}");
    }
    let mut lock = Lock::read(world.plugins.dir()).unwrap();
    let pin = |sha256: &str| PackagePin {
        vnfd_id: "d".into(),
        sha256: sha256.into(),
        scripts: vec!["Scripts/hook".into()],
    };
    lock.add_package(pin("0ther"));
    lock.write(world.plugins.dir()).unwrap();
    refused();
    lock.add_package(pin("5CA1E"));
    lock.write(world.plugins.dir()).unwrap();
    let driver = world.plugins.for_hook(&WANTED).unwrap();
    assert_eq!(driver.declaration().name, "mgmt-script");
    let began = driver.id();
    assert!(world.plugins.for_running_hook(&began, &WANTED).is_ok());
    // Taken back, also from an operation that began with it.
    lock.packages.clear();
    lock.write(world.plugins.dir()).unwrap();
    let again = world
        .plugins
        .for_running_hook(&began, &WANTED)
        .err()
        .unwrap();
    assert_eq!(again.name(), "plugin.script-not-allowed");
    let kept = format!("{}@{}", began.name, began.version);
    let kept = world
        .plugins
        .for_deployed_hook(&kept, &WANTED)
        .err()
        .unwrap();
    assert_eq!(
        kept.name(),
        "plugin.script-not-allowed",
        "also where that version made it"
    );
    let never = World::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::None);
    assert!(never.plugins.for_hook(&WANTED).is_err());
}

#[tokio::test]
async fn a_plugin_that_is_named_or_mapped_serves_a_hook_although_its_file_is_a_script() {
    let world = World::new();
    let named = HookDriverRef {
        plugin: Some("gone"),
        ..WANTED
    };
    let error = world.plugins.for_hook(&named).err().unwrap();
    assert!(error.to_string().contains("no plugin `gone`"), "{error}");
}

#[test]
fn scripts_never_run_in_the_servers_own_process_without_their_network_being_allowed() {
    use vnfm_plugin_host::Runner;
    let dir = Folder::new();
    dir.put(&built("mgmt-script"), "script.so");
    let mut all = dir.config();
    all.plugins.entry("mgmt-script".into()).or_default().runner = Runner::InProcess;
    all.scripts.allow = AllowedScripts::All;
    let plugins = PluginHost::new(all, Arc::new(RealClock));
    plugins.allow("script.so").unwrap();
    let error = plugins.for_hook(&WANTED).err().unwrap();
    assert_eq!(error.name(), "plugin.no-process", "{error}");
}
