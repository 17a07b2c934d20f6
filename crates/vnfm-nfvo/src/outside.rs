//! What every request of ours to the outside has in common: no redirect is followed, no proxy is taken from the
//! environment, it ends in time, and its address is one that it may have.

use crate::networks::Networks;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy, Response, Url};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Code, ErrorKind};

/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);
/// The largest answer that is read whole.
pub(crate) const LARGEST: usize = 4 << 20;
/// What the error of a name says that leads only where we must not call.
pub(crate) const NOT_ALLOWED: &str = "no address that it leads to is allowed";

/// One row of a table of codes.
pub(crate) const fn code(
    name: &'static str,
    kind: ErrorKind,
    means: &'static str,
    next: &'static str,
) -> Code {
    Code { name, kind, means, next }
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
        f.debug_struct("Tls").field("certificate", &own).finish_non_exhaustive()
    }
}

/// Where calls may go; `None`: anywhere.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'a>(pub(crate) Option<&'a Networks>);

impl Outside<'_> {
    /// A client whose calls take no longer than `time`, through a proxy where one is named.
    ///
    /// # Errors
    ///
    /// Where TLS cannot be set up, or a certificate cannot be read: said without showing it.
    pub(crate) fn client(
        self,
        time: Duration,
        tls: &Tls,
        proxy: Option<&str>,
    ) -> Result<Client, String> {
        self.made(|builder| builder.timeout(time), tls, proxy)
    }

    /// A client for what is large: a call may take any time, as long as something comes within each `silent`.
    ///
    /// # Errors
    ///
    /// As [`Outside::client`].
    pub(crate) fn downloader(
        self,
        silent: Duration,
        tls: &Tls,
        proxy: Option<&str>,
    ) -> Result<Client, String> {
        self.made(|builder| builder.read_timeout(silent), tls, proxy)
    }

    fn made(
        self,
        limited: impl Fn(ClientBuilder) -> ClientBuilder,
        tls: &Tls,
        proxy: Option<&str>,
    ) -> Result<Client, String> {
        let start = || -> Result<ClientBuilder, String> {
            let builder = Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT);
            let mut builder = limited(builder);
            if let Some(proxy) = proxy {
                let proxy = Proxy::all(proxy).map_err(|error| words(&error))?;
                builder = builder.proxy(proxy);
            }
            if let Some(networks) = self.0 {
                builder = builder.dns_resolver(Arc::new(Guarded(networks.clone())));
            }
            if !tls.authorities.is_empty() {
                let bundle = Certificate::from_pem_bundle(&tls.authorities);
                let bundle = bundle.ok().filter(|bundle| !bundle.is_empty());
                let bundle = bundle.ok_or("the authorities are no PEM certificates")?;
                builder = builder.tls_certs_only(bundle);
            }
            if let Some(own) = &tls.certificate {
                let own = Identity::from_pem(own);
                builder = builder
                    .identity(own.map_err(|_| "the certificate and its key are no PEM pair")?);
            }
            Ok(builder)
        };
        match start()?.build() {
            Ok(client) => Ok(client),
            // A machine without any CA can still speak plain HTTP.
            Err(_) if tls.authorities.is_empty() && tls.certificate.is_none() => {
                start()?.tls_certs_only([]).build().map_err(|error| words(&error))
            }
            Err(error) => Err(words(&error)),
        }
    }

    /// The URL, unless it must not be called. Where its host is a name, the client looks at what it leads to.
    ///
    /// # Errors
    ///
    /// Why not, for the one who gave it.
    pub(crate) fn allowed(self, url: &str) -> Result<Url, String> {
        let url = Url::parse(url).map_err(|error| format!("it is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it is neither http nor https".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a login does not belong into a URL".to_owned());
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match (host.parse::<IpAddr>(), self.0) {
            (Ok(address), Some(networks)) if !networks.allow(address) => {
                Err(format!("the address {address} is not allowed"))
            }
            _ => Ok(url),
        }
    }
}

/// The body of an answer; `None` where it is larger than [`LARGEST`].
///
/// # Errors
///
/// Where it does not come to its end.
pub(crate) async fn whole(response: &mut Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > LARGEST {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// An error with its causes: the outermost one alone says little.
pub(crate) fn words(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// A URL as it may be shown: what stands before an @ may be a password.
pub(crate) fn shown(url: &str) -> String {
    Url::parse(url).map_or_else(
        |_| "?".to_owned(),
        |mut url| {
            let _ = url.set_username("").and_then(|()| url.set_password(None));
            url.to_string()
        },
    )
}

/// Names lead only to addresses that may be called.
struct Guarded(Networks);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let networks = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<_> = found.filter(|address| networks.allow(address.ip())).collect();
            if allowed.is_empty() {
                return Err(NOT_ALLOWED.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
