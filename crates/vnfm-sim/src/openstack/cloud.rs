//! The cloud's state and what it shares with its services; boots a host behind each ACTIVE server.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::keystone;
use super::state::{KINDS, State, Token, text};
use crate::faults::{Fault, Faults};
use crate::hosts::{HostSpec, Hosts, User as HostUser};
use crate::http::{Listening, Reply, Request};
use crate::ledger::{Entry, InventorySource, Ledger};
use crate::time::pause;

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

/// A running cloud: Keystone, Heat, Nova, Neutron, Glance, Cinder, Barbican and Octavia.
pub struct Cloud {
    pub(crate) books: Arc<Ledger>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) options: CloudOptions,
    pub(crate) superseded: watch::Sender<u64>,
    block: [u8; 2],
    /// Password and key of servers that boot from now on, if set by [`Cloud::set_login`].
    pub(super) login: Mutex<Option<(Option<String>, Option<String>)>>,
    state: Mutex<State>,
    stack_locks: Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>,
    pub(super) addresses: OnceLock<BTreeMap<&'static str, String>>,
    pub(super) listening: Mutex<Vec<Listening>>,
}

impl Cloud {
    /// A cloud with its seeded objects, without services.
    pub(super) fn new(
        hosts: Arc<Hosts>,
        books: Arc<Ledger>,
        faults: Arc<Faults>,
        (block, options): ([u8; 2], CloudOptions),
    ) -> Arc<Self> {
        Arc::new(Self {
            books,
            faults,
            hosts,
            options,
            superseded: watch::Sender::new(0),
            block,
            login: Mutex::default(),
            state: Mutex::new(State::seeded(block)),
            stack_locks: Mutex::default(),
            addresses: OnceLock::new(),
            listening: Mutex::default(),
        })
    }

    /// The base URL of a service, by its type in the catalog.
    pub fn address(&self, service: &str) -> String {
        self.addresses
            .get()
            .and_then(|all| all.get(service))
            .cloned()
            .unwrap_or_default()
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
        let status = self.state().servers.get(&id).map(|it| it.status.clone());
        match status.as_deref() {
            None => self.hosts.destroy(&id).await,
            Some("SHUTOFF") => self.hosts.power_off(&id),
            Some(_) => {}
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

pub(super) fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
