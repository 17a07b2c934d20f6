//! `vnfmctl plugin run`: hooks of real libraries on simulated hosts and over SSH, without a server.

use crate::stub::{Ended, run};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use vnfm_sim::faults::Faults;
use vnfm_sim::hosts::{HostSpec, Hosts, User};
use vnfm_sim::kubernetes::Clusters;
use vnfm_sim::ledger::Ledger;

const PASSWORD: &str = "planted-password";
/// One simulated host, which stores uploaded files.
const SIMULATED: &str = "
hosts:
  - {name: web-1, addresses: {CP1: 192.0.2.1}, simulated: []}
secrets: {password: {file: password}}
";
const WELCOME: &str =
    r#"{"additionalParams": {"sshCp": "CP1", "username": "ubuntu", "text": "hello"}}"#;

/// A folder with the command's input files, and a plugin library.
struct Fixture {
    folder: TempDir,
    library: PathBuf,
}

impl Fixture {
    fn new(library: &str, hosts: &str, request: &str) -> Self {
        use {fixture_misbehaving as _, mgmt_template as _};
        let folder = tempfile::tempdir().unwrap();
        let library = std::env::current_exe().unwrap().with_file_name(library);
        for (file, text) in [
            ("hosts.yaml", hosts),
            ("request.json", request),
            ("password", PASSWORD),
        ] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        Self { folder, library }
    }

    fn template(hosts: &str) -> Self {
        Self::new("libmgmt_template.so", hosts, WELCOME)
    }

    fn misbehaving(request: &Value) -> Self {
        Self::new(
            "libfixture_misbehaving.so",
            "hosts: []",
            &request.to_string(),
        )
    }

    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    async fn hook(&self, hook: &str, more: &[&str]) -> Ended {
        let (hosts, request) = (self.path("hosts.yaml"), self.path("request.json"));
        let args = ["plugin", "run", self.library.to_str().unwrap(), hook];
        let files = ["--hosts", hosts.as_str(), "--request", request.as_str()];
        run(&[&args, &files, more].concat(), "").await
    }
}

fn effects(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.data).unwrap_or_else(|_| panic!("{ended:?}"))
}

#[tokio::test]
async fn a_hook_runs_on_simulated_hosts_and_each_call_is_traced() {
    let fixture = Fixture::template(SIMULATED);
    for runner in [&[][..], &["--in-process"]] {
        let ended = fixture.hook("instantiate_end", runner).await;
        assert_eq!(effects(&ended)["metadata"]["welcomed"], 1);
        for line in [
            "hook `instantiate_end` of `mgmt-template@",
            "progress        0 %  writing the welcome",
            "ssh.put         web-1  /etc/vnf-welcome 0644",
            "ssh.run         web-1  $ cat /etc/vnf-welcome",
            "done, 5 calls in ",
        ] {
            assert!(ended.messages.contains(line), "{line}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn verbose_shows_the_request_and_each_message_without_secrets() {
    let answer = format!("simulated: [{{holds: cat, stdout: 'it is {PASSWORD}'}}]");
    let fixture = Fixture::template(&SIMULATED.replace("simulated: []", &answer));
    let ended = fixture.hook("instantiate_end", &["--verbose"]).await;
    for line in [
        "request {",
        r#""hook":"instantiate_end""#,
        "> ssh.put {",
        r#""contentBase64":"("#,
        "> ssh.run {",
        "< {",
        "it is [hidden]",
        r#""password":"[hidden]""#,
    ] {
        assert!(ended.messages.contains(line), "{line}: {ended:?}");
    }
    assert!(!ended.messages.contains(PASSWORD), "{ended:?}");
    let brief = fixture.hook("instantiate_end", &[]).await;
    assert!(!brief.messages.contains("> ssh.put"), "{brief:?}");
}

#[tokio::test]
async fn a_misspelt_hook_library_or_member_is_recognized() {
    let mut fixture = Fixture::template(SIMULATED);
    let ended = fixture.hook("instantate_end", &[]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    for text in [
        "has no hook `instantate_end`",
        "did you mean `instantiate_end`?",
    ] {
        assert!(ended.messages.contains(text), "{text}: {ended:?}");
    }
    std::fs::write(fixture.path("request.json"), r#"{"additonalParams": {}}"#).unwrap();
    let ended = fixture.hook("instantiate_end", &[]).await;
    let hint = "did you mean `additionalParams`?";
    assert!(
        ended.code == 1 && ended.messages.contains(hint),
        "{ended:?}"
    );
    fixture.library.set_file_name("libmgmt_tempalte.so");
    let ended = fixture.hook("instantiate_end", &[]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.messages.contains("libmgmt_template.so`?"),
        "{ended:?}"
    );
}

/// A debugger opens a library by the name that the linker knows: `/proc/self/fd/N` would be the debugger's own file.
#[test]
fn a_debugger_can_find_the_library_of_a_hook() {
    let fixture = Fixture::template(SIMULATED);
    let (hosts, request) = (fixture.path("hosts.yaml"), fixture.path("request.json"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command.args([
        "plugin",
        "run",
        fixture.library.to_str().unwrap(),
        "instantiate_end",
    ]);
    command.args(["--hosts", &hosts, "--request", &request, "--in-process"]);
    command
        .env("LD_DEBUG", "files")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    let id = process.id();
    let ended = process.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{output}");
    assert!(output.contains(&format!("file=/proc/{id}/fd/")), "{output}");
    assert!(!output.contains("file=/proc/self/fd/"), "{output}");
}

#[tokio::test]
async fn a_secret_in_the_output_of_a_host_is_redacted() {
    let answer = format!("simulated: [{{holds: cat, exit: 1, stderr: 'no {PASSWORD} here'}}]");
    let fixture = Fixture::template(&SIMULATED.replace("simulated: []", &answer));
    let ended = fixture.hook("instantiate_end", &[]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    // In the trace of the call, and in the hook's error.
    assert_eq!(
        ended.messages.matches("no [hidden] here").count(),
        2,
        "{ended:?}"
    );
}

#[tokio::test]
async fn an_injected_fault_fails_the_hook_and_the_next_run_resumes_from_its_checkpoints() {
    let fixture = Fixture::template(SIMULATED);
    let state = fixture.path("state");
    let checkpoints = ["--checkpoints", state.as_str()];
    for (option, number) in [("--fail-at", "3"), ("--fail-after", "4")] {
        let ended = fixture
            .hook(
                "instantiate_end",
                &[&checkpoints[..], &[option, number]].concat(),
            )
            .await;
        assert_eq!(ended.code, 7, "{ended:?}");
        let fault = format!("fault injected by `{option} {number}`");
        assert!(
            ended.messages.contains(&fault) && ended.messages.contains("hint: "),
            "{ended:?}"
        );
    }
    let ended = fixture.hook("instantiate_end", &checkpoints).await;
    effects(&ended);
    assert!(ended.messages.contains(", attempt 3"), "{ended:?}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = Path::new(&state);
    assert_eq!(
        (mode(state), mode(&state.join("state.json"))),
        (0o700, 0o600)
    );
}

#[tokio::test]
async fn a_step_completed_in_an_earlier_run_is_not_repeated() {
    let fixture = Fixture::misbehaving(&json!({}));
    let state = fixture.path("state");
    let first = fixture
        .hook("terminate_end", &["--checkpoints", &state])
        .await;
    assert_eq!(first.code, 7, "{first:?}");
    assert!(first.messages.contains("first-time"), "{first:?}");
    let second = fixture
        .hook("terminate_end", &["--checkpoints", &state])
        .await;
    assert_eq!(effects(&second)["message"], "counted in attempt 1");
    assert_eq!(
        fixture.hook("terminate_end", &[]).await.code,
        7,
        "without checkpoints it starts over"
    );
}

#[tokio::test]
async fn a_panic_and_a_crash_are_reported_with_their_last_output() {
    let fixture = Fixture::misbehaving(&json!({}));
    for runner in [&[][..], &["--in-process"]] {
        let ended = fixture.hook("instantiate_start", runner).await;
        assert_eq!(ended.code, 8, "{ended:?}");
        assert!(ended.messages.contains("a bug on attempt 1"), "{ended:?}");
        assert!(
            ended.messages.contains("src/lib.rs:"),
            "the source location is reported: {ended:?}"
        );
    }
    let fixture = Fixture::misbehaving(&json!({"additionalParams": {"how": "abort"}}));
    let ended = fixture.hook("instantiate_start", &[]).await;
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(
        ended.messages.contains("SIGABRT") && ended.messages.contains("last words"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_hook_past_its_deadline_fails() {
    let fixture = Fixture::misbehaving(&json!({}));
    let ended = fixture.hook("scale_start", &["--deadline", "1"]).await;
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(
        ended
            .messages
            .contains("waiting         for what never comes"),
        "{ended:?}"
    );
    assert!(ended.messages.contains("plugin.deadline"), "{ended:?}");
}

#[tokio::test]
async fn invalid_input_files_are_reported_before_the_hook_runs() {
    let cases = [
        (
            r#"{"additionalParams": {"sshCp": 7}}"#,
            "additionalParams.sshCp: the value",
        ),
        (r#"{"additonalParams": {}}"#, "no member `additonalParams`"),
        (r#"{"additionalParams": 7}"#, "password"),
        ("[", "neither JSON nor YAML"),
    ];
    for (request, word) in cases {
        let fixture = Fixture::new("libmgmt_template.so", SIMULATED, request);
        let ended = fixture.hook("instantiate_end", &[]).await;
        assert!(
            ended.code == 1 && ended.messages.contains(word),
            "{request}: {ended:?}"
        );
        assert!(!ended.messages.contains('#'), "nothing ran: {ended:?}");
    }
    let fixture = Fixture::template(SIMULATED);
    let ended = fixture.hook("heal_end", &[]).await;
    assert!(
        ended.code == 1 && ended.messages.contains("instantiate_end"),
        "{ended:?}"
    );
    let ended = fixture.hook("instantiate_end", &["--undo"]).await;
    assert!(
        ended.code == 1 && ended.messages.contains("has no undo"),
        "{ended:?}"
    );
    std::fs::write(fixture.path("config.yaml"), "path: 7").unwrap();
    let ended = fixture
        .hook(
            "instantiate_end",
            &["--config", &fixture.path("config.yaml")],
        )
        .await;
    assert!(
        ended.code == 1 && ended.messages.contains("config.path"),
        "{ended:?}"
    );
}

/// A host with an SSH server, with its address and port.
async fn ssh_host() -> (Hosts, IpAddr, u16) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = tokio::net::TcpListener::bind((address, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (books, faults) = (Ledger::new(), Faults::new());
    let clusters = Arc::new(Clusters::new(books.clone(), faults.clone()));
    let hosts = Hosts::new(books, faults, clusters, port);
    let user = User {
        name: "ubuntu".into(),
        password: Some(PASSWORD.into()),
        authorized_keys: vec![],
    };
    let spec = HostSpec {
        server_id: "s".into(),
        name: "web-1".into(),
        address,
        users: vec![user],
    };
    hosts.boot(spec).await.unwrap();
    (hosts, address, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_host_is_reached_at_the_ssh_endpoint_of_the_inventory() {
    let (_hosts, address, port) = ssh_host().await;
    let fixture = Fixture::template(&format!(
        "hosts: [{{name: web-1, addresses: {{CP1: 192.0.2.1}}, ssh: '{address}:{port}'}}]\n\
         secrets: {{password: {{file: password}}}}\n"
    ));
    let state = fixture.path("state");
    let ended = fixture
        .hook("instantiate_end", &["--checkpoints", &state])
        .await;
    assert_eq!(effects(&ended)["metadata"]["welcomed"], 1);
    let state: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&state).join("state.json")).unwrap())
            .unwrap();
    let key = state["hostKeys"]["server-web-1"].as_str().unwrap();
    assert!(key.starts_with("ssh-"), "its key is pinned: {key}");
}
