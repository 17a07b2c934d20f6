//! A client for one purpose: it follows no redirect, takes no proxy from the environment, ends in time, and calls only
//! where its destinations allow.

use crate::destinations::{Destinations, Forbidden};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, ClientBuilder, Identity, Method, Proxy, RequestBuilder, Url};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection without requests is kept.
const IDLE: Duration = Duration::from_secs(20);

/// The limits of a purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The largest answer that is read whole, in bytes.
    pub body: u64,
    /// The most values that the JSON of an answer may have.
    pub values: u64,
    /// How long a request and its answer may take together.
    pub total: Duration,
    /// How long nothing may come.
    pub stalled: Duration,
}

const MIB: u64 = 1 << 20;

impl Policy {
    /// Calls to a VIM. Uploads of images have a time of their own.
    pub const VIM: Self = Self {
        body: 16 * MIB,
        values: 500_000,
        total: Duration::from_secs(70),
        stalled: Duration::from_secs(70),
    };
    /// HTTP requests of hooks; a request says its time itself.
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

    /// The same with another time for a request and its answer.
    #[must_use]
    pub fn taking(self, total: Duration) -> Self {
        Self {
            total,
            stalled: self.stalled.min(total),
            ..self
        }
    }

    /// The same with another time for silence.
    #[must_use]
    pub fn stalled(self, stalled: Duration) -> Self {
        Self { stalled, ..self }
    }
}

/// How TLS is spoken.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of authorities, PEM; those of the machine where there are none.
    pub authorities: Vec<u8>,
    /// Our certificate with its chain and its private key, PEM.
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

/// How a server's certificate is looked at, beside what [`Tls`] says.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Authorities, read already; those of the machine where there are none.
    pub authorities: Vec<Certificate>,
    /// Any certificate is taken.
    pub skip_verification: bool,
    /// Any name in a certificate is taken.
    pub skip_hostname: bool,
}

/// A URL that a client checked and may call.
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
    /// A client for what `to` allows, through a proxy where one is named. The proxy's address is checked like any other.
    ///
    /// # Errors
    ///
    /// Where TLS cannot be set up, a certificate cannot be read, or the proxy must not be called.
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
            trust.authorities = bundle.ok_or("the authorities are no PEM certificates")?;
        }
        let identity = tls
            .certificate
            .as_ref()
            .map(|own| Identity::from_pem(own))
            .transpose();
        let identity = identity.map_err(|_| "the certificate and its key are no PEM pair")?;
        Self::made((to, policy), &trust, identity.as_ref(), proxy)
    }

    /// The same, with a trust of its own.
    ///
    /// # Errors
    ///
    /// As [`Client::new`].
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
                .map_err(|why| format!("the proxy `{}`: {why}", shown(proxy)))?;
        }
        let build = |trust: &Trust, no_authority: bool| -> Result<_, String> {
            let mut builder = builder(&to, &policy);
            if let Some(proxy) = proxy {
                builder = builder.proxy(Proxy::all(proxy).map_err(|error| words(&error))?);
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
            // A machine without any CA can still speak plain HTTP.
            Err(_) if trust.authorities.is_empty() && identity.is_none() => {
                build(&Trust::default(), true)?.map_err(|error| words(&error))?
            }
            Err(error) => return Err(words(&error)),
        };
        Ok(Self { http, to, policy })
    }

    /// A request, which may go there.
    ///
    /// # Errors
    ///
    /// Where it must not be called.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Forbidden> {
        Ok(self.begin(method, &self.allowed(url)?))
    }

    /// The URL, where it may be called.
    ///
    /// # Errors
    ///
    /// Why it must not be called.
    pub fn allowed(&self, url: &str) -> Result<Allowed, Forbidden> {
        self.to.check(url).map(Allowed)
    }

    /// A request to a URL that was checked.
    pub fn begin(&self, method: Method, to: &Allowed) -> RequestBuilder {
        self.http.request(method, to.0.clone())
    }

    /// The limits of its answers.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where it may call.
    pub fn destinations(&self) -> &Destinations {
        &self.to
    }
}

fn builder(to: &Destinations, policy: &Policy) -> ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT.min(policy.total))
        .pool_idle_timeout(IDLE)
        .timeout(policy.total)
        .read_timeout(policy.stalled)
        .dns_resolver(Arc::new(Checked(to.clone())))
}

/// Names lead only to addresses that were checked.
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

/// An error with its causes: the outermost one alone says little. The URL, which may hold a secret in its query, is left out.
pub fn words(error: &reqwest::Error) -> String {
    let mut texts = vec![error.to_string()];
    if let Some(url) = error.url() {
        texts[0] = texts[0].replace(url.as_str(), &shown(url.as_str()));
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

/// A URL as it may be shown: what stands before an @ and behind a ? may be a secret.
pub fn shown(url: &str) -> String {
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
