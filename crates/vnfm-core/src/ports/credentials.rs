//! Logins for programs that run inside a VNF: what only some VIMs can create. A driver that can offers it by
//! [`InfraDriver::credentials`](super::InfraDriver::credentials).
//!
//! | rule | mandatory |
//! |---|---|
//! | a login allows no more than was requested, and never more than that of the VIM | yes |
//! | `create_credential` is idempotent: it adopts a login of that name if the secret fits it, and replaces it otherwise | yes |
//! | `check_revocable` refuses what could not be found and revoked later; nothing is created | yes |
//! | a login bears the instance and the installation; one that does not is never touched | yes |
//! | `revoke_credentials` also deletes what the revoked logins created outside of the instance's template | yes |
//! | `release` revokes all of the instance, before it deletes anything | yes |

use super::{PortError, VimCall};
use async_trait::async_trait;
use vnfm_types::Secret;

pub use vnfm_plugin_messages::{AccessRule, Credential, CredentialRequest, Secret as HookSecret};

/// Creates and revokes logins for programs inside a VNF.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// Checks that a login that is created now can be found and revoked later. The engine calls it before it journals the
    /// login, so that a refusal leaves nothing to undo.
    ///
    /// # Errors
    ///
    /// `Refused` if the VIM would hide the login from its user.
    async fn check_revocable(&self, _cx: &VimCall<'_>) -> Result<(), PortError> {
        Ok(())
    }

    /// Creates the login with this secret. The engine has journaled the secret, so that a repetition finds its own login.
    ///
    /// # Errors
    ///
    /// `Refused` if the VIM does not allow it, or does not know a role.
    async fn create_credential(
        &self,
        cx: &VimCall<'_>,
        wanted: &CredentialRequest,
        secret: &Secret,
    ) -> Result<Credential, PortError>;

    /// Revokes the instance's logins except those named in `kept`; if none stay, deletes what they created. Succeeds if there
    /// are none.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues. `Refused` if the VIM does not show the logins: they may still be valid.
    async fn revoke_credentials(&self, cx: &VimCall<'_>, kept: &[&str]) -> Result<(), PortError>;
}
