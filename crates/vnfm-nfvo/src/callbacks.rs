//! Requests to callbacks. No redirect is followed and no proxy taken from the environment; every address, also one that
//! a name leads to, is one that a callback may have, at each request anew.

use crate::code;
use crate::login::{ClientCredentials, Login, Logins};
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::ErrorKind::{Refused, Unavailable};
use vnfm_core::ports::{Callback, Clock, Code, PortError, Subscribers};
use vnfm_outbound::{
    Client, Destinations, Error, Method, Networks, Policy, Response, Tls, is_forbidden, shown,
    words,
};
use vnfm_types::{AuthType, SubscriptionAuthentication};

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
pub(crate) const CODES: &[&Code] = &[&FORBIDDEN, &UNREACHABLE, &FAILING, &REFUSES];

/// Subscribers behind HTTP.
pub struct Callbacks {
    plain: Client,
    /// With our certificate.
    certified: Option<Client>,
    logins: Logins,
}

impl Callbacks {
    /// Callbacks in these networks; none is waited for longer than `time`. Those who want a certificate get that of
    /// `tls`, and nobody else does.
    ///
    /// # Errors
    ///
    /// Where TLS cannot be set up.
    pub fn new(
        networks: Networks,
        time: Duration,
        tls: &Tls,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PortError> {
        let to = Destinations::within(networks);
        let client = |tls: &Tls| {
            Client::new(to.clone(), Policy::CALLBACK.taking(time), tls, None)
                .map_err(|why| PortError::new(&UNREACHABLE, "make a client for callbacks", why))
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
            edition,
        } = *callback;
        let wants_certificate =
            login.is_some_and(|login| login.auth_type.contains(&AuthType::TlsCert));
        let certified = self.certified.as_ref().filter(|_| wants_certificate);
        let client = certified.unwrap_or(&self.plain);
        let url = client.allowed(uri);
        let url = url.map_err(|why| PortError::new(&FORBIDDEN, doing(uri), why.to_string()))?;
        let request = || {
            let request = client.begin(method.clone(), &url);
            let request = request.header("version", edition.newest());
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let login = login.map(way).unwrap_or_default();
        answered(uri, self.logins.send(client, &login, request).await?)
    }
}

/// The way to log in among those that a subscriber takes: rather a token than a password with every request.
fn way(login: &SubscriptionAuthentication) -> Login {
    let takes = |one| login.auth_type.contains(&one);
    let oauth2 = login.params_oauth2_client_credentials.as_ref();
    if let Some(oauth2) = oauth2.filter(|_| takes(AuthType::Oauth2ClientCredentials)) {
        return Login::Oauth2(ClientCredentials {
            token_endpoint: oauth2.token_endpoint.clone(),
            client_id: oauth2.client_id.clone(),
            client_password: oauth2.client_password.clone(),
        });
    }
    match login
        .params_basic
        .as_ref()
        .filter(|_| takes(AuthType::Basic))
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

    async fn tell(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError> {
        self.call(Method::POST, callback, Some(notification)).await
    }
}

/// Whether an answer is the one that is wanted.
fn answered(callback: &str, answer: Result<Response, Error>) -> Result<(), PortError> {
    let response = answer.map_err(|error| {
        let why = words(&error);
        let code = if is_forbidden(&error) {
            &FORBIDDEN
        } else {
            &UNREACHABLE
        };
        PortError::new(code, doing(callback), why)
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let later = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    let what = format!("it answers {status}");
    Err(PortError::new(
        if later { &FAILING } else { &REFUSES },
        doing(callback),
        what,
    ))
}

fn doing(callback: &str) -> String {
    format!("call `{}`", shown(callback))
}

#[cfg(test)]
mod tests {
    use super::{Callbacks, Networks, Tls};
    use futures::future::BoxFuture;
    use jiff::Timestamp;
    use std::sync::Arc;
    use std::time::Duration;
    use vnfm_core::ports::{Callback, Clock, Subscribers as _};
    use vnfm_types::v1::Edition;

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
    async fn what_must_not_be_called_is_refused_before_anything_is_sent() {
        let time = Duration::from_secs(5);
        let callbacks =
            Callbacks::new(Networks::default(), time, &Tls::default(), Arc::new(NoTime)).unwrap();
        for (callback, why) in [
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
            let asked = Callback {
                uri: callback,
                login: None,
                edition: Edition::V2,
            };
            let error = callbacks.test(&asked).await.unwrap_err();
            assert_eq!(
                error.name(),
                "nfvo.callback-forbidden",
                "{callback}: {error}"
            );
            assert!(error.to_string().contains(why), "{callback}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
