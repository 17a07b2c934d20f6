//! One call to a registry: its authorization, its timeout, its errors.

use crate::access::Access;
use crate::error::RegistryError;
use crate::login::{Challenge, bearer};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vnfm_outbound::header::{self, HeaderMap, HeaderValue};
use vnfm_outbound::{
    Body, Client, Destinations, Error, Method, Policy, ReadError, Response, StatusCode, Url,
    error_chain, read,
};

const MIB: u64 = 1 << 20;
/// Limits of a response. A stalled upload ends with the timeout of its call, as a client's own timeout counts from
/// when a request begins.
pub(crate) const POLICY: Policy = Policy {
    body: MIB,
    values: 50_000,
    total: Duration::from_hours(12),
    stalled: Duration::from_hours(12),
};
/// Timeout of a call without a blob.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Manifests that a registry may return.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
/// Limits of a list of tags or repositories: some registries return all of it at once.
const LIST_POLICY: Policy = Policy {
    body: 16 * MIB,
    values: 200_000,
    ..POLICY
};
/// The list of all repositories, in place of a repository.
pub(crate) const CATALOG: &str = "_catalog";
/// Most characters of a response that an error quotes.
const MAX_QUOTED: usize = 300;

/// A registry, for the images of one package.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    access: Access,
    /// What each repository's calls are authorized by.
    authorized: Mutex<BTreeMap<String, HeaderValue>>,
}

/// What became of a manifest that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is deleted, or did not exist.
    Absent,
    /// The registry allows no deletion.
    NotAllowed,
}

/// A call about a repository.
pub(crate) struct Call<'a> {
    pub(crate) action: &'a str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) repository: &'a str,
    pub(crate) payload: Option<Payload<'a>>,
}

/// The body of a request, which can be made again.
pub(crate) struct Payload<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) size: u64,
    pub(crate) body: &'a (dyn Fn() -> Body + Sync),
}

impl Registry {
    /// A client that connects only to what `to` allows.
    ///
    /// # Errors
    ///
    /// `Refused` if the address must not be called, or the CA certificates cannot be used.
    pub fn new(to: Destinations, access: Access) -> Result<Self, RegistryError> {
        let refused = |reason: String| RegistryError::refused("use the registry", reason);
        to.check(access.url.as_str())
            .map_err(|cause| refused(format!("`{}`: {cause}", access.host())))?;
        let client = Client::trusting(to, POLICY, &access.trust, None).map_err(refused)?;
        Ok(Self {
            client,
            access,
            authorized: Mutex::default(),
        })
    }

    /// Logs in, and does nothing.
    ///
    /// # Errors
    ///
    /// `Unavailable`, or `Refused` if it does not accept the login.
    pub async fn check(&self) -> Result<(), RegistryError> {
        let action = "log in to the registry";
        let call = self.call(action, Method::GET, "", "")?;
        succeeded(action, self.send(&call).await?).await.map(drop)
    }

    /// The digest that a tag or digest of a repository refers to; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Refused`.
    pub async fn digest(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<Option<String>, RegistryError> {
        let action = format!("look up `{repository}` in the registry");
        let path = format!("{repository}/manifests/{reference}");
        let call = self.call(&action, Method::HEAD, repository, &path)?;
        let response = self.send(&call).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let response = succeeded(&action, response).await?;
        let digest = text(response.headers(), "docker-content-digest");
        Ok(digest.or_else(|| reference.contains(':').then(|| reference.to_owned())))
    }

    /// Deletes a manifest, with all its tags.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Refused`; [`Deleted::NotAllowed`] is not an error.
    pub async fn delete(&self, repository: &str, digest: &str) -> Result<Deleted, RegistryError> {
        let action = format!("delete `{repository}@{digest}` from the registry");
        let path = format!("{repository}/manifests/{digest}");
        let call = self.call(&action, Method::DELETE, repository, &path)?;
        let response = self.send(&call).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(Deleted::Absent),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Ok(Deleted::NotAllowed),
            _ => succeeded(&action, response).await.map(|_| Deleted::Absent),
        }
    }

    pub(crate) fn call<'a>(
        &self,
        action: &'a str,
        method: Method,
        repository: &'a str,
        path: &str,
    ) -> Result<Call<'a>, RegistryError> {
        let url = self.access.url.join(&format!("/v2/{path}"));
        let url = url.map_err(|error| RegistryError::refused(action, error.to_string()))?;
        Ok(Call {
            action,
            method,
            url,
            repository,
            payload: None,
        })
    }

    /// The location of an upload, on the registry itself.
    pub(crate) fn location(&self, action: &str, headers: &HeaderMap) -> Result<Url, RegistryError> {
        let given = text(headers, header::LOCATION.as_str()).filter(|given| !given.is_empty());
        let given = given
            .ok_or_else(|| RegistryError::refused(action, "it names no location for the upload"))?;
        let url = self.access.url.join(&given).ok();
        url.filter(|url| url.origin() == self.access.url.origin())
            .ok_or_else(|| {
                let elsewhere = vnfm_outbound::without_credentials(&given);
                let detail = format!("it names an upload location elsewhere: `{elsewhere}`");
                RegistryError::refused(action, detail)
            })
    }

    /// Sends a call, logging in where the registry asks for it. A redirect, 401, 403, 429 or 5xx is an error.
    pub(crate) async fn send(&self, call: &Call<'_>) -> Result<Response, RegistryError> {
        let response = self.send_once(call).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return checked(call.action, response).await;
        }
        let challenges = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenge = challenges
            .iter()
            .find_map(|one| Challenge::parse(one.to_str().ok()?));
        let authorization = match (challenge, &self.access.login) {
            (Some(Challenge::Bearer { realm, service }), _) => {
                let with = (&self.client, &self.access);
                Some(bearer(with, (&realm, service.as_deref()), call.repository).await?)
            }
            // `send_once` sends the login of such a registry once it is known that it wants one.
            (Some(Challenge::Basic), Some(_)) => None,
            _ => return Err(status_error(call.action, response).await),
        };
        let known = {
            let mut all = self
                .authorized
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let header = authorization.unwrap_or(HeaderValue::from_static(BASIC));
            all.insert(call.repository.to_owned(), header)
        };
        if known.is_some_and(|known| known == BASIC) {
            return Err(status_error(call.action, response).await);
        }
        checked(call.action, self.send_once(call).await?).await
    }

    async fn send_once(&self, call: &Call<'_>) -> Result<Response, RegistryError> {
        let request = self.client.request(call.method.clone(), call.url.as_str());
        let request =
            request.map_err(|cause| RegistryError::refused(call.action, cause.to_string()))?;
        let mut request = request
            .timeout(timeout(call))
            .header(header::ACCEPT, MANIFEST_TYPES);
        let known = {
            let all = self
                .authorized
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.get(call.repository).cloned()
        };
        request = match (known, &self.access.login) {
            (Some(known), Some(login)) if known == BASIC => {
                request.basic_auth(&login.user, Some(login.password.reveal()))
            }
            (Some(token), _) => request.header(header::AUTHORIZATION, token),
            (None, _) => request,
        };
        request = match &call.payload {
            Some(payload) => request
                .header(header::CONTENT_TYPE, payload.media_type)
                .header(header::CONTENT_LENGTH, payload.size)
                .body((payload.body)()),
            None if call.method == Method::POST => request.header(header::CONTENT_LENGTH, 0),
            None => request,
        };
        let response = request.send().await;
        response.map_err(|error| call_error(call.action, &error))
    }
}

/// Stands for the login in the table of authorizations.
const BASIC: &str = "Basic";
/// Bytes per second of an upload below which it ends.
const SLOWEST: u64 = 256 << 10;

fn timeout(call: &Call<'_>) -> Duration {
    let size = call.payload.as_ref().map_or(0, |payload| payload.size);
    CALL_TIMEOUT + Duration::from_secs(size / SLOWEST)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// The response, unless it is one that no caller expects.
async fn checked(action: &str, response: Response) -> Result<Response, RegistryError> {
    let status = response.status();
    let unexpected = status.is_redirection()
        || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || matches!(status.as_u16(), 401 | 403 | 429);
    if unexpected {
        return Err(status_error(action, response).await);
    }
    Ok(response)
}

/// The response, if it is a success.
pub(crate) async fn succeeded(action: &str, response: Response) -> Result<Response, RegistryError> {
    if response.status().is_success() {
        return Ok(response);
    }
    Err(status_error(action, response).await)
}

/// The success of a push, unless the registry states that it has stored something else.
pub(crate) async fn stored(
    action: &str,
    response: Response,
    digest: &str,
) -> Result<(), RegistryError> {
    let response = succeeded(action, response).await?;
    match text(response.headers(), "docker-content-digest") {
        Some(other) if other != digest => {
            let detail = format!("it states the digest `{other}` for `{digest}`");
            Err(RegistryError::refused(action, detail))
        }
        _ => Ok(()),
    }
}

/// The JSON of a list.
pub(crate) async fn read_json<T: DeserializeOwned>(
    action: &str,
    response: Response,
) -> Result<T, RegistryError> {
    let body = read(response, &LIST_POLICY).await;
    let body = body.map_err(|error| match error {
        ReadError::Lost(_) => RegistryError::unavailable(action, error.to_string()),
        _ => RegistryError::refused(action, error.to_string()),
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| RegistryError::refused(action, format!("its list is invalid: {error}")))
}

pub(crate) async fn status_error(action: &str, response: Response) -> RegistryError {
    let status = response.status();
    let detail = match status.as_u16() {
        300..=399 => "it redirects elsewhere, which is not followed".to_owned(),
        401 => "it does not accept the login (status 401)".to_owned(),
        403 => "it does not permit this to the login (status 403)".to_owned(),
        code => format!("status {code}"),
    };
    let mut error = match status.as_u16() {
        408 | 429 | 500.. => RegistryError::unavailable(action, detail),
        _ => RegistryError::refused(action, detail),
    };
    error.status = status.as_u16();
    if let Ok(body) = read(response, &POLICY).await {
        let quoted = String::from_utf8_lossy(&body);
        error.response = quoted.trim().chars().take(MAX_QUOTED).collect();
    }
    error
}

pub(crate) fn call_error(action: &str, error: &Error) -> RegistryError {
    let text = error_chain(error);
    // Neither is solved by trying again.
    let refused = text.contains("certificate") || vnfm_outbound::is_forbidden(error);
    if refused {
        RegistryError::refused(action, text)
    } else {
        RegistryError::unavailable(action, text)
    }
}
