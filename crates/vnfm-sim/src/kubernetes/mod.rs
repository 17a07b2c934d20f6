//! Simulated clusters, each an API server with TLS, tokens and RBAC, and its controllers.
//!
//! | file | content |
//! |---|---|
//! | `clusters.rs`, `inventory.rs` | starting and stopping clusters; their inventory entries |
//! | `objects.rs` | kinds, objects, versions, the change log |
//! | `api.rs`, `target.rs`, `verbs.rs`, `discovery.rs`, `watch.rs` | routes, verbs, discovery, watches |
//! | `admit.rs`, `apply.rs` | validation and defaults; server-side apply and its conflicts |
//! | `auth.rs` | bearer tokens, RBAC |
//! | `controllers.rs`, `workloads.rs`, `facts.rs` | pods, namespaces, garbage collection; workloads |
//! | `networks.rs` | secondary networks of pods, as Multus attaches them |
//! | `volumes.rs` | claims and volume snapshots |
//! | `quota.rs` | object count quotas |
//! | `nodes.rs`, `disruption.rs` | silent, cordoned and deleted nodes; evictions and disruption budgets |
//!
//! A cluster starts with the system objects of a real one. Its nodes are Ready once a network is
//! applied (any `DaemonSet` except `kube-proxy`). An image whose name contains `no-such` cannot be pulled, one with
//! `crash-loop` crashes repeatedly, until [`Cluster::fix_images`].

mod admit;
mod api;
mod apply;
mod auth;
mod clusters;
mod controllers;
mod discovery;
mod disruption;
mod extensions;
mod facts;
mod inventory;
mod networks;
mod nodes;
mod objects;
mod quota;
mod seeds;
mod snapshot;
mod target;
mod tls;
mod verbs;
mod volumes;
mod watch;
mod workloads;
mod writes;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::faults::Faults;
use crate::http::Listening;
use crate::ledger::Ledger;
use auth::Tokens;
pub use clusters::{ClusterSpec, Clusters};
use objects::{Key, Store};
use target::locate;
use tls::Pki;

/// A running cluster: API server, controllers and tokens.
pub struct Cluster {
    name: String,
    address: SocketAddr,
    pki: Mutex<Pki>,
    store: Mutex<Store>,
    tokens: Mutex<Tokens>,
    seeded: BTreeSet<Key>,
    /// Whether nodes are Ready without a network `DaemonSet`.
    has_network: AtomicBool,
    /// Whether the cluster is part of the world, not left behind by a test.
    is_standalone: AtomicBool,
    /// Whether its API server serves: its etcd has a quorum.
    is_available: AtomicBool,
    tls: TlsAcceptor,
    books: Arc<Ledger>,
    faults: Arc<Faults>,
    listening: Mutex<Option<Listening>>,
    controller: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// The name in its [`ClusterSpec`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the API server serve, or answer 503 as without a quorum of etcd.
    pub(crate) fn set_available(&self, available: bool) {
        self.is_available.store(available, Ordering::SeqCst);
    }

    pub(crate) fn is_available(&self) -> bool {
        self.is_available.load(Ordering::SeqCst)
    }

    /// URL of the API server: `https://ADDRESS:PORT`.
    pub fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Certificate of the cluster's CA, PEM.
    pub fn ca_pem(&self) -> String {
        lock(&self.pki).ca_pem().to_owned()
    }

    /// Certificate of the CA that will replace it, PEM.
    pub(crate) fn next_ca(&self) -> anyhow::Result<String> {
        lock(&self.pki).next_pem()
    }

    /// From now on the API server shows a certificate by the next CA, and the next CA's by the old one.
    pub(crate) fn use_next_ca(&self) -> anyhow::Result<()> {
        lock(&self.pki).switch()
    }

    /// The UID of the namespace `kube-system`, which identifies the cluster.
    pub fn uid(&self) -> String {
        let store = self.store();
        let found = store
            .get(&Key::new("namespaces", "", "kube-system"))
            .and_then(|n| n["metadata"]["uid"].as_str().map(str::to_owned));
        found.unwrap_or_default()
    }

    /// A kubeconfig with the administrator's token.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(self.ca_pem());
        let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "clusters": [{ "name": self.name, "cluster": { "server": self.server(), "certificate-authority-data": ca } }],
            "users": [{ "name": "admin", "user": { "token": self.admin_token() } }],
            "contexts": [{ "name": "admin", "context": { "cluster": self.name, "user": "admin" } }] });
        serde_yaml::to_string(&config).unwrap_or_else(|error| format!("# not written: {error}\n"))
    }

    /// The administrator's bearer token, for a kubeconfig.
    pub fn admin_token(&self) -> String {
        self.tokens().admin.clone()
    }

    /// Patches the object at an API path as `kubectl patch --type merge` does; false if it does not exist.
    pub fn merge(&self, path: &str, change: &Value) -> bool {
        let mut store = self.store();
        let Some((kind, namespace, name)) = locate(&store, path) else {
            return false;
        };
        let key = Key::new(&kind, &namespace, &name);
        let Some(old) = store.stored(&key).cloned() else {
            return false;
        };
        let mut body = (*old.body).clone();
        apply::merge_patch(&mut body, change);
        let owners = old.owners.after_write("kubectl-patch", &old.body, &body);
        writes::write(&mut store, &key, body, owners);
        true
    }

    /// Makes it a standalone cluster of the world, with a network and one node.
    pub fn make_standalone(&self, node: &str, address: IpAddr) {
        self.has_network.store(true, Ordering::SeqCst);
        self.is_standalone.store(true, Ordering::SeqCst);
        self.add_node(node, &address.to_string());
    }

    /// Applies one or several YAML documents as `kubectl` does; returns `KIND/NAME` of each.
    ///
    /// # Errors
    ///
    /// The server's message if it refuses a document; earlier documents stay applied.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<Vec<String>> {
        use serde::Deserialize as _;
        let mut applied = Vec::new();
        for document in serde_yaml::Deserializer::from_str(manifests) {
            let body = Value::deserialize(document).context("error parsing the manifest")?;
            if body.is_null() {
                continue;
            }
            let mut store = self.store();
            let kind = store.kind_of(&body);
            let kind = kind.ok_or_else(|| {
                anyhow!(
                    "no matches for kind {} in version {}",
                    body["kind"],
                    body["apiVersion"]
                )
            })?;
            let name = body["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let namespace = if kind.namespaced {
                body["metadata"]["namespace"].as_str().unwrap_or("default")
            } else {
                ""
            };
            writes::apply(
                &mut store,
                &kind,
                (namespace, &name),
                ("kubectl", true, &body),
            )
            .map_err(|reply| anyhow!(reply.detail))?;
            applied.push(format!("{}/{name}", kind.qualified()));
        }
        Ok(applied)
    }

    /// The object or list at an API path.
    pub fn object(&self, path: &str) -> Option<Value> {
        let store = self.store();
        let (kind, namespace, name) = locate(&store, path)?;
        if name.is_empty() {
            let items: Vec<Value> = store
                .list(&kind, &namespace)
                .map(|(_, body)| (**body).clone())
                .collect();
            return Some(json!({ "kind": "List", "apiVersion": "v1", "items": items }));
        }
        store
            .get(&Key::new(&kind, &namespace, &name))
            .map(|body| (**body).clone())
    }

    /// Makes images work that could not be pulled or that crashed.
    pub fn fix_images(&self) {
        self.store().fix_images();
    }

    /// Deletes the object at an API path; false if it does not exist.
    pub fn delete(&self, path: &str) -> bool {
        let mut store = self.store();
        let Some((kind, namespace, name)) = locate(&store, path) else {
            return false;
        };
        store
            .delete(&Key::new(&kind, &namespace, &name), false, false)
            .is_some()
    }

    /// Issues a service account token for a year; empty if the account does not exist.
    pub fn token_for(&self, namespace: &str, account: &str) -> String {
        let store = self.store();
        let issued = self
            .tokens()
            .issue(&store, namespace, account, 365 * 24 * 3600);
        issued.map(|(token, _)| token).unwrap_or_default()
    }

    /// Adds a bootstrap token (`id.secret`) as a secret in `kube-system`, as in a real cluster.
    pub fn bootstrap_token_add(&self, token: &str) {
        self.tokens().bootstrap.push(token.to_owned());
        let (id, secret) = token.split_once('.').unwrap_or((token, ""));
        seeds::bootstrap_token(&mut self.store(), (id, secret));
    }

    /// Revokes a bootstrap token, given its id or the full token.
    pub fn bootstrap_token_remove(&self, token: &str) {
        self.store().remove(&bootstrap_key(token));
    }

    /// Whether a bootstrap token, given its id or the full token, is valid.
    pub fn bootstrap_token_valid(&self, token: &str) -> bool {
        use base64::Engine as _;
        let store = self.store();
        let Some(known) = store.get(&bootstrap_key(token)) else {
            return false;
        };
        let Some((_, secret)) = token.split_once('.') else {
            return true;
        };
        known["data"]["token-secret"] == base64::engine::general_purpose::STANDARD.encode(secret)
    }

    /// Drops the change log, as etcd's compaction does: watches from older versions get a 410.
    pub fn compact(&self) {
        self.store().compact();
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        lock(&self.tokens)
    }

    fn stop(&self) {
        let controller = lock(&self.controller).take();
        if let Some(controller) = controller {
            controller.abort();
        }
        // The inventory must no longer list its objects.
        *self.store() = Store::new();
    }

    /// Fills secrets that request a service account token.
    fn fill_token_secrets(&self, store: &mut Store) {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let waiting = |body: &Value| {
            body["type"] == "kubernetes.io/service-account-token" && body["data"]["token"].is_null()
        };
        let secrets: Vec<(Key, String)> =
            (store.list("secrets", "").filter(|(_, body)| waiting(body)))
                .map(|(key, body)| {
                    (
                        key.clone(),
                        body["metadata"]["annotations"]["kubernetes.io/service-account.name"]
                            .as_str()
                            .unwrap_or_default()
                            .to_owned(),
                    )
                })
                .collect();
        for (key, account) in secrets {
            let issued = self
                .tokens()
                .issue(store, &key.namespace, &account, 10 * 365 * 24 * 3600);
            if let Some((token, _)) = issued {
                let data = json!({ "token": encode(&token), "ca.crt": encode(&self.ca_pem()), "namespace": encode(&key.namespace) });
                store.update(&key, |body| body["data"] = data);
            }
        }
    }
}

fn bootstrap_key(token: &str) -> Key {
    let id = token.split('.').next().unwrap_or_default();
    Key::new("secrets", "kube-system", &format!("bootstrap-token-{id}"))
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
