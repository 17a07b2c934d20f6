//! The challenge of a registry, and the token that its endpoint issues (RFC 7235, RFC 6750; "Token Authentication
//! Specification" of the distribution project).

use crate::access::Access;
use crate::error::RegistryError;
use crate::registry::{CALL_TIMEOUT, CATALOG, POLICY, call_error, status_error};
use serde::Deserialize;
use vnfm_outbound::{Client, Method, Url, header::HeaderValue, read};
use vnfm_types::Secret;

/// What a registry asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// Parses `WWW-Authenticate`; of several challenges, the first known one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        let realm = parameter(rest, "realm").filter(|_| is_bearer)?;
        let service = parameter(rest, "service");
        Some(Self::Bearer { realm, service })
    }
}

/// The quoted value of a parameter. Values with escapes are none of a registry's.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    while let Some((key, after)) = rest.split_once("=\"") {
        let (value, next) = after.split_once('"')?;
        let key = key.rsplit(',').next().unwrap_or_default();
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next.trim_start_matches([',', ' ']);
    }
    None
}

/// What a token endpoint returns.
#[derive(Deserialize)]
struct Issued {
    token: Option<Secret>,
    /// The name of OAuth 2.0; some endpoints return both.
    access_token: Option<Secret>,
}

/// The header that answers a challenge; the token is for pushing to, and deleting from, one repository, for their list, or for
/// none.
pub(crate) async fn bearer(
    (client, access): (&Client, &Access),
    (realm, service): (&str, Option<&str>),
    repository: &str,
) -> Result<HeaderValue, RegistryError> {
    let action = "log in to the registry";
    let mut url = Url::parse(realm)
        .map_err(|_| RegistryError::refused(action, "its token endpoint is not a URL"))?;
    if !access.may_issue_tokens(&url) {
        let endpoint = vnfm_outbound::without_credentials(realm);
        let detail = format!(
            "its token endpoint `{endpoint}` is on a host that may not get the login, or has no TLS"
        );
        return Err(RegistryError::refused(action, detail));
    }
    if let Some(service) = service {
        url.query_pairs_mut().append_pair("service", service);
    }
    let scope = match repository {
        "" => None,
        CATALOG => Some("registry:catalog:*".to_owned()),
        _ => Some(format!("repository:{repository}:pull,push,delete")),
    };
    if let Some(scope) = scope {
        url.query_pairs_mut().append_pair("scope", &scope);
    }
    let request = client.request(Method::GET, url.as_str());
    let request = request.map_err(|cause| RegistryError::refused(action, cause.to_string()))?;
    let mut request = request.timeout(CALL_TIMEOUT);
    if let Some(login) = &access.login {
        request = request.basic_auth(&login.user, Some(login.password.reveal()));
    }
    let response = request.send().await;
    let response = response.map_err(|error| call_error(action, &error))?;
    if !response.status().is_success() {
        return Err(status_error(action, response).await);
    }
    let body = read(response, &POLICY).await;
    let body = body.map_err(|error| RegistryError::unavailable(action, error.to_string()))?;
    let invalid = || RegistryError::refused(action, "its token endpoint returns no token");
    let issued: Issued = serde_json::from_slice(&body).map_err(|_| invalid())?;
    let token = issued.token.or(issued.access_token).ok_or_else(invalid)?;
    let header = format!("Bearer {}", token.reveal());
    let mut header = HeaderValue::from_str(&header).map_err(|_| invalid())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[test]
    fn challenges_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        for (text, expected) in [
            ("Basic realm=\"vnfm\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a/token\",service=\"r\", scope=\"repository:a,b:pull\"",
                Some(bearer("https://a/token", Some("r"))),
            ),
            (
                "Bearer service=\"a,realm=b\", realm=\"https://a/t\"",
                Some(bearer("https://a/t", Some("a,realm=b"))),
            ),
            ("Bearer", None),
            ("Bearer realm=\"https://a", None),
            ("Negotiate", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }
}
