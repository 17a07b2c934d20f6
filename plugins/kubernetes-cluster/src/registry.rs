//! A registry of images at the site: each node pulls from it, with its CA certificates and login, and the VIM names it, so that the
//! VNFM pushes the images of VNF packages there.
//!
//! ```text
//! FOLDER/ADDRESS/hosts.toml     where the registry is, its CA, the login         FOLDER: `config_path` of containerd
//! FOLDER/ADDRESS/ca.pem
//! FOLDER/MIRRORED/hosts.toml    the same place for the images of another registry, which is asked after it
//! ```

use crate::installer::{Installer, PARALLEL_HOSTS};
use crate::machine::Machine;
use crate::params::SiteRegistry;
use crate::plan::Node;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "registry";
const SCRIPT: &str = "/run/vnfm/vnfm-registry";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-registry";
const SCRIPT_TEXT: &str = include_str!("vnfm-registry.sh");

impl Installer<'_> {
    /// Configures the container runtime of a host for the registry, if the parameters have one.
    ///
    /// # Errors
    ///
    /// `registry-failed` if containerd's configuration has no place for it.
    pub(crate) async fn registry(&self, host: &Machine<'_>) -> Result<(), DriverError> {
        let Some(registry) = &self.plan.registry else {
            return Ok(());
        };
        let script = Upload::new(SCRIPT, SCRIPT_TEXT).mode("0700");
        host.put(script, PHASE).await?;
        let folder = host.run(PHASE, RUN).await?.stdout;
        let folder = folder.trim();
        let own = format!("{folder}/{}", registry.address);
        let ca = registry.ca.as_ref().map(|_| format!("{own}/ca.pem"));
        if let (Some(path), Some(text)) = (&ca, &registry.ca) {
            let file = Upload::new(path, text.as_str()).mode("0644");
            host.put(file, PHASE).await?;
        }
        let text = |path: &str| hosts_file(registry, path, ca.as_deref());
        let server = format!("server = \"https://{}\"\n", registry.address);
        let file = Upload::new(format!("{own}/hosts.toml"), server + &text(""));
        host.put(file, PHASE).await?;
        for (mirrored, path) in &registry.mirrors {
            let file = Upload::new(format!("{folder}/{mirrored}/hosts.toml"), text(path));
            host.put(file, PHASE).await?;
        }
        Ok(())
    }

    /// Configures the container runtimes of all nodes for the registry; returns the nodes that do not respond.
    ///
    /// # Errors
    ///
    /// Those of [`Installer::registry`], of the first node that has one.
    pub(crate) async fn registry_of_nodes(&self) -> Result<Vec<&Node>, DriverError> {
        if self.plan.registry.is_none() {
            return Ok(Vec::new());
        }
        let all = self.plan.nodes().map(|node| async move {
            let host = Machine::new(self.cx, self.plan, node);
            if !host.answers().await {
                return Ok(Some(node));
            }
            host.reach_known().await?;
            self.registry(&host).await.map(|()| None)
        });
        let all = join_all_limited(PARALLEL_HOSTS, all).await;
        let silent: Result<Vec<_>, _> = all.into_iter().collect();
        Ok(silent?.into_iter().flatten().collect())
    }
}

/// Where images are, for containerd: below this path of the registry.
fn hosts_file(registry: &SiteRegistry, path: &str, ca: Option<&str>) -> String {
    let mut host = format!("https://{}", registry.address);
    let mut members = "  capabilities = [\"pull\", \"resolve\"]\n".to_owned();
    if !path.is_empty() {
        // Without it containerd appends `/v2`.
        let _ = write!(host, "/v2/{path}");
        members += "  override_path = true\n";
    }
    if let Some(ca) = ca {
        let _ = writeln!(members, "  ca = \"{ca}\"");
    }
    let mut text = format!("[host.\"{host}\"]\n{members}");
    if let (Some(user), Some(password)) = (&registry.username, &registry.password) {
        let login = STANDARD.encode(format!("{user}:{}", password.reveal()));
        let _ = write!(
            text,
            "  [host.\"{host}\".header]\n    authorization = \"Basic {login}\"\n"
        );
    }
    text
}

/// A VIM whose nodes pull from the registry.
pub(crate) fn named_by(vim: NewVim, registry: Option<&SiteRegistry>) -> NewVim {
    let Some(registry) = registry else {
        return vim;
    };
    let mut vim = vim.interface("registry", registry.address.as_str());
    let public = [
        ("registry_prefix", &registry.prefix),
        ("registry_ca_cert", &registry.ca),
    ];
    for (name, value) in public {
        if let Some(value) = value {
            vim = vim.interface(name, value.as_str());
        }
    }
    if let (Some(user), Some(password)) = (&registry.username, &registry.password) {
        vim = vim
            .access("registry_username", user.as_str())
            .access("registry_password", password.reveal());
    }
    vim
}

#[cfg(test)]
mod tests {
    use super::hosts_file;
    use crate::params::SiteRegistry;
    use serde_json::json;

    fn registry(change: &serde_json::Value) -> SiteRegistry {
        let mut all = json!({ "address": "registry.site.example:5000" });
        let members = all.as_object_mut().unwrap();
        members.extend(change.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn containerd_gets_place_ca_and_login() {
        let with_login = registry(&json!({ "username": "vnfm", "password": "hunter2" }));
        assert_eq!(
            hosts_file(&with_login, "hub", Some("/etc/ca.pem")),
            "[host.\"https://registry.site.example:5000/v2/hub\"]\n  capabilities = [\"pull\", \"resolve\"]\n  \
             override_path = true\n  ca = \"/etc/ca.pem\"\n  [host.\"https://registry.site.example:5000/v2/hub\".header]\n    \
             authorization = \"Basic dm5mbTpodW50ZXIy\"\n"
        );
        assert_eq!(
            hosts_file(&registry(&json!({})), "", None),
            "[host.\"https://registry.site.example:5000\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
    }
}
