//! The control API, by which checkers and demos read the world's state and inject failures.
//!
//! | request | response |
//! |---|---|
//! | `GET /world` | the endpoints of all services |
//! | `GET /books` | inventory (`stock`), calls, violations |
//! | `GET /calls?after=N` | the calls with a sequence number above N |
//! | `GET /calls?last=N` | the last N calls |
//! | `GET /calls` · `/left-behind` · `/violations` · `/clusters` | one list of these |
//! | `GET /files` | every file on every host: `{"host", "path", "content"}`, in base64 |
//! | `GET /tokens` | every bearer and bootstrap token that a cluster has ever issued |
//! | `GET /nfvo` | the requests and notifications that the NFVO received, and its responses |
//! | `GET`, `POST`, `DELETE /faults` | the fault rules: list them, add one or several, delete all |
//! | `POST /actions` | `{"action": …}`: one of [`Action`] |

use std::path::PathBuf;
use std::sync::Arc;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::faults::{Faults, Rule};
use crate::hosts::Hosts;
use crate::http::{Listening, Reply, Request, Route, Server, Service};
use crate::kubernetes::Clusters;
use crate::ledger::Ledger;
use crate::nfvo::{Nfvo, Policy};
use crate::openstack::Cloud;
use crate::world::{Endpoints, World};

/// An intervention from outside the simulated services' own APIs.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "action",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum Action {
    /// Deletes a server (id or name) behind Heat's back.
    DeleteServer { server: String },
    /// Sets a server's status to ERROR.
    BreakServer { server: String },
    /// Deletes a stack (id or name) without a request to Heat.
    DeleteStack { stack: String },
    /// Powers a server's host off.
    PowerOff { server: String },
    /// Changes a user's password, which revokes the user's tokens.
    SetPassword { user: String, password: String },
    /// Servers that boot from now on accept only this login: the password, the key, or either.
    SetLogin {
        password: Option<String>,
        authorized_key: Option<String>,
    },
    /// Revokes every Keystone token; calls then fail with 401.
    RevokeTokens,
    /// Sets the quota `instances`, `network` or `port`.
    SetQuota { quota: String, value: i64 },
    /// Leaves no room for further servers in an availability zone.
    FillZone { zone: String },
    /// Deletes an object of a cluster, by its API path.
    DeleteObject { cluster: String, path: String },
    /// Merge-patches an object of a cluster, by its API path.
    EditObject {
        cluster: String,
        path: String,
        patch: Value,
    },
    /// Applies manifests to a cluster, as `kubectl apply` does.
    Apply { cluster: String, manifests: String },
    /// Makes images work that could not be pulled or that crashed.
    MendImages { cluster: String },
    /// Disconnects the machine of a cluster's node (`cut`), or reconnects it.
    CutNode {
        cluster: String,
        node: String,
        cut: bool,
    },
    /// Sets how the NFVO decides from now on.
    SetNfvo { policy: Policy },
    /// Revokes every token that the NFVO issued.
    RevokeNfvoTokens,
    /// Onboards a package (the path of a local archive) at the NFVO and notifies subscribers.
    OfferPackage {
        vnf_pkg_id: String,
        vnfd_id: String,
        path: PathBuf,
    },
    /// Enables or disables a package at the NFVO and notifies subscribers.
    SetPackage {
        vnf_pkg_id: String,
        operational_state: String,
    },
    /// Deletes a package at the NFVO and notifies subscribers.
    WithdrawPackage { vnf_pkg_id: String },
    /// Drops all package subscriptions at the NFVO.
    ForgetSubscriptions,
}

/// Injects no faults into its own calls and does not log them.
struct Control {
    endpoints: Endpoints,
    books: Arc<Ledger>,
    faults: Arc<Faults>,
    cloud: Arc<Cloud>,
    clusters: Arc<Clusters>,
    hosts: Arc<Hosts>,
    nfvo: Arc<Nfvo>,
}

/// Serves until the returned handle is dropped.
pub(crate) fn serve(listener: TcpListener, world: &World) -> Listening {
    let control = Control {
        endpoints: world.endpoints().clone(),
        books: world.ledger().clone(),
        faults: world.faults().clone(),
        cloud: world.cloud().clone(),
        clusters: world.clusters().clone(),
        hosts: world.hosts().clone(),
        nfvo: world.nfvo().clone(),
    };
    let server = Server {
        service: Arc::new(control),
        books: Ledger::new(),
        faults: Faults::new(),
    };
    crate::http::serve(listener, None, server)
}

impl Service for Control {
    fn name(&self) -> &'static str {
        "control"
    }

    fn failure(&self, status: u16) -> Reply {
        refuse(status, "failed")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let answer = match (&request.method, segments.as_slice()) {
            (&Method::GET, ["world"]) => json!(self.endpoints),
            (&Method::GET, ["books"]) => {
                json!({ "stock": self.books.inventory(), "calls": self.books.calls(), "violations": self.books.violations() })
            }
            (&Method::GET, ["calls"]) => {
                let number = |name| request.param(name).and_then(|text| text.parse().ok());
                match number("last") {
                    Some(count) => json!(self.books.last_calls(count)),
                    None => json!(self.books.calls_after(number("after").unwrap_or(0))),
                }
            }
            (&Method::GET, ["left-behind"]) => json!(self.books.left_behind()),
            (&Method::GET, ["violations"]) => json!(self.books.violations()),
            (&Method::GET, ["clusters"]) => json!(self.clusters.list()),
            (&Method::GET, ["files"]) => json!(self.hosts.all_files()),
            (&Method::GET, ["nfvo"]) => self.nfvo.report(),
            (&Method::GET, ["tokens"]) => json!(self.clusters.tokens()),
            (&Method::GET, ["faults"]) => self
                .faults
                .rules()
                .into_iter()
                .map(|(rule, seen)| json!({ "rule": rule, "seen": seen }))
                .collect(),
            (&Method::DELETE, ["faults"]) => {
                self.faults.clear();
                json!([])
            }
            (&Method::POST, ["faults"]) => {
                return Some(Route::new("control.faults", "", || self.arm(request)));
            }
            (&Method::POST, ["actions"]) => {
                return Some(Route::new("control.actions", "", || self.act(request)));
            }
            _ => {
                return Some(Route::new("control.unknown", "", || {
                    Err(refuse(404, "unknown path; `GET /world` lists the services"))
                }));
            }
        };
        Some(Route::new("control.read", "", move || {
            Ok(Reply::json(200, &answer))
        }))
    }
}

impl Control {
    fn arm(&self, request: &Request) -> Result<Reply, Reply> {
        let body = request.json();
        let rules = if body.is_array() { body } else { json!([body]) };
        let rules: Vec<Rule> = serde_json::from_value(rules)
            .map_err(|why| refuse(400, &format!("invalid fault rule: {why}")))?;
        let armed = rules.len();
        for rule in rules {
            self.faults.add(rule);
        }
        Ok(Reply::json(200, &json!({ "armed": armed })))
    }

    fn act(&self, request: &Request) -> Result<Reply, Reply> {
        let action: Action = serde_json::from_slice(&request.body)
            .map_err(|why| refuse(400, &format!("invalid action: {why}")))?;
        let done = match action {
            Action::DeleteServer { server } => self.cloud.delete_server(&server),
            Action::BreakServer { server } => self.cloud.break_server(&server),
            Action::DeleteStack { stack } => self.cloud.delete_stack(&stack),
            Action::PowerOff { server } => self.cloud.power_off(&server),
            Action::SetPassword { user, password } => self.cloud.set_password(&user, &password),
            Action::SetLogin {
                password,
                authorized_key,
            } => {
                self.cloud.set_login(password, authorized_key);
                true
            }
            Action::RevokeTokens => {
                self.cloud.revoke_tokens();
                true
            }
            Action::FillZone { zone } => {
                self.cloud.fill_zone(&zone);
                true
            }
            Action::SetNfvo { policy } => {
                self.nfvo.set_policy(policy);
                true
            }
            Action::RevokeNfvoTokens => {
                self.nfvo.revoke_tokens();
                true
            }
            action @ (Action::OfferPackage { .. }
            | Action::SetPackage { .. }
            | Action::WithdrawPackage { .. }
            | Action::ForgetSubscriptions) => self.act_on_packages(action)?,
            Action::SetQuota { quota, value } => {
                self.cloud.set_quota(&quota, value);
                true
            }
            action @ (Action::DeleteObject { .. }
            | Action::EditObject { .. }
            | Action::Apply { .. }
            | Action::MendImages { .. }
            | Action::CutNode { .. }) => self.act_on_cluster(action)?,
        };
        if done {
            Ok(Reply::json(200, &Value::Bool(true)))
        } else {
            Err(refuse(404, "the target of the action does not exist"))
        }
    }

    /// False if there is no such cluster or object, and for any other action.
    fn act_on_cluster(&self, action: Action) -> Result<bool, Reply> {
        let get = |cluster: &str| self.clusters.get(cluster);
        Ok(match action {
            Action::DeleteObject { cluster, path } => {
                get(&cluster).is_some_and(|cluster| cluster.delete(&path))
            }
            Action::EditObject {
                cluster,
                path,
                patch,
            } => get(&cluster).is_some_and(|cluster| cluster.merge(&path, &patch)),
            Action::Apply { cluster, manifests } => {
                let cluster = get(&cluster).ok_or_else(|| refuse(404, "unknown cluster"))?;
                cluster
                    .apply(&manifests)
                    .map_err(|why| refuse(400, &format!("{why:#}")))?;
                true
            }
            Action::MendImages { cluster } => get(&cluster).is_some_and(|cluster| {
                cluster.fix_images();
                true
            }),
            Action::CutNode { cluster, node, cut } => {
                get(&cluster).is_some_and(|cluster| cluster.cut_node(&node, cut))
            }
            _ => false,
        })
    }

    /// False if there is no such package, and for any other action.
    fn act_on_packages(&self, action: Action) -> Result<bool, Reply> {
        Ok(match action {
            Action::OfferPackage {
                vnf_pkg_id,
                vnfd_id,
                path,
            } => {
                let content = std::fs::read(&path)
                    .map_err(|why| refuse(400, &format!("`{}`: {why}", path.display())))?;
                self.nfvo.onboard(&vnf_pkg_id, &vnfd_id, content);
                true
            }
            Action::SetPackage {
                vnf_pkg_id,
                operational_state,
            } => self.nfvo.set_package(&vnf_pkg_id, &operational_state),
            Action::WithdrawPackage { vnf_pkg_id } => self.nfvo.delete_package(&vnf_pkg_id),
            Action::ForgetSubscriptions => {
                self.nfvo.forget_subscriptions();
                true
            }
            _ => false,
        })
    }
}

fn refuse(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({ "status": status, "message": message }))
}
