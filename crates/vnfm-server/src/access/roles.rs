//! The role that a request needs. A path of the router without a row in the table of routes, and a method that a path
//! does not have, need the operator, so a forgotten route is closed, not open.

use super::principal::{Principal, Role};
use crate::route_match::Matched;
use std::fmt;

/// What a caller must be allowed to use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredRole {
    /// At least this role in the caller's own tenant.
    Role(Role),
    /// The operator: the route concerns all tenants.
    Operator,
}

impl RequiredRole {
    /// Whether the principal meets the requirement.
    pub(crate) fn met_by(self, principal: &Principal) -> bool {
        match self {
            Self::Role(role) => principal.role >= role,
            Self::Operator => principal.is_operator(),
        }
    }
}

/// As quoted in a 403.
impl fmt::Display for RequiredRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "the role `{role}`"),
            Self::Operator => {
                f.write_str("the role `admin` in the tenant `default`, without limits")
            }
        }
    }
}

/// The requirement of a request; a 404 is visible to anyone with the role `read`.
pub(crate) fn needed(matched: Option<&Matched>) -> RequiredRole {
    let Some(matched) = matched else {
        return RequiredRole::Role(Role::Read);
    };
    let route = matched.route();
    route
        .and_then(|route| route.role)
        .unwrap_or(RequiredRole::Operator)
}
