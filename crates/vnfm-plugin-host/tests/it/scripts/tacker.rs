//! Python scripts in the protocol of OpenStack Tacker: their dictionaries, their output, and hostile ones.

use super::{BASH, PYTHON, Side, WANTED, World, assert_folder_deleted, hook};
use crate::world::AMPLE;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vnfm_core::ports::{
    Effects, ErrorKind, HookHeal, HookRequest, MgmtDrivers as _, PortError, ScriptProtocol,
};
use vnfm_plugin_host::{AllowedScripts, Lock, PackagePin};

/// A host on which the package is pinned with this protocol.
fn world(protocol: Option<ScriptProtocol>) -> World {
    let world = World::with(&Value::Null, |_| {});
    let mut lock = Lock::read(world.plugins.dir()).unwrap();
    lock.add_package(PackagePin {
        vnfd_id: "d".into(),
        sha256: "5ca1e".into(),
        scripts: vec!["Scripts/hook".into()],
        protocol,
    });
    lock.write(world.plugins.dir()).unwrap();
    world
}

fn for_tacker() -> World {
    world(Some(ScriptProtocol::Tacker))
}

/// A script that reads its dictionary as `given`, and then does this.
fn script(body: &str) -> Arc<Side> {
    let head = "import os, pickle, sys\ngiven = pickle.load(sys.stdin.buffer)\n\
                def returns(value): sys.stdout.buffer.write(pickle.dumps(value)); sys.stdout.flush()\n";
    Side::with_script(&format!("{head}{body}"))
}

async fn run(world: &World, body: &str, request: HookRequest) -> Result<Effects, PortError> {
    world.run(&script(body), request).await
}

#[tokio::test]
async fn a_script_for_tacker_gets_its_dictionaries_and_changes_metadata() {
    let world = for_tacker();
    let mut request = hook(PYTHON, AMPLE);
    request.instance.metadata = json!({"stays": 1, "goes": 2}).as_object().cloned().unwrap();
    let body = r#"
instance = given["vnf_instance"]
vnfc = instance["instantiatedVnfInfo"]["vnfcResourceInfo"][0]
assert given["operation"] == "instantiate_end" and given["grant_response"] is None, given
assert given["request"]["additionalParams"]["login"]["password"] == "planted-password"
assert instance["id"] == "i-1" and instance["vimConnectionInfo"] == {}, instance
assert instance["instantiatedVnfInfo"]["vnfcInfo"][0]["vnfcResourceInfoId"] == vnfc["id"]
assert os.path.isfile(os.path.join(given["tmp_csar_dir"], "Scripts/hook"))
del instance["metadata"]["goes"]
instance["metadata"]["server"] = vnfc["computeResource"]["resourceId"]
sys.stderr.write("a line for the log\n")
returns({"vnf_instance": instance, "unknown": 1})
"#;
    let side = script(body);
    let effects = world.run(&side, request).await.unwrap();
    let expected = json!({"server": "server-1", "goes": null});
    assert_eq!(Value::Object(effects.metadata), expected);
    let logs = side.logs();
    for line in ["info: a line for the log", "warn: ignoring `unknown`"] {
        assert!(
            logs.iter().any(|log| log.starts_with(line)),
            "no `{line}` in {logs:?}"
        );
    }
    assert_folder_deleted(&world).await;
}

#[tokio::test]
async fn a_heal_names_the_servers_in_the_request_and_in_the_grant() {
    let world = for_tacker();
    let mut request = hook(PYTHON, AMPLE);
    request.operation = "HEAL".into();
    request.hook = "heal_start".into();
    let mut heal = HookHeal::default();
    heal.vnfcs = request.inventory.vnfc_resource_info.clone();
    heal.cause = Some("it hangs".into());
    request.heal = Some(heal);
    let body = r#"
removed, = given["grant_request"]["removeResources"]
asked = given["request"]
returns({"vnf_instance": {**given["vnf_instance"], "metadata": {
    "operation": given["operation"], "vnfcs": asked["vnfcInstanceId"], "cause": asked["cause"],
    "removed": removed["resource"]["resourceId"], "type": removed["type"]}}})
"#;
    let effects = run(&world, body, request).await.unwrap();
    let expected = json!({
        "operation": "heal_start", "vnfcs": ["vnfc-1"], "cause": "it hangs", "removed": "server-1", "type": "COMPUTE",
    });
    assert_eq!(Value::Object(effects.metadata), expected);
}

#[tokio::test]
async fn output_that_is_none_empty_or_text_has_no_effects() {
    let world = for_tacker();
    for body in [
        "",
        "returns(None)",
        "returns({})",
        "print('installed')",
        "returns({'vnf_instance': given['vnf_instance']})",
    ] {
        let effects = run(&world, body, hook(PYTHON, AMPLE)).await.unwrap();
        assert_eq!(effects, Effects::none(), "{body}");
    }
}

#[tokio::test]
async fn what_a_failed_attempt_returned_is_given_to_the_next_one() {
    let world = for_tacker();
    let body = r"
state = given['user_script_err_handling_data']
state['attempts'] = state.get('attempts', 0) + 1
returns({'user_script_err_handling_data': state})
sys.exit('not yet' if state['attempts'] == 1 else 0)
";
    let side = script(body);
    let error = world.run(&side, hook(PYTHON, AMPLE)).await.unwrap_err();
    assert!(error.to_string().contains("not yet"), "{error}");
    world.run(&side, hook(PYTHON, AMPLE)).await.unwrap();
    let saved = side.requests("checkpoint.put");
    assert_eq!(saved[1]["value"], json!({"attempts": 2}), "{saved:?}");
}

/// (script, error code, expected parts of the message).
const MISTAKES: &[(&str, &str, &[&str])] = &[
    (
        "print('no such server', file=sys.stderr, flush=True); os._exit(1)",
        "script-failed",
        &["exit code 1", "no such server"],
    ),
    ("sys.exit(3)", "script-failed", &["exit code 3"]),
    ("os.kill(os.getpid(), 9)", "script-killed", &["signal: 9"]),
    (
        "from tacker.common import exceptions",
        "script-failed",
        &["No module named 'tacker'", "scripts-for-tacker.md"],
    ),
    (
        "import paramiko_of_somebody",
        "script-failed",
        &["paramiko_of_somebody", "scripts-for-tacker.md"],
    ),
    (
        "i = given['vnf_instance']; i['instantiatedVnfInfo']['vnfcResourceInfo'].clear(); returns({'vnf_instance': i})",
        "script-failed",
        &[
            "vnf_instance.instantiatedVnfInfo.vnfcResourceInfo",
            "only `vnf_instance.metadata`",
        ],
    ),
    (
        "returns({'vnf_instance': {'id': 'another'}})",
        "script-failed",
        &["vnf_instance.id"],
    ),
    ("returns([1])", "script-failed", &["not a dictionary"]),
    (
        "returns({'vnf_instance': {'metadata': {'a': b'bytes'}}})",
        "script-failed",
        &["not plain data", "bytes"],
    ),
    (
        "a = []; a.append(a); returns({'vnf_instance': a})",
        "script-failed",
        &["not plain data"],
    ),
    (
        "sys.stdout.buffer.write(pickle.dumps({})[:-1])",
        "script-failed",
        &["not plain data"],
    ),
    (
        "while True: sys.stdout.buffer.write(b'x' * 65536)",
        "script-failed",
        &["longer than 4 MiB"],
    ),
];

#[tokio::test]
async fn each_mistake_of_a_script_for_tacker_has_a_helpful_error() {
    let world = for_tacker();
    for (body, code, words) in MISTAKES {
        let error = run(&world, body, hook(PYTHON, AMPLE)).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            (*code, ErrorKind::Refused),
            "{body}: {error}"
        );
        for word in *words {
            assert!(
                error.to_string().contains(word),
                "{body}: no `{word}` in {error}"
            );
        }
    }
    assert_folder_deleted(&world).await;
}

/// Returns an object whose pickle would run a command as the process that loads it.
const HOSTILE: &str = r#"
class Command:
    def __reduce__(self):
        return os.system, ("echo loaded >MARK; vnfm run web-1 loaded",)
returns({"vnf_instance": Command(), "user_script_err_handling_data": Command()})
"#;

#[tokio::test]
async fn a_pickle_that_would_run_a_command_is_loaded_nowhere() {
    let world = for_tacker();
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let mark = outside.path().join("mark");
    let side = script(&HOSTILE.replace("MARK", &mark.display().to_string()));
    let error = world.run(&side, hook(PYTHON, AMPLE)).await.unwrap_err();
    assert_eq!(error.name(), "script-failed");
    assert!(error.to_string().contains("posix.system"), "{error}");
    assert!(!mark.exists(), "it was loaded outside of the sandbox");
    assert_eq!(
        side.requests("ssh.run"),
        [] as [Value; 0],
        "it was loaded in the sandbox"
    );
}

#[tokio::test]
async fn a_script_for_tacker_reaches_neither_files_nor_the_network() {
    let world = for_tacker();
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let file = outside.path().join("secrets.key");
    std::fs::write(&file, "planted").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let body = r#"
import socket
got = []
def tried(name, action):
    try:
        action()
        got.append(name)
    except OSError:
        pass
tried("own", lambda: open(os.path.join(os.environ["TMPDIR"], "own"), "w"))
tried("read", lambda: open("FILE"))
tried("wrote", lambda: open("FILE.new", "w"))
tried("connected", lambda: socket.create_connection(("127.0.0.1", PORT), 1))
tried("signalled", lambda: os.kill(SERVER, 0))
returns({"vnf_instance": {**given["vnf_instance"], "metadata": {"got": got}}})
"#;
    let body = body
        .replace("FILE", &file.display().to_string())
        .replace("PORT", &listener.local_addr().unwrap().port().to_string())
        .replace("SERVER", &std::process::id().to_string());
    let effects = run(&world, &body, hook(PYTHON, AMPLE)).await.unwrap();
    assert_eq!(effects.metadata["got"], json!(["own"]));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn without_its_protocol_a_script_for_tacker_is_refused_with_the_way_out() {
    let body = "returns({})";
    let all = World::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::All);
    for world in [world(None), all] {
        let error = run(&world, body, hook(PYTHON, AMPLE)).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("pickled-request", ErrorKind::Refused),
            "{error}"
        );
        for word in ["Scripts/hook", "--protocol tacker", "scripts-for-tacker.md"] {
            assert!(error.to_string().contains(word), "no `{word}` in {error}");
        }
    }
    // A package cannot choose it.
    let mut request = hook(PYTHON, AMPLE);
    let chosen = json!({"scriptProtocol": "tacker"});
    request.inputs = chosen.as_object().cloned().unwrap();
    request.additional_params.extend(request.inputs.clone());
    let error = run(&world(None), body, request).await.unwrap_err();
    assert_eq!(error.name(), "pickled-request", "{error}");
}

#[tokio::test]
async fn the_protocol_holds_for_python_only_and_until_it_is_revoked() {
    let world = for_tacker();
    let effects = r#"cat >/dev/null; echo '{"schemaVersion": 1, "message": "JSON"}'"#;
    let side = Side::with_script(effects);
    let done = world.run(&side, hook(BASH, AMPLE)).await.unwrap();
    assert_eq!(done.message.as_deref(), Some("JSON"));
    let began = world.plugins.resolve(&WANTED).unwrap().id();
    let exact = world.plugins.resolve(&WANTED.exact(&began)).unwrap();
    let side = script("returns({})");
    exact.call(hook(PYTHON, AMPLE), side.clone()).await.unwrap();
    let mut lock = Lock::read(world.plugins.dir()).unwrap();
    lock.packages[0].protocol = None;
    lock.write(world.plugins.dir()).unwrap();
    let error = world.run(&side, hook(PYTHON, AMPLE)).await.unwrap_err();
    assert_eq!(error.name(), "pickled-request", "{error}");
}
