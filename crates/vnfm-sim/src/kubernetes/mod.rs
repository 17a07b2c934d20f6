//! Simulated clusters: an API server each, with TLS, tokens and RBAC, and the controllers behind it.
//!
//! | file | what |
//! |---|---|
//! | `objects.rs` | kinds, objects, versions, the log of changes |
//! | `api.rs`, `discovery.rs`, `watch.rs` | the paths, the verbs, the streams |
//! | `admit.rs`, `apply.rs` | validation and defaults; server-side apply and its conflicts |
//! | `auth.rs` | bearer tokens, RBAC |
//! | `controllers.rs`, `workloads.rs` | from workloads to pods that are Ready, namespaces, garbage |
//! | `quota.rs` | how many objects a namespace may hold |
//! | `nodes.rs`, `disruption.rs` | nodes that fall silent, are cordoned, deleted; evictions and their budgets |
//!
//! A cluster begins with the system objects of a real one. Its nodes are Ready once a network is
//! applied (any `DaemonSet` beside `kube-proxy`); an image whose name contains `no-such` cannot be pulled, one with
//! `crash-loop` ends again and again, until [`Cluster::mend_images`].

mod admit;
mod api;
mod apply;
mod auth;
mod controllers;
mod discovery;
mod disruption;
mod nodes;
mod objects;
mod quota;
mod seeds;
mod tls;
mod watch;
mod workloads;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::books::{Books, Entry, Shelf};
use crate::faults::Faults;
use crate::http::{Desk, Listening, serve};
use crate::time::pause;
use auth::Tokens;
use controllers::Controllers;
use objects::{Key, Store};

/// A cluster to be started.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Its name in the books.
    pub name: String,
    /// Where its API server listens.
    pub address: IpAddr,
    /// At which port; 0 takes a free one.
    pub port: u16,
}

/// All clusters of a world.
pub struct Clusters {
    books: Arc<Books>,
    faults: Arc<Faults>,
    pod_start: Mutex<Duration>,
    running: Mutex<BTreeMap<String, Arc<Cluster>>>,
}

impl Clusters {
    /// No clusters yet.
    pub fn new(books: Arc<Books>, faults: Arc<Faults>) -> Self {
        Self {
            books,
            faults,
            pod_start: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// How long a pod takes to start, in clusters that are started from now on.
    pub fn set_pod_start(&self, duration: Duration) {
        *hold(&self.pod_start) = duration;
    }

    /// Starts a cluster: an API server with the system objects, no nodes yet.
    ///
    /// # Errors
    ///
    /// Where the address cannot be bound, or the name is taken.
    pub async fn start(&self, spec: ClusterSpec) -> anyhow::Result<Arc<Cluster>> {
        if self.get(&spec.name).is_some() {
            return Err(anyhow!("a cluster `{}` is running already", spec.name));
        }
        let at = SocketAddr::new(spec.address, spec.port);
        let listener = TcpListener::bind(at)
            .await
            .with_context(|| format!("cannot bind the API server to `{at}`"))?;
        let at = listener.local_addr()?;
        let (ca_pem, tls) = tls::certificates(at.ip())?;
        let mut store = Store::new();
        let seeded = seeds::plant(&mut store);
        let cluster = Arc::new(Cluster {
            name: spec.name.clone(),
            at,
            ca_pem: ca_pem.clone(),
            store: Mutex::new(store),
            tokens: Mutex::new(Tokens::new()),
            seeded,
            network: AtomicBool::new(false),
            belongs: AtomicBool::new(false),
            tls,
            books: Arc::clone(&self.books),
            faults: Arc::clone(&self.faults),
            listening: Mutex::default(),
            controller: Mutex::default(),
        });
        cluster.listen(listener);
        let controllers = Controllers::new(*hold(&self.pod_start), ca_pem);
        *hold(&cluster.controller) =
            Some(tokio::spawn(control(Arc::downgrade(&cluster), controllers)));
        let shelf: Arc<dyn Shelf> = cluster.clone();
        self.books.shelve(Arc::downgrade(&shelf));
        hold(&self.running).insert(spec.name, Arc::clone(&cluster));
        Ok(cluster)
    }

    /// Ends a cluster with everything in it; nothing happens if there is none of that name.
    pub async fn stop(&self, name: &str) {
        let cluster = hold(&self.running).remove(name);
        if let Some(cluster) = cluster {
            cluster.end();
            // The port is free when the task that listens has ended.
            let listening = hold(&cluster.listening).take();
            if let Some(listening) = listening {
                listening.end().await;
            }
        }
    }

    /// A cluster by name.
    pub fn get(&self, name: &str) -> Option<Arc<Cluster>> {
        hold(&self.running).get(name).cloned()
    }

    /// Every cluster with its address, nodes and number of objects.
    pub fn list(&self) -> Vec<Value> {
        let running: Vec<Arc<Cluster>> = hold(&self.running).values().cloned().collect();
        let show = |cluster: &Arc<Cluster>| {
            let store = cluster.store();
            let nodes: Vec<&str> = store
                .list("nodes", "")
                .map(|(key, _)| key.name.as_str())
                .collect();
            json!({ "name": cluster.name, "server": cluster.server(), "nodes": nodes, "objects": store.all().count() })
        };
        running.iter().map(show).collect()
    }

    /// Every token that the clusters have ever given, for checkers.
    pub fn tokens(&self) -> Vec<String> {
        let running: Vec<Arc<Cluster>> = hold(&self.running).values().cloned().collect();
        running
            .iter()
            .flat_map(|cluster| cluster.tokens().given())
            .collect()
    }

    /// Ends every cluster.
    pub(crate) fn stop_all(&self) {
        for cluster in std::mem::take(&mut *hold(&self.running)).into_values() {
            cluster.end();
            hold(&cluster.listening).take();
        }
    }
}

/// One cluster.
pub struct Cluster {
    name: String,
    at: SocketAddr,
    ca_pem: String,
    store: Mutex<Store>,
    tokens: Mutex<Tokens>,
    seeded: BTreeSet<Key>,
    /// The cluster has a network from the beginning.
    network: AtomicBool,
    /// The cluster belongs to the world: it is not left behind.
    belongs: AtomicBool,
    tls: TlsAcceptor,
    books: Arc<Books>,
    faults: Arc<Faults>,
    listening: Mutex<Option<Listening>>,
    controller: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `https://ADDRESS:PORT`
    pub fn server(&self) -> String {
        format!("https://{}", self.at)
    }

    /// The certificate of its CA.
    pub fn ca_pem(&self) -> String {
        self.ca_pem.clone()
    }

    /// The UID of `kube-system`: the cluster's identity.
    pub fn uid(&self) -> String {
        let store = self.store();
        let found = store
            .get(&Key::new("namespaces", "", "kube-system"))
            .and_then(|n| n["metadata"]["uid"].as_str().map(str::to_owned));
        found.unwrap_or_default()
    }

    /// An administrator's kubeconfig, as text.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
        let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "clusters": [{ "name": self.name, "cluster": { "server": self.server(), "certificate-authority-data": ca } }],
            "users": [{ "name": "admin", "user": { "token": self.admin_token() } }],
            "contexts": [{ "name": "admin", "context": { "cluster": self.name, "user": "admin" } }] });
        serde_yaml::to_string(&config).unwrap_or_default()
    }

    /// The administrator's token.
    pub fn admin_token(&self) -> String {
        self.tokens().admin.clone()
    }

    /// Changes what lies at an API path as `kubectl patch --type merge` would; whether there was something.
    pub fn merge(&self, path: &str, change: &Value) -> bool {
        let mut store = self.store();
        let Some((kind, namespace, name)) = api::locate(&store, path) else {
            return false;
        };
        let key = Key::new(&kind, &namespace, &name);
        let Some(old) = store.stored(&key).cloned() else {
            return false;
        };
        let mut body = (*old.body).clone();
        apply::merge_patch(&mut body, change);
        let owners = old.owners.wrote("kubectl-patch", &old.body, &body);
        writes::write(&mut store, &key, body, owners);
        true
    }

    /// Makes the cluster the world's own: it has a network and one node for work.
    pub fn furnish(&self, node: &str, address: IpAddr) {
        self.network.store(true, Ordering::SeqCst);
        self.belongs.store(true, Ordering::SeqCst);
        self.add_node(node, &address.to_string());
    }

    /// Applies manifests (one or several documents) as `kubectl` would; what was applied.
    ///
    /// # Errors
    ///
    /// With the server's words where a document is refused.
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

    /// What lies at an API path: an object, or a list.
    pub fn get_json(&self, path: &str) -> Option<Value> {
        let store = self.store();
        let (kind, namespace, name) = api::locate(&store, path)?;
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

    /// Images that could not be pulled or that crashed work from now on.
    pub fn mend_images(&self) {
        self.store().mend();
    }

    /// Deletes what lies at an API path; whether there was something.
    pub fn delete(&self, path: &str) -> bool {
        let mut store = self.store();
        let Some((kind, namespace, name)) = api::locate(&store, path) else {
            return false;
        };
        store
            .delete(&Key::new(&kind, &namespace, &name), false, false)
            .is_some()
    }

    /// A token of a service account, for a year; empty if there is no such account.
    pub fn token_for(&self, namespace: &str, account: &str) -> String {
        let store = self.store();
        let issued = self
            .tokens()
            .issue(&store, namespace, account, 365 * 24 * 3600);
        issued.map(|(token, _)| token).unwrap_or_default()
    }

    /// A bootstrap token (`id.secret`) becomes valid: a secret of `kube-system`, as in a real cluster.
    pub fn bootstrap_token_add(&self, token: &str) {
        self.tokens().bootstraps.push(token.to_owned());
        let (id, secret) = token.split_once('.').unwrap_or((token, ""));
        seeds::bootstrap_token(&mut self.store(), (id, secret));
    }

    /// A bootstrap token, by its id or as a whole, is no longer valid.
    pub fn bootstrap_token_remove(&self, token: &str) {
        self.store().remove(&bootstrap_key(token));
    }

    /// Whether a bootstrap token, by its id or as a whole, is valid.
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

    /// Forgets the log of changes, as etcd's compaction does: watches from older versions get 410.
    pub fn compact(&self) {
        self.store().compact();
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        hold(&self.store)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        hold(&self.tokens)
    }

    fn listen(self: &Arc<Self>, listener: TcpListener) {
        let desk = Desk {
            neighbour: Arc::new(api::Api(Arc::clone(self))),
            books: Arc::clone(&self.books),
            faults: Arc::clone(&self.faults),
        };
        *hold(&self.listening) = Some(serve(listener, Some(self.tls.clone()), desk));
    }

    fn end(&self) {
        let controller = hold(&self.controller).take();
        if let Some(controller) = controller {
            controller.abort();
        }
        // The books list what exists: nothing any more.
        *self.store() = Store::new();
    }

    /// Secrets that ask for a service account's token get one.
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
                let data = json!({ "token": encode(&token), "ca.crt": encode(&self.ca_pem), "namespace": encode(&key.namespace) });
                store.update(&key, |body| body["data"] = data);
            }
        }
    }
}

impl Shelf for Cluster {
    fn entries(&self) -> Vec<Entry> {
        let store = self.store();
        if store
            .get(&Key::new("namespaces", "", "kube-system"))
            .is_none()
        {
            return Vec::new();
        }
        let belongs = self.belongs.load(Ordering::SeqCst);
        let detail = json!({ "server": self.server() });
        let mut all = vec![Entry {
            kind: "cluster".into(),
            id: self.name.clone(),
            name: self.name.clone(),
            seeded: belongs,
            detail,
        }];
        let mut own: BTreeSet<String> = BTreeSet::new();
        for (key, body) in store.all().filter(|(key, _)| self.seeded.contains(*key)) {
            own.insert(
                body["metadata"]["uid"]
                    .as_str()
                    .unwrap_or(&key.name)
                    .to_owned(),
            );
        }
        // Two rounds: what a seeded object owns, and what that owns.
        for _ in 0..2 {
            let owned = store.all().filter(|(_, body)| {
                body["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|o| o["uid"].as_str().is_some_and(|uid| own.contains(uid)))
            });
            let owned: Vec<String> = owned
                .filter_map(|(_, body)| body["metadata"]["uid"].as_str().map(str::to_owned))
                .collect();
            own.extend(owned);
        }
        for (key, body) in store.all() {
            let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
            let of_namespace =
                matches!(
                    (key.kind.as_str(), key.name.as_str()),
                    ("serviceaccounts", "default") | ("configmaps", "kube-root-ca.crt")
                ) && self
                    .seeded
                    .contains(&Key::new("namespaces", "", &key.namespace));
            let seeded = own.contains(uid)
                || of_namespace
                || matches!(key.kind.as_str(), "events" | "nodes");
            let name = if key.namespace.is_empty() {
                key.name.clone()
            } else {
                format!("{}/{}", key.namespace, key.name)
            };
            all.push(Entry {
                kind: format!("object:{}", key.kind),
                id: uid.to_owned(),
                name,
                seeded,
                detail: json!({ "cluster": self.name }),
            });
        }
        all
    }
}

fn bootstrap_key(token: &str) -> Key {
    let id = token.split('.').next().unwrap_or_default();
    Key::new("secrets", "kube-system", &format!("bootstrap-token-{id}"))
}

/// Runs the controllers whenever something was written, until the cluster is gone.
async fn control(cluster: Weak<Cluster>, mut controllers: Controllers) {
    let Some(mut changes) = cluster.upgrade().map(|cluster| cluster.store().subscribe()) else {
        return;
    };
    loop {
        let due = {
            let Some(cluster) = cluster.upgrade() else {
                return;
            };
            let mut store = cluster.store();
            let due = controllers.settle(&mut store, cluster.network.load(Ordering::SeqCst));
            cluster.fill_token_secrets(&mut store);
            changes.mark_unchanged();
            due
        };
        let wake = async {
            match due {
                Some(due) => pause(due.saturating_duration_since(Instant::now())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = wake => {}
        }
    }
}

fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
