//! The NFVO that grants operations (SOL003 9), and what a driver sees of its grant.
//!
//! | rule | mandatory |
//! |---|---|
//! | a repeated request for the same operation gets a response again: SOL003 has no way to look one up | yes |
//! | each call terminates by itself, or may be dropped and repeated | yes |
//! | `Unavailable` is retried until the timeout; any other error ends the operation, which has created nothing yet | yes |

use super::PortError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vnfm_types::{ExtManagedVirtualLinkData, Grant, GrantRequest};

/// Result of a grant request or of polling for one.
#[derive(Debug, Clone, PartialEq)]
pub enum GrantOutcome {
    /// The NFVO approves the operation, with this grant.
    Granted(Box<Grant>),
    /// Not decided yet: the location to poll, and the `Retry-After` of the NFVO, if any.
    Pending(String, Option<Duration>),
    /// The location does not exist (any more): send the request again.
    UnknownLocation,
}

/// The NFVO. Without one a local policy approves everything, and no grant is requested or stored.
#[async_trait]
pub trait Nfvo: Send + Sync {
    /// Requests a grant (9.4.2.3.1). The links of `request` are paths relative to this server;
    /// the adapter makes them absolute.
    ///
    /// # Errors
    ///
    /// `Refused` with the NFVO's ProblemDetails if it rejects the operation, or if its response does not conform to the
    /// standard; `Unavailable` if there is no response.
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError>;

    /// Polls for the decision (9.4.3.3.2).
    ///
    /// # Errors
    ///
    /// Those of [`Self::request_grant`], which asks for the same decision.
    async fn poll_grant(&self, location: &str) -> Result<GrantOutcome, PortError>;
}

/// The NFVO's decisions about resources, for a driver; empty if the local policy grants. A driver refuses in `preview`,
/// by name, what it cannot honour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Granted {
    /// Zone on the VIM by resource: [`compute_id`], [`storage_id`], [`link_id`], [`port_id`].
    pub zones: BTreeMap<String, String>,
    /// Flavor on the VIM by VDU.
    pub flavours: BTreeMap<String, String>,
    /// Image on the VIM by VDU or storage.
    pub images: BTreeMap<String, String>,
    /// Externally managed network on the VIM by internal link, including those of the request.
    pub managed_links: BTreeMap<String, String>,
    /// The caller's ids of these links, by internal link.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub managed_link_ids: BTreeMap<String, String>,
    /// Projects on the VIM that the grant assigns.
    pub resource_groups: BTreeSet<String>,
}

impl Granted {
    /// True if nothing is prescribed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the decisions of a later grant, which override these.
    pub fn extend(&mut self, later: Self) {
        self.zones.extend(later.zones);
        self.flavours.extend(later.flavours);
        self.images.extend(later.images);
        self.managed_links.extend(later.managed_links);
        self.managed_link_ids.extend(later.managed_link_ids);
        self.resource_groups.extend(later.resource_groups);
    }

    /// Adds the externally managed links of a request, unless the NFVO decided otherwise about them.
    #[must_use]
    pub fn with_links(mut self, links: &[ExtManagedVirtualLinkData]) -> Self {
        for link in links {
            let desc_id = &link.vnf_virtual_link_desc_id;
            let network = self.managed_links.entry(desc_id.clone());
            // Decisions recorded by older versions have no ids.
            if *network.or_insert_with(|| link.resource_id.clone()) == link.resource_id {
                self.managed_link_ids
                    .entry(desc_id.clone())
                    .or_insert_with(|| link.id.clone());
            }
        }
        self
    }

    /// The zone of a VDU's `index`-th VNFC.
    pub fn zone_of(&self, vdu: &str, index: u32) -> Option<&str> {
        self.zones.get(&compute_id(vdu, index)).map(String::as_str)
    }
}

/// Id of a VDU's `index`-th VNFC in the grant request.
pub fn compute_id(vdu: &str, index: u32) -> String {
    format!("compute/{vdu}/{index}")
}

/// Id of a storage of a VDU's `index`-th VNFC in the grant request.
pub fn storage_id(storage: &str, vdu: &str, index: u32) -> String {
    format!("storage/{vdu}/{index}/{storage}")
}

/// Id of an internal link in the grant request.
pub fn link_id(link: &str) -> String {
    format!("vl/{link}")
}

/// Id of an external connection point of a VDU's `index`-th VNFC in the grant request.
pub fn port_id(cpd: &str, index: u32) -> String {
    format!("linkport/{cpd}/{index}")
}
