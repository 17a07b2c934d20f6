//! The simulated NFVO: grants (SOL003 9) by policy, VNF packages (SOL003 10), a sink for
//! notifications, and a token endpoint.
//!
//! | request | response |
//! |---|---|
//! | `POST /grant/v1/grants` | by [`Policy`]: 201, 202 with `Location`, 403 |
//! | `GET /grant/v1/grants/{id}` | 202 until it is decided, then 200 or 403 |
//! | `GET /vnfpkgm/v2/vnf_packages`, `…/{id}`, `…/{id}/package_content` | the onboarded packages ([`Nfvo::onboard`]); ranges are supported |
//! | `/vnfpkgm/v2/subscriptions`, `…/{id}` | subscribers are notified of onboarding, changes and deletions |
//! | `GET`, `POST /notifications` | 204; notifications are stored |
//! | `POST /token` | OAuth 2.0 client credentials (RFC 6749 4.4) |
//!
//! It is served over plain HTTP and over mutual TLS. Inject 503, missing responses and cut connections as faults
//! (`nfvo.grant`, `nfvo.grant_look`, `nfvo.token`, `nfvo.callback_test`, `nfvo.notify`, `nfvo.packages`,
//! `nfvo.package`, `nfvo.package_content`, `nfvo.subscribe`, `nfvo.subscriptions`, `nfvo.subscription`,
//! `nfvo.unsubscribe`). A request that breaks a rule of the standard is a violation.

mod decide;
mod packages;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::faults::Faults;
use crate::http::{Listening, Reply, Request, Route, Server, Service, serve};
use crate::ledger::Ledger;

/// The only user (and OAuth 2.0 client) that may log in.
pub const CLIENT: &str = "vnfm";
/// Password of the client [`CLIENT`].
pub const PASSWORD: &str = "planted-nfvo-password-2c77";

/// How the NFVO decides on grants and what it requires from callers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policy {
    /// Rejects every grant, for this reason.
    pub deny: Option<String>,
    /// Decides on this poll of the grant; 0: immediately.
    pub polls: u32,
    /// Drops undecided requests, so that polling them is a 404.
    pub forgets: bool,
    /// The zone granted to every new VNFC.
    pub zone: Option<String>,
    /// Merged into every grant (RFC 7396).
    pub grant: Value,
    /// Merged into every `VnfPkgInfo` (RFC 7396), for instance to send a wrong checksum.
    pub package: Value,
    /// The authentication that a caller needs.
    pub login: RequiredLogin,
    /// Lifetime of a token in seconds; 0 means 3600.
    pub token_life: i64,
}

/// The authentication that a caller needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequiredLogin {
    /// No authentication: every caller is accepted.
    #[default]
    None,
    /// HTTP Basic with [`CLIENT`] and [`PASSWORD`].
    Basic,
    /// A bearer token issued by `/token`.
    Oauth2,
}

/// A grant request and the decision on it.
#[derive(Debug, Clone)]
struct GrantRequest {
    request: Value,
    polls_left: u32,
    status: u16,
    answer: Value,
}

#[derive(Default)]
struct State {
    policy: Policy,
    grants: BTreeMap<String, GrantRequest>,
    /// Ids of the cases, oldest first.
    order: Vec<String>,
    notifications: Vec<Value>,
    tokens: BTreeMap<String, jiff::Timestamp>,
    tokens_issued: usize,
    catalog: packages::PackageCatalog,
}

/// A running NFVO: grants, packages and notifications.
pub struct Nfvo {
    state: Mutex<State>,
    books: Arc<Ledger>,
    url: String,
    secure_url: String,
    certificates: tls::Certificates,
    listening: Mutex<Vec<Listening>>,
}

impl Nfvo {
    /// Starts listening on free ports of 127.0.0.1.
    pub(crate) async fn open(books: Arc<Ledger>, faults: Arc<Faults>) -> anyhow::Result<Arc<Self>> {
        let plain = TcpListener::bind("127.0.0.1:0").await?;
        let secure = TcpListener::bind("127.0.0.1:0").await?;
        let (certificates, acceptor) = tls::create()?;
        let nfvo = Arc::new(Self {
            state: Mutex::default(),
            books: books.clone(),
            url: format!("http://{}", plain.local_addr()?),
            secure_url: format!("https://{}", secure.local_addr()?),
            certificates,
            listening: Mutex::default(),
        });
        let server = || {
            let service: Arc<dyn Service> = Arc::new(NfvoService(nfvo.clone()));
            Server {
                service,
                books: books.clone(),
                faults: faults.clone(),
            }
        };
        let both = vec![
            serve(plain, None, server()),
            serve(secure, Some(acceptor), server()),
        ];
        *nfvo
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = both;
        Ok(nfvo)
    }

    /// Base URL for plain HTTP.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Base URL for mutual TLS.
    pub fn secure_url(&self) -> &str {
        &self.secure_url
    }

    /// Certificate of its CA, PEM.
    pub fn ca_certificate(&self) -> &str {
        &self.certificates.authority
    }

    /// A client certificate that it accepts, and the key, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificates.client
    }

    /// Sets the policy for new requests; requests already received keep their decision.
    pub fn set_policy(&self, policy: Policy) {
        self.state().policy = policy;
    }

    /// Revokes every token; calls then fail with 401.
    pub fn revoke_tokens(&self) {
        self.state().tokens.clear();
    }

    /// Received grant requests with their responses, packages, subscriptions, notifications and the number of tokens.
    pub fn report(&self) -> Value {
        let state = self.state();
        let case = |id: &String| {
            let case = &state.grants[id];
            json!({ "id": id, "request": case.request, "status": case.status, "answer": case.answer })
        };
        json!({
            "grants": state.order.iter().map(case).collect::<Vec<_>>(),
            "notifications": state.notifications,
            "tokensGiven": state.tokens_issued,
            "packages": state.catalog.infos(&state.policy),
            "subscriptions": state.catalog.subscriptions(),
            "told": state.catalog.notifications(),
        })
    }

    pub(crate) fn stop(&self) {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the caller's credentials against the policy.
    fn authenticate(&self, request: &Request) -> Result<(), Reply> {
        let state = self.state();
        let credentials = request.header("authorization");
        let allowed = match state.policy.login {
            RequiredLogin::None => true,
            RequiredLogin::Basic => credentials == basic_credentials(),
            RequiredLogin::Oauth2 => {
                let token = credentials.strip_prefix("Bearer ").unwrap_or_default();
                state
                    .tokens
                    .get(token)
                    .is_some_and(|ends| *ends > jiff::Timestamp::now())
            }
        };
        if allowed {
            Ok(())
        } else {
            Err(problem(401, "log in first").with_header("www-authenticate", "Bearer"))
        }
    }

    fn request_grant(&self, request: &Request) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let body = request.json();
        let wrong = decide::broken_rules(&body);
        if !wrong.is_empty() {
            let message = format!("nfvo: invalid grant request: {}", wrong.join("; "));
            self.books.record_violation(message.clone());
            return Err(problem(400, &message));
        }
        let id = Uuid::new_v4().to_string();
        let mut state = self.state();
        let (status, answer) = decide::decide(&state.policy, &body, (&id, &self.url));
        let looks_left = state.policy.polls;
        let case = GrantRequest {
            request: body,
            polls_left: looks_left,
            status,
            answer,
        };
        let reply = if looks_left > 0 {
            Reply::empty(202).with_header("location", grant_path(&id))
        } else {
            Reply::json(status, &case.answer).with_header("location", grant_path(&id))
        };
        state.grants.insert(id.clone(), case);
        state.order.push(id);
        Ok(reply)
    }

    fn poll_grant(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let mut state = self.state();
        let forgets = state.policy.forgets;
        let case = state
            .grants
            .get_mut(id)
            .filter(|case| !(forgets && case.polls_left > 0));
        let Some(case) = case else {
            return Err(problem(404, "unknown grant"));
        };
        case.polls_left = case.polls_left.saturating_sub(1);
        if case.polls_left > 0 {
            return Ok(Reply::empty(202));
        }
        let status = if case.status == 201 { 200 } else { case.status };
        Ok(Reply::json(status, &case.answer))
    }

    fn issue_token(&self, request: &Request) -> Reply {
        let form: BTreeSet<(String, String)> =
            form_urlencoded::parse(&request.body).into_owned().collect();
        if !form.contains(&("grant_type".to_owned(), "client_credentials".to_owned())) {
            return Reply::json(400, &json!({ "error": "unsupported_grant_type" }));
        }
        if request.header("authorization") != basic_credentials() {
            return Reply::json(401, &json!({ "error": "invalid_client" }));
        }
        let token = format!("planted-token-{}", Uuid::new_v4());
        let mut state = self.state();
        let life = if state.policy.token_life == 0 {
            3600
        } else {
            state.policy.token_life
        };
        let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(life);
        state.tokens.insert(token.clone(), ends);
        state.tokens_issued += 1;
        let body = json!({ "access_token": token, "token_type": "Bearer", "expires_in": life });
        Reply::json(200, &body)
    }
}

/// Relative, which RFC 9110 10.2.2 allows, so that it is valid for both base URLs.
fn grant_path(id: &str) -> String {
    format!("/grant/v1/grants/{id}")
}

/// The `Authorization` header of [`CLIENT`].
fn basic_credentials() -> String {
    format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{PASSWORD}")))
}

fn problem(status: u16, detail: &str) -> Reply {
    let body = json!({ "status": status, "detail": detail });
    Reply::json(status, &body).with_remark(detail)
}

/// The HTTP service of an NFVO.
struct NfvoService(Arc<Nfvo>);

impl Service for NfvoService {
    fn name(&self) -> &'static str {
        "nfvo"
    }

    fn failure(&self, status: u16) -> Reply {
        problem(status, "the NFVO is temporarily unavailable")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let nfvo = &self.0;
        if let ["vnfpkgm", "v2", resource @ ..] = segments.as_slice() {
            return nfvo.package_routes(request, resource);
        }
        Some(match (&request.method, segments.as_slice()) {
            (&Method::POST, ["grant", "v1", "grants"]) => {
                let subject = subject(&request.json());
                Route::new("nfvo.grant", subject, || nfvo.request_grant(request))
            }
            (&Method::GET, ["grant", "v1", "grants", id]) => {
                let id = (*id).to_owned();
                let subject_of_grant = nfvo
                    .state()
                    .grants
                    .get(&id)
                    .map(|case| subject(&case.request));
                let subject = subject_of_grant.unwrap_or_default();
                Route::new("nfvo.grant_look", subject, move || {
                    nfvo.poll_grant(request, &id)
                })
            }
            (&Method::POST, ["token"]) => {
                Route::new("nfvo.token", "", || Ok(nfvo.issue_token(request)))
            }
            (&Method::GET, ["notifications"]) => Route::new("nfvo.callback_test", "", || {
                nfvo.authenticate(request)?;
                Ok(Reply::empty(204))
            }),
            (&Method::POST, ["notifications"]) => {
                let notification = request.json();
                let subject = notification["vnfInstanceId"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                Route::new("nfvo.notify", subject, move || {
                    nfvo.authenticate(request)?;
                    nfvo.state().notifications.push(notification);
                    Ok(Reply::empty(204))
                })
            }
            _ => return None,
        })
    }
}

/// Subject of a grant request: `OPERATION INSTANCE_ID`.
fn subject(request: &Value) -> String {
    let word = |name: &str| request[name].as_str().unwrap_or_default();
    format!("{} {}", word("operation"), word("vnfInstanceId"))
}
