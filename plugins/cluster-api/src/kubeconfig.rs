//! A kubeconfig as a VIM. Only what it contains itself is used: a path or a program that it names would be those of this
//! machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use vnfm_plugin_sdk::prelude::*;

const VIM_TYPE: &str = "ETSINFV.KUBERNETES.V_1";

/// The cluster and the user of the current context.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    cluster: Cluster,
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    current_context: String,
    contexts: Vec<Named<Context>>,
    clusters: Vec<Named<Cluster>>,
    users: Vec<Named<User>>,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "context", alias = "cluster", alias = "user")]
    value: T,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority_data: String,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
    proxy_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate_data: String,
    client_key_data: Secret,
    token: Secret,
}

impl Kubeconfig {
    /// Reads the current context.
    ///
    /// # Errors
    ///
    /// What is missing or not supported, in words that show nothing of the file.
    pub(crate) fn parse(text: &Secret) -> Result<Self, &'static str> {
        let file: File = serde_yaml::from_str(text.reveal())
            .map_err(|_| "it is not YAML with a current context, clusters and users")?;
        let context = find(file.contexts, &file.current_context)
            .ok_or("its current context does not exist")?;
        let cluster = find(file.clusters, &context.cluster)
            .ok_or("the cluster of its context does not exist")?;
        let user =
            find(file.users, &context.user).ok_or("the user of its context does not exist")?;
        if !cluster.server.starts_with("https://") {
            return Err("its server has no URL with https");
        }
        if cluster.insecure_skip_tls_verify {
            return Err("it does not verify the certificate of the server");
        }
        if cluster.proxy_url.is_some() {
            return Err("it names a proxy, which the VNFM takes from no kubeconfig");
        }
        let has_certificate =
            !user.client_certificate_data.is_empty() && !user.client_key_data.reveal().is_empty();
        if !has_certificate && user.token.reveal().is_empty() {
            return Err(
                "its user has neither a token nor a client certificate with key in the file itself",
            );
        }
        let mut kubeconfig = Self { cluster, user };
        kubeconfig
            .decode()
            .ok_or("its certificates are not PEM in base64")?;
        Ok(kubeconfig)
    }

    /// Replaces base64 by the PEM in it.
    fn decode(&mut self) -> Option<()> {
        let user = &mut self.user;
        self.cluster.certificate_authority_data = pem(&self.cluster.certificate_authority_data)?;
        user.client_certificate_data = pem(&user.client_certificate_data)?;
        user.client_key_data = Secret::new(pem(user.client_key_data.reveal())?);
        Some(())
    }

    /// The cluster as a VIM to register, at another address than its own if one is given.
    pub(crate) fn into_vim(self, name: &str, endpoint: Option<&str>) -> NewVim {
        let Self { cluster, user } = self;
        let endpoint = endpoint.map_or(cluster.server, str::to_owned);
        let mut vim = NewVim::new(name, VIM_TYPE).interface("endpoint", endpoint);
        if !cluster.certificate_authority_data.is_empty() {
            vim = vim.interface("ssl_ca_cert", cluster.certificate_authority_data);
        }
        if let Some(server_name) = cluster.tls_server_name {
            vim = vim.interface("tls_server_name", server_name);
        }
        if user.client_certificate_data.is_empty() {
            return vim.access("bearer_token", user.token.reveal());
        }
        vim.access("client_certificate", user.client_certificate_data)
            .access("client_key", user.client_key_data.reveal())
    }
}

fn find<T>(all: Vec<Named<T>>, name: &str) -> Option<T> {
    let mut all = all.into_iter();
    all.find(|one| one.name == name).map(|one| one.value)
}

/// The PEM in base64; empty for nothing.
fn pem(encoded: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    (text.is_empty() || text.contains("-----BEGIN ")).then_some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A part of the key.
    pub(crate) const SECRET: &str = "never shown";
    pub(crate) const KEY: &str = "-----BEGIN KEY-----\nnever shown\n";
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\npublic\n";

    fn file() -> Value {
        let encoded = |pem: &str| STANDARD.encode(pem);
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "admin@edge",
            "contexts": [{"name": "admin@edge", "context": {"cluster": "edge", "user": "admin"}}],
            "clusters": [{"name": "edge", "cluster": {"server": "https://10.0.0.9:6443", "certificate-authority-data": encoded(CERTIFICATE)}}],
            "users": [{"name": "admin", "user": {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)}}]})
    }

    /// As Cluster API writes one.
    pub(crate) fn kubeconfig() -> String {
        file().to_string()
    }

    fn parse(file: &Value) -> Result<Kubeconfig, &'static str> {
        Kubeconfig::parse(&Secret::new(file.to_string()))
    }

    #[test]
    fn a_client_certificate_or_a_token_becomes_the_login() {
        let vim = parse(&file()).unwrap().into_vim("edge", None);
        assert_eq!(vim.interface_info["ssl_ca_cert"], CERTIFICATE);
        assert_eq!(vim.access_info["client_certificate"], CERTIFICATE);
        let mut with_token = file();
        with_token["users"][0]["user"] = json!({"token": "t"});
        with_token["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes");
        let vim = parse(&with_token).unwrap().into_vim("edge", None);
        assert_eq!(
            vim.access_info,
            *json!({"bearer_token": "t"}).as_object().unwrap()
        );
        assert_eq!(vim.interface_info["tls_server_name"], "kubernetes");
    }

    #[test]
    fn what_points_outside_of_the_file_is_refused() {
        let cluster = "/clusters/0/cluster";
        for (path, value, expected) in [
            (
                "/users/0/user",
                json!({"exec": {"command": "sh"}}),
                "neither a token",
            ),
            (
                "/users/0/user",
                json!({"tokenFile": "/etc/passwd"}),
                "neither a token",
            ),
            (
                "/users/0/user",
                json!({"client-certificate": "/a", "client-key": "/b"}),
                "neither a token",
            ),
            (
                cluster,
                json!({"server": "https://a", "insecure-skip-tls-verify": true}),
                "verify",
            ),
            (
                cluster,
                json!({"server": "https://a", "proxy-url": "http://b"}),
                "proxy",
            ),
            (cluster, json!({"server": "http://a"}), "https"),
            (
                cluster,
                json!({"server": "https://a", "certificate-authority-data": "YQ=="}),
                "PEM",
            ),
            ("/current-context", json!("other"), "current context"),
            ("/clusters", json!([]), "cluster of its context"),
            ("/users", json!("none"), "YAML"),
        ] {
            let mut file = file();
            *file.pointer_mut(path).unwrap() = value.clone();
            let refused = parse(&file).unwrap_err();
            assert!(refused.contains(expected), "{path} {value}: {refused}");
        }
    }
}
