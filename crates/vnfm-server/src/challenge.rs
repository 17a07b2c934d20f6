//! `WWW-Authenticate` for a request that came with a bearer token (RFC 6750 3): it says what is wrong with the token. A
//! request without one gets the challenges alone, without an error.
//!
//! | the token | status | `error` |
//! |---|---|---|
//! | is none by its form | 400 | `invalid_request` |
//! | is not taken: unknown, expired, forged | 401 | `invalid_token` |
//! | has not the role that the request needs | 403 | `insufficient_scope` |

use crate::gate;
use crate::problem::{Named, Problem};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Codes of what a better token would be allowed.
const BY_ROLE: &[&str] = &["access.forbidden", "access.no-role", "access.narrowed"];

/// Says in `WWW-Authenticate` what is wrong with a bearer token.
pub async fn answered(request: Request, next: Next) -> Response {
    let Some(is_well_formed) = bearer(request.headers()) else {
        return next.run(request).await;
    };
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    match response.status() {
        StatusCode::UNAUTHORIZED if !takes_bearer(&response) => response,
        StatusCode::UNAUTHORIZED if !is_well_formed => {
            let what = "`Authorization: Bearer` is followed by no token of the form of RFC 6750";
            let problem = Problem::bad_request(what).into_response();
            let mut problem = gate::with_version(&path, problem);
            say(problem.headers_mut(), "invalid_request");
            problem
        }
        StatusCode::UNAUTHORIZED => {
            say(response.headers_mut(), "invalid_token");
            response
        }
        StatusCode::FORBIDDEN => {
            let code = response.extensions().get::<Named>();
            if code.is_some_and(|Named(code)| BY_ROLE.contains(&code.as_str())) {
                say(response.headers_mut(), "insufficient_scope");
            }
            response
        }
        _ => response,
    }
}

/// Whether the bearer token of a request is one by its form (RFC 6750 2.1); `None` where it has none.
fn bearer(headers: &HeaderMap) -> Option<bool> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
    let token = token.trim().trim_end_matches('=');
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| !token.is_empty() && token.bytes().all(is_part))
}

/// Whether a bearer token is a way to log in here, as the challenges say.
fn takes_bearer(response: &Response) -> bool {
    response
        .headers()
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .any(|one| one == "Bearer")
}

/// Puts the error into the challenge `Bearer`, beside those of other ways to log in.
fn say(headers: &mut HeaderMap, error: &str) {
    let Ok(challenge) = HeaderValue::from_str(&format!("Bearer error=\"{error}\"")) else {
        return;
    };
    let others: Vec<_> = headers
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .cloned()
        .collect();
    headers.insert(header::WWW_AUTHENTICATE, challenge);
    for other in others.into_iter().filter(|other| *other != "Bearer") {
        headers.append(header::WWW_AUTHENTICATE, other);
    }
}

#[cfg(test)]
mod tests {
    use super::bearer;
    use axum::http::HeaderMap;

    #[test]
    fn a_token_has_the_form_of_rfc_6750_or_not() {
        for (given, is) in [
            ("Bearer abc.DEF-1_2~3+4/5==", Some(true)),
            ("bearer a", Some(true)),
            ("Bearer", Some(false)),
            ("Bearer ", Some(false)),
            ("Bearer ==", Some(false)),
            ("Bearer a b", Some(false)),
            ("Bearer a\"b", Some(false)),
            ("Basic YTpi", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", given.parse().unwrap());
            assert_eq!(bearer(&headers), is, "{given}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
