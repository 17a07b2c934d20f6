//! Why a login is refused.

/// Why a login is refused; decides the status and the challenges of the response.
#[derive(Debug)]
pub(super) enum LoginError {
    /// The request has no credentials.
    NoCredentials,
    /// The credentials are wrong; the text says which.
    BadCredentials(String),
    /// Valid credentials, but no rule gives them a role.
    NoRole(String),
    /// The identity service cannot be reached.
    Unavailable(String),
    /// Too many failed logins; the next attempt is allowed after this many seconds.
    TooManyAttempts(u64),
}
