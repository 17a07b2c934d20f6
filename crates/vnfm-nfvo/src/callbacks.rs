//! Requests to callbacks. Redirects and proxies of the environment are ignored; every address, also one that a name
//! resolves to, is checked at each request.

use crate::login::{ClientCredentials, Login, Logins};
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Callback, Clock, Code, PortError, Subscribers};
use vnfm_outbound::{
    Client, Destinations, Error, Method, Networks, Policy, Response, Tls, error_chain,
    is_forbidden, without_credentials,
};
use vnfm_types::{AuthType, SubscriptionAuthentication};

/// The callback's address must not be called.
const FORBIDDEN: Code = Code::new(
    "nfvo.callback-forbidden",
    Refused,
    "this server is not allowed to call that callback address",
    "use an http or https URL of another machine, or have its network added to `notifications.networks`",
);
/// The callback cannot be reached.
const UNREACHABLE: Code = Code::new(
    "nfvo.callback-unreachable",
    Unavailable,
    "the callback is unreachable",
    "check that the subscriber is running and reachable from this server",
);
/// A temporary error of the subscriber (408, 425, 429, 5xx).
const FAILING: Code = Code::new(
    "nfvo.callback-failing",
    Unavailable,
    "the callback is temporarily unable to accept requests",
    "see the log of the subscriber",
);
/// Any other status than success.
const REFUSES: Code = Code::new(
    "nfvo.callback-refuses",
    Refused,
    "the callback did not respond with 204",
    "check the callback's URL, and the login in `authentication`",
);

/// All error codes of this file, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[&FORBIDDEN, &UNREACHABLE, &FAILING, &REFUSES];

/// The HTTP client of subscribers.
pub struct Callbacks {
    plain: Client,
    /// The client that presents our certificate.
    certified: Option<Client>,
    logins: Logins,
}

impl Callbacks {
    /// A client for callbacks in these networks; a call takes at most `time`. The certificate of `tls` is presented
    /// only to subscribers with `TLS_CERT`.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn new(
        networks: Networks,
        time: Duration,
        tls: &Tls,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PortError> {
        let to = Destinations::within(networks);
        let client = |tls: &Tls| {
            Client::new(to.clone(), Policy::CALLBACK.with_timeout(time), tls, None).map_err(
                |cause| PortError::new(&UNREACHABLE, "create a client for callbacks", cause),
            )
        };
        let plain = client(&Tls {
            certificate: None,
            ..tls.clone()
        })?;
        let certified = tls.certificate.as_ref().map(|_| client(tls)).transpose()?;
        Ok(Self {
            plain,
            certified,
            logins: Logins::new(clock),
        })
    }

    async fn call(
        &self,
        method: Method,
        callback: &Callback<'_>,
        body: Option<&Value>,
    ) -> Result<(), PortError> {
        let Callback {
            uri,
            login,
            api_version: edition,
        } = *callback;
        let wants_certificate =
            login.is_some_and(|login| login.auth_type.contains(&AuthType::TlsCert));
        let certified = self.certified.as_ref().filter(|_| wants_certificate);
        let client = certified.unwrap_or(&self.plain);
        let url = client.allowed(uri);
        let url =
            url.map_err(|cause| PortError::new(&FORBIDDEN, action(uri), cause.to_string()))?;
        let request = || {
            let request = client.begin(method.clone(), &url);
            let request = request.header("version", edition.newest());
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let login = login.map(preferred_login).unwrap_or_default();
        check_response(uri, self.logins.send(client, &login, request).await?)
    }
}

/// The login to use if a subscriber accepts several: a token rather than a password in every request.
fn preferred_login(login: &SubscriptionAuthentication) -> Login {
    let accepts = |one| login.auth_type.contains(&one);
    let oauth2 = login.params_oauth2_client_credentials.as_ref();
    if let Some(oauth2) = oauth2.filter(|_| accepts(AuthType::Oauth2ClientCredentials)) {
        return Login::Oauth2(ClientCredentials {
            token_endpoint: oauth2.token_endpoint.clone(),
            client_id: oauth2.client_id.clone(),
            client_password: oauth2.client_password.clone(),
        });
    }
    match login
        .params_basic
        .as_ref()
        .filter(|_| accepts(AuthType::Basic))
    {
        Some(basic) => Login::Basic {
            user: basic.user_name.clone(),
            password: basic.password.clone(),
        },
        None => Login::None,
    }
}

#[async_trait]
impl Subscribers for Callbacks {
    fn has_certificate(&self) -> bool {
        self.certified.is_some()
    }

    async fn test(&self, callback: &Callback<'_>) -> Result<(), PortError> {
        self.call(Method::GET, callback, None).await
    }

    async fn notify(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError> {
        self.call(Method::POST, callback, Some(notification)).await
    }
}

/// Maps anything but a successful response to an error.
fn check_response(callback: &str, result: Result<Response, Error>) -> Result<(), PortError> {
    let response = result.map_err(|error| {
        let cause = error_chain(&error);
        let code = if is_forbidden(&error) {
            &FORBIDDEN
        } else {
            &UNREACHABLE
        };
        PortError::new(code, action(callback), cause)
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    Err(PortError::new(
        if later { &FAILING } else { &REFUSES },
        action(callback),
        format!("the subscriber responded with {status}"),
    ))
}

fn action(callback: &str) -> String {
    format!("call `{}`", without_credentials(callback))
}

#[cfg(test)]
mod tests {
    use super::{Callbacks, Networks, Tls};
    use futures::future::BoxFuture;
    use jiff::Timestamp;
    use std::sync::Arc;
    use std::time::Duration;
    use vnfm_core::ports::{Callback, Clock, Subscribers as _};
    use vnfm_types::v1::ApiVersion;

    struct NoTime;

    impl Clock for NoTime {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_forbidden_callback_is_rejected_before_anything_is_sent() {
        let time = Duration::from_secs(5);
        let callbacks =
            Callbacks::new(Networks::default(), time, &Tls::default(), Arc::new(NoTime)).unwrap();
        for (callback, cause) in [
            ("not a url", "no URL"),
            ("file:///etc/passwd", "neither http nor https"),
            ("http://127.0.0.1:9/x", "127.0.0.1 is not allowed"),
            ("http://[::1]:9/x", "::1 is not allowed"),
            ("http://[::ffff:127.0.0.1]:9/x", "is not allowed"),
            ("http://0x7f000001:9/x", "127.0.0.1 is not allowed"),
            (
                "http://169.254.169.254/latest",
                "169.254.169.254 is not allowed",
            ),
            ("http://localhost:9/x", "127.0.0.1 is not allowed"),
            ("http://user:hunter2@192.0.2.1/x", "does not belong into"),
        ] {
            let target = Callback {
                uri: callback,
                login: None,
                api_version: ApiVersion::V2,
            };
            let error = callbacks.test(&target).await.unwrap_err();
            assert_eq!(
                error.name(),
                "nfvo.callback-forbidden",
                "{callback}: {error}"
            );
            assert!(error.to_string().contains(cause), "{callback}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
