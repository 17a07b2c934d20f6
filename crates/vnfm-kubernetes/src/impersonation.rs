//! Acting as a tenant's own service account, so that the cluster's RBAC limits the tenant.

use crate::errors::POLICY;
use vnfm_core::ports::PortError;
use vnfm_types::VimPolicy;

/// The user that operations of `tenant` impersonate on the cluster.
///
/// # Errors
///
/// `Refused` if the result is not a valid service account.
pub(crate) fn impersonated_user(
    policy: &VimPolicy,
    tenant: &str,
) -> Result<Option<String>, PortError> {
    let Some(user) = &policy.impersonate else {
        return Ok(None);
    };
    let user = user.replace("{tenant}", tenant);
    let account = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    let is_valid = |name: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        !name.is_empty() && name.len() <= 253 && name.chars().all(plain)
    };
    match account {
        Some((namespace, name)) if is_valid(namespace) && is_valid(name) => Ok(Some(user)),
        _ => {
            let detail = format!(
                "`{user}` is not a valid service account: namespace and name consist of lower-case letters, digits, `-` and `.`"
            );
            Err(PortError::new(&POLICY, "act as the tenant's service account", detail)
                .on("policy.impersonate")
                .hint("name an account without `{tenant}` in `policy.impersonate`, or rename the tenant"))
        }
    }
}
