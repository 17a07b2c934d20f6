//! Who asks, and what they may do.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;

/// The tenant of a server that nobody logs in to, and of those whose login names none.
pub const DEFAULT_TENANT: &str = "default";

/// What somebody may do; each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See what the tenant has.
    Read,
    /// And change it: VNFs, packages, subscriptions.
    Operate,
    /// And look after it: VIMs, what overrides the VNFM, the audit.
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

/// What somebody sees and may change; an empty list does not narrow.
pub use vnfm_core::query::VisibilityScope as Only;

/// Somebody who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Their name, as the login has it.
    pub name: String,
    /// By which way they logged in, such as `oauth2`; empty where nobody has to.
    pub way: &'static str,
    /// Whose objects they see.
    pub tenant: String,
    /// What they may do with them.
    pub role: Role,
    /// What they see of it, and may change.
    pub only: Only,
}

impl Principal {
    /// Whoever asks a server that needs no login: it is on loopback.
    pub fn anybody() -> Self {
        Self::operator(String::new(), "")
    }

    /// Whoever has the server's own token.
    pub fn of_token() -> Self {
        Self::operator("token".to_owned(), "token")
    }

    fn operator(name: String, way: &'static str) -> Self {
        let tenant = DEFAULT_TENANT.to_owned();
        Self {
            name,
            way,
            tenant,
            role: Role::Admin,
            only: Only::default(),
        }
    }

    /// True where somebody logged in.
    pub fn is_known(&self) -> bool {
        !self.way.is_empty()
    }

    /// True for whoever looks after the server itself and not after one tenant: the admins of the tenant `default`.
    pub fn is_operator(&self) -> bool {
        self.role == Role::Admin && self.tenant == DEFAULT_TENANT && self.only.is_unlimited()
    }
}

/// As the audit shows them: `alice (basic)`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.way)
    }
}

/// What a login is worth, as the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gets {
    /// Whose objects; where absent, what the way to log in says of it.
    pub tenant: Option<String>,
    /// What may be done.
    pub role: Role,
    /// Ids of the VIMs that it is narrowed to.
    #[serde(default)]
    pub vims: Vec<String>,
    /// Namespaces of Kubernetes that it is narrowed to.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Vendors that it is narrowed to.
    #[serde(default)]
    pub vendors: Vec<String>,
}

impl Gets {
    /// The principal `name` that logged in by `way`; `tenant` is what that way says of the tenant.
    ///
    /// # Errors
    ///
    /// Where the name of the tenant cannot be one, or where the login and not the configuration says that it is of
    /// those who look after the server.
    pub fn principal(
        &self,
        name: &str,
        way: &'static str,
        tenant: Option<&str>,
    ) -> Result<Principal, String> {
        let is_only_said = self.tenant.is_none() && tenant.is_some();
        let tenant = self.tenant.as_deref().or(tenant).unwrap_or(DEFAULT_TENANT);
        if !is_tenant(tenant) {
            return Err(format!(
                "`{tenant}` cannot be the name of a tenant: {TENANTS}"
            ));
        }
        // In one order: what somebody made is found again when the configuration names the same in another one.
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
            way,
            tenant,
            role: self.role,
            only,
        };
        if is_only_said && principal.is_operator() {
            return Err(format!(
                "the login itself names the tenant `{DEFAULT_TENANT}`, whose admins look after the server; only a rule \
                 that says `tenant: {DEFAULT_TENANT}` gives that role"
            ));
        }
        Ok(principal)
    }

    /// Checks what the configuration says.
    ///
    /// # Errors
    ///
    /// Where the name of the tenant cannot be one.
    pub fn checked(&self) -> Result<(), String> {
        self.principal("", "", None).map(drop)
    }
}

const TENANTS: &str = "letters, digits, `-`, `_` and `.`, at most 64";

fn is_tenant(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::{Gets, Role};

    fn gets(yaml: &str) -> Gets {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn a_role_includes_those_before_it() {
        assert!(Role::Admin > Role::Operate && Role::Operate > Role::Read);
    }

    #[test]
    fn the_configured_tenant_wins_over_what_the_login_says() {
        let own = gets("{tenant: acme, role: read}").principal("a", "basic", Some("other"));
        assert_eq!(own.unwrap().tenant, "acme");
        let said = gets("{role: read}").principal("a", "basic", Some("other"));
        assert_eq!(said.unwrap().tenant, "other");
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
    fn nobody_looks_after_the_server_because_a_login_says_so() {
        let of = |yaml: &str, tenant| gets(yaml).principal("a", "oauth2", tenant);
        let refused = of("{role: admin}", Some("default")).unwrap_err();
        assert!(refused.contains("tenant: default"), "{refused}");
        assert!(
            of("{role: admin, tenant: default}", Some("default"))
                .unwrap()
                .is_operator()
        );
        assert!(
            !of("{role: operate}", Some("default"))
                .unwrap()
                .is_operator()
        );
        assert!(!of("{role: admin}", Some("acme")).unwrap().is_operator());
    }

    #[test]
    fn only_an_admin_of_the_default_tenant_who_is_not_narrowed_looks_after_the_server() {
        let of = |yaml: &str| {
            gets(yaml)
                .principal("a", "basic", None)
                .unwrap()
                .is_operator()
        };
        assert!(of("{role: admin}"));
        assert!(!of("{role: operate}"));
        assert!(!of("{role: admin, tenant: acme}"));
        assert!(!of("{role: admin, vims: [v]}"));
    }
}
