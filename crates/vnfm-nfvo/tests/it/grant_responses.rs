//! Every kind of response to a grant request, canned.

use crate::{ManualClock, grants, request};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use vnfm_core::ports::{Clock as _, GrantOutcome, Nfvo as _, PortError};
use vnfm_nfvo::{Login, Tls};

/// A server that sends the same response to every request.
struct Canned {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Canned {
    async fn new(status: &str, headers: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = requests.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = Vec::new();
                while !is_complete(&bytes) && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
                recorded
                    .lock()
                    .unwrap()
                    .push(String::from_utf8_lossy(&bytes).into_owned());
                // The client may have disconnected.
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        Self {
            url,
            requests,
            _task: task,
        }
    }

    async fn request(&self) -> Result<GrantOutcome, PortError> {
        self.request_at(&ManualClock::new()).await
    }

    async fn request_at(&self, clock: &Arc<ManualClock>) -> Result<GrantOutcome, PortError> {
        grants(&self.url, Login::None, Tls::default(), clock)
            .request_grant(&request())
            .await
    }
}

/// Whether a request was received completely.
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

const GRANT: &str =
    r#"{"id": "g", "vnfInstanceId": "i1", "vnfLcmOpOccId": "o1", "new": {"member": 1}}"#;

#[tokio::test]
async fn each_response_maps_to_the_error_that_sol003_implies() {
    let problem = r#"{"status": 403, "title": "T", "detail": "D", "type": "https://t"}"#;
    let away = "location: http://192.0.2.1/grant/v1/grants/g\r\n";
    for (status, headers, body, name, text) in [
        ("403 Forbidden", "", problem, "nfvo.grant-rejected", "D"),
        (
            "403 Forbidden",
            "",
            "<html>",
            "nfvo.grant-rejected",
            "no reason given",
        ),
        ("400 Bad Request", "", problem, "nfvo.refuses", "D"),
        ("404 Not Found", "", "", "nfvo.refuses", "404"),
        (
            "503 Service Unavailable",
            "",
            problem,
            "nfvo.failing",
            "503",
        ),
        ("429 Too Many Requests", "", "", "nfvo.failing", "429"),
        ("302 Found", away, "", "nfvo.malformed", "302"),
        ("200 OK", "", GRANT, "nfvo.malformed", "200"),
        ("204 No Content", "", "", "nfvo.malformed", "204"),
        (
            "202 Accepted",
            "",
            "",
            "nfvo.malformed",
            "without `Location`",
        ),
        (
            "202 Accepted",
            away,
            "",
            "nfvo.malformed",
            "away from the NFVO",
        ),
        ("201 Created", "", "{}", "nfvo.malformed", "`id`"),
        ("201 Created", "", "\"hunter2\"", "nfvo.malformed", "(body)"),
        ("201 Created", "", "", "nfvo.malformed", "(body)"),
    ] {
        let canned = Canned::new(status, headers, body).await;
        let error = canned.request().await.unwrap_err();
        assert_eq!(error.name(), name, "{status} {body}: {error}");
        assert!(error.to_string().contains(text), "{status} {body}: {error}");
        let title = error.problem().and_then(|problem| problem.title.clone());
        let expected = (body == problem && !error.is_unavailable()).then_some("T".to_owned());
        assert_eq!(title, expected, "{status}");
        assert_eq!(
            canned.requests.lock().unwrap().len(),
            1,
            "{status}: neither followed nor retried"
        );
    }
}

#[tokio::test]
async fn a_grant_request_has_the_version_and_absolute_links() {
    let canned = Canned::new("201 Created", "", GRANT).await;
    let GrantOutcome::Granted(grant) = canned.request().await.unwrap() else {
        panic!("not granted")
    };
    assert_eq!(grant.id, "g");
    let request_text = canned.requests.lock().unwrap()[0].clone();
    assert!(
        request_text.starts_with("POST /grant/v1/grants HTTP/1.1"),
        "{request_text}"
    );
    for part in [
        "version: 1.7.0",
        r#""vnfLcmOpOcc":{"href":"http://vnfm.example.com/vnflcm/v2/vnf_lcm_op_occs/o1"}"#,
        r#""vnfInstance":{"href":"http://vnfm.example.com/vnflcm/v2/vnf_instances/i1"}"#,
    ] {
        assert!(request_text.contains(part), "no `{part}` in {request_text}");
    }
}

#[tokio::test]
async fn a_pending_grant_is_polled_only_at_the_configured_nfvo() {
    let canned = Canned::new("202 Accepted", "location: /elsewhere/g\r\n", "").await;
    let GrantOutcome::Pending(place, None) = canned.request().await.unwrap() else {
        panic!("decided")
    };
    assert_eq!(place, format!("{}/elsewhere/g", canned.url));
    for (status, body, wanted) in [
        (
            "202 Accepted",
            "",
            Some(GrantOutcome::Pending(String::new(), None)),
        ),
        ("404 Not Found", "", Some(GrantOutcome::UnknownLocation)),
        ("200 OK", GRANT, None),
    ] {
        let canned = Canned::new(status, "", body).await;
        let nfvo = grants(
            &canned.url,
            Login::None,
            Tls::default(),
            &ManualClock::new(),
        );
        let place = format!("{}/grant/v1/grants/g", canned.url);
        let found = nfvo.poll_grant(&place).await.unwrap();
        match wanted {
            Some(GrantOutcome::Pending(..)) => {
                assert_eq!(found, GrantOutcome::Pending(place, None));
            }
            Some(other) => assert_eq!(found, other),
            None => assert!(matches!(found, GrantOutcome::Granted(_)), "{found:?}"),
        }
        let moved = nfvo
            .poll_grant("http://192.0.2.1/grant/v1/grants/g")
            .await
            .unwrap();
        assert_eq!(
            moved,
            GrantOutcome::UnknownLocation,
            "another NFVO is configured by now"
        );
        assert_eq!(canned.requests.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn retry_after_is_read_in_seconds_and_as_a_date() {
    let clock = ManualClock::new();
    let date = clock.now().saturating_add(Duration::from_secs(90)).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (said, request_text) in [
        ("7".to_owned(), Some(7)),
        (date, Some(90)),
        ("Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), Some(0)),
        ("soon".to_owned(), None),
        ("-1".to_owned(), None),
    ] {
        let wanted = request_text.map(Duration::from_secs);
        let retry = format!("retry-after: {said}\r\n");
        for status in ["503 Service Unavailable", "429 Too Many Requests"] {
            let canned = Canned::new(status, &retry, "").await;
            assert_eq!(
                canned.request_at(&clock).await.unwrap_err().retry_after(),
                wanted,
                "{status} {said}"
            );
        }
        let place = format!("location: /grant/v1/grants/g\r\n{retry}");
        let canned = Canned::new("202 Accepted", &place, "").await;
        let Ok(GrantOutcome::Pending(_, after)) = canned.request_at(&clock).await else {
            panic!("decided")
        };
        assert_eq!(after, wanted, "{said}");
    }
}

#[tokio::test]
async fn an_unreachable_nfvo_is_a_temporary_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nfvo = grants(&url, Login::None, Tls::default(), &ManualClock::new());
    let error = nfvo.request_grant(&request()).await.unwrap_err();
    assert_eq!(
        (error.name(), error.is_unavailable()),
        ("nfvo.unreachable", true),
        "{error}"
    );
}
