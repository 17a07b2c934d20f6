//! An HTTP client for one purpose: no redirects, no proxy of the environment, timeouts, and only allowed destinations.

use crate::destinations::{Destinations, Forbidden};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, ClientBuilder, Identity, Method, Proxy, RequestBuilder, Url};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Limits of the requests for one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Largest response body, in bytes.
    pub body: u64,
    /// Maximum number of values in a JSON response.
    pub values: u64,
    /// Timeout for a request and its response together.
    pub total: Duration,
    /// Timeout without any received data.
    pub stalled: Duration,
}

const MIB: u64 = 1 << 20;

impl Policy {
    /// Calls to a VIM. Uploads of images have their own timeout.
    pub const VIM: Self = Self {
        body: 16 * MIB,
        values: 500_000,
        total: Duration::from_secs(70),
        stalled: Duration::from_secs(70),
    };
    /// HTTP requests of hooks, which set their own timeout.
    pub const HOOK: Self = Self {
        body: 4 * MIB,
        values: u64::MAX,
        total: Duration::from_hours(1),
        stalled: Duration::from_mins(5),
    };
    /// Notifications to subscribers, and tests of their callbacks.
    pub const CALLBACK: Self = Self {
        body: 64 << 10,
        values: 10_000,
        total: Duration::from_secs(10),
        stalled: Duration::from_secs(10),
    };
    /// Token endpoints, issuers of tokens and their keys, a Keystone that checks tokens.
    pub const IDENTITY: Self = Self {
        body: MIB,
        values: 50_000,
        total: Duration::from_secs(10),
        stalled: Duration::from_secs(10),
    };
    /// Grants and VNF packages of the NFVO, but not the packages themselves.
    pub const NFVO: Self = Self {
        body: 4 * MIB,
        values: 200_000,
        total: Duration::from_secs(30),
        stalled: Duration::from_secs(30),
    };
    /// Packages and artifacts, which go to the disk in pieces.
    pub const DOWNLOAD: Self = Self {
        body: MIB,
        values: 50_000,
        total: Duration::from_hours(12),
        stalled: Duration::from_mins(1),
    };

    /// Sets the total timeout; the stall timeout is at most as long.
    #[must_use]
    pub fn with_timeout(self, total: Duration) -> Self {
        Self {
            total,
            stalled: self.stalled.min(total),
            ..self
        }
    }

    /// Sets how long a response may pause before it fails.
    #[must_use]
    pub fn with_stall_timeout(self, stalled: Duration) -> Self {
        Self { stalled, ..self }
    }
}

/// What to trust, and how to identify ourselves, over TLS.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// CA certificates, PEM; if empty, those of the machine.
    pub authorities: Vec<u8>,
    /// Our client certificate with chain and private key, PEM.
    pub certificate: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own = self.certificate.as_ref().map(|_| "[hidden]");
        f.debug_struct("Tls")
            .field("certificate", &own)
            .finish_non_exhaustive()
    }
}

/// How a server's certificate is verified.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// CA certificates; if empty, those of the machine.
    pub authorities: Vec<Certificate>,
    /// Accept any certificate; anyone on the path can then read the login.
    pub skip_verification: bool,
    /// Accept a certificate for any host name.
    pub skip_hostname: bool,
}

/// A URL that the client has checked and may call.
#[derive(Debug, Clone)]
pub struct Allowed(Url);

/// A client for one purpose.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    to: Destinations,
    policy: Policy,
}

impl Client {
    /// A client for the destinations `to`, optionally through a proxy, whose address is checked like any other.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up, a certificate cannot be read, or the proxy is not an allowed destination.
    pub fn new(
        to: Destinations,
        policy: Policy,
        tls: &Tls,
        proxy: Option<&str>,
    ) -> Result<Self, String> {
        let mut trust = Trust::default();
        if !tls.authorities.is_empty() {
            let bundle = Certificate::from_pem_bundle(&tls.authorities);
            let bundle = bundle.ok().filter(|bundle| !bundle.is_empty());
            trust.authorities = bundle.ok_or("the CA certificates are not valid PEM")?;
        }
        let identity = tls
            .certificate
            .as_ref()
            .map(|own| Identity::from_pem(own))
            .transpose();
        let identity = identity
            .map_err(|_| "the client certificate and key are not valid PEM, or do not match")?;
        Self::made((to, policy), &trust, identity.as_ref(), proxy)
    }

    /// A client with its own verification settings and no client certificate.
    ///
    /// # Errors
    ///
    /// Those of [`Client::new`], except for the client certificate.
    pub fn trusting(
        to: Destinations,
        policy: Policy,
        trust: &Trust,
        proxy: Option<&str>,
    ) -> Result<Self, String> {
        Self::made((to, policy), trust, None, proxy)
    }

    fn made(
        (to, policy): (Destinations, Policy),
        trust: &Trust,
        identity: Option<&Identity>,
        proxy: Option<&str>,
    ) -> Result<Self, String> {
        if let Some(proxy) = proxy {
            to.check(proxy)
                .map_err(|why| format!("the proxy `{}`: {why}", without_credentials(proxy)))?;
        }
        let build = |trust: &Trust, no_authority: bool| -> Result<_, String> {
            let mut builder = builder(&to, &policy);
            if let Some(proxy) = proxy {
                builder = builder.proxy(Proxy::all(proxy).map_err(|error| error_chain(&error))?);
            }
            if let Some(identity) = identity {
                builder = builder.identity(identity.clone());
            }
            if no_authority || !trust.authorities.is_empty() {
                builder = builder.tls_certs_only(trust.authorities.clone());
            }
            builder = builder
                .tls_danger_accept_invalid_hostnames(trust.skip_hostname)
                .tls_danger_accept_invalid_certs(trust.skip_verification);
            Ok(builder.build())
        };
        let http = match build(trust, false)? {
            Ok(http) => http,
            // On a machine without any CA certificate, plain HTTP still works.
            Err(_) if trust.authorities.is_empty() && identity.is_none() => {
                build(&Trust::default(), true)?.map_err(|error| error_chain(&error))?
            }
            Err(error) => return Err(error_chain(&error)),
        };
        Ok(Self { http, to, policy })
    }

    /// A request to `url`, whose host is checked first.
    ///
    /// # Errors
    ///
    /// If the destination is not allowed.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Forbidden> {
        Ok(self.begin(method, &self.allowed(url)?))
    }

    /// Checks that `url` may be called.
    ///
    /// # Errors
    ///
    /// Why it is not allowed.
    pub fn allowed(&self, url: &str) -> Result<Allowed, Forbidden> {
        self.to.check(url).map(Allowed)
    }

    /// A request to a URL that was checked.
    pub fn begin(&self, method: Method, to: &Allowed) -> RequestBuilder {
        self.http.request(method, to.0.clone())
    }

    /// The limits of this client.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The allowed destinations of this client.
    pub fn destinations(&self) -> &Destinations {
        &self.to
    }
}

fn builder(to: &Destinations, policy: &Policy) -> ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT.min(policy.total))
        .pool_idle_timeout(IDLE_TIMEOUT)
        .timeout(policy.total)
        .read_timeout(policy.stalled)
        .dns_resolver(Arc::new(Checked(to.clone())))
}

/// Resolves names only to allowed addresses.
struct Checked(Destinations);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let to = self.0.clone();
        Box::pin(async move {
            let found = to.resolve(name.as_str()).await?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

/// An error with its causes, since the outermost one says little. Query and credentials of its URL, which
/// may be secret, are removed.
pub fn error_chain(error: &reqwest::Error) -> String {
    let mut texts = vec![error.to_string()];
    if let Some(url) = error.url() {
        texts[0] = texts[0].replace(url.as_str(), &without_credentials(url.as_str()));
    }
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
        cause = inner.source();
    }
    texts.join(": ")
}

/// A URL without credentials, query and fragment, which may be secret.
pub fn without_credentials(url: &str) -> String {
    Url::parse(url).map_or_else(
        |_| "?".to_owned(),
        |mut url| {
            let _ = url.set_username("").and_then(|()| url.set_password(None));
            url.set_query(None);
            url.set_fragment(None);
            url.to_string()
        },
    )
}
