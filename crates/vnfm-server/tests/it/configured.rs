//! The program as it is configured: by file and environment, while it runs, behind proxies.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tempfile::TempDir;

/// A server with a configuration.
struct Server {
    process: Child,
    url: String,
    words: BufReader<ChildStderr>,
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

/// A process on this folder, where it listens, and its log.
fn begun(folder: &Path, environment: &[(&str, &str)]) -> (Child, String, BufReader<ChildStderr>) {
    let mut command = command(folder);
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"));
    let mut process = command.envs(environment.iter().copied()).spawn().unwrap();
    let mut words = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let Some(url) = line
        .trim()
        .strip_prefix("listening on ")
        .map(ToOwned::to_owned)
    else {
        let mut said = String::new();
        words.read_to_string(&mut said).unwrap();
        panic!("it does not start: {line}{said}");
    };
    (process, url, words)
}

impl Server {
    fn start(configuration: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("vnfm.yaml"), configuration).unwrap();
        let (process, url, words) = begun(folder.path(), environment);
        Self {
            process,
            url,
            words,
            folder,
        }
    }

    /// SIGHUP with another configuration; the line that says what came of it, which holds this.
    fn reload(&mut self, configuration: &str, part: &str) -> String {
        std::fs::write(self.folder.path().join("vnfm.yaml"), configuration).unwrap();
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
        self.said(part)
    }

    /// The next line of its log that holds this.
    fn said(&mut self, part: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.words.read_line(&mut line).unwrap() > 0,
                "it has ended without `{part}`"
            );
            if line.contains(part) {
                return line;
            }
        }
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> reqwest::Response {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}{path}", self.url)).json(body);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.header("version", "2.3.0").send().await.unwrap()
    }

    /// The status of an upload of so many bytes.
    async fn uploaded(&self, bytes: usize) -> u16 {
        let made: Value = self
            .post(PACKAGES, &[], &json!({}))
            .await
            .json()
            .await
            .unwrap();
        let path = format!(
            "{PACKAGES}/{}/package_content",
            made["id"].as_str().unwrap()
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

const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";

fn checked(configuration: &str, environment: &[(&str, &str)]) -> (Output, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vnfm.yaml");
    std::fs::write(&file, configuration).unwrap();
    let mut command = command(folder.path());
    command.arg("check-config");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said, file)
}

#[test]
fn every_mistake_of_a_configuration_is_said_at_once_with_its_place() {
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
";
    let (output, said, file) = checked(text, &[("VNFM_LIMITS_LEASE_SECONDS", "x")]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let at = |place: &str| format!("{}:{place}: ", file.display());
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
        "VNFM_LIMITS_LEASE_SECONDS: expected an integer, found \"x\"".to_owned(),
    ] {
        assert!(
            said.lines().any(|line| line == wanted),
            "no line `{wanted}` in\n{said}"
        );
    }
    assert!(said.contains("has 13 mistakes"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn what_a_schema_cannot_tell_is_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let cert = file("cert", &made.cert.pem());
    let (key, wrong) = (
        file("key", &made.signing_key.serialize_pem()),
        file("wrong", &other.signing_key.serialize_pem()),
    );
    let token = file("token", "0123456789abcdef");
    let well =
        format!("tls: {{cert: {cert}, key: {key}}}\ntoken_file: {token}\nlisten: 0.0.0.0:9890");
    let (output, said, _) = checked(&well, &[]);
    assert!(output.status.success(), "{said}");
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
            "1:9: ",
        ),
        ("a: 1\na: 2\nb: [".to_owned(), "4:1: this is not YAML"),
    ] {
        let (output, said, _) = checked(&text, &[]);
        assert!(
            !output.status.success() && said.contains(says),
            "{text}: {said}"
        );
    }
    let (output, said, _) = checked("", &[("VNFM_LIMIT_STEP_SECONDS", "5")]);
    assert!(output.status.success(), "{said}");
    let note =
        "`VNFM_LIMIT_STEP_SECONDS` is set but not used; did you mean `VNFM_LIMITS_STEP_SECONDS`?";
    assert!(said.contains(note), "{said}");
}

#[tokio::test]
async fn the_environment_stands_over_the_file() {
    let file = "limits: {package_bytes: 1000000}";
    let server = Server::start(file, &[("VNFM_LIMITS_PACKAGE_BYTES", "10")]);
    assert_eq!(server.uploaded(100).await, 413);
}

#[tokio::test]
async fn told_to_it_reads_its_configuration_again_and_a_broken_one_changes_nothing() {
    let mut server = Server::start("limits: {package_bytes: 1000000}", &[]);
    assert_eq!(server.uploaded(100).await, 202);
    let new = "limits: {package_bytes: 10}\nretention: {log_days: 5}\nlog: {level: debug}";
    let said = server.reload(new, "reloaded the configuration");
    assert!(
        said.contains("limits.package_bytes") && said.contains("log.level"),
        "{said}"
    );
    assert!(
        said.contains("at_restart=[\"retention.log_days\"]"),
        "{said}"
    );
    assert_eq!(server.uploaded(100).await, 413);
    let answered = server.said("answered");
    assert!(
        answered.contains("DEBUG") && answered.contains("request_id="),
        "{answered}"
    );
    let said = server.reload(
        "limits: {package_bytes: 1000000, lease: 3}",
        "keeping the current configuration",
    );
    assert!(said.contains("unknown member `lease`"), "{said}");
    assert_eq!(server.uploaded(100).await, 413);
}

#[tokio::test]
async fn behind_a_proxy_links_lead_where_the_client_asked() {
    let forwarded = [(
        "forwarded",
        "for=192.0.2.9;host=vnfm.example.com;proto=https",
    )];
    let location = |answer: &reqwest::Response| {
        answer.headers()["location"]
            .to_str()
            .unwrap()
            .rsplit_once("/vnfpkgm/")
            .unwrap()
            .0
            .to_owned()
    };
    let server = Server::start("trusted_proxies: [127.0.0.0/8]", &[]);
    let answer = server.post(PACKAGES, &forwarded, &json!({})).await;
    assert_eq!(location(&answer), "https://vnfm.example.com");
    let links = answer.json::<Value>().await.unwrap()["_links"].to_string();
    assert!(
        links.contains("https://vnfm.example.com/vnfpkgm/v2/"),
        "{links}"
    );
    assert_eq!(
        location(&server.post(PACKAGES, &[], &json!({})).await),
        server.url
    );
    let stranger = Server::start("trusted_proxies: [10.0.0.0/8]", &[]);
    assert_eq!(
        location(&stranger.post(PACKAGES, &forwarded, &json!({})).await),
        stranger.url
    );
    let public = "public_url: https://public.example.com/\ntrusted_proxies: [127.0.0.0/8]";
    let public = Server::start(public, &[]);
    let answer = public.post(PACKAGES, &forwarded, &json!({})).await;
    assert_eq!(location(&answer), "https://public.example.com");
}

/// `uriPrefix` of SOL013 7.1.6: where the client found the server, with a slash at the end.
#[tokio::test]
async fn behind_a_proxy_the_prefix_of_an_interface_is_where_the_client_asked() {
    let x_forwarded = [
        ("x-forwarded-host", "vnfm.example.com"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-prefix", "/nfv"),
    ];
    let forwarded = [(
        "forwarded",
        "for=192.0.2.9;host=vnfm.example.com;proto=https",
    )];
    let prefix = async |server: &Server, headers: &[(&str, &str)]| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(format!("{}/vnflcm/v2/api_versions", server.url));
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let body: Value = request.send().await.unwrap().json().await.unwrap();
        body["uriPrefix"].as_str().unwrap().to_owned()
    };
    let server = Server::start("trusted_proxies: [127.0.0.0/8]", &[]);
    assert_eq!(
        prefix(&server, &[]).await,
        format!("{}/vnflcm/v2/", server.url)
    );
    assert_eq!(
        prefix(&server, &forwarded).await,
        "https://vnfm.example.com/vnflcm/v2/"
    );
    assert_eq!(
        prefix(&server, &x_forwarded).await,
        "https://vnfm.example.com/nfv/vnflcm/v2/"
    );
    let stranger = Server::start("trusted_proxies: [10.0.0.0/8]", &[]);
    for headers in [&forwarded[..], &x_forwarded] {
        let own = format!("{}/vnflcm/v2/", stranger.url);
        assert_eq!(prefix(&stranger, headers).await, own, "{headers:?}");
    }
}

/// A data folder as version 0.1.0 left it, with one VIM, whose address was not checked, and nothing to drive.
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
fn addresses_that_vims_keep_from_before_are_listed_with_the_setting_to_write() {
    const SAID: [&str; 3] = [
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
    // Before the new version has opened the database, at its start, and afterwards.
    let before = check(configuration);
    let (process, url, words) = begun(&folder, &[]);
    let mut server = Server {
        process,
        url,
        words,
        folder: home,
    };
    let started = server.said("vims.networks");
    assert!(started.contains("WARN"), "{started}");
    let after = check(configuration);
    for (when, said) in [("before", before), ("at start", started), ("after", after)] {
        for part in SAID {
            assert!(said.contains(part), "{when}: {part} in {said}");
        }
    }
    let allowed = check("vims: {networks: [default, 127.0.0.1]}");
    assert!(!allowed.contains("127.0.0.1:5000"), "{allowed}");
}

#[tokio::test]
async fn health_and_figures_have_an_address_of_their_own_where_it_is_configured() {
    let mut server = Server::start("monitoring: {listen: '127.0.0.1:0'}", &[]);
    let said = server.said("health and metrics");
    let address = said.rsplit("address=").next().unwrap().trim();
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
async fn a_part_that_cannot_work_is_named() {
    let server = Server::start("limits: {free_bytes: 1000000000000000000}", &[]);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client
        .get(format!("{}/readyz", server.url))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 503);
    let told: Value = answer.json().await.unwrap();
    assert_eq!(
        (&told["ready"], &told["parts"]["disk"]),
        (&json!(false), &json!("not ready"))
    );
    assert_eq!(told["parts"]["database"], "ready", "{told}");
}

/// Somebody who is connected to, and answers nothing that is of use.
fn listener() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, SeqCst);
            refuse(stream);
        }
    });
    (url, seen)
}

fn refuse(mut stream: TcpStream) {
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked); // whatever it is, the answer is the same
    let _ = stream.write_all(b"HTTP/1.1 418 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
}

#[tokio::test]
async fn a_vim_is_never_called_through_a_proxy_of_the_environment_but_through_its_own() {
    let (trap, trapped) = listener();
    let names = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    let environment: Vec<_> = names.iter().map(|name| (*name, trap.as_str())).collect();
    let server = Server::start("", &environment);
    for (kind, access) in [
        (
            "ETSINFV.OPENSTACK_KEYSTONE.V_3",
            json!({"username": "u", "password": "p", "project": "p"}),
        ),
        ("ETSINFV.KUBERNETES.V_1", json!({"bearer_token": "t"})),
    ] {
        let (vim, called) = listener();
        let register = async |extra: Value| {
            let connection = json!({"vimType": kind, "interfaceInfo": {"endpoint": vim}, "accessInfo": access, "extra": extra});
            let body = json!({"name": "v", "connection": connection});
            server
                .post("/vnfm/v1/vims", &[], &body)
                .await
                .status()
                .as_u16()
        };
        assert!(register(json!({})).await >= 400, "{kind}");
        assert!(called.load(SeqCst) > 0, "{kind}: nobody called it");
        assert_eq!(
            trapped.load(SeqCst),
            0,
            "{kind}: called through the proxy of the environment"
        );
        let (proxy, asked) = listener();
        let before = called.load(SeqCst);
        register(json!({"proxy": proxy})).await;
        assert!(
            asked.load(SeqCst) > 0,
            "{kind}: its own proxy was not asked"
        );
        assert_eq!(called.load(SeqCst), before, "{kind}: called past its proxy");
        assert_eq!(
            register(json!({"proxy": "socks5://u:p@h"})).await,
            422,
            "{kind}"
        );
    }
}

#[test]
fn the_configuration_that_the_debian_package_brings_is_right() {
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
