//! Requests to callbacks. No redirect is followed and no proxy taken from the environment; every address, also one that
//! a name leads to, is one that a callback may have, at each request anew.

use crate::networks::Networks;
use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Code, ErrorKind, PortError, Subscribers};
use vnfm_types::SubscriptionAuthentication;

/// The version of the API that notifications are of.
const VERSION: &str = "2.3.0";
/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);

/// One row of the table.
const fn code(
    name: &'static str,
    kind: ErrorKind,
    means: &'static str,
    next: &'static str,
) -> Code {
    Code { name, kind, means, next }
}

/// A callback that is never called.
const FORBIDDEN: Code = code(
    "nfvo.callback-forbidden",
    Refused,
    "the callback is none that this server may call",
    "use an http or https URL of another machine, or have its network named in `notifications.networks`",
);
/// Nobody answers.
const UNREACHABLE: Code = code(
    "nfvo.callback-unreachable",
    Unavailable,
    "the callback does not answer",
    "check that the subscriber runs and can be reached from here",
);
/// It answers that it cannot now.
const FAILING: Code = code(
    "nfvo.callback-failing",
    Unavailable,
    "the callback answers that it cannot take anything now",
    "look into the log of the subscriber",
);
/// It answers otherwise than it should.
const REFUSES: Code = code(
    "nfvo.callback-refuses",
    Refused,
    "the callback answers otherwise than with 204",
    "check the callback's URL, and the login in `authentication`",
);

/// All of them, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&FORBIDDEN, &UNREACHABLE, &FAILING, &REFUSES];

/// Subscribers behind HTTP.
pub struct Callbacks {
    client: Client,
    networks: Networks,
}

impl Callbacks {
    /// Callbacks in these networks; none is waited for longer than `time`.
    ///
    /// # Errors
    ///
    /// Where TLS cannot be set up.
    pub fn new(networks: Networks, time: Duration) -> Result<Self, PortError> {
        let start = || {
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT)
                .timeout(time)
                .dns_resolver(Arc::new(Guarded(networks.clone())))
        };
        // A machine without any CA can still speak plain HTTP.
        let client = start().build().or_else(|_| start().tls_certs_only([]).build());
        let client = client.map_err(|error| {
            PortError::new(&UNREACHABLE, "make a client for callbacks", words(&error))
        })?;
        Ok(Self { client, networks })
    }

    fn request(
        &self,
        method: Method,
        callback: &str,
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<RequestBuilder, PortError> {
        let url = self.allowed(callback)?;
        let request = self.client.request(method, url).header("version", VERSION);
        Ok(match login.and_then(|login| login.params_basic.as_ref()) {
            Some(basic) => request.basic_auth(&basic.user_name, Some(basic.password.reveal())),
            None => request,
        })
    }

    /// The URL, unless it must not be called. Where its host is a name, [`Guarded`] looks at what it leads to.
    fn allowed(&self, callback: &str) -> Result<Url, PortError> {
        let forbidden = |why: &str| PortError::new(&FORBIDDEN, doing(callback), why);
        let url =
            Url::parse(callback).map_err(|error| forbidden(&format!("it is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(forbidden("it is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden("a login belongs into `authentication`"));
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(address) if !self.networks.allow(address) => {
                Err(forbidden(&format!("the address {address} is not allowed")))
            }
            _ => Ok(url),
        }
    }
}

#[async_trait]
impl Subscribers for Callbacks {
    async fn test(
        &self,
        callback: &str,
        login: Option<&SubscriptionAuthentication>,
    ) -> Result<(), PortError> {
        answered(callback, self.request(Method::GET, callback, login)?.send().await)
    }

    async fn tell(
        &self,
        callback: &str,
        login: Option<&SubscriptionAuthentication>,
        notification: &Value,
    ) -> Result<(), PortError> {
        let request = self.request(Method::POST, callback, login)?.json(notification);
        answered(callback, request.send().await)
    }
}

/// Whether an answer is the one that is wanted.
fn answered(callback: &str, answer: Result<Response, reqwest::Error>) -> Result<(), PortError> {
    let response = answer.map_err(|error| {
        let why = words(&error);
        let code = if why.contains(NOT_ALLOWED) { &FORBIDDEN } else { &UNREACHABLE };
        PortError::new(code, doing(callback), why)
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    let what = format!("it answers {status}");
    Err(PortError::new(if later { &FAILING } else { &REFUSES }, doing(callback), what))
}

fn doing(callback: &str) -> String {
    // What stands before an @ may be a password.
    let shown = Url::parse(callback).map_or_else(
        |_| "?".to_owned(),
        |mut url| {
            let _ = url.set_username("").and_then(|()| url.set_password(None));
            url.to_string()
        },
    );
    format!("call `{shown}`")
}

/// An error with its causes: the outermost one alone says little.
fn words(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

const NOT_ALLOWED: &str = "no address that it leads to is allowed";

/// Names lead only to addresses that a callback may have.
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

#[cfg(test)]
mod tests {
    use super::{Callbacks, Networks};
    use std::time::Duration;
    use vnfm_core::ports::Subscribers as _;

    #[tokio::test]
    async fn what_must_not_be_called_is_refused_before_anything_is_sent() {
        let callbacks = Callbacks::new(Networks::default(), Duration::from_secs(5)).unwrap();
        for (callback, why) in [
            ("not a url", "no URL"),
            ("file:///etc/passwd", "neither http nor https"),
            ("http://127.0.0.1:9/x", "127.0.0.1 is not allowed"),
            ("http://[::1]:9/x", "::1 is not allowed"),
            ("http://[::ffff:127.0.0.1]:9/x", "is not allowed"),
            ("http://0x7f000001:9/x", "127.0.0.1 is not allowed"),
            ("http://169.254.169.254/latest", "169.254.169.254 is not allowed"),
            ("http://localhost:9/x", "no address that it leads to"),
            ("http://user:hunter2@192.0.2.1/x", "belongs into"),
        ] {
            let error = callbacks.test(callback, None).await.unwrap_err();
            assert_eq!(error.name(), "nfvo.callback-forbidden", "{callback}: {error}");
            assert!(error.to_string().contains(why), "{callback}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
