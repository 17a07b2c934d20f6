//! Content that the server fetches from a URI: resumed after interruptions, only from allowed addresses, with a
//! login that is never shown.

use crate::bench::{Bench, HASHED, PACKAGES, Setup, packed};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use vnfm_server::Packages;

/// A server of one file with scripted interruptions.
pub(crate) struct Shelf {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    /// While true, it does not respond.
    held: watch::Sender<bool>,
    _task: JoinSet<()>,
}

/// What the file server does with a request.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// Sends at most this many bytes, then closes the connection.
    Sends(usize),
    /// The same, without an `ETag`.
    SendsUnnamed(usize),
    /// Sends this many bytes, then nothing until the client disconnects.
    Stops(usize),
    /// Responds with this status and no body.
    Says(&'static str),
    /// Responds with an access token.
    Gives,
}

pub(crate) const ALL: Does = Does::Sends(usize::MAX);

impl Shelf {
    /// Behaves as in `does`, one entry per request; the last entry repeats.
    pub(crate) async fn new(content: Vec<u8>, does: &'static [Does]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, held) = (
            Arc::<Mutex<Vec<String>>>::default(),
            watch::Sender::new(false),
        );
        let (noted, holding) = (requests.clone(), held.subscribe());
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = head(&mut stream).await;
                let number = {
                    let mut noted = noted.lock().unwrap();
                    noted.push(request.clone());
                    noted.len() - 1
                };
                let _ = holding.clone().wait_for(|held| !held).await;
                let does = does[number.min(does.len() - 1)];
                // The client may have disconnected.
                let _ = stream.write_all(&response(&content, &request, does)).await;
                if matches!(does, Does::Stops(_)) {
                    let _ = stream.read(&mut [0]).await;
                }
                let _ = stream.shutdown().await;
            }
        });
        Self {
            url,
            requests,
            held,
            _task: task,
        }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The values of this header, one per request; empty if absent.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let header = |request: &String| {
            let mut lines = request.lines().filter_map(|line| line.split_once(": "));
            let found = lines.find(|(is, _)| is.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        self.requests.lock().unwrap().iter().map(header).collect()
    }
}

/// Reads a request with its body: closing the connection with unread data would discard the response.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !is_complete(&bytes) && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

fn response(content: &[u8], request: &str, does: Does) -> Vec<u8> {
    let most = match does {
        Does::Says(status) => {
            return format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into();
        }
        Does::Gives => {
            let token = r#"{"access_token": "planted-token-of-a-shelf", "token_type": "Bearer"}"#;
            let length = token.len();
            return format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{token}"
            )
            .into();
        }
        Does::Sends(most) | Does::SendsUnnamed(most) | Does::Stops(most) => most,
    };
    let range = request
        .lines()
        .find_map(|line| line.strip_prefix("range: bytes="));
    let first: usize = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    let rest = &content[first..];
    let (last, size) = (content.len() - 1, content.len());
    let status = match range {
        None => "200 OK".to_owned(),
        Some(_) => format!("206 Partial Content\r\ncontent-range: bytes {first}-{last}/{size}"),
    };
    let length = rest.len();
    let tag = if matches!(does, Does::SendsUnnamed(_)) {
        ""
    } else {
        "etag: \"1\"\r\n"
    };
    let head =
        format!("HTTP/1.1 {status}\r\n{tag}content-length: {length}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), &rest[..most.min(length)]].concat()
}

/// A VNFM that may fetch from this server.
async fn bench(shelf: &Shelf) -> Bench {
    bench_with(shelf, Setup::default()).await
}

async fn bench_with(shelf: &Shelf, setup: Setup) -> Bench {
    let external = vec![shelf.at("/packages/"), shelf.at("/token")];
    let signatures = Packages {
        external,
        ..Packages::default()
    };
    Bench::with(Setup {
        signatures,
        ..setup
    })
    .await
}

async fn request_upload(bench: &Bench, id: &str, request: &Value) -> crate::bench::Response {
    bench
        .post(
            &format!("{PACKAGES}/{id}/package_content/upload_from_uri"),
            request,
        )
        .await
}

/// Creates a package and starts the fetch; returns its id.
async fn begun(bench: &Bench, request: &Value) -> String {
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let response = request_upload(bench, &id, request).await;
    assert_eq!(
        (response.status, response.text.as_str()),
        (202, ""),
        "{response:?}"
    );
    id
}

/// Waits until the package is no longer processed; returns it.
async fn ended(bench: &Bench, id: &str) -> Value {
    loop {
        let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
        if !["UPLOADING", "PROCESSING"].contains(&info["onboardingState"].as_str().unwrap()) {
            return info;
        }
    }
}

#[tokio::test]
async fn an_upload_from_a_uri_resumes_after_each_interruption() {
    let content = packed("vnf-b-cnf");
    let shelf = Shelf::new(content, &[Does::Sends(1000), Does::Sends(500), ALL]).await;
    shelf.held.send_replace(true);
    let bench = bench(&shelf).await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar?sig=planted-signature")});
    let id = begun(&bench, &request).await;
    let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(info["onboardingState"], "UPLOADING", "{info:#}");
    let again = request_upload(&bench, &id, &request).await;
    assert_eq!(
        (
            again.status,
            again.detail().contains("already being uploaded")
        ),
        (409, true),
        "{again:?}"
    );
    shelf.held.send_replace(false);
    let info = ended(&bench, &id).await;
    assert_eq!(
        (&info["onboardingState"], &info["operationalState"]),
        (&json!("ONBOARDED"), &json!("ENABLED")),
        "{info:#}"
    );
    assert_eq!(shelf.headers("range"), ["", "bytes=1000-", "bytes=1500-"]);
    assert_eq!(shelf.headers("if-range"), ["", "\"1\"", "\"1\""]);
    assert_eq!(
        request_upload(&bench, &id, &request).await.status,
        409,
        "the package already has content"
    );
}

#[tokio::test]
async fn an_upload_restarts_if_the_content_may_have_changed() {
    const DOES: &[Does] = &[Does::SendsUnnamed(700), Does::SendsUnnamed(usize::MAX)];
    let shelf = Shelf::new(packed("vnf-b-cnf"), DOES).await;
    let bench = bench(&shelf).await;
    let id = begun(
        &bench,
        &json!({"addressInformation": shelf.at("/packages/web.csar")}),
    )
    .await;
    assert_eq!(ended(&bench, &id).await["onboardingState"], "ONBOARDED");
    assert_eq!(
        shelf.headers("range"),
        ["", ""],
        "without a validator the rest may be of another version"
    );
}

#[tokio::test]
async fn every_login_method_is_used_and_no_login_is_shown() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL, ALL, Does::Gives, ALL]).await;
    let bench = bench(&shelf).await;
    let address = shelf.at("/packages/b.csar");
    for request in [
        json!({"addressInformation": address, "userName": "u", "password": "planted-password"}),
        json!({"addressInformation": address, "authType": "BASIC",
            "paramsBasic": {"userName": "u", "password": "planted-password"}}),
        json!({"addressInformation": address, "authType": "OAUTH2_CLIENT_CREDENTIALS",
            "paramsOauth2ClientCredentials": {"clientId": "u", "clientPassword": "planted-password",
                "tokenEndpoint": shelf.at("/token")}}),
    ] {
        let id = begun(&bench, &request).await;
        let info = ended(&bench, &id).await;
        assert_eq!(info["onboardingState"], "ONBOARDED", "{request}: {info:#}");
        bench.drop_package(&id).await;
    }
    let basic = "Basic dTpwbGFudGVkLXBhc3N3b3Jk";
    let bearer = "Bearer planted-token-of-a-shelf";
    assert_eq!(
        shelf.headers("authorization"),
        [basic, basic, basic, bearer]
    );
}

#[tokio::test]
async fn a_failed_upload_from_a_uri_is_reported_and_can_be_repeated() {
    const DOES: &[Does] = &[
        Does::Says("404 Not Found"),
        Does::Says("302 Found"),
        Does::Sends(5),
        Does::Says("403 Forbidden"),
        ALL,
    ];
    let shelf = Shelf::new(packed("vnf-b-cnf"), DOES).await;
    let bench = bench(&shelf).await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar?sig=planted-signature")});
    let id = begun(&bench, &request).await;
    for (code, says) in [
        ("download.refused", "the server responded with 404"),
        ("download.refused", "redirects are not followed"),
        ("download.refused", "the server responded with 403"),
    ] {
        let info = ended(&bench, &id).await;
        let why = &info["onboardingFailureDetails"];
        let state = (
            &info["onboardingState"],
            &info["operationalState"],
            &why["code"],
        );
        assert_eq!(
            state,
            (&json!("ERROR"), &json!("DISABLED"), &json!(code)),
            "{info:#}"
        );
        let detail = why["detail"].as_str().unwrap();
        assert!(
            detail.contains(says) && detail.contains("/packages/b.csar"),
            "{detail}"
        );
        assert_eq!(request_upload(&bench, &id, &request).await.status, 202);
    }
    let info = ended(&bench, &id).await;
    assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
    assert!(info.get("onboardingFailureDetails").is_none(), "{info:#}");
}

/// Requests that are refused, and the codes of the refusals.
fn bad_sources(shelf: &Shelf) -> Vec<(Value, &'static str)> {
    let token = json!({"clientId": "u", "clientPassword": "p", "tokenEndpoint": "http://169.254.169.254/token"});
    let good = shelf.at("/packages/b.csar");
    vec![
        (
            json!({"addressInformation": "http://169.254.169.254/latest"}),
            "package.address",
        ),
        (
            json!({"addressInformation": shelf.at("/packagesx/b.csar")}),
            "package.address",
        ),
        (
            json!({"addressInformation": shelf.at("/packages/../b.csar")}),
            "package.address",
        ),
        (
            json!({"addressInformation": "file:///etc/passwd"}),
            "package.address",
        ),
        (json!({"addressInformation": "nonsense"}), "package.address"),
        (
            json!({"addressInformation": good, "paramsOauth2ClientCredentials": token}),
            "package.address",
        ),
        (
            json!({"addressInformation": good, "authType": "BASIC"}),
            "request.schema",
        ),
        (
            json!({"addressInformation": good, "userName": "u", "password": "p",
                "paramsOauth2ClientCredentials": token}),
            "request.schema",
        ),
        (json!({}), "request.schema"),
        (
            json!({"addressInformation": good, "else": 1}),
            "request.schema",
        ),
    ]
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_not_called() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL]).await;
    let bench = bench(&shelf).await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let good = shelf.at("/packages/b.csar");
    for (request, code) in bad_sources(&shelf) {
        let response = request_upload(&bench, &id, &request).await;
        assert_eq!(
            (response.status, &response.body["code"]),
            (422, &json!(code)),
            "{request}"
        );
    }
    assert_eq!(
        shelf.requests.lock().unwrap().len(),
        0,
        "no request was sent"
    );
    let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(info["onboardingState"], "CREATED", "{info:#}");
    assert_eq!(
        request_upload(&bench, "none", &json!({"addressInformation": good}))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn content_above_the_size_limit_or_the_quota_is_refused() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL]).await;
    let small = bench_with(
        &shelf,
        Setup {
            largest: 100,
            ..Setup::default()
        },
    )
    .await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar")});
    let info = ended(&small, &begun(&small, &request).await).await;
    let why = &info["onboardingFailureDetails"];
    assert_eq!(why["code"], "download.too-large", "{info:#}");

    let access = format!(
        "users: [{{name: a, gets: {{tenant: default, role: admin}}, password_hash: '{HASHED}'}}]\n\
         quota: {{package_bytes: 100}}\n"
    );
    let quota = bench_with(
        &shelf,
        Setup {
            access: Some(access),
            ..Setup::default()
        },
    )
    .await;
    quota.log_in("a");
    let info = ended(&quota, &begun(&quota, &request).await).await;
    assert_eq!(
        info["onboardingFailureDetails"]["code"], "download.too-large",
        "{info:#}"
    );
}

#[tokio::test]
async fn a_package_deleted_during_its_upload_leaves_nothing() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL]).await;
    shelf.held.send_replace(true);
    let bench = bench(&shelf).await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar")});
    let id = begun(&bench, &request).await;
    let path = format!("{PACKAGES}/{id}");
    assert_eq!(bench.delete(&path).await.status, 204);
    shelf.held.send_replace(false);
    // Another package with the same VNFD can be onboarded, so the first one has released it.
    let other = begun(&bench, &request).await;
    assert_eq!(ended(&bench, &other).await["onboardingState"], "ONBOARDED");
    assert_eq!(
        bench.send(bench.request(Method::GET, &path)).await.status,
        404
    );
}
