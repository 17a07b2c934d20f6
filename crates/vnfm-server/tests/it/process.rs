//! The program: startup, exclusive access, and shutdown.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn command(data: &Path) -> Command {
    listening("127.0.0.1:0", data)
}

fn listening(address: &str, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfm-server"));
    command.args(["--listen", address, "--data"]).arg(data);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A server on this folder, with this configuration.
pub(crate) fn with_config(data: &Path, config: &Path) -> Command {
    let mut command = command(data);
    command.arg("--config").arg(config);
    command
}

fn start(data: &Path) -> Server {
    started(&mut command(data))
}

pub(crate) fn started(command: &mut Command) -> Server {
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line
        .trim()
        .strip_prefix("listening on ")
        .map(ToOwned::to_owned);
    let mut server = Server {
        process,
        url: String::new(),
    };
    if url.is_none() {
        let mut output = String::new();
        server
            .process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        panic!("the server did not start: {line}{output}");
    }
    server.url = url.unwrap();
    server
}

async fn health(server: &Server) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client
        .get(format!("{}/vnfm/v1/health", server.url))
        .send()
        .await
        .unwrap();
    response.text().await.unwrap()
}

#[tokio::test]
async fn the_server_starts_responds_and_exits_on_sigterm() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("deep/data");
    let mut server = start(&folder);
    assert_eq!(health(&server).await, r#"{"status":"ok"}"#);
    for (name, mode) in [
        ("", 0o700),
        ("plugins", 0o700),
        ("secrets.key", 0o600),
        ("vnfm.db", 0o600),
    ] {
        let found = std::fs::metadata(folder.join(name)).unwrap().mode() & 0o777;
        assert_eq!(found, mode, "`{name}` has mode {found:o}");
    }
    // A client that follows an operation must not block the shutdown.
    let held = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let notified = Instant::now();
    let id = rustix::process::Pid::from_child(&server.process);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let status = tokio::task::spawn_blocking(move || server.process.wait().unwrap())
        .await
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(
        notified.elapsed() < Duration::from_secs(10),
        "{:?}",
        notified.elapsed()
    );
    drop(held);
}

#[test]
fn a_second_server_on_the_same_data_folder_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let first = start(data.path());
    let mut second = Server {
        process: command(data.path()).spawn().unwrap(),
        url: String::new(),
    };
    let mut line = String::new();
    BufReader::new(second.process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "", "the server must not start");
    let mut output = String::new();
    second
        .process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert!(!second.process.wait().unwrap().success());
    let folder = data.path().to_str().unwrap();
    assert!(
        output.starts_with(&format!("error: cannot use `{folder}/vnfm.db`: ")),
        "{output}"
    );
    assert!(
        output.contains(&format!("the process {} has it open", first.process.id())),
        "{output}"
    );
    assert!(
        output.contains("hint: stop that process, or use another data folder"),
        "{output}"
    );
}

#[tokio::test]
async fn with_a_certificate_and_a_token_it_listens_on_other_addresses() {
    let data = tempfile::tempdir().unwrap();
    let created = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = data.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert, key) = (created.cert.pem(), created.signing_key.serialize_pem());
    let mut command = listening("0.0.0.0:0", data.path());
    command.arg("--tls-cert").arg(file("cert.pem", &cert));
    command.arg("--tls-key").arg(file("key.pem", &key));
    command
        .arg("--token-file")
        .arg(file("token", "0123456789abcdef\n"));
    let server = started(&mut command);
    let url = server.url.replace("0.0.0.0", "127.0.0.1") + "/vnfm/v1/health";
    assert!(url.starts_with("https://"), "{url}");
    let trusted = reqwest::Certificate::from_pem(cert.as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([trusted])
        .build()
        .unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 401);
    let allowed = client
        .get(&url)
        .bearer_auth("0123456789abcdef")
        .send()
        .await
        .unwrap();
    assert_eq!(allowed.status(), 200);
}

#[test]
fn without_a_login_it_listens_only_on_loopback() {
    let data = tempfile::tempdir().unwrap();
    let refused = listening("0.0.0.0:0", data.path()).output().unwrap();
    let output = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && output.contains("--tls-cert"),
        "{output}"
    );
    let refused = command(data.path())
        .args(["--token-file", "/dev/null"])
        .output()
        .unwrap();
    let output = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && output.contains("shorter than 16 characters"),
        "{output}"
    );
}

#[test]
fn hash_password_prints_a_hash_for_the_configuration() {
    use std::io::Write as _;
    let hash = |password: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vnfm-server"));
        command
            .arg("hash-password")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        process
            .stdin
            .take()
            .unwrap()
            .write_all(password.as_bytes())
            .unwrap();
        process.wait_with_output().unwrap()
    };
    let (one, two) = (hash("correct horse\n"), hash("correct horse\n"));
    assert!(one.status.success());
    assert_ne!(one.stdout, two.stdout, "each hash has its own salt");
    let printed = String::from_utf8(one.stdout).unwrap();
    assert!(
        printed.starts_with("$argon2id$") && printed.lines().count() == 1,
        "{printed}"
    );
    let short = hash("short\n");
    assert!(!short.status.success());
    assert!(
        String::from_utf8(short.stderr)
            .unwrap()
            .contains("shorter than 8 characters")
    );
}

#[test]
fn the_help_lists_every_setting_and_the_rule_for_other_addresses() {
    let output = Command::new(env!("CARGO_BIN_EXE_vnfm-server"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for word in [
        "VNFM_LISTEN",
        "VNFM_DATA",
        "VNFM_CONFIG",
        "VNFM_PLUGINS",
        "--token-file",
        "TLS",
    ] {
        assert!(help.contains(word), "`{word}` is missing in\n{help}");
    }
}

/// `Type=notify` of the unit: systemd is notified when the server is ready, and when it stops.
#[test]
fn systemd_is_notified_of_readiness_and_shutdown() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let notified = || {
        let mut words = [0; 64];
        let size = socket.recv(&mut words).unwrap();
        String::from_utf8(words[..size].to_vec()).unwrap()
    };
    let mut command = command(&data.path().join("data"));
    let mut server = started(command.env("NOTIFY_SOCKET", &path));
    assert_eq!(notified(), "READY=1");
    let id = rustix::process::Pid::from_child(&server.process);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(notified(), "STOPPING=1");
    assert!(server.process.wait().unwrap().success());
}
