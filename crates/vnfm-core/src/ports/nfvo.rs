//! The NFVO that grants operations (SOL003 9), and what a driver sees of its answer.
//!
//! | rule | mandatory |
//! |---|---|
//! | a request for an operation that was asked for before is answered again: SOL003 has no way to look one up | yes |
//! | each call ends by itself, or may be dropped and made again | yes |
//! | `Unavailable` is tried again until the limit; everything else ends the operation, which has made nothing yet | yes |

use super::PortError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vnfm_types::{ExtManagedVirtualLinkData, Grant, GrantRequest};

/// What an NFVO answers.
#[derive(Debug, Clone, PartialEq)]
pub enum GrantAnswer {
    /// Approved.
    Granted(Box<Grant>),
    /// Not decided yet; this is what to look at for the answer, and how long it is not to be looked at, where that is said.
    Later(String, Option<Duration>),
    /// There is nothing where it was to be looked at: the request is to be made anew.
    Forgotten,
}

/// Whoever grants operations. Without one a local policy approves everything, and nothing is asked or written.
#[async_trait]
pub trait Nfvo: Send + Sync {
    /// Asks for a grant (9.4.2.3.1). The links of `request` are paths below this server;
    /// whoever sends it says where that is for the NFVO.
    ///
    /// # Errors
    ///
    /// `Refused` with the NFVO's ProblemDetails where it rejects the operation, or answers in another shape than the
    /// standard's; `Unavailable` where nobody answers.
    async fn ask(&self, request: &GrantRequest) -> Result<GrantAnswer, PortError>;

    /// Looks whether it was decided (9.4.3.3.2).
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    async fn look(&self, place: &str) -> Result<GrantAnswer, PortError>;
}

/// What an NFVO has decided about resources, for a driver; empty where a local policy grants. What a driver cannot
/// honour it refuses in `prepare`, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Granted {
    /// Zone on the VIM by what it is of: [`compute_id`], [`storage_id`], [`link_id`], [`port_id`].
    pub zones: BTreeMap<String, String>,
    /// Flavor on the VIM by VDU.
    pub flavours: BTreeMap<String, String>,
    /// Image on the VIM by VDU or storage.
    pub images: BTreeMap<String, String>,
    /// Network on the VIM by internal link: made by others, and theirs; those of the request, too.
    pub managed_links: BTreeMap<String, String>,
    /// What whoever named them calls these links, by internal link.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub managed_link_ids: BTreeMap<String, String>,
    /// Projects on the VIM.
    pub resource_groups: BTreeSet<String>,
}

impl Granted {
    /// True where nothing is prescribed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the internal links that a request says others manage, unless something else was decided about them.
    #[must_use]
    pub fn with_links(mut self, links: &[ExtManagedVirtualLinkData]) -> Self {
        for link in links {
            let of = &link.vnf_virtual_link_desc_id;
            let network = self.managed_links.entry(of.clone());
            // What was decided by a version before this one has no ids.
            if *network.or_insert_with(|| link.resource_id.clone()) == link.resource_id {
                self.managed_link_ids
                    .entry(of.clone())
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

/// What a VDU's `index`-th VNFC is called in the request for a grant.
pub fn compute_id(vdu: &str, index: u32) -> String {
    format!("compute/{vdu}/{index}")
}

/// What a storage of a VDU's `index`-th VNFC is called there.
pub fn storage_id(storage: &str, vdu: &str, index: u32) -> String {
    format!("storage/{vdu}/{index}/{storage}")
}

/// What an internal link is called there.
pub fn link_id(link: &str) -> String {
    format!("vl/{link}")
}

/// What an external connection point of a VDU's `index`-th VNFC is called there.
pub fn port_id(cpd: &str, index: u32) -> String {
    format!("linkport/{cpd}/{index}")
}
