//! The address and login of a registry.

use crate::error::RegistryError;
use vnfm_outbound::{Trust, Url};
use vnfm_types::Secret;

const ACTION: &str = "use the registry";

/// A user of a registry.
#[derive(Debug, Clone)]
pub struct Login {
    /// The user's name; contains no colon.
    pub user: String,
    /// The user's password or access token.
    pub password: Secret,
}

/// How to reach a registry.
#[derive(Debug, Clone)]
pub struct Access {
    pub(crate) url: Url,
    pub(crate) login: Option<Login>,
    pub(crate) trust: Trust,
    pub(crate) token_hosts: Vec<String>,
}

impl Access {
    /// The registry at `address`: `HOST[:PORT]`, `https://HOST[:PORT]`, or `http://` with a loopback host.
    ///
    /// # Errors
    ///
    /// `Refused`, if the address is invalid, with the reason.
    pub fn new(address: &str) -> Result<Self, RegistryError> {
        let refused = |reason: String| RegistryError::refused(ACTION, reason);
        let text = if address.contains("://") {
            address.to_owned()
        } else {
            format!("https://{address}")
        };
        let url = Url::parse(&text).map_err(|_| refused("its address is not a URL".to_owned()))?;
        let plain = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !plain || url.host_str().is_none() {
            let reason = "its address is not `HOST[:PORT]`: it has a path, a query or a login";
            return Err(refused(reason.to_owned()));
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            _ => return Err(refused(format!("`{url}` would be called without TLS"))),
        }
        Ok(Self {
            url,
            login: None,
            trust: Trust::default(),
            token_hosts: Vec::new(),
        })
    }

    /// The same, with the login that the registry and its token endpoint get.
    #[must_use]
    pub fn with_login(self, login: Login) -> Self {
        Self {
            login: Some(login),
            ..self
        }
    }

    /// The same, with other CA certificates than those of the machine.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// The same, whose tokens may be issued by these hosts too.
    #[must_use]
    pub fn with_token_hosts(self, token_hosts: Vec<String>) -> Self {
        Self {
            token_hosts,
            ..self
        }
    }

    /// `HOST[:PORT]`, as references to its images begin.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether a token endpoint may get the login.
    pub(crate) fn may_issue_tokens(&self, realm: &Url) -> bool {
        let Some(host) = realm.host_str() else {
            return false;
        };
        let known =
            self.url.host_str() == Some(host) || self.token_hosts.iter().any(|known| known == host);
        let encrypted = realm.scheme() == "https"
            || (realm.scheme() == "http" && self.url.scheme() == "http" && is_loopback(realm));
        let plain = realm.username().is_empty() && realm.password().is_none();
        known && encrypted && plain
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_tls() {
        for (address, host) in [
            ("registry.example:5000", Some("registry.example:5000")),
            ("https://registry.example", Some("registry.example")),
            ("http://127.0.0.1:5000", Some("127.0.0.1:5000")),
            ("http://registry.example", None),
            ("http://127.0.0.1.evil.example", None),
            ("https://user:hunter2@registry.example", None),
            ("https://registry.example/path", None),
            ("ftp://registry.example", None),
            ("", None),
        ] {
            let access = Access::new(address);
            assert_eq!(
                access.as_ref().ok().map(Access::host).as_deref(),
                host,
                "{address}"
            );
            assert!(!format!("{access:?}").contains("hunter2"));
        }
    }

    #[test]
    fn only_the_registrys_host_and_named_ones_issue_tokens() {
        let access = Access::new("registry.example:5000").unwrap();
        let access = access.with_token_hosts(vec!["auth.example".to_owned()]);
        for (realm, may) in [
            ("https://registry.example/token", true),
            ("https://registry.example:5001/token", true),
            ("https://auth.example/token", true),
            ("http://registry.example/token", false),
            ("https://evil.example/token", false),
            ("https://registry.example.evil.example/token", false),
            ("https://a:b@registry.example/token", false),
        ] {
            let url = Url::parse(realm).unwrap();
            assert_eq!(access.may_issue_tokens(&url), may, "{realm}");
        }
    }
}
