//! Starts, stops and finds the clusters of a world.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::auth::Tokens;
use super::controllers::Controllers;
use super::objects::Store;
use super::tls::Pki;
use super::{Cluster, api, lock, seeds};
use crate::faults::Faults;
use crate::http::{Server, serve};
use crate::ledger::{InventorySource, Ledger};
use crate::time::pause;

/// A cluster to start: its name and address.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Unique name, as in the inventory.
    pub name: String,
    /// The address that the API server listens on.
    pub address: IpAddr,
    /// Port of the API server; 0 chooses a free one.
    pub port: u16,
}

/// The running clusters of a world.
pub struct Clusters {
    books: Arc<Ledger>,
    faults: Arc<Faults>,
    pod_start: Mutex<Duration>,
    running: Mutex<BTreeMap<String, Arc<Cluster>>>,
}

impl Clusters {
    /// A registry in which no cluster runs.
    pub fn new(books: Arc<Ledger>, faults: Arc<Faults>) -> Self {
        Self {
            books,
            faults,
            pod_start: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// Sets the time that a pod takes to start, for clusters started from now on.
    pub fn set_pod_start(&self, duration: Duration) {
        *lock(&self.pod_start) = duration;
    }

    /// Starts an API server with the system objects and no nodes.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound or the name is taken.
    pub async fn start(&self, spec: ClusterSpec) -> anyhow::Result<Arc<Cluster>> {
        if self.get(&spec.name).is_some() {
            return Err(anyhow!("a cluster `{}` is running already", spec.name));
        }
        let at = SocketAddr::new(spec.address, spec.port);
        let listener = TcpListener::bind(at)
            .await
            .with_context(|| format!("cannot bind the API server to `{at}`"))?;
        let at = listener.local_addr()?;
        let (pki, tls) = Pki::new(at.ip())?;
        let ca_pem = pki.ca_pem().to_owned();
        let mut store = Store::new();
        let seeded = seeds::create_system_objects(&mut store);
        let cluster = Arc::new(Cluster {
            name: spec.name.clone(),
            address: at,
            pki: Mutex::new(pki),
            store: Mutex::new(store),
            tokens: Mutex::new(Tokens::new()),
            seeded,
            has_network: AtomicBool::new(false),
            is_standalone: AtomicBool::new(false),
            is_available: AtomicBool::new(true),
            tls,
            books: Arc::clone(&self.books),
            faults: Arc::clone(&self.faults),
            listening: Mutex::default(),
            controller: Mutex::default(),
        });
        listen(&cluster, listener);
        let controllers = Controllers::new(*lock(&self.pod_start), ca_pem);
        *lock(&cluster.controller) = Some(tokio::spawn(run_controllers(
            Arc::downgrade(&cluster),
            controllers,
        )));
        let shelf: Arc<dyn InventorySource> = cluster.clone();
        self.books.add_source(Arc::downgrade(&shelf));
        lock(&self.running).insert(spec.name, Arc::clone(&cluster));
        Ok(cluster)
    }

    /// Stops a cluster and deletes its objects; does nothing if it does not exist.
    pub async fn stop(&self, name: &str) {
        let cluster = lock(&self.running).remove(name);
        if let Some(cluster) = cluster {
            cluster.stop();
            // The port is free only once the listening task has ended.
            let listening = lock(&cluster.listening).take();
            if let Some(listening) = listening {
                listening.stop().await;
            }
        }
    }

    /// The running cluster of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Cluster>> {
        lock(&self.running).get(name).cloned()
    }

    /// Each cluster's address, nodes and number of objects.
    pub fn list(&self) -> Vec<Value> {
        let running: Vec<Arc<Cluster>> = lock(&self.running).values().cloned().collect();
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

    /// Every token that the running clusters have issued, for checkers.
    pub fn tokens(&self) -> Vec<String> {
        let running: Vec<Arc<Cluster>> = lock(&self.running).values().cloned().collect();
        running
            .iter()
            .flat_map(|cluster| cluster.tokens().issued())
            .collect()
    }

    /// Stops every cluster without waiting for its port.
    pub(crate) fn stop_all(&self) {
        for cluster in std::mem::take(&mut *lock(&self.running)).into_values() {
            cluster.stop();
            lock(&cluster.listening).take();
        }
    }
}

fn listen(cluster: &Arc<Cluster>, listener: TcpListener) {
    let server = Server {
        service: Arc::new(api::Api(Arc::clone(cluster))),
        books: Arc::clone(&cluster.books),
        faults: Arc::clone(&cluster.faults),
    };
    *lock(&cluster.listening) = Some(serve(listener, Some(cluster.tls.clone()), server));
}

/// Runs the controllers after each write, until the cluster is dropped.
async fn run_controllers(cluster: Weak<Cluster>, mut controllers: Controllers) {
    let Some(mut changes) = cluster.upgrade().map(|cluster| cluster.store().subscribe()) else {
        return;
    };
    loop {
        let due = {
            let Some(cluster) = cluster.upgrade() else {
                return;
            };
            let mut store = cluster.store();
            let due = controllers.reconcile(&mut store, cluster.has_network.load(Ordering::SeqCst));
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
