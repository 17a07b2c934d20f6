//! SOL data model: the types of the SOL003 and SOL005 interfaces, spelt as in the standard.
//!
//! | module | clause of SOL003 V3.7.1 | content |
//! |---|---|---|
//! | [`state`] | 5.5.4.3, 5.6.2.2 | states of an operation occurrence and the table of legal transitions |
//! | [`instance`] | 5.5.2.2, 5.5.3 | `VnfInstance` and the contents of `instantiatedVnfInfo` |
//! | [`op_occ`] | 5.5.2.13 | `VnfLcmOpOcc` with `resourceChanges` |
//! | [`request`] | 5.5.2.3 … | request bodies of the tasks |
//! | [`snapshot`] | 5.5.2.20 … 5.5.2.26, 5.5.3.19 | VNF snapshots |
//! | [`subscription`] | 5.5.2.15, 5.5.3.12 | subscriptions to lifecycle changes |
//! | [`vim`] | 4.4.1.6 | `VimConnectionInfo`, the VIM types, and our registry's record |
//! | [`grant`] | 9.5.2 | `GrantRequest` and `Grant` |
//! | [`package`] | 10.5.2.2 / SOL005 9.5.2.5 | `VnfPkgInfo` |
//! | [`problem`] | SOL013 6.3 | `ProblemDetails` with our extension members |
//! | [`shape`] | SOL013 5.2, 5.3 | which attributes each resource of a list has |
//! | [`v1`] | – | differences between SOL003 V2.6.1 and V3.7.1, and conversion in both directions |
//! | [`progress`] | – | our own API: what an operation is doing, and why it waits |
//! | [`on_failure`] | – | our own API: what happens when a step fails |
//! | [`link`] | – | our own API: shared virtual links |
//! | [`volume`] | – | our own API: retained volumes |
//! | [`schedule`] | – | our own API: operations at an interval, stored files |
//! | [`ids`] | – | identifiers, one type each |
//! | [`audit`] | – | our own API: audit entries and tombstones |
//!
//! There is no I/O here, and no logic beyond the state table.

pub mod audit;
pub mod grant;
pub mod ids;
pub mod instance;
pub mod link;
pub mod on_failure;
pub mod op_occ;
pub mod package;
pub mod policy;
pub mod problem;
pub mod progress;
pub mod recovery;
pub mod request;
pub mod schedule;
pub mod secret;
pub mod shape;
pub mod snapshot;
pub mod state;
pub mod subscription;
mod time;
pub mod v1;
pub mod vim;
pub mod volume;

pub use audit::*;
pub use grant::*;
pub use ids::*;
pub use instance::*;
pub use link::*;
pub use on_failure::*;
pub use op_occ::*;
pub use package::*;
pub use policy::{InstanceLimits, PodSecurity, Selection, ServiceAccounts, VimPolicy};
pub use problem::*;
pub use progress::*;
pub use recovery::*;
pub use request::*;
pub use schedule::{Schedule, StoredFile};
pub use secret::Secret;
pub use snapshot::*;
pub use state::*;
pub use subscription::*;
pub use vim::*;
pub use volume::*;

/// `KeyValuePairs`: a free-form JSON object. It contains no nulls (a null means "delete" in a merge patch).
pub type KeyValuePairs = serde_json::Map<String, serde_json::Value>;

/// `Link` (SOL013 5.4.1): the location of another resource.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Link {
    /// Absolute URI of the resource.
    pub href: String,
}
