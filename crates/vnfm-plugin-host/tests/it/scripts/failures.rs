//! The errors that the author of a script sees.

use super::{BASH, PASSWORD, PYTHON, Side, World, assert_folder_deleted, hook};
use crate::world::AMPLE;
use serde_json::json;
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_host::AllowedScripts;

/// (script, artifact type, error code, error kind, expected parts of the message).
type Row<'a> = (&'a str, &'a str, &'a str, ErrorKind, &'a [&'a str]);

const MISTAKES: &[Row<'_>] = &[
    (
        "echo the last words >&2; exit 3",
        BASH,
        "script-failed",
        ErrorKind::Refused,
        &["Scripts/hook", "exit code 3", "the last words"],
    ),
    (
        "exit 75",
        BASH,
        "script-failed",
        ErrorKind::Unavailable,
        &["may work later"],
    ),
    (
        "no-such-command",
        BASH,
        "script-failed",
        ErrorKind::Refused,
        &["127", "command was not found"],
    ),
    (
        "kill -9 $$",
        BASH,
        "script-killed",
        ErrorKind::Refused,
        &["signal: 9"],
    ),
    (
        "raise ValueError('of mine')",
        PYTHON,
        "script-failed",
        ErrorKind::Refused,
        &["ValueError: of mine", "exit code 1"],
    ),
    (
        "import nowhere",
        PYTHON,
        "script-failed",
        ErrorKind::Refused,
        &["No module named 'nowhere'"],
    ),
    (
        "echo installed",
        BASH,
        "bad-effects",
        ErrorKind::Refused,
        &["not JSON", "standard error", "installed"],
    ),
    (
        "echo '{}'",
        BASH,
        "bad-effects",
        ErrorKind::Refused,
        &["schemaVersion"],
    ),
    (
        r#"echo '{"schemaVersion": 1, "metadata": []}'"#,
        BASH,
        "bad-effects",
        ErrorKind::Refused,
        &["effects.metadata", "object"],
    ),
    (
        "import vnfm; vnfm.run('web-9', 'true')",
        PYTHON,
        "script-failed",
        ErrorKind::Refused,
        &["no host `web-9`", "web-1"],
    ),
    (
        "vnfm run web-9 true",
        BASH,
        "script-failed",
        ErrorKind::Refused,
        &["no host `web-9`", "web-1"],
    ),
    (
        "import vnfm\nfor host in vnfm.hosts('VDUU1'): vnfm.run(host['name'], 'true')",
        PYTHON,
        "script-failed",
        ErrorKind::Refused,
        &["no VDU `VDUU1`", "VDU1", "VDU2"],
    ),
    (
        "set -e; hosts=$(vnfm hosts VDUU1)",
        BASH,
        "script-failed",
        ErrorKind::Refused,
        &["no VDU `VDUU1`", "VDU1", "VDU2"],
    ),
];

#[tokio::test]
async fn each_mistake_of_a_script_author_has_a_helpful_error() {
    let world = World::new();
    for (script, kind, code, error_kind, words) in MISTAKES {
        let error = world
            .run(&Side::with_script(script), hook(kind, AMPLE))
            .await
            .unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            (*code, *error_kind),
            "{script}: {error}"
        );
        let as_a_hook = match error_kind {
            ErrorKind::Unavailable => "plugin.hook-unavailable",
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
    assert_folder_deleted(&world).await;
}

#[tokio::test]
async fn a_vdu_without_vnfcs_has_no_hosts() {
    let world = World::new();
    let side = Side::with_script("hosts=$(vnfm hosts VDU2) && test -z \"$hosts\"");
    world.run(&side, hook(BASH, AMPLE)).await.unwrap();
}

#[tokio::test]
async fn a_missing_artifact_and_a_missing_script_file_have_different_errors() {
    let world = World::new();
    let side = Side::with_script("true");
    let mut nothing = hook(BASH, AMPLE);
    nothing.artifacts[0].type_ = "tosca.artifacts.Implementation.Perl".into();
    let error = world.run(&side, nothing).await.unwrap_err();
    assert_eq!(error.name(), "no-script");
    assert!(error.to_string().contains("Implementation.Perl"), "{error}");
    assert!(
        error.to_string().contains("Implementation.Ansible"),
        "{error}"
    );
    let mut absent = hook(BASH, AMPLE);
    absent.artifacts[0].path = "Scripts/gone".into();
    let error = world.run(&side, absent).await.unwrap_err();
    assert_eq!(error.name(), "no-script");
    assert!(
        error.to_string().contains("no file `Scripts/gone`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_interpreter_is_named_with_its_package() {
    let config = json!({"bash": "/usr/bin/no-bash", "python": "/proc"});
    let world = World::with(&config, |scripts| scripts.allow = AllowedScripts::All);
    let side = Side::with_script("true");
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
async fn a_malformed_login_is_refused_before_anything_runs() {
    let world = World::new();
    let mut request = hook(BASH, AMPLE);
    request.additional_params["login"]["privatKey"] = json!(PASSWORD);
    let error = world
        .run(&Side::with_script("exit 1"), request)
        .await
        .unwrap_err();
    assert_eq!(error.name(), "bad-login");
    let text = error.to_string();
    assert!(
        text.contains("privatKey") && !text.contains(PASSWORD),
        "{text}"
    );
}

#[tokio::test]
async fn a_process_killed_from_outside_is_not_a_crash() {
    let world = World::new();
    let side = Side::with_script("kill -9 $PPID; read -t 60 <> <(:)");
    let error = world.run(&side, hook(BASH, AMPLE)).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("plugin.killed", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    assert_folder_deleted(&world).await;
}
