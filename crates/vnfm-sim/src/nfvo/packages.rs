//! VNF package management of the NFVO (SOL003 10): packages onboarded by [`Nfvo::offer`] can be queried and fetched in
//! ranges; subscribers are notified with the credentials of their subscription.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::decide::merge;
use super::{Nfvo, Policy, problem};
use crate::http::{Reply, Request, Route};

/// Timeout of a callback to a subscriber.
const ANSWER: Duration = Duration::from_secs(10);

struct Offered {
    vnfd_id: String,
    content: Bytes,
    state: String,
}

/// The onboarded packages and their subscribers.
#[derive(Default)]
pub(super) struct Shelf {
    packages: BTreeMap<String, Offered>,
    /// The requests for subscription, by subscription id.
    subscriptions: BTreeMap<String, Value>,
    /// Sent notifications, each with the subscriber's status; 0 without a response.
    told: Vec<Value>,
}

impl Shelf {
    /// The `VnfPkgInfo` of each package.
    pub(super) fn page(&self, policy: &Policy) -> Vec<Value> {
        self.packages
            .iter()
            .map(|(id, one)| one.info(id, policy))
            .collect()
    }

    /// The subscriptions without their passwords.
    pub(super) fn subscriptions(&self) -> Vec<Value> {
        self.subscriptions
            .iter()
            .map(|(id, asked)| subscription(id, asked))
            .collect()
    }

    /// Sent notifications, oldest first.
    pub(super) fn told(&self) -> &[Value] {
        &self.told
    }
}

impl Offered {
    fn info(&self, id: &str, policy: &Policy) -> Value {
        let link = |path: &str| json!({ "href": format!("/vnfpkgm/v2/vnf_packages/{id}{path}") });
        let mut info = json!({
            "id": id,
            "vnfdId": self.vnfd_id,
            "vnfProvider": "example",
            "vnfProductName": "example",
            "vnfSoftwareVersion": "1.0",
            "vnfdVersion": "1.0",
            "checksum": { "algorithm": "SHA-256", "hash": hash(&self.content) },
            "onboardingState": "ONBOARDED",
            "operationalState": self.state,
            "usageState": "NOT_IN_USE",
            "_links": { "self": link(""), "vnfd": link("/vnfd"), "packageContent": link("/package_content") },
        });
        merge(&mut info, &policy.package);
        info
    }
}

impl Nfvo {
    /// Onboards a package, replacing one with this id, and notifies subscribers.
    pub fn offer(self: &Arc<Self>, id: &str, vnfd_id: &str, content: Vec<u8>) {
        let (vnfd_id, content) = (vnfd_id.to_owned(), Bytes::from(content));
        let offered = Offered {
            vnfd_id: vnfd_id.clone(),
            content,
            state: "ENABLED".to_owned(),
        };
        self.state().shelf.packages.insert(id.to_owned(), offered);
        self.tell(
            (id, &vnfd_id),
            "VnfPackageOnboardingNotification",
            &json!({ "vnfmInfo": ["vnfm"] }),
        );
    }

    /// Sets a package's operational state and notifies subscribers; false if there is no such package.
    pub fn set_package(self: &Arc<Self>, id: &str, state: &str) -> bool {
        let Some(vnfd_id) = self.state().shelf.packages.get_mut(id).map(|one| {
            state.clone_into(&mut one.state);
            one.vnfd_id.clone()
        }) else {
            return false;
        };
        let change = json!({ "changeType": "OP_STATE_CHANGE", "operationalState": state });
        self.tell((id, &vnfd_id), "VnfPackageChangeNotification", &change);
        true
    }

    /// Deletes a package and notifies subscribers; false if there is no such package.
    pub fn withdraw(self: &Arc<Self>, id: &str) -> bool {
        let Some(gone) = self.state().shelf.packages.remove(id) else {
            return false;
        };
        let change = json!({ "changeType": "PKG_DELETE" });
        self.tell((id, &gone.vnfd_id), "VnfPackageChangeNotification", &change);
        true
    }

    /// Drops all subscriptions without notice.
    pub fn forget_subscriptions(&self) {
        self.state().shelf.subscriptions.clear();
    }

    /// Notifies the matching subscribers, each in its own task.
    fn tell(self: &Arc<Self>, (id, vnfd_id): (&str, &str), kind: &str, more: &Value) {
        let subscribers = self.state().shelf.subscriptions.clone();
        for (subscription, asked) in subscribers {
            let wanted = asked["filter"]["notificationTypes"].as_array().cloned();
            if wanted.is_some_and(|wanted| !wanted.contains(&json!(kind))) {
                continue;
            }
            let mut body = json!({
                "id": Uuid::new_v4().to_string(),
                "notificationType": kind,
                "subscriptionId": subscription,
                "timeStamp": jiff::Timestamp::now(),
                "vnfPkgId": id,
                "vnfdId": vnfd_id,
                "_links": {
                    "vnfPackage": { "href": format!("{}/vnfpkgm/v2/vnf_packages/{id}", self.url) },
                    "subscription": { "href": format!("{}/vnfpkgm/v2/subscriptions/{subscription}", self.url) },
                },
            });
            merge(&mut body, more);
            let nfvo = Arc::clone(self);
            tokio::spawn(async move {
                let status = sent(reqwest::Method::POST, &asked, Some(&body)).await;
                nfvo.state()
                    .shelf
                    .told
                    .push(json!({ "status": status, "notification": body }));
            });
        }
    }

    /// The routes below `/vnfpkgm/v2`.
    pub(super) fn of_packages<'a>(
        self: &'a Arc<Self>,
        request: &'a Request,
        resource: &[&str],
    ) -> Option<Route<'a>> {
        Some(match (&request.method, resource) {
            (&Method::GET, ["vnf_packages"]) => {
                let filter = request.param("filter").unwrap_or_default().to_owned();
                Route::new("nfvo.packages", filter.clone(), move || {
                    self.find(request, &filter)
                })
            }
            (&Method::GET, ["vnf_packages", id]) => {
                let id = (*id).to_owned();
                Route::new("nfvo.package", id.clone(), move || self.show(request, &id))
            }
            (&Method::GET, ["vnf_packages", id, "package_content"]) => {
                let id = (*id).to_owned();
                let subject = format!("{id} {}", request.header("range"));
                Route::new("nfvo.package_content", subject, move || {
                    self.send(request, &id)
                })
            }
            (&Method::POST, ["subscriptions"]) => {
                Route::new("nfvo.subscribe", "", || self.subscribe(request))
            }
            (&Method::GET, ["subscriptions"]) => Route::new("nfvo.subscriptions", "", || {
                self.enter(request)?;
                Ok(Reply::json(200, &json!(self.state().shelf.subscriptions())))
            }),
            (&Method::GET, ["subscriptions", id]) => {
                let id = (*id).to_owned();
                Route::new("nfvo.subscription", id.clone(), move || {
                    self.enter(request)?;
                    let state = self.state();
                    let asked = state.shelf.subscriptions.get(&id);
                    let asked =
                        asked.ok_or_else(|| problem(404, "there is no such subscription"))?;
                    Ok(Reply::json(200, &subscription(&id, asked)))
                })
            }
            (&Method::DELETE, ["subscriptions", id]) => {
                let id = (*id).to_owned();
                Route::new("nfvo.unsubscribe", id.clone(), move || {
                    self.enter(request)?;
                    let gone = self.state().shelf.subscriptions.remove(&id);
                    gone.ok_or_else(|| problem(404, "there is no such subscription"))?;
                    Ok(Reply::empty(204))
                })
            }
            _ => return None,
        })
    }

    /// The packages that match a filter; only a single `eq` is supported.
    fn find(&self, request: &Request, filter: &str) -> Result<Reply, Reply> {
        self.enter(request)?;
        let wanted = filter
            .strip_prefix("(eq,vnfdId,")
            .and_then(|rest| rest.strip_suffix(')'));
        let wanted = wanted.map(|wanted| wanted.trim_matches('\'').replace("''", "'"));
        if wanted.is_none() && !filter.is_empty() {
            let what = format!("nfvo: `{filter}` is a filter that is not modelled");
            self.books.violation(what.clone());
            return Err(problem(400, &what));
        }
        let state = self.state();
        let all = state.shelf.packages.iter();
        let found = all.filter(|(_, one)| wanted.as_ref().is_none_or(|it| *it == one.vnfd_id));
        let found: Vec<_> = found.map(|(id, one)| one.info(id, &state.policy)).collect();
        Ok(Reply::json(200, &json!(found)))
    }

    fn show(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.enter(request)?;
        let state = self.state();
        let one = state.shelf.packages.get(id).ok_or_else(absent)?;
        Ok(Reply::json(200, &one.info(id, &state.policy)))
    }

    /// The archive, or its bytes from a `Range` on.
    fn send(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.enter(request)?;
        let state = self.state();
        let content = state
            .shelf
            .packages
            .get(id)
            .ok_or_else(absent)?
            .content
            .clone();
        let (whole, tag) = (content.len(), format!("\"{}\"", hash(&content)));
        let same = ["", tag.as_str()].contains(&request.header("if-range"));
        let range = request.header("range");
        let first = range
            .strip_prefix("bytes=")
            .and_then(|range| range.strip_suffix('-'));
        let first = first
            .and_then(|first| first.parse::<usize>().ok())
            .filter(|_| same);
        let (status, body, said) = match first {
            None => (200, content, None),
            Some(first) if first < whole => {
                let said = format!("bytes {first}-{}/{whole}", whole - 1);
                (206, content.slice(first..), Some(said))
            }
            Some(_) => return Err(problem(416, "beyond the end")),
        };
        let remark = format!("{} bytes", body.len());
        let mut reply = Reply::empty(status)
            .remark(remark)
            .with("content-type", "application/zip");
        reply = reply.with("accept-ranges", "bytes").with("etag", tag);
        if let Some(said) = said {
            reply = reply.with("content-range", said);
        }
        reply.body = Body::from(body);
        Ok(reply)
    }

    /// Adds a subscription; its callback is tested in the background and the result logged as `nfvo.callback_tested`.
    fn subscribe(self: &Arc<Self>, request: &Request) -> Result<Reply, Reply> {
        self.enter(request)?;
        let asked = request.json();
        if asked["callbackUri"].as_str().is_none_or(str::is_empty) {
            let what = "nfvo: a subscription without callbackUri";
            self.books.violation(what.to_owned());
            return Err(problem(400, what));
        }
        let id = Uuid::new_v4().to_string();
        self.state()
            .shelf
            .subscriptions
            .insert(id.clone(), asked.clone());
        let (nfvo, shown) = (Arc::clone(self), subscription(&id, &asked));
        tokio::spawn(async move {
            let status = sent(reqwest::Method::GET, &asked, None).await;
            nfvo.books
                .record("nfvo", "nfvo.callback_tested", "", status);
        });
        let place = format!("/vnfpkgm/v2/subscriptions/{id}");
        Ok(Reply::json(201, &shown).with("location", place))
    }
}

fn absent() -> Reply {
    problem(404, "there is no such package")
}

fn subscription(id: &str, asked: &Value) -> Value {
    let link = json!({ "href": format!("/vnfpkgm/v2/subscriptions/{id}") });
    let mut shown =
        json!({ "id": id, "callbackUri": asked["callbackUri"], "_links": { "self": link } });
    if asked["filter"].is_object() {
        shown["filter"] = asked["filter"].clone();
    }
    shown
}

/// Calls the subscriber with its credentials; the status, 0 without a response.
async fn sent(method: reqwest::Method, asked: &Value, body: Option<&Value>) -> u16 {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(ANSWER)
        .tls_certs_only([])
        .build();
    let Ok(client) = client else { return 0 };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut request = client
        .request(method, text(&asked["callbackUri"]))
        .header("version", "2.4.0");
    let basic = &asked["authentication"]["paramsBasic"];
    if basic.is_object() {
        request = request.basic_auth(text(&basic["userName"]), Some(text(&basic["password"])));
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    request
        .send()
        .await
        .map_or(0, |answer| answer.status().as_u16())
}

fn hash(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
    }
    text
}
