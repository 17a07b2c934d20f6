//! VNF package management of the NFVO (SOL003 10): packages onboarded by [`Nfvo::onboard`] can be queried and fetched in
//! ranges; subscribers are notified with the credentials of their subscription.

use std::collections::BTreeMap;
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
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

struct Package {
    vnfd_id: String,
    content: Bytes,
    state: String,
}

/// The onboarded packages and their subscribers.
#[derive(Default)]
pub(super) struct PackageCatalog {
    packages: BTreeMap<String, Package>,
    /// The requests for subscription, by subscription id.
    subscriptions: BTreeMap<String, Value>,
    /// Sent notifications, each with the subscriber's status; 0 without a response.
    notifications: Vec<Value>,
}

impl PackageCatalog {
    /// The `VnfPkgInfo` of each package.
    pub(super) fn infos(&self, policy: &Policy) -> Vec<Value> {
        self.packages
            .iter()
            .map(|(id, one)| one.info(id, policy))
            .collect()
    }

    /// The subscriptions without their passwords.
    pub(super) fn subscriptions(&self) -> Vec<Value> {
        self.subscriptions
            .iter()
            .map(|(id, request)| subscription_body(id, request))
            .collect()
    }

    /// Sent notifications, the oldest first.
    pub(super) fn notifications(&self) -> &[Value] {
        &self.notifications
    }
}

impl Package {
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
    pub fn onboard(self: &Arc<Self>, id: &str, vnfd_id: &str, content: Vec<u8>) {
        let (vnfd_id, content) = (vnfd_id.to_owned(), Bytes::from(content));
        let offered = Package {
            vnfd_id: vnfd_id.clone(),
            content,
            state: "ENABLED".to_owned(),
        };
        self.state().catalog.packages.insert(id.to_owned(), offered);
        self.notify(
            (id, &vnfd_id),
            "VnfPackageOnboardingNotification",
            &json!({ "vnfmInfo": ["vnfm"] }),
        );
    }

    /// Sets a package's operational state and notifies subscribers; false if unknown package.
    pub fn set_package(self: &Arc<Self>, id: &str, state: &str) -> bool {
        let Some(vnfd_id) = self.state().catalog.packages.get_mut(id).map(|one| {
            state.clone_into(&mut one.state);
            one.vnfd_id.clone()
        }) else {
            return false;
        };
        let change = json!({ "changeType": "OP_STATE_CHANGE", "operationalState": state });
        self.notify((id, &vnfd_id), "VnfPackageChangeNotification", &change);
        true
    }

    /// Deletes a package and notifies subscribers; false if unknown package.
    pub fn delete_package(self: &Arc<Self>, id: &str) -> bool {
        let Some(removed) = self.state().catalog.packages.remove(id) else {
            return false;
        };
        let change = json!({ "changeType": "PKG_DELETE" });
        self.notify(
            (id, &removed.vnfd_id),
            "VnfPackageChangeNotification",
            &change,
        );
        true
    }

    /// Drops all subscriptions without notice.
    pub fn forget_subscriptions(&self) {
        self.state().catalog.subscriptions.clear();
    }

    /// Notifies the matching subscribers, each in its own task.
    fn notify(self: &Arc<Self>, (id, vnfd_id): (&str, &str), kind: &str, more: &Value) {
        let subscribers = self.state().catalog.subscriptions.clone();
        for (subscription_id, subscription) in subscribers {
            let wanted = subscription["filter"]["notificationTypes"]
                .as_array()
                .cloned();
            if wanted.is_some_and(|wanted| !wanted.contains(&json!(kind))) {
                continue;
            }
            let mut body = json!({
                "id": Uuid::new_v4().to_string(),
                "notificationType": kind,
                "subscriptionId": subscription_id,
                "timeStamp": jiff::Timestamp::now(),
                "vnfPkgId": id,
                "vnfdId": vnfd_id,
                "_links": {
                    "vnfPackage": { "href": format!("{}/vnfpkgm/v2/vnf_packages/{id}", self.url) },
                    "subscription": { "href": format!("{}/vnfpkgm/v2/subscriptions/{subscription_id}", self.url) },
                },
            });
            merge(&mut body, more);
            let nfvo = Arc::clone(self);
            tokio::spawn(async move {
                let status = call_back(reqwest::Method::POST, &subscription, Some(&body)).await;
                nfvo.state()
                    .catalog
                    .notifications
                    .push(json!({ "status": status, "notification": body }));
            });
        }
    }

    /// Routes of the package API, below `/vnfpkgm/v2`.
    pub(super) fn package_routes<'a>(
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
                    self.content(request, &id)
                })
            }
            (&Method::POST, ["subscriptions"]) => {
                Route::new("nfvo.subscribe", "", || self.subscribe(request))
            }
            (&Method::GET, ["subscriptions"]) => Route::new("nfvo.subscriptions", "", || {
                self.authenticate(request)?;
                Ok(Reply::json(
                    200,
                    &json!(self.state().catalog.subscriptions()),
                ))
            }),
            (&Method::GET, ["subscriptions", id]) => {
                let id = (*id).to_owned();
                Route::new("nfvo.subscription", id.clone(), move || {
                    self.authenticate(request)?;
                    let state = self.state();
                    let request = state.catalog.subscriptions.get(&id);
                    let request = request.ok_or_else(|| problem(404, "unknown subscription"))?;
                    Ok(Reply::json(200, &subscription_body(&id, request)))
                })
            }
            (&Method::DELETE, ["subscriptions", id]) => {
                let id = (*id).to_owned();
                Route::new("nfvo.unsubscribe", id.clone(), move || {
                    self.authenticate(request)?;
                    let removed = self.state().catalog.subscriptions.remove(&id);
                    removed.ok_or_else(|| problem(404, "unknown subscription"))?;
                    Ok(Reply::empty(204))
                })
            }
            _ => return None,
        })
    }

    /// The packages that match a filter; only a single `eq` is supported.
    fn find(&self, request: &Request, filter: &str) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let wanted = filter
            .strip_prefix("(eq,vnfdId,")
            .and_then(|rest| rest.strip_suffix(')'));
        let wanted = wanted.map(|wanted| wanted.trim_matches('\'').replace("''", "'"));
        if wanted.is_none() && !filter.is_empty() {
            let message = format!("nfvo: `{filter}` is a filter that is not modelled");
            self.books.record_violation(message.clone());
            return Err(problem(400, &message));
        }
        let state = self.state();
        let all = state.catalog.packages.iter();
        let found = all.filter(|(_, one)| wanted.as_ref().is_none_or(|it| *it == one.vnfd_id));
        let found: Vec<_> = found.map(|(id, one)| one.info(id, &state.policy)).collect();
        Ok(Reply::json(200, &json!(found)))
    }

    fn show(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let state = self.state();
        let one = state.catalog.packages.get(id).ok_or_else(no_package)?;
        Ok(Reply::json(200, &one.info(id, &state.policy)))
    }

    /// The archive, or its bytes from a `Range` on.
    fn content(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let state = self.state();
        let content = state
            .catalog
            .packages
            .get(id)
            .ok_or_else(no_package)?
            .content
            .clone();
        let (length, tag) = (content.len(), format!("\"{}\"", hash(&content)));
        let same = ["", tag.as_str()].contains(&request.header("if-range"));
        let range = request.header("range");
        let first = range
            .strip_prefix("bytes=")
            .and_then(|range| range.strip_suffix('-'));
        let first = first
            .and_then(|first| first.parse::<usize>().ok())
            .filter(|_| same);
        let (status, body, content_range) = match first {
            None => (200, content, None),
            Some(first) if first < length => {
                let range = format!("bytes {first}-{}/{length}", length - 1);
                (206, content.slice(first..), Some(range))
            }
            Some(_) => return Err(problem(416, "beyond the end")),
        };
        let remark = format!("{} bytes", body.len());
        let mut reply = Reply::empty(status)
            .with_remark(remark)
            .with_header("content-type", "application/zip");
        reply = reply
            .with_header("accept-ranges", "bytes")
            .with_header("etag", tag);
        if let Some(range) = content_range {
            reply = reply.with_header("content-range", range);
        }
        reply.body = Body::from(body);
        Ok(reply)
    }

    /// Adds a subscription; its callback is tested in the background and the result logged as `nfvo.callback_tested`.
    fn subscribe(self: &Arc<Self>, request: &Request) -> Result<Reply, Reply> {
        self.authenticate(request)?;
        let body = request.json();
        if body["callbackUri"].as_str().is_none_or(str::is_empty) {
            let message = "nfvo: a subscription without callbackUri";
            self.books.record_violation(message.to_owned());
            return Err(problem(400, message));
        }
        let id = Uuid::new_v4().to_string();
        self.state()
            .catalog
            .subscriptions
            .insert(id.clone(), body.clone());
        let (nfvo, created) = (Arc::clone(self), subscription_body(&id, &body));
        tokio::spawn(async move {
            let status = call_back(reqwest::Method::GET, &body, None).await;
            nfvo.books
                .record("nfvo", "nfvo.callback_tested", "", status);
        });
        let location = format!("/vnfpkgm/v2/subscriptions/{id}");
        Ok(Reply::json(201, &created).with_header("location", location))
    }
}

fn no_package() -> Reply {
    problem(404, "unknown package")
}

fn subscription_body(id: &str, request: &Value) -> Value {
    let link = json!({ "href": format!("/vnfpkgm/v2/subscriptions/{id}") });
    let mut body =
        json!({ "id": id, "callbackUri": request["callbackUri"], "_links": { "self": link } });
    if request["filter"].is_object() {
        body["filter"] = request["filter"].clone();
    }
    body
}

/// Calls the subscriber with its credentials; the status, 0 without a response.
async fn call_back(method: reqwest::Method, subscription: &Value, body: Option<&Value>) -> u16 {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(CALLBACK_TIMEOUT)
        .tls_certs_only([])
        .build();
    let Ok(client) = client else { return 0 };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut request = client
        .request(method, text(&subscription["callbackUri"]))
        .header("version", "2.4.0");
    let basic = &subscription["authentication"]["paramsBasic"];
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
    hex::encode(Sha256::digest(content))
}
