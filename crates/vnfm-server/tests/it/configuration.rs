//! Configuration of the program: file, environment, `check-config` and reload.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use tempfile::TempDir;

/// A server with a configuration.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    stderr: BufReader<ChildStderr>,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended by itself
        let _ = self.process.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfm-server"));
    command
        .env_remove("VNFM_LOG")
        .env("NO_COLOR", "1")
        .env("VNFM_CONFIG", folder.join("vnfm.yaml"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a process on this folder; returns it with its URL and log.
fn begun(folder: &Path, environment: &[(&str, &str)]) -> (Child, String, BufReader<ChildStderr>) {
    let mut command = command(folder);
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"));
    let mut process = command.envs(environment.iter().copied()).spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let Some(url) = line
        .trim()
        .strip_prefix("listening on ")
        .map(ToOwned::to_owned)
    else {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        panic!("the server did not start: {line}{log}");
    };
    (process, url, stderr)
}

impl Server {
    pub(crate) fn start(configuration: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("vnfm.yaml"), configuration).unwrap();
        let (process, url, stderr) = begun(folder.path(), environment);
        Self {
            process,
            url,
            stderr,
            folder,
        }
    }

    /// Reloads another configuration by SIGHUP; returns the next log line that contains `part`.
    fn reload(&mut self, configuration: &str, part: &str) -> String {
        std::fs::write(self.folder.path().join("vnfm.yaml"), configuration).unwrap();
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
        self.next_line(part)
    }

    /// The next line of its log that contains `part`.
    fn next_line(&mut self, part: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.stderr.read_line(&mut line).unwrap() > 0,
                "the server exited without logging `{part}`"
            );
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> reqwest::Response {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}{path}", self.url)).json(body);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.header("version", "2.3.0").send().await.unwrap()
    }

    /// The status of an upload of this size.
    async fn uploaded(&self, bytes: usize) -> u16 {
        let created: Value = self
            .post(PACKAGES, &[], &json!({}))
            .await
            .json()
            .await
            .unwrap();
        let path = format!(
            "{PACKAGES}/{}/package_content",
            created["id"].as_str().unwrap()
        );
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .put(format!("{}{path}", self.url))
            .header("version", "2.3.0");
        let request = request
            .header("content-type", "application/zip")
            .body(vec![0; bytes]);
        request.send().await.unwrap().status().as_u16()
    }
}

pub(crate) const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";

fn checked(configuration: &str, environment: &[(&str, &str)]) -> (Output, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vnfm.yaml");
    std::fs::write(&file, configuration).unwrap();
    let mut command = command(folder.path());
    command.arg("check-config");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let log = String::from_utf8(output.stderr.clone()).unwrap();
    (output, log, file)
}

#[test]
fn check_config_reports_all_errors_with_their_positions() {
    let text = "\
listen: here
limits:
  step_second: 5
  page_entries: 1001
  hook_seconds: soon
token_file: /nowhere/token
tls: {cert: /nowhere/cert}
plugins: {runners: {acme: elsewhere}}
notifications: {networks: [10.0.0.0/8, 10.0.0.0/33]}
nfvo: {endpoint: 'ftp://u:hunter2@nfvo'}
log: {level: 'vnfm=loud'}
access: {users: [{name: ann, password_hash: h, gets: {role: reed}}]}
grants: {unplaced: ignore}
";
    let (output, log, file) = checked(text, &[("VNFM_LIMITS_LEASE_SECONDS", "x")]);
    assert_eq!(output.status.code(), Some(1), "{log}");
    let at = |position: &str| format!("{}:{position}: ", file.display());
    for wanted in [
        at("1:9") + "expected an address and a port such as `127.0.0.1:9890`, found `here`",
        at("3:3") + "unknown member `step_second`; did you mean `step_seconds`?",
        at("4:17") + "expected at most 1000, found 1001",
        at("5:17") + "expected an integer, found \"soon\"",
        at("6:13") + "cannot read `/nowhere/token`: No such file or directory (os error 2)",
        at("7:6") + "`key` is missing",
        at("7:13") + "cannot read `/nowhere/cert`: No such file or directory (os error 2)",
        at("8:27") + "expected one of process, in-process, found \"elsewhere\"",
        at("9:40") + "expected a network such as `10.0.0.0/8`, or `default`, found `10.0.0.0/33`",
        at("10:18")
            + "expected a URL such as `https://vnfm.example.com` without credentials, found `nfvo`",
        at("11:14")
            + "expected a log filter such as `info` or `vnfm_core=debug`, found `vnfm=loud`",
        at("12:61") + "expected one of read, operate, admin, found \"reed\"",
        at("13:20") + "expected one of refuse, warn, found \"ignore\"",
        "VNFM_LIMITS_LEASE_SECONDS: expected an integer, found \"x\"".to_owned(),
    ] {
        assert!(
            log.lines().any(|line| line == wanted),
            "no line `{wanted}` in\n{log}"
        );
    }
    assert!(log.contains("has 14 mistakes"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn check_config_reports_what_no_schema_can_check_together_with_the_rest() {
    let text = "\
listen: 0.0.0.0:9890
limits: {hook_seconds: soon}
log: {level: inf}
retention: {audit_day: 1}
notifications: {certificate: {cert: /proc/self/stat, key: /proc/self/stat}}
access: {users: [{name: ann, password_hash: h, gets: {role: read}}]}
";
    let (_, log, file) = checked(text, &[]);
    for (position, words) in [
        ("1:9", "0.0.0.0:9890 is not a loopback address"),
        ("2:24", "expected an integer"),
        ("3:14", "expected a log filter such as `info`"),
        ("4:13", "unknown member `audit_day`"),
        ("5:16", "the client certificate and key are not valid PEM"),
        ("6:18", "`password_hash` of `ann` is not an Argon2 hash"),
    ] {
        let at = format!("{}:{position}", file.display());
        let found = |line: &str| line.starts_with(&at) && line.contains(words);
        assert!(log.lines().any(found), "no `{words}` at {at} in\n{log}");
    }
}

#[test]
fn check_config_reads_files_and_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let created = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let cert = file("cert", &created.cert.pem());
    let (key, wrong) = (
        file("key", &created.signing_key.serialize_pem()),
        file("wrong", &other.signing_key.serialize_pem()),
    );
    let token = file("token", "0123456789abcdef");
    let well =
        format!("tls: {{cert: {cert}, key: {key}}}\ntoken_file: {token}\nlisten: 0.0.0.0:9890");
    let (output, log, _) = checked(&well, &[]);
    assert!(output.status.success(), "{log}");
    for (text, says) in [
        (
            format!("tls: {{cert: {cert}, key: {wrong}}}"),
            "do not match",
        ),
        (format!("tls: {{cert: {key}, key: {key}}}"), "1:6: "),
        (
            "listen: 0.0.0.0:9890".to_owned(),
            "1:9: 0.0.0.0:9890 is not a loopback address",
        ),
        (
            "monitoring: {listen: '0.0.0.0:1'}".to_owned(),
            "1:22: 0.0.0.0:1 is not a loopback address",
        ),
        (format!("data: {token}"), "is not a folder"),
        (
            "access: {users: [{name: ann, password_hash: h, gets: {role: read}}]}".to_owned(),
            "1:18: access.users: ",
        ),
        ("a: 1\na: 2\nb: [".to_owned(), "4:1: this is not YAML"),
    ] {
        let (output, log, _) = checked(&text, &[]);
        assert!(
            !output.status.success() && log.contains(says),
            "{text}: {log}"
        );
    }
    let (output, log, _) = checked("", &[("VNFM_LIMIT_STEP_SECONDS", "5")]);
    assert!(output.status.success(), "{log}");
    let note =
        "`VNFM_LIMIT_STEP_SECONDS` is set but not used; did you mean `VNFM_LIMITS_STEP_SECONDS`?";
    assert!(log.contains(note), "{log}");
}

#[tokio::test]
async fn environment_variables_override_the_file() {
    let file = "limits: {package_bytes: 1000000}";
    let server = Server::start(file, &[("VNFM_LIMITS_PACKAGE_BYTES", "10")]);
    assert_eq!(server.uploaded(100).await, 413);
}

#[tokio::test]
async fn sighup_reloads_the_configuration_and_an_invalid_one_changes_nothing() {
    let mut server = Server::start("limits: {package_bytes: 1000000}", &[]);
    assert_eq!(server.uploaded(100).await, 202);
    let new = "limits: {package_bytes: 10}\nretention: {log_days: 5}\nlog: {level: debug}";
    let log = server.reload(new, "reloaded the configuration");
    assert!(
        log.contains("limits.package_bytes") && log.contains("log.level"),
        "{log}"
    );
    assert!(log.contains("at_restart=[\"retention.log_days\"]"), "{log}");
    assert_eq!(server.uploaded(100).await, 413);
    let responded = server.next_line("responded");
    assert!(
        responded.contains("DEBUG") && responded.contains("request_id="),
        "{responded}"
    );
    let log = server.reload(
        "limits: {package_bytes: 1000000, lease: 3}",
        "keeping the current configuration",
    );
    assert!(log.contains("unknown member `lease`"), "{log}");
    assert_eq!(server.uploaded(100).await, 413);
}

/// A data folder of version 0.1.0 with one VIM, whose address was never checked, and no operations.
fn from_before(data: &Path) {
    let state = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/upgrade/0.1.0/state.zip"
    );
    let mut archive = zip::ZipArchive::new(std::fs::File::open(state).unwrap()).unwrap();
    std::fs::create_dir(data).unwrap();
    for name in ["vnfm.db", "secrets.key"] {
        let mut bytes = Vec::new();
        archive
            .by_name(name)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        std::fs::write(data.join(name), bytes).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(data.join(name), private).unwrap();
    }
    let db = rusqlite::Connection::open(data.join("vnfm.db")).unwrap();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF;
         DELETE FROM journal; DELETE FROM ops; DELETE FROM instances; DELETE FROM vims WHERE id <> 'cloud';
         UPDATE vims SET vim = json_set(vim, '$.interfaceInfo', json('{\"endpoint\": \"http://127.0.0.1:5000/v3\"}'))",
    )
    .unwrap();
}

#[test]
fn stored_vim_addresses_outside_the_allowed_networks_are_listed_with_the_setting() {
    const MESSAGES: [&str; 3] = [
        "VIM `cloud` of tenant `default` at `http://127.0.0.1:5000/v3`",
        "it keeps working until",
        "set `vims.networks: [default, 127.0.0.1]`",
    ];
    let configuration = "vims: {networks: [default]}";
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().to_owned();
    from_before(&folder.join("data"));
    let check = |configuration: &str| {
        std::fs::write(folder.join("vnfm.yaml"), configuration).unwrap();
        let mut command = command(&folder);
        let output = command
            .arg("--data")
            .arg(folder.join("data"))
            .arg("check-config")
            .output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    // Before the new version opens the database, at startup, and afterwards.
    let before = check(configuration);
    let (process, url, stderr) = begun(&folder, &[]);
    let mut server = Server {
        process,
        url,
        stderr,
        folder: home,
    };
    let started = server.next_line("vims.networks");
    assert!(started.contains("WARN"), "{started}");
    let after = check(configuration);
    for (when, log) in [("before", before), ("at start", started), ("after", after)] {
        for part in MESSAGES {
            assert!(log.contains(part), "{when}: {part} in {log}");
        }
    }
    let allowed = check("vims: {networks: [default, 127.0.0.1]}");
    assert!(!allowed.contains("127.0.0.1:5000"), "{allowed}");
}

#[tokio::test]
async fn health_and_metrics_can_have_their_own_address() {
    let mut server = Server::start("monitoring: {listen: '127.0.0.1:0'}", &[]);
    let log = server.next_line("health and metrics");
    let address = log.rsplit("address=").next().unwrap().trim();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        client
            .get(format!("http://{address}{path}"))
            .send()
            .await
            .unwrap()
    };
    assert_eq!(get("/healthz").await.status(), 200);
    let ready: Value = get("/readyz").await.json().await.unwrap();
    let parts = [
        "database",
        "files",
        "integrity",
        "keys",
        "disk",
        "recovery",
        "plugins",
    ];
    assert_eq!(
        ready["parts"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        parts,
        "{ready}"
    );
    assert!(
        get("/metrics")
            .await
            .text()
            .await
            .unwrap()
            .contains("vnfm_build_info")
    );
    assert_eq!(get("/vnfm/v1/vims").await.status(), 404);
}

#[tokio::test]
async fn readiness_names_the_part_that_cannot_work() {
    let server = Server::start("limits: {free_bytes: 1000000000000000000}", &[]);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client
        .get(format!("{}/readyz", server.url))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 503);
    let ready: Value = response.json().await.unwrap();
    assert_eq!(
        (&ready["ready"], &ready["parts"]["disk"]),
        (&json!(false), &json!("not ready"))
    );
    assert_eq!(ready["parts"]["database"], "ready", "{ready}");
}

#[test]
fn the_configuration_of_the_debian_package_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/debian/vnfm.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vnfm-server"));
    let output = command
        .arg("check-config")
        .arg(path)
        .env_remove("VNFM_CONFIG")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
