//! The connection data of a VIM, read once: address, trust, login, proxy.
//!
//! ```text
//! VimConnectionInfo ── Connection::read ──> Connection ── client() ──> kube::Client
//! interfaceInfo  endpoint, ssl_ca_cert (PEM, also folded; "None": not verified), tls_server_name
//! accessInfo     bearer_token | client_certificate + client_key
//! extra          namespace, proxy (an HTTP proxy; the environment's proxy is not used for any VIM)
//! ```

use crate::client::{CONNECT, SILENCE};
use crate::errors::{ADDRESS, CONNECTION};
use crate::{expiry, http as wire, pem};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::Value;
use std::net::IpAddr;
use vnfm_core::ports::PortError;
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};
const INTERFACE: &[&str] = &[
    "endpoint",
    "ssl_ca_cert",
    "sslCaCert",
    "skipCertificateVerification",
    "tls_server_name",
];
const ACCESS: &[&str] = &[
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
];

/// Whose word about the API server's certificate counts.
#[derive(PartialEq, Eq)]
pub(crate) enum Trust {
    /// The system's authorities.
    System,
    /// These, as DER.
    Authorities(Vec<Vec<u8>>),
    /// Nobody's: any certificate is taken.
    Unverified,
}

/// Who we are.
enum Login {
    Token(Secret),
    Certificate {
        chain: Vec<Vec<u8>>,
        key: pem::Block,
    },
}

/// A connection that was read and can be used.
pub(crate) struct Connection {
    pub(crate) endpoint: http::Uri,
    server_name: Option<String>,
    pub(crate) proxy: Option<http::Uri>,
    pub(crate) trust: Trust,
    login: Login,
    /// The namespace that the VIM's own record names; `default` is what records say that do not care.
    pub(crate) namespace: Option<String>,
}

impl Connection {
    /// Reads connection data.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member that is missing, unknown or cannot be read.
    pub(crate) fn read(info: &VimConnectionInfo) -> Result<Self, PortError> {
        known("interfaceInfo", &info.interface_info, INTERFACE)?;
        known("accessInfo", &info.access_info, ACCESS)?;
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
        })
    }

    /// A client; it connects at its first call.
    ///
    /// # Errors
    ///
    /// `Refused` where certificate and key do not fit together, or the address must not be called.
    pub(crate) fn client(&self, to: Destinations, user: Option<&str>) -> Result<Client, PortError> {
        let proxy = self.proxy.iter().map(|proxy| ("extra.proxy", proxy));
        for (member, uri) in proxy.chain([("interfaceInfo.endpoint", &self.endpoint)]) {
            to.check(&uri.to_string()).map_err(|why| {
                let doing = format!("use `{member}` of the VIM connection");
                PortError::new(&ADDRESS, doing, format!("`{uri}`: {why}")).on(member)
            })?;
        }
        let mut config = Config::new(self.endpoint.clone());
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        config.reset_reader_on_write = true;
        // Ours is said, and ends: the client's own goes on for minutes without a word.
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
                let chain: String = chain
                    .iter()
                    .map(|der| pem::proper("CERTIFICATE", der))
                    .collect();
                config.auth_info.client_certificate_data = Some(STANDARD.encode(chain));
                let key = pem::proper(&key.label, &key.bytes);
                config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
            }
        }
        wire::client(&config, to).map_err(|error| {
            PortError::new(
                &CONNECTION,
                "make a client from the connection data",
                error.to_string(),
            )
        })
    }

    /// Looks into the certificates, which reading does not.
    ///
    /// # Errors
    ///
    /// `Refused`, where a certificate is none.
    pub(crate) fn client_check(&self) -> Result<(), PortError> {
        let Trust::Authorities(certificates) = &self.trust else {
            return Ok(());
        };
        let none = certificates
            .iter()
            .any(|der| expiry::of_certificate(der).is_none());
        if none {
            Err(wrong(
                "interfaceInfo.ssl_ca_cert",
                "what it holds is no X.509 certificate",
            ))
        } else {
            Ok(())
        }
    }

    /// When the credential or the certificate that ends first ends, and which that is.
    pub(crate) fn ends(&self) -> Option<(Timestamp, &'static str)> {
        let credential = match &self.login {
            Login::Token(token) => expiry::of_token(token.reveal()).map(|at| (at, "token")),
            Login::Certificate { chain, .. } => chain
                .iter()
                .filter_map(|der| expiry::of_certificate(der))
                .min()
                .map(|at| (at, "client certificate")),
        };
        let authority = match &self.trust {
            Trust::Authorities(all) => all
                .iter()
                .filter_map(|der| expiry::of_certificate(der))
                .max(),
            Trust::System | Trust::Unverified => None,
        };
        credential
            .into_iter()
            .chain(authority.map(|at| (at, "CA certificate")))
            .min()
    }

    /// How we log in, in a word.
    pub(crate) fn login_kind(&self) -> &'static str {
        match &self.login {
            Login::Token(_) => "bearer token",
            Login::Certificate { .. } => "client certificate",
        }
    }
}

fn endpoint(interface: &KeyValuePairs) -> Result<http::Uri, PortError> {
    let text = text(interface, &["endpoint"]).ok_or_else(|| {
        wrong(
            "interfaceInfo.endpoint",
            "it is missing; it looks like `https://192.0.2.1:6443`",
        )
    })?;
    let uri: http::Uri = text
        .parse()
        .map_err(|_| wrong("interfaceInfo.endpoint", format!("`{text}` is no URL")))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if loopback => Ok(uri),
        Some("http") => Err(wrong(
            "interfaceInfo.endpoint",
            format!("`{text}` would send the credential in clear text: use `https`"),
        )),
        _ => Err(wrong(
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
    let wanted = "it is no `http://` URL without a login";
    uri.map(Some).ok_or_else(|| wrong("extra.proxy", wanted))
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
                .map_err(|reason| wrong("interfaceInfo.ssl_ca_cert", reason))?;
            Ok(if skip {
                Trust::Unverified
            } else {
                Trust::Authorities(certificates)
            })
        }
        Some(Value::String(_) | Value::Null) => Ok(Trust::Unverified),
        Some(_) => Err(wrong("interfaceInfo.ssl_ca_cert", "it is not a text")),
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
            Err(wrong(
                "accessInfo.bearer_token",
                "it is empty or holds characters that no token has",
            ))
        };
    }
    let certificate = text(access, &["client_certificate", "clientCertificate"]);
    let key = text(access, &["client_key", "clientKey"]);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Login::Certificate {
            chain: pem::certificates(certificate)
                .map_err(|reason| wrong("accessInfo.client_certificate", reason))?,
            key: pem::private_key(key).map_err(|reason| wrong("accessInfo.client_key", reason))?,
        }),
        (Some(_), None) => Err(wrong(
            "accessInfo.client_key",
            "it is missing beside `client_certificate`",
        )),
        (None, Some(_)) => Err(wrong(
            "accessInfo.client_certificate",
            "it is missing beside `client_key`",
        )),
        (None, None) if access.contains_key("username") || access.contains_key("password") => {
            Err(wrong(
                "accessInfo.username",
                "Kubernetes has no login by user name and password since 1.19: use `bearer_token`, or `client_certificate` and `client_key`",
            ))
        }
        (None, None) => Err(wrong(
            "accessInfo",
            "it has neither `bearer_token` nor `client_certificate` and `client_key`",
        )),
    }
}

fn known(what: &str, members: &KeyValuePairs, known: &[&str]) -> Result<(), PortError> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Err(wrong(&format!("{what}.{name}"), "there is no such member")
                .hint(format!("known are {}", list.join(", "))))
        }
    }
}

fn text<'a>(members: &'a KeyValuePairs, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

fn wrong(member: &str, reason: impl Into<String>) -> PortError {
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
    use serde_json::json;

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
    fn a_token_counts_before_a_password() {
        let both = json!({"username": "u", "password": "p", "bearer_token": " t \n", "certificate_key": "k"});
        let read =
            read(&json!({"endpoint": "https://h:1"}), &both, &json!({})).expect("it is complete");
        assert_eq!(read.login_kind(), "bearer token");
    }

    #[test]
    fn none_means_not_verified_and_absent_means_the_systems() {
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
        let folded = pem::proper("CERTIFICATE", &[1; 80]).replace('\n', " ");
        assert!(
            trust(&json!({"endpoint": "https://h", "ssl_ca_cert": folded}))
                == Trust::Authorities(vec![vec![1; 80]])
        );
    }

    #[test]
    fn a_namespace_that_says_nothing_is_none() {
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
}
