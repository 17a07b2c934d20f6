//! The connection data of a VIM: endpoint, trust, login, proxy.
//!
//! ```text
//! VimConnectionInfo ── Connection::read ──> Connection ── client() ──> kube::Client
//! interfaceInfo  endpoint, ssl_ca_cert (PEM, also folded; "None": not verified), tls_server_name
//!                registry, registry_ca_cert, registry_prefix, registry_token_hosts: where its nodes pull images from
//! accessInfo     bearer_token | client_certificate + client_key; registry_username + registry_password
//! extra          namespace, proxy (an HTTP proxy; the environment's proxy is not used for any VIM)
//! ```

use crate::errors::{ADDRESS, CONNECTION};
use crate::image_registry::ImageRegistry;
use crate::{expiry, http as wire, pem};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use vnfm_core::ports::PortError;
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};
const INTERFACE_MEMBERS: &[&str] = &[
    "endpoint",
    "ssl_ca_cert",
    "sslCaCert",
    "skipCertificateVerification",
    "tls_server_name",
    "registry",
    "registry_prefix",
    "registry_ca_cert",
    "registry_token_hosts",
];
const ACCESS_MEMBERS: &[&str] = &[
    "bearer_token",
    "bearerToken",
    "client_certificate",
    "clientCertificate",
    "client_key",
    "clientKey",
    "username",
    "password",
    "server",
    "ssl_ca_cert",
    "ssl_ca_cert_hash",
    "certificate_key",
    "project_name",
    "projectName",
    "namespace",
    "registry_username",
    "registry_password",
];

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of the API server; watches are renewed before it ends ([`crate::watch`]).
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// Which authorities may issue the API server's certificate.
#[derive(PartialEq, Eq)]
pub(crate) enum Trust {
    /// The authorities that the machine trusts.
    System,
    /// Only these CA certificates, as DER.
    Authorities(Vec<Vec<u8>>),
    /// Any certificate is accepted; the server is not verified.
    Unverified,
}

/// The credential that each call presents.
enum Login {
    Token(Secret),
    Certificate {
        chain: Vec<Vec<u8>>,
        key: pem::Block,
    },
}

/// Connection data that was parsed and validated.
pub(crate) struct Connection {
    pub(crate) endpoint: http::Uri,
    server_name: Option<String>,
    pub(crate) proxy: Option<http::Uri>,
    pub(crate) trust: Trust,
    login: Login,
    /// The namespace that the VIM's record names; `default` counts as none.
    pub(crate) namespace: Option<String>,
    /// The registry that images of packages are pushed to.
    pub(crate) registry: Option<ImageRegistry>,
}

impl Connection {
    /// Parses the connection data of a VIM's record.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member that is missing, unknown or invalid.
    pub(crate) fn read(info: &VimConnectionInfo) -> Result<Self, PortError> {
        check_members("interfaceInfo", &info.interface_info, INTERFACE_MEMBERS)?;
        check_members("accessInfo", &info.access_info, ACCESS_MEMBERS)?;
        let endpoint = endpoint(&info.interface_info)?;
        let namespace = text(&info.extra, &["namespace", "project_name"])
            .or_else(|| {
                text(
                    &info.access_info,
                    &["namespace", "project_name", "projectName"],
                )
            })
            .filter(|name| !name.is_empty() && *name != "default")
            .map(str::to_owned);
        Ok(Self {
            endpoint,
            server_name: text(&info.interface_info, &["tls_server_name"]).map(str::to_owned),
            proxy: proxy(&info.extra)?,
            trust: trust(info)?,
            login: login(&info.access_info)?,
            namespace,
            registry: ImageRegistry::read(info)?,
        })
    }

    /// Creates a client that connects at its first call and impersonates `user`, if any.
    ///
    /// # Errors
    ///
    /// `Refused` if certificate and key do not match, or the address must not be called.
    pub(crate) fn client(&self, to: Destinations, user: Option<&str>) -> Result<Client, PortError> {
        let proxy = self.proxy.iter().map(|proxy| ("extra.proxy", proxy));
        for (member, uri) in proxy.chain([("interfaceInfo.endpoint", &self.endpoint)]) {
            to.check(&uri.to_string()).map_err(|cause| {
                let action = format!("use `{member}` of the VIM connection");
                PortError::new(&ADDRESS, action, format!("`{uri}`: {cause}")).on(member)
            })?;
        }
        let mut config = Config::new(self.endpoint.clone());
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        // `Session` retries, reports why and stops in time; the client's own retries last minutes, silently.
        config.default_retry = false;
        config.tls_server_name.clone_from(&self.server_name);
        config.proxy_url.clone_from(&self.proxy);
        match &self.trust {
            Trust::System => {}
            Trust::Authorities(certificates) => config.root_cert = Some(certificates.clone()),
            Trust::Unverified => config.accept_invalid_certs = true,
        }
        config.auth_info.impersonate = user.map(str::to_owned);
        match &self.login {
            Login::Token(token) => config.auth_info.token = Some(token.reveal().to_owned().into()),
            Login::Certificate { chain, key } => {
                config.auth_info.client_certificate_data = Some(certificates(chain));
                let key = pem::encode(&key.label, &key.bytes);
                config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
            }
        }
        wire::client(&config, to).map_err(|error| {
            PortError::new(
                &CONNECTION,
                "create a client from the connection data",
                error.to_string(),
            )
        })
    }

    /// The same connection as a kubeconfig file for another program. It names an address that `to` allows, so that the
    /// program resolves no name; the proxy, if any, resolves the endpoint's.
    ///
    /// # Errors
    ///
    /// `Refused` if the address must not be called, or a token would be sent without TLS.
    pub(crate) async fn kubeconfig(
        &self,
        to: &Destinations,
        user: Option<&str>,
    ) -> Result<Secret, PortError> {
        let (member, called) = match &self.proxy {
            Some(proxy) => ("extra.proxy", proxy),
            None => ("interfaceInfo.endpoint", &self.endpoint),
        };
        if self.endpoint.scheme_str() != Some("https") {
            let reason = "helm sends credentials over `https` only";
            return Err(member_error("interfaceInfo.endpoint", reason));
        }
        let address = resolved(to, member, called).await?;
        let pinned = with_address(called, address);
        let endpoint = self
            .proxy
            .as_ref()
            .map_or(pinned.clone(), |_| self.endpoint.to_string());
        let host = self
            .endpoint
            .host()
            .unwrap_or_default()
            .trim_matches(['[', ']']);
        let name = self
            .server_name
            .as_deref()
            .or((host.parse::<IpAddr>().is_err()).then_some(host));
        let mut cluster = json!({"server": endpoint});
        if let Some(name) = name {
            cluster["tls-server-name"] = name.into();
        }
        if self.proxy.is_some() {
            cluster["proxy-url"] = pinned.into();
        }
        match &self.trust {
            Trust::System => {}
            Trust::Authorities(all) => {
                cluster["certificate-authority-data"] = certificates(all).into();
            }
            Trust::Unverified => cluster["insecure-skip-tls-verify"] = true.into(),
        }
        let mut login = match &self.login {
            Login::Token(token) => json!({"token": token.reveal()}),
            Login::Certificate { chain, key } => json!({
                "client-certificate-data": certificates(chain),
                "client-key-data": STANDARD.encode(pem::encode(&key.label, &key.bytes)),
            }),
        };
        if let Some(user) = user {
            login["as"] = user.into();
        }
        let file = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "vim",
            "contexts": [{"name": "vim", "context": {"cluster": "vim", "user": "vim"}}],
            "clusters": [{"name": "vim", "cluster": cluster}],
            "users": [{"name": "vim", "user": login}],
        });
        Ok(Secret::new(file.to_string()))
    }

    /// The same connection with a token as its login.
    pub(crate) fn with_token(self, token: Secret) -> Self {
        let login = Login::Token(token);
        Self { login, ..self }
    }

    /// Parses the CA certificates, which [`Self::read`] does not.
    ///
    /// # Errors
    ///
    /// `Refused` if one is not X.509.
    pub(crate) fn check_certificates(&self) -> Result<(), PortError> {
        let Trust::Authorities(certificates) = &self.trust else {
            return Ok(());
        };
        let is_invalid = certificates
            .iter()
            .any(|der| expiry::certificate_expiry(der).is_none());
        if is_invalid {
            Err(member_error(
                "interfaceInfo.ssl_ca_cert",
                "it contains something other than X.509 certificates",
            ))
        } else {
            Ok(())
        }
    }

    /// The earliest expiry, and what expires then: token, client certificate or CA certificate.
    pub(crate) fn earliest_expiry(&self) -> Option<(Timestamp, &'static str)> {
        let credential = match &self.login {
            Login::Token(token) => expiry::token_expiry(token.reveal()).map(|at| (at, "token")),
            Login::Certificate { chain, .. } => chain
                .iter()
                .filter_map(|der| expiry::certificate_expiry(der))
                .min()
                .map(|at| (at, "client certificate")),
        };
        let authority = match &self.trust {
            Trust::Authorities(all) => all
                .iter()
                .filter_map(|der| expiry::certificate_expiry(der))
                .max(),
            Trust::System | Trust::Unverified => None,
        };
        credential
            .into_iter()
            .chain(authority.map(|at| (at, "CA certificate")))
            .min()
    }

    /// The kind of credential, for reports.
    pub(crate) fn login_kind(&self) -> &'static str {
        match &self.login {
            Login::Token(_) => "bearer token",
            Login::Certificate { .. } => "client certificate",
        }
    }
}

/// The address of a URL's host that may be called.
async fn resolved(to: &Destinations, member: &str, uri: &http::Uri) -> Result<IpAddr, PortError> {
    let refused = |cause: String| {
        let action = format!("use `{member}` of the VIM connection");
        PortError::new(&ADDRESS, action, format!("`{uri}`: {cause}")).on(member)
    };
    let found = to.resolve(uri.host().unwrap_or_default()).await;
    let found = found.map_err(|error| refused(error.to_string()))?;
    let first = found.first().copied();
    first.ok_or_else(|| refused("it has no address".to_owned()))
}

/// The URL with an address in the place of its host.
fn with_address(uri: &http::Uri, address: IpAddr) -> String {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let port = uri
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    let scheme = uri.scheme_str().unwrap_or("https");
    format!("{scheme}://{host}{port}{}", uri.path())
}

/// Certificates as a kubeconfig file has them.
fn certificates(all: &[Vec<u8>]) -> String {
    let pem: String = all
        .iter()
        .map(|der| pem::encode("CERTIFICATE", der))
        .collect();
    STANDARD.encode(pem)
}

fn endpoint(interface: &KeyValuePairs) -> Result<http::Uri, PortError> {
    let text = text(interface, &["endpoint"]).ok_or_else(|| {
        member_error(
            "interfaceInfo.endpoint",
            "it is missing; it looks like `https://192.0.2.1:6443`",
        )
    })?;
    let uri: http::Uri = text
        .parse()
        .map_err(|_| member_error("interfaceInfo.endpoint", format!("`{text}` is not a URL")))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if loopback => Ok(uri),
        Some("http") => Err(member_error(
            "interfaceInfo.endpoint",
            format!("`{text}` would send the credential unencrypted; use `https`"),
        )),
        _ => Err(member_error(
            "interfaceInfo.endpoint",
            format!("`{text}` does not start with `https://`"),
        )),
    }
}

fn proxy(extra: &KeyValuePairs) -> Result<Option<http::Uri>, PortError> {
    let Some(given) = text(extra, &["proxy"]) else {
        return Ok(None);
    };
    let uri: Option<http::Uri> = given.parse().ok();
    let plain = |uri: &http::Uri| {
        let login = uri
            .authority()
            .is_none_or(|authority| authority.as_str().contains('@'));
        uri.scheme_str() == Some("http") && !login
    };
    let uri = uri.filter(plain);
    let reason = "it is not an `http://` URL without credentials";
    uri.map(Some)
        .ok_or_else(|| member_error("extra.proxy", reason))
}

fn trust(info: &VimConnectionInfo) -> Result<Trust, PortError> {
    let names = ["ssl_ca_cert", "sslCaCert"];
    let given = names.iter().find_map(|name| {
        info.interface_info
            .get(*name)
            .or_else(|| info.access_info.get(*name))
    });
    let skip = info.interface_info.get("skipCertificateVerification") == Some(&Value::Bool(true));
    match given {
        Some(Value::String(pem)) if !matches!(pem.trim(), "" | "None" | "none") => {
            let certificates = pem::certificates(pem)
                .map_err(|reason| member_error("interfaceInfo.ssl_ca_cert", reason))?;
            Ok(if skip {
                Trust::Unverified
            } else {
                Trust::Authorities(certificates)
            })
        }
        Some(Value::String(_) | Value::Null) => Ok(Trust::Unverified),
        Some(_) => Err(member_error(
            "interfaceInfo.ssl_ca_cert",
            "it is not a string",
        )),
        None if skip => Ok(Trust::Unverified),
        None => Ok(Trust::System),
    }
}

fn login(access: &KeyValuePairs) -> Result<Login, PortError> {
    if let Some(token) = text(access, &["bearer_token", "bearerToken"]) {
        let token = token.trim();
        let sendable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        return if sendable {
            Ok(Login::Token(Secret::new(token)))
        } else {
            Err(member_error(
                "accessInfo.bearer_token",
                "it is empty or contains characters that are invalid in a token",
            ))
        };
    }
    let certificate = text(access, &["client_certificate", "clientCertificate"]);
    let key = text(access, &["client_key", "clientKey"]);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Login::Certificate {
            chain: pem::certificates(certificate)
                .map_err(|reason| member_error("accessInfo.client_certificate", reason))?,
            key: pem::private_key(key)
                .map_err(|reason| member_error("accessInfo.client_key", reason))?,
        }),
        (Some(_), None) => Err(member_error(
            "accessInfo.client_key",
            "it is required with `client_certificate`",
        )),
        (None, Some(_)) => Err(member_error(
            "accessInfo.client_certificate",
            "it is required with `client_key`",
        )),
        (None, None) if access.contains_key("username") || access.contains_key("password") => {
            Err(member_error(
                "accessInfo.username",
                "Kubernetes supports no login by user name and password since 1.19; use `bearer_token`, or `client_certificate` and `client_key`",
            ))
        }
        (None, None) => Err(member_error(
            "accessInfo",
            "it has neither `bearer_token` nor `client_certificate` and `client_key`",
        )),
    }
}

fn check_members(section: &str, members: &KeyValuePairs, known: &[&str]) -> Result<(), PortError> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Err(member_error(&format!("{section}.{name}"), "unknown member")
                .hint(format!("known members: {}", list.join(", "))))
        }
    }
}

pub(crate) fn text<'a>(members: &'a KeyValuePairs, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

pub(crate) fn member_error(member: &str, reason: impl Into<String>) -> PortError {
    PortError::new(
        &CONNECTION,
        format!("use `{member}` of the VIM connection"),
        reason,
    )
    .on(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(interface: &Value, access: &Value, extra: &Value) -> Result<Connection, PortError> {
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        Connection::read(&VimConnectionInfo {
            interface_info: object(interface),
            access_info: object(access),
            extra: object(extra),
            ..VimConnectionInfo::default()
        })
    }

    /// Every row: interfaceInfo, accessInfo, and the member that the error names without its value.
    fn assert_refused(rows: &[(Value, &Value, &str)]) {
        for (interface, access, expected) in rows {
            let error = read(interface, access, &json!({})).err().expect(expected);
            assert_eq!(error.resource(), Some(*expected));
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn an_error_names_the_wrong_member_of_the_interface_info() {
        let token = json!({"bearer_token": "hunter2"});
        assert_refused(&[
            (json!({}), &token, "interfaceInfo.endpoint"),
            (
                json!({"endpoint": "192.0.2.1:6443"}),
                &token,
                "interfaceInfo.endpoint",
            ),
            (
                json!({"endpoint": "http://192.0.2.1:6443"}),
                &token,
                "interfaceInfo.endpoint",
            ),
            (
                json!({"endpoint": "http://127.evil.example"}),
                &token,
                "interfaceInfo.endpoint",
            ),
            (
                json!({"endpoint": "http://127.0.0.1.nip.example"}),
                &token,
                "interfaceInfo.endpoint",
            ),
            (
                json!({"endpoint": "https://h", "ssl_ca_crt": ""}),
                &token,
                "interfaceInfo.ssl_ca_crt",
            ),
            (
                json!({"endpoint": "https://h", "ssl_ca_cert": "hunter2"}),
                &token,
                "interfaceInfo.ssl_ca_cert",
            ),
            (
                json!({"endpoint": "https://h", "ssl_ca_cert": 7}),
                &token,
                "interfaceInfo.ssl_ca_cert",
            ),
        ]);
    }

    #[test]
    fn an_error_names_the_wrong_member_of_the_access_info() {
        let endpoint = json!({"endpoint": "https://192.0.2.1:6443"});
        assert_refused(&[
            (endpoint.clone(), &json!({}), "accessInfo"),
            (
                endpoint.clone(),
                &json!({"bearer_tokn": "hunter2"}),
                "accessInfo.bearer_tokn",
            ),
            (
                endpoint.clone(),
                &json!({"bearer_token": "hunter2\nX: y"}),
                "accessInfo.bearer_token",
            ),
            (
                endpoint.clone(),
                &json!({"username": "u", "password": "hunter2"}),
                "accessInfo.username",
            ),
            (
                endpoint.clone(),
                &json!({"client_key": "hunter2"}),
                "accessInfo.client_certificate",
            ),
            (
                endpoint.clone(),
                &json!({"client_certificate": "hunter2"}),
                "accessInfo.client_key",
            ),
        ]);
    }

    #[test]
    fn a_token_takes_precedence_over_a_password() {
        let both = json!({"username": "u", "password": "p", "bearer_token": " t \n", "certificate_key": "k"});
        let read =
            read(&json!({"endpoint": "https://h:1"}), &both, &json!({})).expect("it is complete");
        assert_eq!(read.login_kind(), "bearer token");
    }

    #[test]
    fn a_ca_of_none_disables_verification_and_an_absent_one_means_the_system_cas() {
        let token = json!({"bearer_token": "t"});
        let trust = |interface: &Value| {
            read(interface, &token, &json!({}))
                .expect("it is complete")
                .trust
        };
        assert!(
            trust(&json!({"endpoint": "https://h", "ssl_ca_cert": "None"})) == Trust::Unverified
        );
        assert!(trust(&json!({"endpoint": "https://h", "ssl_ca_cert": null})) == Trust::Unverified);
        assert!(trust(&json!({"endpoint": "https://h"})) == Trust::System);
        let folded = pem::encode("CERTIFICATE", &[1; 80]).replace('\n', " ");
        assert!(
            trust(&json!({"endpoint": "https://h", "ssl_ca_cert": folded}))
                == Trust::Authorities(vec![vec![1; 80]])
        );
    }

    #[test]
    fn the_namespace_default_counts_as_none() {
        let namespace = |extra: &Value| {
            let endpoint = json!({"endpoint": "https://h"});
            read(&endpoint, &json!({"bearer_token": "t"}), extra)
                .expect("it is complete")
                .namespace
        };
        assert_eq!(
            namespace(&json!({"namespace": "team"})).as_deref(),
            Some("team")
        );
        assert_eq!(namespace(&json!({"namespace": "default"})), None);
        assert_eq!(namespace(&json!({})), None);
    }

    #[tokio::test]
    async fn a_kubeconfig_names_an_address_and_the_host_to_verify() {
        let connection = |endpoint: &str| {
            let interface = json!({"endpoint": endpoint, "ssl_ca_cert": "None"});
            read(&interface, &json!({"bearer_token": "hunter2"}), &json!({})).unwrap()
        };
        let to = Destinations::anywhere();
        let file = connection("https://localhost:6443");
        let file = file
            .kubeconfig(&to, Some("system:serviceaccount:a:b"))
            .await
            .unwrap();
        let file: Value = serde_json::from_str(file.reveal()).unwrap();
        let cluster = &file["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap();
        assert!(
            ["https://127.0.0.1:6443/", "https://[::1]:6443/"].contains(&server),
            "{server}"
        );
        assert_eq!(cluster["tls-server-name"], "localhost");
        assert_eq!(cluster["insecure-skip-tls-verify"], true);
        let user = json!({"token": "hunter2", "as": "system:serviceaccount:a:b"});
        assert_eq!(file["users"][0]["user"], user);
        let unsafe_endpoint = connection("http://127.0.0.1:8080");
        let refused = unsafe_endpoint.kubeconfig(&to, None).await.err().unwrap();
        assert_eq!(refused.resource(), Some("interfaceInfo.endpoint"));
        let networks = vnfm_outbound::Networks::parse(&["192.0.2.0/24".to_owned()]).unwrap();
        let refused = connection("https://198.51.100.1:6443")
            .kubeconfig(&Destinations::within(networks), None)
            .await;
        assert_eq!(refused.err().unwrap().name(), "kubernetes.address");
    }
}
