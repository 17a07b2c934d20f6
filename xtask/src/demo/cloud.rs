//! The real cloud, asked directly: what is there before the story, and what after it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{interrupt, stack};

/// What is looked at: a word for people, the service, the path, the key in the answer.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("stack", "orchestration", "/stacks", "stacks"),
    ("server", "compute", "/servers", "servers"),
    ("key pair", "compute", "/os-keypairs", "keypairs"),
    ("port", "network", "/v2.0/ports", "ports"),
    ("network", "network", "/v2.0/networks", "networks"),
    ("router", "network", "/v2.0/routers", "routers"),
    (
        "security group",
        "network",
        "/v2.0/security-groups",
        "security_groups",
    ),
    ("image", "image", "/v2/images", "images"),
];
/// How often a clean-up by force looks whether a stack is gone, and how many times.
const LOOK: (Duration, u32) = (Duration::from_millis(500), 240);

/// A login to the cloud.
pub(crate) struct Cloud {
    agent: ureq::Agent,
    token: String,
    catalog: Value,
}

impl Cloud {
    /// Logs in with an entry of a clouds.yaml.
    ///
    /// # Errors
    /// When the file or the login is no good.
    pub(crate) fn login(clouds: &Path, name: &str) -> Result<Self> {
        let text = std::fs::read_to_string(clouds)
            .with_context(|| format!("cannot read `{}`", clouds.display()))?;
        let file: Value = serde_yaml::from_str(&text)
            .with_context(|| format!("`{}` is no YAML", clouds.display()))?;
        let auth = &file["clouds"][name]["auth"];
        let body = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": {
                "name": auth["username"], "domain": { "id": auth["user_domain_id"] }, "password": auth["password"] } } },
            "scope": { "project": { "name": auth["project_name"], "domain": { "id": auth["project_domain_id"] } } } } });
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_mins(1)))
            .proxy(None)
            .build()
            .into();
        let url = format!(
            "{}/auth/tokens",
            auth["auth_url"]
                .as_str()
                .context("the cloud has no `auth_url`")?
        );
        let mut answer = agent
            .post(&url)
            .send_json(body)
            .context("cannot log in at the cloud")?;
        let token = answer
            .headers()
            .get("X-Subject-Token")
            .and_then(|token| token.to_str().ok());
        let token = token.context("Keystone gave no token")?.to_owned();
        let body: Value = answer
            .body_mut()
            .read_json()
            .context("Keystone's answer is no JSON")?;
        Ok(Self {
            agent,
            token,
            catalog: body["token"]["catalog"].clone(),
        })
    }

    fn at(&self, service: &str) -> Result<&str> {
        let entries = self.catalog.as_array().into_iter().flatten();
        let entry = entries
            .filter(|entry| entry["type"] == service)
            .filter_map(|entry| entry["endpoints"].as_array());
        let public = entry
            .flatten()
            .find(|endpoint| endpoint["interface"] == "public");
        public
            .and_then(|endpoint| endpoint["url"].as_str())
            .with_context(|| format!("the catalog has no `{service}`"))
    }

    fn list(&self, service: &str, path: &str, key: &str) -> Result<Vec<Value>> {
        let url = format!("{}{path}", self.at(service)?);
        let mut answer = self
            .agent
            .get(&url)
            .header("X-Auth-Token", &self.token)
            .call()
            .with_context(|| format!("cannot list `{url}`"))?;
        let body: Value = answer
            .body_mut()
            .read_json()
            .with_context(|| format!("`{url}` answers no JSON"))?;
        Ok(body[key].as_array().cloned().unwrap_or_default())
    }

    /// Everything that is there, by kind, name and id; and the hosts behind the servers.
    ///
    /// # Errors
    /// When the cloud does not tell.
    pub(crate) fn inventory(&self) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for (kind, service, path, key) in KINDS {
            for item in self.list(service, path, key)? {
                let item = if item["keypair"].is_object() {
                    &item["keypair"]
                } else {
                    &item
                };
                let word = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
                let name = if word("stack_name").is_empty() {
                    word("name")
                } else {
                    word("stack_name")
                };
                found.insert(format!("{kind} {name} {}", word("id")).trim().to_owned());
            }
        }
        let hosts = stack::look(&[stack::Part::Hosts].into());
        found.extend(
            hosts
                .into_iter()
                .flat_map(|hosts| hosts.processes)
                .map(|host| format!("host {host}")),
        );
        Ok(found)
    }

    /// The id of a network by its name.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn network(&self, name: &str) -> Result<String> {
        let found = self.list(
            "network",
            &format!("/v2.0/networks?name={name}"),
            "networks",
        )?;
        let id = found.first().and_then(|network| network["id"].as_str());
        Ok(id
            .with_context(|| format!("the cloud has no network `{name}`"))?
            .to_owned())
    }

    /// Deletes the stacks that were not there before, and waits until they are gone.
    ///
    /// # Errors
    /// When one does not go.
    pub(crate) fn delete_stacks(&self, before: &BTreeSet<String>) -> Result<()> {
        for item in self.list("orchestration", "/stacks", "stacks")? {
            let (name, id) = (
                item["stack_name"].as_str().unwrap_or_default(),
                item["id"].as_str().unwrap_or_default(),
            );
            if before.contains(&format!("stack {name} {id}")) {
                continue;
            }
            let url = format!("{}/stacks/{name}/{id}", self.at("orchestration")?);
            self.agent
                .delete(&url)
                .header("X-Auth-Token", &self.token)
                .call()
                .with_context(|| format!("cannot delete `{name}`"))?;
            let mut looks = 0;
            while self
                .list("orchestration", "/stacks", "stacks")?
                .iter()
                .any(|stack| stack["id"] == id)
            {
                looks += 1;
                anyhow::ensure!(looks < LOOK.1, "stack `{name}` does not go");
                interrupt::pause(LOOK.0)?;
            }
        }
        Ok(())
    }

    /// Waits until nothing is there that was not there before; returns what stays.
    ///
    /// # Errors
    /// When the cloud does not tell.
    pub(crate) fn settle(&self, before: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut left: Vec<String> = Vec::new();
        for _ in 0..20 {
            left = self.inventory()?.difference(before).cloned().collect();
            if left.is_empty() || interrupt::pause(LOOK.0).is_err() {
                break;
            }
        }
        Ok(left)
    }
}
