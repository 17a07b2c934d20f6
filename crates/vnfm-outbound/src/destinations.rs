//! Allowed destinations: an address that was not chosen by the operator is checked before it is called, and the
//! connection goes to the checked address.

use crate::networks::{Networks, is_loopback};
use futures_util::future::BoxFuture;
use reqwest::Url;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The machine's own addresses and its resolver; tests supply their own.
pub trait Machine: Send + Sync {
    /// The addresses of its interfaces.
    fn addresses(&self) -> Vec<IpAddr>;
    /// The addresses that a name resolves to now.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// This machine: its kernel's interfaces, and its resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn addresses(&self) -> Vec<IpAddr> {
        let all = if_addrs::get_if_addrs().unwrap_or_default();
        all.iter().map(if_addrs::Interface::ip).collect()
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one place where names are resolved"
            )]
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// An address or name that must not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden(String);

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Forbidden {}

/// The allowed destinations for one purpose.
#[derive(Clone)]
pub struct Destinations {
    rule: Rule,
    /// Hosts that are allowed regardless of the rule: configured by the operator, or in use before there was a rule.
    hosts: Vec<String>,
    machine: Arc<dyn Machine>,
}

#[derive(Clone)]
enum Rule {
    Anywhere,
    Networks(Networks),
}

impl fmt::Debug for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks = match &self.rule {
            Rule::Anywhere => None,
            Rule::Networks(networks) => Some(networks),
        };
        f.debug_struct("Destinations")
            .field("networks", &networks)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Destinations {
    /// Any address: for URLs from the operator, and for programs whose only user is trusted.
    pub fn anywhere() -> Self {
        Self::with(Rule::Anywhere, Arc::new(ThisMachine))
    }

    /// The addresses that `networks` allow.
    pub fn within(networks: Networks) -> Self {
        Self::with(Rule::Networks(networks), Arc::new(ThisMachine))
    }

    /// What `networks` allow, on a machine that a test made.
    pub fn within_on(networks: Networks, machine: Arc<dyn Machine>) -> Self {
        Self::with(Rule::Networks(networks), machine)
    }

    fn with(rule: Rule, machine: Arc<dyn Machine>) -> Self {
        Self {
            rule,
            hosts: Vec::new(),
            machine,
        }
    }

    /// The same, and the host of a URL that is trusted. Where that host is this machine, all its addresses are.
    #[must_use]
    pub fn and_host_of(mut self, url: &str) -> Self {
        let host = Url::parse(url)
            .ok()
            .and_then(|url| url.host_str().map(plain));
        self.hosts.extend(host);
        self
    }

    /// Checks that a URL may be called: its scheme, that it has no login, and its host where that is an address.
    /// What a name leads to is checked when it is resolved.
    ///
    /// # Errors
    ///
    /// Why it must not be called, worded for the author of the URL.
    pub fn check(&self, url: &str) -> Result<Url, Forbidden> {
        let forbidden = |why: String| Err(Forbidden(why));
        let url = match Url::parse(url) {
            Ok(url) => url,
            Err(error) => return forbidden(format!("it is no URL: {error}")),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return forbidden("it is neither http nor https".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return forbidden("a login does not belong into a URL".to_owned());
        }
        let host = plain(url.host_str().unwrap_or_default());
        // RFC 6761: this name leads to loopback wherever it is resolved.
        let is_localhost = host == "localhost" || host.ends_with(".localhost");
        let address = host
            .parse()
            .ok()
            .or(is_localhost.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        match address {
            Some(address) if !self.allow(&host, address) => {
                forbidden(format!("the address {address} is not allowed"))
            }
            _ => Ok(url),
        }
    }

    /// The addresses of a host that may be called; the caller connects to one of these and to no other.
    ///
    /// # Errors
    ///
    /// If the name does not resolve, or only to addresses that are not allowed.
    pub async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = plain(host);
        let found = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => self.machine.lookup(&host).await?,
        };
        let allowed: Vec<_> = found
            .into_iter()
            .filter(|address| self.allow(&host, *address))
            .collect();
        if allowed.is_empty() {
            let why = Forbidden(format!("`{host}` does not resolve to an allowed address"));
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(allowed)
    }

    /// Connects to a host at a checked address.
    ///
    /// # Errors
    ///
    /// See [`Destinations::resolve`]; also if the connection fails.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<tokio::net::TcpStream> {
        let found = self.resolve(host).await?;
        let addresses: Vec<_> = found
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect();
        tokio::net::TcpStream::connect(&addresses[..]).await
    }

    fn allow(&self, host: &str, address: IpAddr) -> bool {
        let Rule::Networks(networks) = &self.rule else {
            return true;
        };
        let own = self.machine.addresses();
        if networks.allow(address, &own) {
            return true;
        }
        let is_here = |address: IpAddr| {
            is_loopback(address)
                || own
                    .iter()
                    .any(|own| own.to_canonical() == address.to_canonical())
        };
        self.hosts.iter().any(|trusted| {
            let trusted_is_here = trusted.parse().map_or(trusted == "localhost", is_here);
            trusted == host || trusted.parse() == Ok(address) || trusted_is_here && is_here(address)
        })
    }
}

/// A host in lowercase, without the brackets of IPv6.
fn plain(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

/// Whether an error, or one of its causes, is [`Forbidden`].
pub fn is_forbidden(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if error.is::<Forbidden>()
            || inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Forbidden>)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Destinations, Machine};
    use crate::Networks;
    use futures_util::future::BoxFuture;
    use std::io;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A name that resolves differently each time: first to a public address, then to loopback.
    #[derive(Default)]
    struct Rebinding(AtomicUsize);

    impl Machine for Rebinding {
        fn addresses(&self) -> Vec<IpAddr> {
            vec!["192.0.2.2".parse().unwrap()]
        }

        fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            let first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
            let found = if first { "203.0.113.7" } else { "127.0.0.1" };
            Box::pin(async move { Ok(vec![found.parse().unwrap(), "192.0.2.2".parse().unwrap()]) })
        }
    }

    #[tokio::test]
    async fn a_name_is_checked_at_each_resolution_and_own_addresses_are_excluded() {
        let to = Destinations::within_on(Networks::default(), Arc::new(Rebinding::default()));
        let first = to.resolve("rebind.example").await.unwrap();
        assert_eq!(first, ["203.0.113.7".parse::<IpAddr>().unwrap()]);
        let error = to.resolve("rebind.example").await.unwrap_err();
        assert!(super::is_forbidden(&error), "{error}");
    }

    #[test]
    fn only_the_named_host_is_trusted() {
        let to = Destinations::within_on(Networks::default(), Arc::new(Rebinding::default()));
        let kept = to.clone().and_host_of("http://169.254.1.1:5000/v3");
        assert!(kept.check("http://169.254.1.1:9999/x").is_ok());
        assert!(kept.check("http://169.254.169.254/").is_err());
        assert!(kept.check("http://127.0.0.1/").is_err());
        let here = to.and_host_of("http://127.0.0.1:5000");
        assert!(
            here.check("http://192.0.2.2:8774/").is_ok(),
            "the same machine"
        );
        assert!(here.check("http://169.254.169.254/").is_err());
    }

    #[test]
    fn a_forbidden_url_is_rejected_with_the_reason() {
        let to = Destinations::within_on(Networks::default(), Arc::new(Rebinding::default()));
        for (url, why) in [
            ("not a url", "no URL"),
            ("file:///etc/passwd", "neither http nor https"),
            ("http://127.0.0.1:9/x", "127.0.0.1 is not allowed"),
            ("http://[::1]:9/x", "::1 is not allowed"),
            ("http://[::ffff:127.0.0.1]:9/x", "is not allowed"),
            ("http://0x7f000001:9/x", "127.0.0.1 is not allowed"),
            ("http://2130706433/", "127.0.0.1 is not allowed"),
            ("http://localhost:9/x", "127.0.0.1 is not allowed"),
            ("http://192.0.2.2/", "192.0.2.2 is not allowed"),
            ("http://user:hunter2@203.0.113.1/x", "does not belong into"),
        ] {
            let error = to.check(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(
            Destinations::anywhere()
                .check("http://127.0.0.1:9/x")
                .is_ok()
        );
    }
}
