//! Shared virtual links: networks that outlive the instances on them. What only some VIMs can do; a driver that can offers it
//! by [`InfraDriver::links`](super::InfraDriver::links).
//!
//! | rule | mandatory |
//! |---|---|
//! | `validate_link` refuses by name what the VIM needs and the request lacks, and calls nothing | yes |
//! | `create_link` is idempotent: it adopts what an interrupted call for the same link created | yes |
//! | the network has the link's name, and is tagged with installation and link | yes |
//! | a network with that name and without the tag is never touched | yes |
//! | `owned` lists the network with the link | yes |
//! | `delete_link` needs no id of the VIM, succeeds if nothing exists, and touches nothing else | yes |
//! | an id that `create_link` returned can be the `resourceId` of an external virtual link | yes |

use super::{PortError, VimCall};
use async_trait::async_trait;
use vnfm_types::{LinkSpec, SharedLink};

/// Creates and deletes shared virtual links.
#[async_trait]
pub trait Links: Send + Sync {
    /// Checks a request without calling the VIM.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member that is missing, invalid or of no use on this kind of VIM.
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError>;

    /// Creates the network, and returns its `resourceId`. [`Ownership::instance_id`](super::Ownership) is empty.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues, `delete_link` removes what was created.
    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError>;

    /// Deletes everything that is tagged with this link, and waits until it is deleted.
    ///
    /// # Errors
    ///
    /// With the VIM's message, also if something still uses the network; calling again continues.
    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError>;
}
