//! The simulated OpenStack: one cloud, eight services over it.
//!
//! The cloud (`cloud.rs`) is one locked state (`state.rs`); the services are HTTP APIs to it, and
//! `engine.rs` creates and deletes stacks and servers. For each ACTIVE server with an address in the world's
//! block a simulated host boots, as on a hypervisor.

mod action;
mod barbican;
mod cinder;
mod cloud;
mod engine;
mod functions;
mod glance;
mod heat;
mod interruptions;
mod keystone;
mod keystone_tokens;
mod networks;
mod neutron;
mod new_resource;
mod nova;
mod nova_replies;
mod octavia;
mod preview;
mod progress;
mod records;
mod resources;
mod scope;
mod servers;
mod snapshots;
mod stack_previews;
mod stack_requests;
mod stacks;
mod state;
mod teardown;
mod template;
mod trunks;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tokio::net::TcpListener;

use crate::faults::Faults;
use crate::hosts::Hosts;
use crate::http::{Server, Service, serve};
use crate::ledger::{InventorySource, Ledger};
use cloud::lock;
pub use cloud::{Cloud, CloudOptions};
pub use state::PASSWORD;
use state::{Endpoint, new_id, text};

/// Type, name, and the path of its endpoint in the catalog.
const SERVICES: [(&str, &str, &str); 8] = [
    ("identity", "keystone", "/v3"),
    ("orchestration", "heat", "/v1/%(tenant_id)s"),
    ("compute", "nova", "/v2.1"),
    ("network", "neutron", ""),
    ("image", "glance", ""),
    ("volumev3", "cinder", "/v3/%(tenant_id)s"),
    ("key-manager", "barbican", ""),
    ("load-balancer", "octavia", ""),
];

impl Cloud {
    /// Starts every service on a free port of 127.0.0.1.
    pub(crate) async fn open(
        hosts: Arc<Hosts>,
        books: Arc<Ledger>,
        faults: Arc<Faults>,
        (block, options): ([u8; 2], CloudOptions),
    ) -> anyhow::Result<Arc<Self>> {
        let cloud = Self::new(
            hosts,
            Arc::clone(&books),
            Arc::clone(&faults),
            (block, options),
        );
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
            "load-balancer" => Arc::new(octavia::Octavia(cloud)),
            _ => Arc::new(cinder::Cinder(cloud)),
        }
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

    /// Writes to the root disk of a server, or to a volume, by id: what runs inside does this.
    pub fn write_disk(&self, id: &str, text: &str) {
        let mut state = self.state();
        if let Some(server) = state.servers.get_mut(id) {
            text.clone_into(&mut server.disk);
        }
        state.change("volume", id, &serde_json::json!({snapshots::DISK: text}));
    }

    /// What is on the root disk of a server, or on a volume, by id.
    pub fn disk(&self, id: &str) -> Option<String> {
        let state = self.state();
        let of_server = state.servers.get(id).map(|server| server.disk.clone());
        let volume = || {
            state
                .object("volume", id)
                .map(|one| text(one, snapshots::DISK).to_owned())
        };
        of_server.or_else(volume)
    }

    /// Sets the status of every image made of a server, or of every volume snapshot (`image` or `snapshot`).
    pub fn set_stored(&self, kind: &'static str, status: &str) {
        let mut state = self.state();
        let is_stored =
            |one: &&serde_json::Value| kind == "snapshot" || one["image_type"] == "snapshot";
        let stored = state.all(kind).filter(is_stored);
        let ids: Vec<String> = stored.map(|one| text(one, "id").to_owned()).collect();
        for id in ids {
            state.change(kind, &id, &serde_json::json!({"status": status}));
        }
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
        self.start(&id, action::Action::Delete);
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

    /// Powers a server's host on again, if it has one.
    fn power_on(self: &Arc<Self>, server: &str) {
        let (cloud, id) = (Arc::clone(self), server.to_owned());
        if self
            .state()
            .servers
            .get(&id)
            .is_none_or(|it| it.host.is_none())
        {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = cloud.hosts.power_on(&id).await {
                tracing::warn!(%error, "the host was not powered on");
            }
        });
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

    /// Makes a zone full: a new server in it fails as one that no host has room for.
    pub fn fill_zone(&self, zone: &str) {
        self.state().full_zones.insert(zone.to_owned());
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
}
