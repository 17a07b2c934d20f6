//! The authenticated caller and its rights.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;

/// The tenant of a server without login, and of logins that name no tenant.
pub(crate) const DEFAULT_TENANT: &str = "default";

/// Rights in a tenant; each role includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See the objects of the tenant.
    Read,
    /// Change VNFs, packages and subscriptions.
    Operate,
    /// Manage the tenant: VIMs, overrides of the VNFM, the audit log.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        })
    }
}

/// The objects that a caller sees and may change; an empty list does not limit.
pub use vnfm_core::query::VisibilityScope as Only;

/// An authenticated caller: who it is, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Name of the caller, from its login.
    pub name: String,
    /// Login method, such as `oauth2`; empty if the server needs no login.
    pub login_method: &'static str,
    /// Only objects of this tenant are visible.
    pub tenant: String,
    /// The role in that tenant.
    pub role: Role,
    /// Further limits of what is visible and may be changed.
    pub scope: Only,
}

impl Principal {
    /// The caller of a server on loopback without login.
    pub(crate) fn anonymous() -> Self {
        Self::operator(String::new(), "")
    }

    /// The caller with the server's own token.
    pub(crate) fn server_token() -> Self {
        Self::operator("token".to_owned(), "token")
    }

    fn operator(name: String, way: &'static str) -> Self {
        let tenant = DEFAULT_TENANT.to_owned();
        Self {
            name,
            login_method: way,
            tenant,
            role: Role::Admin,
            scope: Only::default(),
        }
    }

    /// Whether the caller logged in.
    pub(crate) fn is_known(&self) -> bool {
        !self.login_method.is_empty()
    }

    /// The caller, and the person whom the request names as acting (`X-Vnfm-Operator`), as in the audit log.
    pub(crate) fn acting_as(&self, operator: &str) -> String {
        match (self.is_known(), operator) {
            (true, "") => self.to_string(),
            (true, operator) => format!("{self} as {operator}"),
            (false, "") => "unknown".to_owned(),
            (false, operator) => operator.to_owned(),
        }
    }

    /// Whether the caller is an operator of the server: an unlimited admin of the tenant `default`.
    pub(crate) fn is_operator(&self) -> bool {
        self.role == Role::Admin && self.tenant == DEFAULT_TENANT && self.scope.is_unlimited()
    }
}

/// As in the audit log: `alice (basic)`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.login_method)
    }
}

/// The tenant, role and limits that a rule of the configuration gives.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Gets")]
pub(crate) struct RoleGrant {
    /// The tenant; if absent, the one that the login names.
    pub tenant: Option<String>,
    /// The role in that tenant.
    pub role: Role,
    /// Limits the role to these VIMs, by id.
    #[serde(default)]
    pub vims: Vec<String>,
    /// Limits the role to these Kubernetes namespaces.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Limits the role to VNFs of these vendors.
    #[serde(default)]
    pub vendors: Vec<String>,
}

impl RoleGrant {
    /// The principal `name` that logged in with the method `way`; `tenant` is the tenant that the login names.
    ///
    /// # Errors
    ///
    /// If the tenant name is invalid, or if only the login, and not the configuration, makes the caller an operator.
    pub(crate) fn principal(
        &self,
        name: &str,
        way: &'static str,
        tenant: Option<&str>,
    ) -> Result<Principal, String> {
        let is_tenant_from_login = self.tenant.is_none() && tenant.is_some();
        let tenant = self.tenant.as_deref().or(tenant).unwrap_or(DEFAULT_TENANT);
        if !is_tenant_name(tenant) {
            return Err(format!(
                "invalid tenant name `{tenant}`: expected {TENANT_SYNTAX}"
            ));
        }
        // Sorted: objects keep their visibility when the configuration only reorders the names.
        let set = |names: &[String]| -> Vec<String> {
            let all: BTreeSet<&String> = names.iter().collect();
            all.into_iter().cloned().collect()
        };
        let only = Only {
            vims: set(&self.vims),
            namespaces: set(&self.namespaces),
            vendors: set(&self.vendors),
        };
        let (name, tenant) = (name.to_owned(), tenant.to_owned());
        let principal = Principal {
            name,
            login_method: way,
            tenant,
            role: self.role,
            scope: only,
        };
        if is_tenant_from_login && principal.is_operator() {
            return Err(format!(
                "the login names the tenant `{DEFAULT_TENANT}`, whose admins are operators of the server; only a rule with \
                 `tenant: {DEFAULT_TENANT}` can give that role"
            ));
        }
        Ok(principal)
    }

    /// Validates the tenant's name, and says what is wrong.
    ///
    /// # Errors
    ///
    /// If the tenant name is invalid.
    pub(crate) fn checked(&self) -> Result<(), String> {
        self.principal("", "", None).map(drop)
    }
}

const TENANT_SYNTAX: &str = "letters, digits, `-`, `_` and `.`, at most 64";

fn is_tenant_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::{Role, RoleGrant};

    fn gets(yaml: &str) -> RoleGrant {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn a_role_includes_those_before_it() {
        assert!(Role::Admin > Role::Operate && Role::Operate > Role::Read);
    }

    #[test]
    fn the_configured_tenant_overrides_that_of_the_login() {
        let own = gets("{tenant: acme, role: read}").principal("a", "basic", Some("other"));
        assert_eq!(own.unwrap().tenant, "acme");
        let from_login = gets("{role: read}").principal("a", "basic", Some("other"));
        assert_eq!(from_login.unwrap().tenant, "other");
        assert_eq!(
            gets("{role: read}")
                .principal("a", "basic", None)
                .unwrap()
                .tenant,
            "default"
        );
        let wrong = gets("{role: read}")
            .principal("a", "basic", Some("a/b"))
            .unwrap_err();
        assert!(wrong.contains("a/b"), "{wrong}");
    }

    #[test]
    fn a_login_alone_does_not_make_an_operator() {
        let principal = |yaml: &str, tenant| gets(yaml).principal("a", "oauth2", tenant);
        let refused = principal("{role: admin}", Some("default")).unwrap_err();
        assert!(refused.contains("tenant: default"), "{refused}");
        assert!(
            principal("{role: admin, tenant: default}", Some("default"))
                .unwrap()
                .is_operator()
        );
        assert!(
            !principal("{role: operate}", Some("default"))
                .unwrap()
                .is_operator()
        );
        assert!(
            !principal("{role: admin}", Some("acme"))
                .unwrap()
                .is_operator()
        );
    }

    #[test]
    fn only_an_unlimited_admin_of_the_default_tenant_is_an_operator() {
        let scope = |yaml: &str| {
            gets(yaml)
                .principal("a", "basic", None)
                .unwrap()
                .is_operator()
        };
        assert!(scope("{role: admin}"));
        assert!(!scope("{role: operate}"));
        assert!(!scope("{role: admin, tenant: acme}"));
        assert!(!scope("{role: admin, vims: [v]}"));
    }
}
