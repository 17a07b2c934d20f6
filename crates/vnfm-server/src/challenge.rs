//! `WWW-Authenticate` for requests with a bearer token (RFC 6750 3): adds why the token was rejected. Requests without
//! a token get only the challenges.
//!
//! | the token | status | `error` |
//! |---|---|---|
//! | is malformed | 400 | `invalid_request` |
//! | is not accepted: unknown, expired, forged | 401 | `invalid_token` |
//! | does not give the required role | 403 | `insufficient_scope` |

use crate::api_version;
use crate::problem::{Problem, ProblemCode};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Error codes for which a token with more rights would help.
const BY_ROLE: &[&str] = &["access.forbidden", "access.no-role", "access.narrowed"];

/// Adds the reason for rejecting a bearer token to `WWW-Authenticate`.
pub(crate) async fn add_challenge(request: Request, next: Next) -> Response {
    let Some(is_well_formed) = bearer(request.headers()) else {
        return next.run(request).await;
    };
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    match response.status() {
        StatusCode::UNAUTHORIZED if !accepts_bearer(&response) => response,
        StatusCode::UNAUTHORIZED if !is_well_formed => {
            let detail = "the token in `Authorization: Bearer` is malformed (RFC 6750)";
            let problem = Problem::bad_request(detail).into_response();
            let mut problem = api_version::with_version(&path, problem);
            set_error(problem.headers_mut(), "invalid_request");
            problem
        }
        StatusCode::UNAUTHORIZED => {
            set_error(response.headers_mut(), "invalid_token");
            response
        }
        StatusCode::FORBIDDEN => {
            let code = response.extensions().get::<ProblemCode>();
            if code.is_some_and(|ProblemCode(code)| BY_ROLE.contains(&code.as_str())) {
                set_error(response.headers_mut(), "insufficient_scope");
            }
            response
        }
        _ => response,
    }
}

/// Whether the bearer token of a request is well-formed (RFC 6750 2.1); `None` without one.
fn bearer(headers: &HeaderMap) -> Option<bool> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
    let token = token.trim().trim_end_matches('=');
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| !token.is_empty() && token.bytes().all(is_part))
}

/// Whether bearer tokens are a login method here, judged by the challenges.
fn accepts_bearer(response: &Response) -> bool {
    response
        .headers()
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .any(|one| one == "Bearer")
}

/// Puts the error into the `Bearer` challenge and keeps the challenges of other login methods.
fn set_error(headers: &mut HeaderMap, error: &str) {
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
    fn only_tokens_in_the_form_of_rfc_6750_are_well_formed() {
        for (given, expected) in [
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
            assert_eq!(bearer(&headers), expected, "{given}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
