//! Content that the server fetches from a URI: resumed after a cut, only from where it may, with a login that is never
//! shown.

use crate::bench::{Bench, HASHED, PACKAGES, Setup, packed};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use vnfm_server::signatures::Packages;

/// A server of one file that breaks off as it is told.
pub(crate) struct Shelf {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<String>>>,
    /// While true, it does not answer.
    held: watch::Sender<bool>,
    _task: JoinSet<()>,
}

/// What it does with a request.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// Sends at most so many bytes, then hangs up.
    Sends(usize),
    /// The same, and does not tell which version it is.
    SendsUnnamed(usize),
    /// Sends so many bytes, and nothing more until whoever asked has gone.
    Stops(usize),
    /// Answers with a status and nothing else.
    Says(&'static str),
    /// A token.
    Gives,
}

pub(crate) const ALL: Does = Does::Sends(usize::MAX);

impl Shelf {
    /// It does what `does` says, one request after the other, and from then on the last of it.
    pub(crate) async fn new(content: Vec<u8>, does: &'static [Does]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heard, held) = (
            Arc::<Mutex<Vec<String>>>::default(),
            watch::Sender::new(false),
        );
        let (noted, holding) = (heard.clone(), held.subscribe());
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
                // Whoever asked may have gone.
                let _ = stream.write_all(&answer(&content, &request, does)).await;
                if matches!(does, Does::Stops(_)) {
                    let _ = stream.read(&mut [0]).await;
                }
                let _ = stream.shutdown().await;
            }
        });
        Self {
            url,
            heard,
            held,
            _task: task,
        }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The header lines of this name, one for each request; empty where one has none.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let of = |request: &String| {
            let mut lines = request.lines().filter_map(|line| line.split_once(": "));
            let found = lines.find(|(is, _)| is.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        self.heard.lock().unwrap().iter().map(of).collect()
    }
}

/// A request with its body: what is not read when it is hung up on takes the answer with it.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

fn answer(content: &[u8], request: &str, does: Does) -> Vec<u8> {
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
    let (last, whole) = (content.len() - 1, content.len());
    let status = match range {
        None => "200 OK".to_owned(),
        Some(_) => format!("206 Partial Content\r\ncontent-range: bytes {first}-{last}/{whole}"),
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

/// A server that may fetch from there.
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

async fn asked(bench: &Bench, id: &str, request: &Value) -> crate::bench::Answer {
    bench
        .post(
            &format!("{PACKAGES}/{id}/package_content/upload_from_uri"),
            request,
        )
        .await
}

/// A new package that is fetched from there.
async fn begun(bench: &Bench, request: &Value) -> String {
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let answer = asked(bench, &id, request).await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (202, ""),
        "{answer:?}"
    );
    id
}

/// The package once nobody works on it any more.
async fn ended(bench: &Bench, id: &str) -> Value {
    loop {
        let shown = bench.get(&format!("{PACKAGES}/{id}")).await.body;
        if !["UPLOADING", "PROCESSING"].contains(&shown["onboardingState"].as_str().unwrap()) {
            return shown;
        }
    }
}

#[tokio::test]
async fn a_package_is_fetched_from_a_uri_and_goes_on_after_each_cut() {
    let content = packed("vnf-b-cnf");
    let shelf = Shelf::new(content, &[Does::Sends(1000), Does::Sends(500), ALL]).await;
    shelf.held.send_replace(true);
    let bench = bench(&shelf).await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar?sig=planted-signature")});
    let id = begun(&bench, &request).await;
    let shown = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(shown["onboardingState"], "UPLOADING", "{shown:#}");
    let again = asked(&bench, &id, &request).await;
    assert_eq!(
        (
            again.status,
            again.detail().contains("already being uploaded")
        ),
        (409, true),
        "{again:?}"
    );
    shelf.held.send_replace(false);
    let shown = ended(&bench, &id).await;
    assert_eq!(
        (&shown["onboardingState"], &shown["operationalState"]),
        (&json!("ONBOARDED"), &json!("ENABLED")),
        "{shown:#}"
    );
    assert_eq!(shelf.headers("range"), ["", "bytes=1000-", "bytes=1500-"]);
    assert_eq!(shelf.headers("if-range"), ["", "\"1\"", "\"1\""]);
    assert_eq!(
        asked(&bench, &id, &request).await.status,
        409,
        "it has content"
    );
}

#[tokio::test]
async fn what_may_be_another_version_is_fetched_anew() {
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
        "nobody told that the rest is of the same file"
    );
}

#[tokio::test]
async fn each_way_to_log_in_is_used_and_none_is_shown() {
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
        let shown = ended(&bench, &id).await;
        assert_eq!(
            shown["onboardingState"], "ONBOARDED",
            "{request}: {shown:#}"
        );
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
async fn what_cannot_be_had_is_told_and_may_be_tried_again() {
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
        let shown = ended(&bench, &id).await;
        let why = &shown["onboardingFailureDetails"];
        let state = (
            &shown["onboardingState"],
            &shown["operationalState"],
            &why["code"],
        );
        assert_eq!(
            state,
            (&json!("ERROR"), &json!("DISABLED"), &json!(code)),
            "{shown:#}"
        );
        let detail = why["detail"].as_str().unwrap();
        assert!(
            detail.contains(says) && detail.contains("/packages/b.csar"),
            "{detail}"
        );
        assert_eq!(asked(&bench, &id, &request).await.status, 202);
    }
    let shown = ended(&bench, &id).await;
    assert_eq!(shown["onboardingState"], "ONBOARDED", "{shown:#}");
    assert!(shown.get("onboardingFailureDetails").is_none(), "{shown:#}");
}

#[tokio::test]
async fn no_address_is_asked_that_is_not_allowed() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL]).await;
    let bench = bench(&shelf).await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let token = json!({"clientId": "u", "clientPassword": "p", "tokenEndpoint": "http://169.254.169.254/token"});
    let good = shelf.at("/packages/b.csar");
    for (request, status, code) in [
        (
            json!({"addressInformation": "http://169.254.169.254/latest"}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": shelf.at("/packagesx/b.csar")}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": shelf.at("/packages/../b.csar")}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": "file:///etc/passwd"}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": "nonsense"}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": good, "paramsOauth2ClientCredentials": token}),
            422,
            "package.address",
        ),
        (
            json!({"addressInformation": good, "authType": "BASIC"}),
            422,
            "request.schema",
        ),
        (
            json!({"addressInformation": good, "userName": "u", "password": "p",
                "paramsOauth2ClientCredentials": token}),
            422,
            "request.schema",
        ),
        (json!({}), 422, "request.schema"),
        (
            json!({"addressInformation": good, "else": 1}),
            422,
            "request.schema",
        ),
    ] {
        let answer = asked(&bench, &id, &request).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (status, &json!(code)),
            "{request}"
        );
    }
    assert_eq!(shelf.heard.lock().unwrap().len(), 0, "nobody was asked");
    let shown = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(shown["onboardingState"], "CREATED", "{shown:#}");
    assert_eq!(
        asked(&bench, "none", &json!({"addressInformation": good}))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn what_is_larger_than_a_package_or_a_quota_is_not_taken() {
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
    let shown = ended(&small, &begun(&small, &request).await).await;
    let why = &shown["onboardingFailureDetails"];
    assert_eq!(why["code"], "download.too-large", "{shown:#}");

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
    let shown = ended(&quota, &begun(&quota, &request).await).await;
    assert_eq!(
        shown["onboardingFailureDetails"]["code"], "download.too-large",
        "{shown:#}"
    );
}

#[tokio::test]
async fn a_package_that_is_deleted_meanwhile_leaves_nothing() {
    let shelf = Shelf::new(packed("vnf-b-cnf"), &[ALL]).await;
    shelf.held.send_replace(true);
    let bench = bench(&shelf).await;
    let request = json!({"addressInformation": shelf.at("/packages/b.csar")});
    let id = begun(&bench, &request).await;
    let path = format!("{PACKAGES}/{id}");
    assert_eq!(bench.delete(&path).await.status, 204);
    shelf.held.send_replace(false);
    // It is asked for as another one, which is onboarded in the end: the first one has not kept its VNFD.
    let other = begun(&bench, &request).await;
    assert_eq!(ended(&bench, &other).await["onboardingState"], "ONBOARDED");
    assert_eq!(
        bench.send(bench.request(Method::GET, &path)).await.status,
        404
    );
}
