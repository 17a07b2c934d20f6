//! The cloud's state: users, tokens, stacks, servers, and everything else as tables of JSON.
//!
//! Networks, ports, volumes and the like are stored as the API's bodies, by kind and id;
//! only objects with behaviour (stacks, servers) are typed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::records::Stack;
use crate::time::now;

/// The password of the seeded users.
pub const PASSWORD: &str = "nfvtest";

/// A Keystone user with one project of the same name.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) project: String,
    pub(crate) admin: bool,
}

/// A token issued by Keystone.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) user: String,
    pub(crate) scoped: bool,
    pub(crate) by_credential: bool,
    pub(crate) issued: jiff::Timestamp,
    pub(crate) expires: jiff::Timestamp,
}

#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) name: String,
    pub(crate) secret: String,
    pub(crate) user: String,
    /// As Keystone shows it, without the secret.
    pub(crate) shown: serde_json::Value,
}

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) id: String,
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    pub(crate) interface: &'static str,
    pub(crate) url: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) flavor: String,
    pub(crate) image: Option<String>,
    pub(crate) key_name: Option<String>,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) metadata: Value,
    pub(crate) zone: String,
    pub(crate) ports: Vec<String>,
    pub(crate) own_ports: Vec<String>,
    pub(crate) volumes: Vec<String>,
    pub(crate) created: String,
    pub(crate) updated: String,
    pub(crate) fault: Option<String>,
    /// What is on its root disk.
    pub(crate) disk: String,
    /// The address of its booted host.
    pub(crate) host: Option<Ipv4Addr>,
}

/// The entire state of a cloud.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) projects: BTreeMap<String, String>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) credentials: BTreeMap<String, Credential>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) stacks: BTreeMap<String, Stack>,
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) quotas: BTreeMap<String, i64>,
    /// Zones whose hosts have no room.
    pub(crate) full_zones: BTreeSet<String>,
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
    seeded: BTreeSet<String>,
    /// Number of MAC addresses assigned.
    pub(super) macs: u32,
    /// Number of events, which orders them.
    pub(crate) ticks: u64,
}

/// The kinds that are stored as JSON bodies.
pub(crate) const KINDS: [&str; 16] = [
    "network",
    "subnet",
    "port",
    "trunk",
    "security_group",
    "router",
    "floatingip",
    "volume",
    "snapshot",
    "image",
    "flavor",
    "keypair",
    "server_group",
    "loadbalancer",
    "listener",
    "pool",
];

/// A random UUID, as OpenStack assigns them.
pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// A string member of a body; empty if absent.
pub(crate) fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl State {
    /// A new cloud with users, flavors, an image and two networks.
    pub(crate) fn seeded(block: [u8; 2]) -> Self {
        let mut state = Self::default();
        for (name, admin) in [("admin", true), ("nfv", false)] {
            let project = Uuid::new_v4().simple().to_string();
            state.projects.insert(name.to_owned(), project.clone());
            let id = Uuid::new_v4().simple().to_string();
            let user = User {
                id: id.clone(),
                name: name.into(),
                password: PASSWORD.into(),
                project,
                admin,
            };
            state.users.insert(id, user);
        }
        for (id, (name, ram, vcpus, disk)) in FLAVORS.iter().enumerate() {
            let id = (id + 1).to_string();
            state.put(
                "flavor",
                json!({ "id": id, "name": name, "ram": ram, "vcpus": vcpus, "disk": disk,
                "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
                "rxtx_factor": 1.0, "os-flavor-access:is_public": true }),
            );
        }
        let project = state.projects["nfv"].clone();
        state.add_image("nfv-image", "active", "public", &project);
        let [a, b] = block;
        let provider = [format!("127.{a}.{b}.20"), format!("127.{a}.{b}.250")];
        state.add_seeded_network("provider", true, &format!("127.{a}.{b}.0/24"), &provider);
        let inside = ["10.88.0.20".into(), "10.88.255.250".into()];
        state.add_seeded_network("nfv-net", false, "10.88.0.0/16", &inside);
        let group = new_id();
        state.put(
            "security_group",
            json!({ "id": group, "name": "default", "description": "Default security group",
            "project_id": project, "tenant_id": project, "security_group_rules": [] }),
        );
        let everything = KINDS
            .iter()
            .flat_map(|kind| state.all(kind).map(|b| text(b, "id").to_owned()))
            .collect();
        state.seeded = everything;
        state.quotas.extend(
            [
                ("instances", 1000),
                ("cores", 10_000),
                ("network", 1000),
                ("port", 10_000),
            ]
            .map(|(k, v)| (k.to_owned(), v)),
        );
        state
    }

    fn add_seeded_network(&mut self, name: &str, external: bool, cidr: &str, pool: &[String; 2]) {
        let project = self.projects["nfv"].clone();
        let network = self.add_network(name, &project, &Map::new());
        self.change(
            "network",
            &network,
            &json!({ "shared": external, "router:external": external }),
        );
        let subnet = json!({ "network_id": network, "name": format!("{name}-subnet"), "cidr": cidr,
            "allocation_pools": [{ "start": pool[0], "end": pool[1] }] });
        self.add_subnet(&subnet, &project);
    }

    /// Inserts or replaces a body; returns its id.
    pub(crate) fn put(&mut self, kind: &'static str, body: Value) -> String {
        let id = text(&body, "id").to_owned();
        self.objects
            .entry(kind)
            .or_default()
            .insert(id.clone(), body);
        id
    }

    /// The body of the object with this id.
    pub(crate) fn object(&self, kind: &str, id: &str) -> Option<&Value> {
        self.objects.get(kind)?.get(id)
    }

    /// The first body with this id or name.
    pub(crate) fn find(&self, kind: &str, id_or_name: &str) -> Option<&Value> {
        self.object(kind, id_or_name)
            .or_else(|| self.all(kind).find(|body| text(body, "name") == id_or_name))
    }

    /// All bodies of a kind.
    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .get(kind)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Sets members of a body, if it exists.
    pub(crate) fn change(&mut self, kind: &str, id: &str, members: &Value) {
        let body = self
            .objects
            .get_mut(kind)
            .and_then(|table| table.get_mut(id))
            .and_then(Value::as_object_mut);
        if let (Some(body), Some(members)) = (body, members.as_object()) {
            for (name, value) in members {
                body.insert(name.clone(), value.clone());
            }
        }
    }

    /// Removes an object and returns its body.
    pub(crate) fn take(&mut self, kind: &str, id: &str) -> Option<Value> {
        self.objects.get_mut(kind)?.remove(id)
    }

    /// Whether the cloud started with this object.
    pub(crate) fn is_seeded(&self, id: &str) -> bool {
        self.seeded.contains(id)
    }

    /// Creates an image record; returns its id.
    pub(crate) fn add_image(
        &mut self,
        name: &str,
        status: &str,
        visibility: &str,
        owner: &str,
    ) -> String {
        let id = new_id();
        let file = format!("/v2/images/{id}/file");
        self.put(
            "image",
            json!({ "id": id, "name": name, "status": status, "visibility": visibility, "owner": owner,
                "disk_format": "qcow2", "container_format": "bare", "min_disk": 0, "min_ram": 0, "size": 1,
                "checksum": null, "protected": false, "tags": [], "created_at": now(), "updated_at": now(),
                "file": file, "schema": "/v2/schemas/image" }),
        )
    }

    pub(crate) fn user_named(&self, name: &str) -> Option<&User> {
        self.users.values().find(|user| user.name == name)
    }
}

const FLAVORS: [(&str, i64, i64, i64); 5] = [
    ("m1.nano", 128, 1, 1),
    ("m1.tiny", 512, 1, 1),
    ("m1.small", 2048, 1, 20),
    ("m1.medium", 4096, 2, 40),
    ("m1.large", 8192, 4, 80),
];
