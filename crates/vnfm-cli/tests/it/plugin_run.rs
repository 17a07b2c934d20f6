//! `vnfmctl plugin run`: hooks of real libraries, on simulated hosts and over SSH, without a server.

use crate::stub::{Ended, run};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use vnfm_sim::books::Books;
use vnfm_sim::faults::Faults;
use vnfm_sim::hosts::{HostSpec, Hosts, User};
use vnfm_sim::kubernetes::Clusters;

const PASSWORD: &str = "planted-password";
/// A host that keeps its files, and a request for the template's hook.
const SIMULATED: &str = "
hosts:
  - {name: web-1, addresses: {CP1: 192.0.2.1}, simulated: []}
secrets: {password: {file: password}}
";
const WELCOME: &str =
    r#"{"additionalParams": {"sshCp": "CP1", "username": "ubuntu", "text": "hello"}}"#;

/// A folder with what the command reads, and a library.
struct Desk {
    folder: TempDir,
    library: PathBuf,
}

impl Desk {
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
        let words = ["plugin", "run", self.library.to_str().unwrap(), hook];
        let files = ["--hosts", hosts.as_str(), "--request", request.as_str()];
        run(&[&words, &files, more].concat(), "").await
    }
}

fn effects(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.data).unwrap_or_else(|_| panic!("{ended:?}"))
}

#[tokio::test]
async fn a_hook_runs_on_simulated_hosts_and_tells_each_call() {
    let desk = Desk::template(SIMULATED);
    for runner in [&[][..], &["--in-process"]] {
        let ended = desk.hook("instantiate_end", runner).await;
        assert_eq!(effects(&ended)["metadata"]["welcomed"], 1);
        for line in [
            "hook `instantiate_end` of `mgmt-template@",
            "progress        0 %  writing the welcome",
            "ssh.put         web-1  /etc/vnf-welcome 0644",
            "ssh.run         web-1  $ cat /etc/vnf-welcome",
            "done, 5 calls in ",
        ] {
            assert!(ended.said.contains(line), "{line}: {ended:?}");
        }
    }
}

/// A debugger opens a library by the name that the linker knows it by: `/proc/self/fd/N` would be the debugger's own.
#[test]
fn a_debugger_finds_the_library_by_its_name() {
    let desk = Desk::template(SIMULATED);
    let (hosts, request) = (desk.path("hosts.yaml"), desk.path("request.json"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vnfmctl"));
    command.args([
        "plugin",
        "run",
        desk.library.to_str().unwrap(),
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
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains(&format!("file=/proc/{id}/fd/")), "{said}");
    assert!(!said.contains("file=/proc/self/fd/"), "{said}");
}

#[tokio::test]
async fn a_secret_that_a_host_says_back_is_hidden() {
    let answer = format!("simulated: [{{holds: cat, exit: 1, stderr: 'no {PASSWORD} here'}}]");
    let desk = Desk::template(&SIMULATED.replace("simulated: []", &answer));
    let ended = desk.hook("instantiate_end", &[]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    // Beside the call, and in the error that the hook made of it.
    assert_eq!(
        ended.said.matches("no [hidden] here").count(),
        2,
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_call_that_fails_is_told_and_the_next_run_goes_on_from_the_checkpoints() {
    let desk = Desk::template(SIMULATED);
    let state = desk.path("state");
    let kept = ["--checkpoints", state.as_str()];
    for (option, number) in [("--fail-at", "3"), ("--fail-after", "4")] {
        let ended = desk
            .hook("instantiate_end", &[&kept[..], &[option, number]].concat())
            .await;
        assert_eq!(ended.code, 7, "{ended:?}");
        let told = format!("`{option} {number}` asked for this fault");
        assert!(
            ended.said.contains(&told) && ended.said.contains("hint: "),
            "{ended:?}"
        );
    }
    let ended = desk.hook("instantiate_end", &kept).await;
    effects(&ended);
    assert!(ended.said.contains(", attempt 3"), "{ended:?}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = Path::new(&state);
    assert_eq!(
        (mode(state), mode(&state.join("state.json"))),
        (0o700, 0o600)
    );
}

#[tokio::test]
async fn a_step_that_was_done_in_an_earlier_run_is_not_done_again() {
    let desk = Desk::misbehaving(&json!({}));
    let state = desk.path("state");
    let first = desk.hook("terminate_end", &["--checkpoints", &state]).await;
    assert_eq!(first.code, 7, "{first:?}");
    assert!(first.said.contains("first-time"), "{first:?}");
    let second = desk.hook("terminate_end", &["--checkpoints", &state]).await;
    assert_eq!(effects(&second)["message"], "counted in attempt 1");
    assert_eq!(
        desk.hook("terminate_end", &[]).await.code,
        7,
        "without them it begins anew"
    );
}

#[tokio::test]
async fn a_panic_and_a_crash_are_told_with_their_last_words() {
    let desk = Desk::misbehaving(&json!({}));
    for runner in [&[][..], &["--in-process"]] {
        let ended = desk.hook("instantiate_start", runner).await;
        assert_eq!(ended.code, 8, "{ended:?}");
        assert!(ended.said.contains("a bug on attempt 1"), "{ended:?}");
        assert!(
            ended.said.contains("src/lib.rs:"),
            "the place is named: {ended:?}"
        );
    }
    let desk = Desk::misbehaving(&json!({"additionalParams": {"how": "abort"}}));
    let ended = desk.hook("instantiate_start", &[]).await;
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(
        ended.said.contains("SIGABRT") && ended.said.contains("last words"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_hook_past_its_deadline_is_dropped() {
    let desk = Desk::misbehaving(&json!({}));
    let ended = desk.hook("scale_start", &["--deadline", "1"]).await;
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(
        ended.said.contains("waiting         for what never comes"),
        "{ended:?}"
    );
    assert!(ended.said.contains("plugin.deadline"), "{ended:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_files_is_told_before_anything_runs() {
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
        let desk = Desk::new("libmgmt_template.so", SIMULATED, request);
        let ended = desk.hook("instantiate_end", &[]).await;
        assert!(
            ended.code == 1 && ended.said.contains(word),
            "{request}: {ended:?}"
        );
        assert!(!ended.said.contains('#'), "nothing ran: {ended:?}");
    }
    let desk = Desk::template(SIMULATED);
    let ended = desk.hook("heal_end", &[]).await;
    assert!(
        ended.code == 1 && ended.said.contains("instantiate_end"),
        "{ended:?}"
    );
    let ended = desk.hook("instantiate_end", &["--undo"]).await;
    assert!(
        ended.code == 1 && ended.said.contains("declares no opposite"),
        "{ended:?}"
    );
    std::fs::write(desk.path("config.yaml"), "path: 7").unwrap();
    let ended = desk
        .hook("instantiate_end", &["--config", &desk.path("config.yaml")])
        .await;
    assert!(
        ended.code == 1 && ended.said.contains("config.path"),
        "{ended:?}"
    );
}

/// A machine with sshd, by its address and port.
async fn machine() -> (Hosts, IpAddr, u16) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = tokio::net::TcpListener::bind((address, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (books, faults) = (Books::new(), Faults::new());
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
async fn a_real_host_is_reached_over_ssh_where_the_inventory_says() {
    let (_hosts, address, port) = machine().await;
    let desk = Desk::template(&format!(
        "hosts: [{{name: web-1, addresses: {{CP1: 192.0.2.1}}, ssh: '{address}:{port}'}}]\n\
         secrets: {{password: {{file: password}}}}\n"
    ));
    let state = desk.path("state");
    let ended = desk
        .hook("instantiate_end", &["--checkpoints", &state])
        .await;
    assert_eq!(effects(&ended)["metadata"]["welcomed"], 1);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&state).join("state.json")).unwrap())
            .unwrap();
    let key = kept["hostKeys"]["server-web-1"].as_str().unwrap();
    assert!(key.starts_with("ssh-"), "its key is pinned: {key}");
}
