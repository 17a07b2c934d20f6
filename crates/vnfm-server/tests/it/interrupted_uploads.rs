//! Uploads that were interrupted by a crash.

use crate::bench::packed;
use crate::process::{Server, command, started, with_config};
use crate::upload_from_uri::{ALL, Does, Shelf};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::interval;

const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";

/// Polls `look` until it returns something, for a minute at most; the interval leaves the other process time to run.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut pace = interval(Duration::from_millis(10));
    loop {
        pace.tick().await;
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "never: {what}");
    }
}

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client
        .request(method, format!("{}{path}", server.url))
        .header("version", "2.3.0")
}

async fn json_of(request: RequestBuilder) -> Value {
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn an_upload_interrupted_by_a_crash_fails_and_can_be_repeated() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&mut command(data.path()));
    let created = json_of(request(&server, Method::POST, PACKAGES).json(&json!({}))).await;
    let path = format!("{PACKAGES}/{}", created["id"].as_str().unwrap());
    let content = packed("vnf-b-cnf");
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut half = TcpStream::connect(&address).unwrap();
    let length = content.len();
    let head = format!(
        "PUT {path}/package_content HTTP/1.1\r\nhost: {address}\r\nversion: 2.3.0\r\n\
         content-type: application/zip\r\ncontent-length: {length}\r\n\r\n"
    );
    half.write_all(head.as_bytes()).unwrap();
    half.write_all(&content[..length / 2]).unwrap();
    until("the upload begins", async || {
        let package_info = json_of(request(&server, Method::GET, &path)).await;
        (package_info["onboardingState"] == "UPLOADING").then_some(())
    })
    .await;
    kill(&mut server);

    let server = started(&mut command(data.path()));
    let package_info = json_of(request(&server, Method::GET, &path)).await;
    assert_eq!(package_info["onboardingState"], "ERROR", "{package_info:#}");
    assert_eq!(
        package_info["onboardingFailureDetails"]["code"], "package.interrupted",
        "{package_info:#}"
    );
    let again = request(&server, Method::PUT, &format!("{path}/package_content"));
    let again = again
        .header("content-type", "application/zip")
        .body(content);
    assert_eq!(again.send().await.unwrap().status(), 202);
    let package_info = json_of(request(&server, Method::GET, &path)).await;
    assert_eq!(
        package_info["onboardingState"], "ONBOARDED",
        "{package_info:#}"
    );
    assert!(
        package_info.get("onboardingFailureDetails").is_none(),
        "{package_info:#}"
    );
}

fn kill(server: &mut Server) {
    server.process.kill().unwrap();
    server.process.wait().unwrap();
}

/// A server with its log in a file: an unread pipe would block it once full.
fn logging(data: &Path, config: &Path, log: &Path) -> Server {
    let log = File::options().create(true).append(true).open(log).unwrap();
    started(with_config(data, config).stderr(log))
}

/// Asserts that no file in the folder contains a planted secret.
fn is_sealed(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            is_sealed(&path);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let is_planted = bytes.windows(7).any(|window| window == b"planted");
        assert!(!is_planted, "a planted secret is in `{}`", path.display());
    }
}

/// Creates a package and starts its upload from the shelf, with a login; returns its id.
async fn begin_upload(server: &Server, shelf: &Shelf) -> String {
    let created = json_of(request(server, Method::POST, PACKAGES).json(&json!({}))).await;
    let id = created["id"].as_str().unwrap().to_owned();
    let path = format!("{PACKAGES}/{id}/package_content/upload_from_uri");
    let upload = request(server, Method::POST, &path).json(&json!({
        "addressInformation": shelf.at("/b.csar?sig=planted-signature"),
        "authType": "BASIC",
        "paramsBasic": {"userName": "u", "password": "planted-password"},
    }));
    assert_eq!(upload.send().await.unwrap().status(), 202);
    id
}

#[tokio::test]
async fn an_upload_from_a_uri_resumes_after_a_crash_with_a_sealed_login() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[Does::Stops(1000), ALL]).await;
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (config, log) = (other.path().join("vnfm.yaml"), other.path().join("log"));
    let allowed = format!(
        "log: {{level: debug}}\npackages: {{external: ['{}']}}\n",
        shelf.url
    );
    std::fs::write(&config, allowed).unwrap();
    let mut server = logging(data.path(), &config, &log);
    let id = begin_upload(&server, &shelf).await;
    let path = format!("{PACKAGES}/{id}");
    let part = data.path().join(format!("packages/{id}.arriving"));
    until("the first part is stored", async || {
        let length = std::fs::metadata(&part).map_or(0, |file| file.len());
        (length >= 1000).then_some(())
    })
    .await;
    let package_info = json_of(request(&server, Method::GET, &path)).await;
    assert_eq!(
        package_info["onboardingState"], "UPLOADING",
        "{package_info:#}"
    );
    assert!(
        !package_info.to_string().contains("planted"),
        "{package_info:#}"
    );
    kill(&mut server);
    is_sealed(data.path());

    let mut server = logging(data.path(), &config, &log);
    let package_info = until("the upload ends", async || {
        let package_info = json_of(request(&server, Method::GET, &path)).await;
        let is_on = ["UPLOADING", "PROCESSING"]
            .contains(&package_info["onboardingState"].as_str().unwrap());
        (!is_on).then_some(package_info)
    })
    .await;
    assert_eq!(
        package_info["onboardingState"], "ONBOARDED",
        "{package_info:#}"
    );
    assert_eq!(shelf.headers("range"), ["", "bytes=1000-"]);
    assert_eq!(shelf.headers("if-range"), ["", "\"1\""]);
    assert_eq!(
        shelf.headers("authorization"),
        ["Basic dTpwbGFudGVkLXBhc3N3b3Jk"; 2]
    );
    kill(&mut server);
    let log_text = std::fs::read_to_string(&log).unwrap();
    assert!(
        log_text.contains("resuming an interrupted upload") && !log_text.contains("planted"),
        "{log_text}"
    );
    is_sealed(data.path());
    nothing_is_arriving(data.path());
}

/// Asserts that no partial download is left.
fn nothing_is_arriving(data: &Path) {
    let left = std::fs::read_dir(data.join("packages")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    let of_it = left
        .iter()
        .filter(|name| name.to_string_lossy().contains("arriving"));
    assert_eq!(of_it.count(), 0, "{left:?}");
}
