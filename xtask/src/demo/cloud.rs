//! Lists the resources of the real cloud directly, before and after the demo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{interrupt, stack};

/// A kind of resources: display name, service, path, and key in the response.
type Kind = (&'static str, &'static str, &'static str, &'static str);

const KINDS: &[Kind] = &[
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
    ("floating IP", "network", "/v2.0/floatingips", "floatingips"),
    ("image", "image", "/v2/images", "images"),
    ("volume", "volumev3", "/volumes", "volumes"),
    ("volume snapshot", "volumev3", "/snapshots", "snapshots"),
    (
        "load balancer",
        "load-balancer",
        "/v2.0/lbaas/loadbalancers",
        "loadbalancers",
    ),
];
/// Services without which a cloud is complete: where one is missing, so are its kinds.
const OPTIONAL: &[&str] = &["volumev3", "load-balancer"];
/// Interval and number of polls while a stack is deleted.
const DELETE_POLLS: (Duration, u32) = (Duration::from_millis(500), 240);

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
    /// If the file cannot be read or the login fails.
    pub(crate) fn login(clouds: &Path, name: &str) -> Result<Self> {
        let text = std::fs::read_to_string(clouds)
            .with_context(|| format!("cannot read `{}`", clouds.display()))?;
        let file: Value = serde_yaml::from_str(&text)
            .with_context(|| format!("`{}` is not YAML", clouds.display()))?;
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
            .context("cannot log in to the cloud")?;
        let token = answer
            .headers()
            .get("X-Subject-Token")
            .and_then(|token| token.to_str().ok());
        let token = token.context("Keystone returned no token")?.to_owned();
        let body: Value = answer
            .body_mut()
            .read_json()
            .context("the response of Keystone is not JSON")?;
        Ok(Self {
            agent,
            token,
            catalog: body["token"]["catalog"].clone(),
        })
    }

    fn endpoint(&self, service: &str) -> Result<&str> {
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

    /// The kinds that this cloud has.
    fn kinds(&self) -> impl Iterator<Item = &'static Kind> {
        let is_missing =
            |service: &str| OPTIONAL.contains(&service) && self.endpoint(service).is_err();
        KINDS
            .iter()
            .filter(move |(_, service, ..)| !is_missing(service))
    }

    /// All resources of a list.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn list(&self, service: &str, path: &str, key: &str) -> Result<Vec<Value>> {
        let url = format!("{}{path}", self.endpoint(service)?);
        let mut answer = self
            .agent
            .get(&url)
            .header("X-Auth-Token", &self.token)
            .call()
            .with_context(|| format!("cannot list `{url}`"))?;
        let body: Value = answer
            .body_mut()
            .read_json()
            .with_context(|| format!("the response of `{url}` is not JSON"))?;
        Ok(body[key].as_array().cloned().unwrap_or_default())
    }

    /// All resources by kind, name and id, and the hosts of the servers.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn inventory(&self) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for (kind, service, path, key) in self.kinds() {
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
        let hosts = stack::observe(&[stack::Part::Hosts].into());
        found.extend(
            hosts
                .into_iter()
                .flat_map(|hosts| hosts.processes)
                .map(|host| format!("host {host}")),
        );
        Ok(found)
    }

    /// The resources of the stack of this name, with those of nested stacks.
    ///
    /// # Errors
    /// If there is no such stack.
    pub(crate) fn stack_resources(&self, name: &str) -> Result<Vec<Value>> {
        let stacks = self.list("orchestration", "/stacks", "stacks")?;
        let mut stacks = stacks.iter().filter(|stack| stack["stack_name"] == name);
        let id = stacks.find_map(|stack| stack["id"].as_str());
        let id = id.with_context(|| format!("the cloud has no stack `{name}`"))?;
        let path = format!("/stacks/{name}/{id}/resources?nested_depth=5");
        self.list("orchestration", &path, "resources")
    }

    /// Names of the networks, by id.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn networks(&self) -> Result<BTreeMap<String, String>> {
        let all = self.list("network", "/v2.0/networks", "networks")?;
        let named = all.iter().filter_map(|one| {
            let (id, name) = (one["id"].as_str()?, one["name"].as_str()?);
            Some((id.to_owned(), name.to_owned()))
        });
        Ok(named.collect())
    }

    /// The id of a network by its name.
    ///
    /// # Errors
    /// If the project has no such network.
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

    /// Deletes the stacks that are not in `before`, and waits for that.
    ///
    /// # Errors
    /// If a stack is not deleted in time.
    pub(crate) fn delete_stacks(&self, before: &BTreeSet<String>) -> Result<()> {
        for item in self.list("orchestration", "/stacks", "stacks")? {
            let (name, id) = (
                item["stack_name"].as_str().unwrap_or_default(),
                item["id"].as_str().unwrap_or_default(),
            );
            if before.contains(&format!("stack {name} {id}")) {
                continue;
            }
            let url = format!("{}/stacks/{name}/{id}", self.endpoint("orchestration")?);
            self.agent
                .delete(&url)
                .header("X-Auth-Token", &self.token)
                .call()
                .with_context(|| format!("cannot delete `{name}`"))?;
            let mut polls = 0;
            while self
                .list("orchestration", "/stacks", "stacks")?
                .iter()
                .any(|stack| stack["id"] == id)
            {
                polls += 1;
                anyhow::ensure!(
                    polls < DELETE_POLLS.1,
                    "stack `{name}` was not deleted in time"
                );
                interrupt::pause(DELETE_POLLS.0)?;
            }
        }
        Ok(())
    }

    /// Waits until no resource exists that is not in `before`; returns those that remain.
    ///
    /// # Errors
    /// If the cloud does not respond.
    pub(crate) fn wait_for_removal(&self, before: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut left: Vec<String> = Vec::new();
        for _ in 0..20 {
            left = self.inventory()?.difference(before).cloned().collect();
            if left.is_empty() || interrupt::pause(DELETE_POLLS.0).is_err() {
                break;
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_services(services: &[&str]) -> Cloud {
        let entry = |service: &&str| {
            let endpoint = json!({"interface": "public", "url": "http://cloud"});
            json!({"type": service, "endpoints": [endpoint]})
        };
        Cloud {
            agent: ureq::agent(),
            token: String::new(),
            catalog: services.iter().map(entry).collect(),
        }
    }

    #[test]
    fn a_cloud_without_an_optional_service_has_the_other_kinds() {
        let kinds = |cloud: &Cloud| cloud.kinds().map(|(kind, ..)| *kind).collect::<Vec<_>>();
        let complete = with_services(&["network", "volumev3", "load-balancer"]);
        let all: Vec<_> = KINDS.iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(kinds(&complete), all);
        let mut fewer = all;
        fewer.retain(|kind| *kind != "load balancer");
        assert_eq!(kinds(&with_services(&["network", "volumev3"])), fewer);
        fewer.retain(|kind| !kind.starts_with("volume"));
        // Without Neutron the demo cannot look for what it left, so its kinds stay, and their list fails.
        let cloud = with_services(&[]);
        assert_eq!(kinds(&cloud), fewer);
        assert!(fewer.contains(&"floating IP"));
        let error = cloud
            .list("network", "/v2.0/floatingips", "floatingips")
            .unwrap_err();
        assert_eq!(error.to_string(), "the catalog has no `network`");
    }
}
