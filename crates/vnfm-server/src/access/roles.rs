//! Which role each route needs. What is not in this table only whoever looks after the server may do, so a route that
//! somebody forgets here is shut and not open; a test compares the table with the routes.

use super::principal::{Principal, Role};
use axum::http::Method;
use std::borrow::Cow;
use std::fmt;
use vnfm_types::v1::ApiVersion;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A role in one's tenant.
    Role(Role),
    /// To look after the server: it concerns all tenants.
    Operator,
}

/// Seeing.
const READ: Needs = Needs::Role(Role::Read);
/// Changing.
const OPERATE: Needs = Needs::Role(Role::Operate);
/// Looking after a tenant.
const ADMIN: Needs = Needs::Role(Role::Admin);
/// Looking after the server.
const OPERATOR: Needs = Needs::Operator;

/// A path, and what each of its methods needs.
pub type Row = (&'static str, &'static [(&'static str, Needs)]);

/// Every route.
pub const NEEDS: &[Row] = &[
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
    // The NFVO logs in with what our subscription told it, and with nothing else.
    (
        "/vnfm/v1/nfvo_notifications",
        &[("get", READ), ("post", READ)],
    ),
    // These two are answered before anybody is asked to log in.
    ("/healthz", &[("get", READ)]),
    ("/readyz", &[("get", READ)]),
    // Figures are of all tenants together, VIMs by their ids among them.
    ("/metrics", &[("get", OPERATOR)]),
    ("/openapi.yaml", &[("get", READ)]),
    ("/openapi-v1.yaml", &[("get", READ)]),
    ("/", &[("get", READ)]),
];

impl Needs {
    /// Whether somebody may do what needs this.
    pub fn met_by(self, principal: &Principal) -> bool {
        match self {
            Self::Role(role) => principal.role >= role,
            Self::Operator => principal.is_operator(),
        }
    }
}

/// As a 403 says it.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "the role `{role}`"),
            Self::Operator => f.write_str("the role `admin` in the tenant `default`, not narrowed"),
        }
    }
}

/// What a request needs. `routed` says whether the router has a route at its path; that it has none whoever may see is
/// told.
pub fn needed(method: &Method, path: &str, routed: bool) -> Needs {
    // A HEAD is answered by what answers the GET.
    let method = if *method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    // Whichever version a client speaks, it does the same.
    let of_v1 = path
        .strip_prefix(ApiVersion::V1.prefix())
        .filter(|rest| rest.starts_with('/'));
    let path = of_v1.map_or_else(
        || Cow::Borrowed(path),
        |rest| Cow::Owned(format!("{}{rest}", ApiVersion::V2.prefix())),
    );
    let row = NEEDS.iter().find(|(template, _)| **template == *path);
    let row = row.or_else(|| NEEDS.iter().find(|(template, _)| fits(template, &path)));
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

/// What stands for the rest of a path, however long: an artifact lies in folders.
const REST: &str = "{artifactPath}";

fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(REST), Some(given)) if !given.is_empty() => return true,
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADMIN, NEEDS, OPERATE, OPERATOR, READ, needed};
    use crate::routes::PATHS;
    use axum::http::Method;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_says_which_role_it_needs() {
        let routes: BTreeSet<_> = PATHS
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(move |m| (*path, *m)))
            .collect();
        let needs: BTreeSet<_> = NEEDS
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(move |(m, _)| (*path, *m)))
            .collect();
        assert_eq!(
            routes, needs,
            "the routes (left) and `NEEDS` in access/roles.rs (right)"
        );
    }

    #[test]
    fn what_is_forgotten_is_shut() {
        let of = |method: Method, path: &str| needed(&method, path, true);
        assert_eq!(of(Method::GET, "/vnflcm/v2/vnf_instances/i"), READ);
        assert_eq!(of(Method::HEAD, "/vnflcm/v2/vnf_instances/i"), READ);
        assert_eq!(of(Method::GET, "/vnflcm/v1/vnf_instances/i"), READ);
        assert_eq!(of(Method::POST, "/vnflcm/v1/vnf_instances/i/heal"), OPERATE);
        assert_eq!(
            of(Method::POST, "/vnflcm/v10/vnf_instances/i/heal"),
            OPERATOR
        );
        assert_eq!(of(Method::PATCH, "/vnflcm/v2/vnf_instances/i"), OPERATE);
        assert_eq!(of(Method::DELETE, "/vnfm/v1/vims/i"), ADMIN);
        assert_eq!(of(Method::POST, "/vnfm/v1/backup"), OPERATOR);
        let artifacts = "/vnfpkgm/v2/vnf_packages/p/artifacts";
        for path in ["", "/a", "/Files/deep/a.yaml"] {
            assert_eq!(
                of(Method::GET, &format!("{artifacts}{path}")),
                READ,
                "{path}"
            );
            assert_eq!(
                of(Method::PUT, &format!("{artifacts}{path}")),
                OPERATOR,
                "{path}"
            );
        }
        assert_eq!(of(Method::GET, "/vnfm/v1/new"), OPERATOR);
        assert_eq!(
            needed(&Method::GET, "/vnfm/v1/new", false),
            READ,
            "that it is not there"
        );
        assert_eq!(of(Method::PUT, "/vnfm/v1/vims"), OPERATOR);
    }
}
