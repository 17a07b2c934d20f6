//! The simulated OpenStack: one cloud, seven services over it.
//!
//! The cloud is one locked state (`state.rs`); the services are HTTP APIs to it, and
//! `engine.rs` creates and deletes stacks and servers. For each ACTIVE server with an address in the world's
//! block a simulated host boots, as on a hypervisor.

mod barbican;
mod engine;
mod functions;
mod glance;
mod heat;
mod interruptions;
mod keystone;
mod networks;
mod neutron;
mod nova;
mod records;
mod resources;
mod scope;
mod servers;
mod stack_requests;
mod stacks;
mod state;
mod teardown;
mod template;
mod trunks;
mod types;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::faults::{Fault, Faults};
use crate::hosts::{HostSpec, Hosts, User as HostUser};
use crate::http::{Listening, Reply, Request, Server, Service, serve};
use crate::ledger::{Entry, InventorySource, Ledger};
use crate::time::pause;
pub use state::PASSWORD;
use state::{Endpoint, KINDS, State, Token, new_id, text};

/// Delays and lifetimes; by default nothing waits.
#[derive(Debug, Clone)]
pub struct CloudOptions {
    /// Time that Nova takes to build a server.
    pub server_build: Duration,
    /// Time that a host takes to boot once its server is ACTIVE.
    pub boot: Duration,
    /// Lifetime of a Keystone token.
    pub token_life: Duration,
}

impl Default for CloudOptions {
    fn default() -> Self {
        Self {
            server_build: Duration::ZERO,
            boot: Duration::ZERO,
            token_life: Duration::from_hours(1),
        }
    }
}

/// A running cloud: Keystone, Heat, Nova, Neutron, Glance and Barbican.
pub struct Cloud {
    pub(crate) books: Arc<Ledger>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) options: CloudOptions,
    pub(crate) superseded: watch::Sender<u64>,
    block: [u8; 2],
    /// Password and key of servers that boot from now on, if set by [`Cloud::set_login`].
    login: Mutex<Option<(Option<String>, Option<String>)>>,
    state: Mutex<State>,
    stack_locks: Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>,
    addresses: OnceLock<BTreeMap<&'static str, String>>,
    listening: Mutex<Vec<Listening>>,
}

/// Type, name, and the path of its endpoint in the catalog.
const SERVICES: [(&str, &str, &str); 7] = [
    ("identity", "keystone", "/v3"),
    ("orchestration", "heat", "/v1/%(tenant_id)s"),
    ("compute", "nova", "/v2.1"),
    ("network", "neutron", ""),
    ("image", "glance", ""),
    ("volumev3", "cinder", "/v3/%(tenant_id)s"),
    ("key-manager", "barbican", ""),
];

impl Cloud {
    /// Starts every service on a free port of 127.0.0.1.
    pub(crate) async fn open(
        hosts: Arc<Hosts>,
        books: Arc<Ledger>,
        faults: Arc<Faults>,
        (block, options): ([u8; 2], CloudOptions),
    ) -> anyhow::Result<Arc<Self>> {
        let cloud = Arc::new(Self {
            books: Arc::clone(&books),
            faults: Arc::clone(&faults),
            hosts,
            options,
            superseded: watch::Sender::new(0),
            block,
            login: Mutex::default(),
            state: Mutex::new(State::seeded(block)),
            stack_locks: Mutex::default(),
            addresses: OnceLock::new(),
            listening: Mutex::default(),
        });
        let mut addresses = BTreeMap::new();
        for (service, name, path) in SERVICES {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = format!("http://{}", listener.local_addr()?);
            let server = Server {
                service: cloud.service(service),
                books: Arc::clone(&books),
                faults: Arc::clone(&faults),
            };
            let listening = serve(listener, None, server);
            lock(&cloud.listening).push(listening);
            for interface in ["public", "internal", "admin"] {
                cloud.state().endpoints.push(Endpoint {
                    id: new_id().replace('-', ""),
                    service,
                    name,
                    interface,
                    url: format!("{address}{path}"),
                });
            }
            addresses.insert(service, address);
        }
        _ = cloud.addresses.set(addresses);
        let shelf: Arc<dyn InventorySource> = cloud.clone();
        books.add_source(Arc::downgrade(&shelf));
        Ok(cloud)
    }

    fn service(self: &Arc<Self>, service: &str) -> Arc<dyn Service> {
        let cloud = Arc::clone(self);
        match service {
            "identity" => Arc::new(keystone::Keystone(cloud)),
            "orchestration" => Arc::new(heat::Heat(cloud)),
            "compute" => Arc::new(nova::Nova(cloud)),
            "network" => Arc::new(neutron::Neutron(cloud)),
            "image" => Arc::new(glance::Glance(cloud)),
            "key-manager" => Arc::new(barbican::Barbican(cloud)),
            _ => Arc::new(glance::Cinder(cloud)),
        }
    }

    /// The base URL of a service, by its type in the catalog.
    pub fn address(&self, service: &str) -> String {
        self.addresses
            .get()
            .and_then(|all| all.get(service))
            .cloned()
            .unwrap_or_default()
    }

    /// Stops all services and cuts their connections.
    pub(crate) fn stop(&self) {
        lock(&self.listening).clear();
    }

    // --- interventions ---

    /// Deletes a server (id or name) and its host behind Heat's back; false if it does not exist.
    pub fn delete_server(self: &Arc<Self>, server: &str) -> bool {
        let Some(id) = self.server_id(server) else {
            return false;
        };
        servers::delete_server(&mut self.state(), &id);
        let hosts = Arc::clone(&self.hosts);
        tokio::spawn(async move { hosts.destroy(&id).await });
        true
    }

    /// Sets a server (id or name) to ERROR; false if it does not exist.
    pub fn break_server(&self, server: &str) -> bool {
        let Some(id) = self.server_id(server) else {
            return false;
        };
        if let Some(server) = self.state().servers.get_mut(&id) {
            server.status = "ERROR".into();
            server.fault = Some("the hypervisor has failed".into());
        }
        true
    }

    /// Deletes a stack (id or name) without an API request; false if it does not exist.
    pub fn delete_stack(self: &Arc<Self>, stack: &str) -> bool {
        let id = {
            let state = self.state();
            let fits = |s: &&records::Stack| {
                s.parent.is_none()
                    && s.status != "DELETE_COMPLETE"
                    && (s.id == stack || s.name == stack)
            };
            state.stacks.values().find(fits).map(|s| s.id.clone())
        };
        let Some(id) = id else { return false };
        self.start(&id, engine::Action::Delete);
        true
    }

    /// Deletes a port (id or name) behind Heat's back; false if it does not exist.
    pub fn delete_port(&self, port: &str) -> bool {
        let mut state = self.state();
        let Some(id) = state
            .find("port", port)
            .map(|body| text(body, "id").to_owned())
        else {
            return false;
        };
        state.take("port", &id).is_some()
    }

    /// Powers a server's host (id or name) off; Nova does not notice.
    pub fn power_off(&self, server: &str) -> bool {
        let Some(id) = self.server_id(server) else {
            return false;
        };
        self.hosts.power_off(&id);
        true
    }

    /// Changes a user's password and revokes the user's tokens; false if there is no such user.
    pub fn set_password(&self, name: &str, password: &str) -> bool {
        let mut state = self.state();
        let Some(user) = state.users.values_mut().find(|user| user.name == name) else {
            return false;
        };
        password.clone_into(&mut user.password);
        let id = user.id.clone();
        state.tokens.retain(|_, token| token.user != id);
        true
    }

    /// Sets the login of servers that boot from now on.
    pub fn set_login(&self, password: Option<String>, authorized_key: Option<String>) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((password, authorized_key));
    }

    /// Revokes every token; calls then fail with 401.
    pub fn revoke_tokens(&self) {
        self.state().tokens.clear();
    }

    /// Sets the quota `instances`, `network` or `port`.
    pub fn set_quota(&self, name: &str, value: i64) {
        let value = if value < 0 { i64::MAX } else { value };
        self.state().quotas.insert(name.to_owned(), value);
    }

    fn server_id(&self, server: &str) -> Option<String> {
        let state = self.state();
        state
            .servers
            .values()
            .find(|s| s.id == server || s.name == server)
            .map(|s| s.id.clone())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The caller's token, or a 401.
    pub(crate) fn authenticate(&self, request: &Request) -> Result<Token, Reply> {
        let state = self.state();
        let token = state
            .tokens
            .get(request.header("x-auth-token"))
            .filter(|token| token.expires > jiff::Timestamp::now());
        token
            .cloned()
            .ok_or_else(|| keystone::unauthorized(&self.address("identity")))
    }

    /// The lock of a stack, held by one request at a time.
    pub(crate) fn stack_lock(&self, stack: &str) -> Arc<AsyncMutex<()>> {
        Arc::clone(lock(&self.stack_locks).entry(stack.to_owned()).or_default())
    }

    /// Boots a host behind every ACTIVE server that has an address in the block and no host yet.
    pub(crate) fn boot_hosts(self: &Arc<Self>) {
        let mut specs = Vec::new();
        {
            let mut state = self.state();
            let waiting: Vec<String> = (state.servers.values())
                .filter(|s| s.status == "ACTIVE" && s.host.is_none())
                .map(|s| s.id.clone())
                .collect();
            for id in waiting {
                if let Some(spec) = self.host_spec(&state, &id)
                    && let Some(server) = state.servers.get_mut(&id)
                {
                    server.host = spec.1.into();
                    // Once the stack is complete, the inventory must list every machine.
                    self.hosts.add_to_inventory(&spec.0);
                    specs.push(spec.0);
                }
            }
        }
        for spec in specs {
            let cloud = Arc::clone(self);
            tokio::spawn(async move { cloud.boot(spec).await });
        }
    }

    fn host_spec(&self, state: &State, id: &str) -> Option<(HostSpec, Ipv4Addr)> {
        let server = state.servers.get(id)?;
        let addresses = state.addresses(server);
        let all = addresses
            .as_object()?
            .values()
            .flat_map(|list| list.as_array().into_iter().flatten());
        let [a, b] = self.block;
        let inside = |address: &Ipv4Addr| address.octets()[..3] == [127, a, b];
        let address = all
            .filter_map(|entry| text(entry, "addr").parse::<Ipv4Addr>().ok())
            .find(inside)?;
        let key = server
            .key_name
            .as_deref()
            .and_then(|name| state.find("keypair", name))
            .map(|key| text(key, "public_key").to_owned());
        let planted = self
            .login
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let (password, key) = match planted {
            Some((password, planted)) => (password, key.into_iter().chain(planted).collect()),
            None => (Some("secret".into()), key.into_iter().collect()),
        };
        let user = HostUser {
            name: "ubuntu".into(),
            password,
            authorized_keys: key,
        };
        Some((
            HostSpec {
                server_id: id.to_owned(),
                name: server.name.clone(),
                address: address.into(),
                users: vec![user],
            },
            address,
        ))
    }

    async fn boot(&self, spec: HostSpec) {
        let (id, name) = (spec.server_id.clone(), spec.name.clone());
        pause(self.options.boot).await;
        match self.faults.take("host.boot", &name) {
            None => {}
            Some(Fault::Delay { delay_ms }) => pause(Duration::from_millis(delay_ms)).await,
            Some(_) => {
                return self
                    .books
                    .record("host", "host.boot", &name, (1, "fault: never comes up"));
            }
        }
        if !self.state().servers.contains_key(&id) {
            return;
        }
        match self.hosts.boot(spec).await {
            Ok(()) => self.books.record("host", "host.boot", &name, 0_i64),
            Err(error) => {
                self.books
                    .record("host", "host.boot", &name, (1, format!("{error:#}")));
                self.books.record_violation(format!(
                    "the host of server `{name}` did not boot: {error:#}"
                ));
            }
        }
        if !self.state().servers.contains_key(&id) {
            self.hosts.destroy(&id).await;
        }
    }
}

impl InventorySource for Cloud {
    fn entries(&self) -> Vec<Entry> {
        let state = self.state();
        let mut all = Vec::new();
        for stack in state
            .stacks
            .values()
            .filter(|s| s.parent.is_none() && s.status != "DELETE_COMPLETE")
        {
            let detail =
                json!({ "status": stack.status, "reason": stack.reason, "tags": stack.tags });
            all.push(Entry {
                kind: "stack".into(),
                id: stack.id.clone(),
                name: stack.name.clone(),
                seeded: false,
                detail,
            });
        }
        for server in state.servers.values() {
            let detail = json!({ "status": server.status, "addresses": state.addresses(server) });
            all.push(Entry {
                kind: "server".into(),
                id: server.id.clone(),
                name: server.name.clone(),
                seeded: false,
                detail,
            });
        }
        for kind in KINDS {
            for body in state.all(kind) {
                let id = text(body, "id").to_owned();
                let seeded = state.is_seeded(&id);
                all.push(Entry {
                    kind: kind.into(),
                    name: text(body, "name").to_owned(),
                    id,
                    seeded,
                    detail: json!(null),
                });
            }
        }
        all
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
