//! The role that each route needs. A route missing from this table needs the operator, so a forgotten route is closed,
//! not open; a test compares the table with the routes.

use super::principal::{Principal, Role};
use axum::http::Method;
use std::borrow::Cow;
use std::fmt;
use vnfm_types::v1::ApiVersion;

/// What a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredRole {
    /// At least this role in the caller's own tenant.
    Role(Role),
    /// The operator: the route concerns all tenants.
    Operator,
}

const READ: RequiredRole = RequiredRole::Role(Role::Read);
const OPERATE: RequiredRole = RequiredRole::Role(Role::Operate);
const ADMIN: RequiredRole = RequiredRole::Role(Role::Admin);
const OPERATOR: RequiredRole = RequiredRole::Operator;

/// A path, and the requirement of each method.
pub type Row = (&'static str, &'static [(&'static str, RequiredRole)]);

/// Every route.
pub const ROUTE_ROLES: &[Row] = &[
    ("/vnflcm/api_versions", &[("get", READ)]),
    ("/vnflcm/v2/api_versions", &[("get", READ)]),
    (
        "/vnflcm/v2/vnf_instances",
        &[("get", READ), ("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}",
        &[("get", READ), ("patch", OPERATE), ("delete", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/instantiate",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/terminate",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/heal",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/scale",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/scale_to_level",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_flavour",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/operate",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_ext_conn",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_vnfpkg",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/create_snapshot",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/revert_to_snapshot",
        &[("post", OPERATE)],
    ),
    ("/vnflcm/v2/vnf_lcm_op_occs", &[("get", READ)]),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}",
        &[("get", READ)],
    ),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/retry",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/rollback",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/fail",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/cancel",
        &[("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/subscriptions",
        &[("get", READ), ("post", OPERATE)],
    ),
    (
        "/vnflcm/v2/subscriptions/{subscriptionId}",
        &[("get", READ), ("delete", OPERATE)],
    ),
    ("/vnfpkgm/api_versions", &[("get", READ)]),
    ("/vnfpkgm/v2/api_versions", &[("get", READ)]),
    (
        "/vnfpkgm/v2/vnf_packages",
        &[("get", READ), ("post", OPERATE)],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}",
        &[("get", READ), ("patch", OPERATE), ("delete", OPERATE)],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content",
        &[("get", READ), ("put", OPERATE)],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content/upload_from_uri",
        &[("post", OPERATE)],
    ),
    ("/vnfpkgm/v2/vnf_packages/{vnfPkgId}/vnfd", &[("get", READ)]),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/manifest",
        &[("get", READ)],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts",
        &[("get", READ)],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts/{artifactPath}",
        &[("get", READ)],
    ),
    ("/vnfm/v1/vims", &[("get", READ), ("post", ADMIN)]),
    (
        "/vnfm/v1/vims/{vimId}",
        &[("get", READ), ("patch", ADMIN), ("delete", ADMIN)],
    ),
    ("/vnfm/v1/vims/{vimId}/check", &[("post", OPERATE)]),
    ("/vnfm/v1/hostkeys", &[("get", READ)]),
    ("/vnfm/v1/hostkeys/{hostKeyId}", &[("delete", ADMIN)]),
    (
        "/vnfm/v1/op_occs/{vnfLcmOpOccId}/progress",
        &[("get", READ)],
    ),
    ("/vnfm/v1/op_occs/{vnfLcmOpOccId}/events", &[("get", READ)]),
    ("/vnfm/v1/op_occs/{vnfLcmOpOccId}/log", &[("get", READ)]),
    (
        "/vnfm/v1/vnf_instances/{vnfInstanceId}/abandon",
        &[("post", ADMIN)],
    ),
    ("/vnfm/v1/audit", &[("get", ADMIN)]),
    ("/vnfm/v1/events", &[("get", READ)]),
    ("/vnfm/v1/orphans", &[("get", READ)]),
    ("/vnfm/v1/orphans/{vnfInstanceId}", &[("delete", ADMIN)]),
    ("/vnfm/v1/plugins", &[("get", READ)]),
    ("/vnfm/v1/secrets", &[("get", OPERATOR)]),
    ("/vnfm/v1/secrets/rotate", &[("post", OPERATOR)]),
    ("/vnfm/v1/secrets/migrate", &[("post", OPERATOR)]),
    ("/vnfm/v1/backup", &[("post", OPERATOR)]),
    ("/vnfm/v1/prune", &[("post", OPERATOR)]),
    ("/vnfm/v1/recovery", &[("get", OPERATOR)]),
    ("/vnfm/v1/recovery/confirm", &[("post", OPERATOR)]),
    ("/vnfm/v1/health", &[("get", READ)]),
    // The NFVO uses the credentials from our subscription, and no others.
    (
        "/vnfm/v1/nfvo_notifications",
        &[("get", READ), ("post", READ)],
    ),
    // These two need no login.
    ("/healthz", &[("get", READ)]),
    ("/readyz", &[("get", READ)]),
    // Metrics cover all tenants and contain VIM ids.
    ("/metrics", &[("get", OPERATOR)]),
    ("/openapi.yaml", &[("get", READ)]),
    ("/openapi-v1.yaml", &[("get", READ)]),
    ("/", &[("get", READ)]),
];

impl RequiredRole {
    /// Whether the principal meets the requirement.
    pub fn met_by(self, principal: &Principal) -> bool {
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

/// The requirement of a request. `routed`: whether the router has a route at its path; a 404 is visible to anyone with
/// the role `read`.
pub fn needed(method: &Method, path: &str, routed: bool) -> RequiredRole {
    // The GET handler serves HEAD.
    let method = if *method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    // The roles do not depend on the API version.
    let of_v1 = path
        .strip_prefix(ApiVersion::V1.prefix())
        .filter(|rest| rest.starts_with('/'));
    let path = of_v1.map_or_else(
        || Cow::Borrowed(path),
        |rest| Cow::Owned(format!("{}{rest}", ApiVersion::V2.prefix())),
    );
    let row = ROUTE_ROLES.iter().find(|(template, _)| **template == *path);
    let row = row.or_else(|| {
        ROUTE_ROLES
            .iter()
            .find(|(template, _)| matches(template, &path))
    });
    let methods = row.map(|(_, methods)| *methods).unwrap_or_default();
    let needs = methods
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(method.as_str()));
    match needs {
        Some((_, needs)) => *needs,
        None if routed => OPERATOR,
        None => READ,
    }
}

/// The parameter that matches the rest of a path: artifacts are in folders.
const REST: &str = "{artifactPath}";

fn matches(template: &str, path: &str) -> bool {
    let (mut expected, mut actual) = (template.split('/'), path.split('/'));
    loop {
        match (expected.next(), actual.next()) {
            (None, None) => return true,
            (Some(REST), Some(actual)) if !actual.is_empty() => return true,
            (Some(expected), Some(actual)) if expected == actual => {}
            (Some(expected), Some(actual)) if expected.starts_with('{') && !actual.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADMIN, OPERATE, OPERATOR, READ, ROUTE_ROLES, needed};
    use crate::routes::PATHS;
    use axum::http::Method;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_has_a_role_in_the_table() {
        let routes: BTreeSet<_> = PATHS
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(move |m| (*path, *m)))
            .collect();
        let needs: BTreeSet<_> = ROUTE_ROLES
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(move |(m, _)| (*path, *m)))
            .collect();
        assert_eq!(
            routes, needs,
            "the routes (left) and `NEEDS` in access/roles.rs (right)"
        );
    }

    #[test]
    fn a_route_missing_from_the_table_needs_the_operator() {
        let role = |method: Method, path: &str| needed(&method, path, true);
        assert_eq!(role(Method::GET, "/vnflcm/v2/vnf_instances/i"), READ);
        assert_eq!(role(Method::HEAD, "/vnflcm/v2/vnf_instances/i"), READ);
        assert_eq!(role(Method::GET, "/vnflcm/v1/vnf_instances/i"), READ);
        assert_eq!(
            role(Method::POST, "/vnflcm/v1/vnf_instances/i/heal"),
            OPERATE
        );
        assert_eq!(
            role(Method::POST, "/vnflcm/v10/vnf_instances/i/heal"),
            OPERATOR
        );
        assert_eq!(role(Method::PATCH, "/vnflcm/v2/vnf_instances/i"), OPERATE);
        assert_eq!(role(Method::DELETE, "/vnfm/v1/vims/i"), ADMIN);
        assert_eq!(role(Method::POST, "/vnfm/v1/backup"), OPERATOR);
        let artifacts = "/vnfpkgm/v2/vnf_packages/p/artifacts";
        for path in ["", "/a", "/Files/deep/a.yaml"] {
            assert_eq!(
                role(Method::GET, &format!("{artifacts}{path}")),
                READ,
                "{path}"
            );
            assert_eq!(
                role(Method::PUT, &format!("{artifacts}{path}")),
                OPERATOR,
                "{path}"
            );
        }
        assert_eq!(role(Method::GET, "/vnfm/v1/new"), OPERATOR);
        assert_eq!(needed(&Method::GET, "/vnfm/v1/new", false), READ, "a 404");
        assert_eq!(role(Method::PUT, "/vnfm/v1/vims"), OPERATOR);
    }
}
