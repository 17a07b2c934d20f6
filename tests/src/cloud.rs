//! A direct client of OpenStack, so that checks do not depend on the drivers that they check.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

/// Resources in the inventory: kind, service, path, and key in the response. A cloud without the service has none.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("stack", "orchestration", "/stacks", "stacks"),
    ("server", "compute", "/servers", "servers"),
    ("key pair", "compute", "/os-keypairs", "keypairs"),
    ("port", "network", "/v2.0/ports", "ports"),
    ("network", "network", "/v2.0/networks", "networks"),
    (
        "security group",
        "network",
        "/v2.0/security-groups",
        "security_groups",
    ),
    ("image", "image", "/v2/images", "images"),
    ("volume", "volumev3", "/volumes", "volumes"),
    ("volume snapshot", "volumev3", "/snapshots", "snapshots"),
    ("router", "network", "/v2.0/routers", "routers"),
    FLOATING_IPS,
    LOAD_BALANCERS,
];
const FLOATING_IPS: (&str, &str, &str, &str) =
    ("floating IP", "network", "/v2.0/floatingips", "floatingips");
const LOAD_BALANCERS: (&str, &str, &str, &str) = (
    "load balancer",
    "load-balancer",
    "/v2.0/lbaas/loadbalancers",
    "loadbalancers",
);
/// The kind of logins of programs inside VNFs; a user sees its own.
const LOGIN: &str = "application credential";

/// A session with an OpenStack cloud.
#[derive(Debug)]
pub struct Cloud {
    token: String,
    catalog: Value,
    identity: String,
    user: String,
}

impl Cloud {
    /// Logs in with the entry `nfv` of a clouds.yaml.
    pub fn login(clouds: &Path) -> Self {
        Self::login_by(clouds, "nfv")
    }

    /// Logs in with the entry `admin`.
    pub fn administer(clouds: &Path) -> Self {
        Self::login_by(clouds, "admin")
    }

    fn login_by(clouds: &Path, entry: &str) -> Self {
        let file: Value = serde_yaml::from_str(&std::fs::read_to_string(clouds).unwrap()).unwrap();
        let auth = &file["clouds"][entry]["auth"];
        let body = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": {
                "name": auth["username"], "domain": { "id": "default" }, "password": auth["password"] } } },
            "scope": { "project": { "name": auth["project_name"], "domain": { "id": "default" } } } } });
        let identity = auth["auth_url"].as_str().unwrap().to_owned();
        let mut answer = ureq::post(format!("{identity}/auth/tokens"))
            .send_json(body)
            .unwrap();
        let token = answer.headers()["X-Subject-Token"]
            .to_str()
            .unwrap()
            .to_owned();
        let body = answer.body_mut().read_json::<Value>().unwrap();
        Self {
            token,
            catalog: body["token"]["catalog"].clone(),
            identity,
            user: body["token"]["user"]["id"].as_str().unwrap().to_owned(),
        }
    }

    /// Creates a user with the roles of `nfv`, replacing one of the same name. Needs an administrator.
    pub fn create_user(&self, name: &str, password: &str) {
        self.delete_user(name);
        let first = |list: &str, query: &str| self.identities(list, query)[0].clone();
        let (project, model) = (first("projects", "name=nfv"), first("users", "name=nfv"));
        let user = json!({ "user": { "name": name, "password": password, "domain_id": "default",
            "default_project_id": project["id"] } });
        let mut created = self.ask(
            "POST",
            &format!("{}/users", self.identity),
            &user.to_string(),
        );
        let id = created.body_mut().read_json::<Value>().unwrap()["user"]["id"].clone();
        let text = |id: &Value| id.as_str().unwrap().to_owned();
        let query = format!("user.id={}", text(&model["id"]));
        for role in self.identities("role_assignments", &query) {
            let (project, role) = (
                text(&role["scope"]["project"]["id"]),
                text(&role["role"]["id"]),
            );
            let path = format!("projects/{project}/users/{}/roles/{role}", text(&id));
            self.ask("PUT", &format!("{}/{path}", self.identity), "");
        }
    }

    /// Deletes the user of this name, if any. Needs an administrator.
    pub fn delete_user(&self, name: &str) {
        for user in self.identities("users", &format!("name={name}")) {
            let id = user["id"].as_str().unwrap();
            self.ask("DELETE", &format!("{}/users/{id}", self.identity), "");
        }
    }

    fn identities(&self, list: &str, query: &str) -> Vec<Value> {
        let mut answer = self.ask("GET", &format!("{}/{list}?{query}", self.identity), "");
        answer.body_mut().read_json::<Value>().unwrap()[list]
            .as_array()
            .unwrap()
            .clone()
    }

    fn ask(&self, method: &str, url: &str, body: &str) -> ureq::http::Response<ureq::Body> {
        let request = ureq::http::Request::builder().method(method).uri(url);
        let request = request.header("X-Auth-Token", &self.token);
        let request = request.header("content-type", "application/json");
        ureq::run(request.body(body.to_owned()).unwrap()).unwrap()
    }

    /// Whether the cloud has a service of this type.
    pub fn has(&self, service: &str) -> bool {
        let mut entries = self.catalog.as_array().unwrap().iter();
        entries.any(|entry| entry["type"] == service)
    }

    /// All resources of a kind.
    pub fn list(&self, service: &str, path: &str, key: &str) -> Vec<Value> {
        let url = format!("{}{path}", self.at(service));
        let mut answer = ureq::get(&url)
            .header("X-Auth-Token", &self.token)
            .call()
            .unwrap();
        answer.body_mut().read_json::<Value>().unwrap()[key]
            .as_array()
            .unwrap()
            .clone()
    }

    /// The id of the network of external connection points.
    pub fn network(&self) -> String {
        self.network_named("provider")
    }

    /// The id of the subnet of that network.
    pub fn subnet(&self) -> String {
        let found = self.list("network", "/v2.0/networks?name=provider", "networks");
        found[0]["subnets"][0].as_str().unwrap().to_owned()
    }

    /// The id of a network.
    pub fn network_named(&self, name: &str) -> String {
        let path = format!("/v2.0/networks?name={name}");
        let found = self.list("network", &path, "networks");
        found[0]["id"].as_str().unwrap().to_owned()
    }

    /// Ids of the volumes attached to a server.
    pub fn volumes_of(&self, server: &str) -> Vec<String> {
        let path = format!("/servers/{server}/os-volume_attachments");
        let attached = self.list("compute", &path, "volumeAttachments");
        let ids = attached.iter().filter_map(|one| one["volumeId"].as_str());
        ids.map(ToOwned::to_owned).collect()
    }

    /// The states of the stacks whose names contain this instance id.
    pub fn stack_states(&self, instance: &str) -> Vec<String> {
        let stacks = self.list("orchestration", "/stacks", "stacks");
        let ours = stacks.iter().filter(|stack| {
            stack["stack_name"]
                .as_str()
                .is_some_and(|name| name.contains(instance))
        });
        ours.map(|stack| stack["stack_status"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Creates an empty stack without our tags; its id.
    pub fn create_stack(&self, name: &str) -> String {
        let template = json!({ "heat_template_version": "2018-08-31", "resources": {} });
        let body = json!({ "stack_name": name, "template": template });
        let url = format!("{}/stacks", self.at("orchestration"));
        let mut answer = ureq::post(&url)
            .header("X-Auth-Token", &self.token)
            .send_json(body)
            .unwrap();
        let created = answer.body_mut().read_json::<Value>().unwrap();
        created["stack"]["id"].as_str().unwrap().to_owned()
    }

    /// Requests the deletion of a stack, without waiting.
    pub fn delete_stack(&self, name: &str, id: &str) {
        let url = format!("{}/stacks/{name}/{id}", self.at("orchestration"));
        ureq::delete(&url)
            .header("X-Auth-Token", &self.token)
            .call()
            .unwrap();
    }

    /// All resources as `kind name id`, and the hosts that have a folder below `hosts`.
    pub fn inventory(&self, hosts: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (kind, service, path, key) in KINDS {
            if !self.has(service) {
                continue;
            }
            for item in self.list(service, path, key) {
                // Deleted; Heat lists it for another moment.
                if item["stack_status"] == "DELETE_COMPLETE" {
                    continue;
                }
                let item = if item["keypair"].is_object() {
                    &item["keypair"]
                } else {
                    &item
                };
                found.insert(line(kind, item));
            }
        }
        let logins = self.logins();
        found.extend(logins.iter().map(|login| line(LOGIN, login)));
        let folders = std::fs::read_dir(hosts).into_iter().flatten().flatten();
        let disks = folders.filter(|folder| folder.path().join("console.log").is_file());
        found.extend(disks.map(|host| format!("host {}", host.file_name().to_string_lossy())));
        found
    }

    /// Requests the deletion of every stack that is not in `before`, without waiting.
    pub fn delete_stacks(&self, before: &BTreeSet<String>) {
        for stack in self.list("orchestration", "/stacks", "stacks") {
            let word = |field: &str| stack[field].as_str().unwrap();
            if !before.contains(&format!("stack {} {}", word("stack_name"), word("id"))) {
                self.delete_stack(word("stack_name"), word("id"));
            }
        }
    }

    /// Requests the deletion of what is not in `before` and need not be in a stack: what programs inside VNFs created, and
    /// their logins. What is busy stays, so that a caller who waits for the end repeats this.
    pub fn delete_loose(&self, before: &BTreeSet<String>) {
        for login in self.logins() {
            if !before.contains(&line(LOGIN, &login)) {
                let id = login["id"].as_str().unwrap();
                self.request_deletion(&format!("{}/{id}", self.login_url()));
            }
        }
        for ((kind, service, path, key), query) in
            [(FLOATING_IPS, ""), (LOAD_BALANCERS, "?cascade=true")]
        {
            if !self.has(service) {
                continue;
            }
            for item in self.list(service, path, key) {
                if !before.contains(&line(kind, &item)) {
                    let id = item["id"].as_str().unwrap();
                    self.request_deletion(&format!("{}{path}/{id}{query}", self.at(service)));
                }
            }
        }
    }

    fn request_deletion(&self, url: &str) {
        let call = ureq::delete(url).header("X-Auth-Token", &self.token);
        let _ = call.call(); // busy, or deleted by someone else
    }

    /// The application credentials of this user.
    fn logins(&self) -> Vec<Value> {
        let mut answer = self.ask("GET", &self.login_url(), "");
        let body = answer.body_mut().read_json::<Value>().unwrap();
        body["application_credentials"].as_array().unwrap().clone()
    }

    fn login_url(&self) -> String {
        format!(
            "{}/users/{}/application_credentials",
            self.identity, self.user
        )
    }

    fn at(&self, service: &str) -> &str {
        let entries = self.catalog.as_array().unwrap();
        let entry = entries
            .iter()
            .find(|entry| entry["type"] == service)
            .unwrap();
        let endpoints = entry["endpoints"].as_array().unwrap();
        let public = endpoints
            .iter()
            .find(|endpoint| endpoint["interface"] == "public")
            .unwrap();
        public["url"].as_str().unwrap()
    }
}

/// A resource in the inventory.
fn line(kind: &str, item: &Value) -> String {
    let name = ["stack_name", "name", "floating_ip_address"];
    let name = name.iter().find_map(|member| item[member].as_str());
    let id = item["id"].as_str().unwrap_or_default();
    format!("{kind} {} {id}", name.unwrap_or_default())
}
