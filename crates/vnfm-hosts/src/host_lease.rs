//! Whose VNFC a host is: one line of JSON in a file on the host. No secrets.

use serde::{Deserialize, Serialize};
use vnfm_core::ports::Ownership;

/// The lease of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    pub(crate) installation_id: String,
    tenant: String,
    pub(crate) instance_id: String,
    /// `id` of the VNFC; each lease has another one.
    pub(crate) vnfc: String,
    pub(crate) vdu: String,
    /// Position among the VNFCs of the VDU, from 0.
    pub(crate) index: u32,
    /// The operation that took the host.
    op_id: String,
    /// The host is no VNFC any more: it is wiped, and then free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) returning: bool,
}

impl Lease {
    /// A lease for a new VNFC.
    pub(crate) fn new(owner: &Ownership, vdu: &str, index: u32) -> Self {
        Self {
            installation_id: owner.installation_id.clone(),
            tenant: owner.tenant.clone(),
            instance_id: owner.instance_id.clone(),
            vnfc: uuid::Uuid::new_v4().to_string(),
            vdu: vdu.to_owned(),
            index,
            op_id: owner.op_id.clone(),
            returning: false,
        }
    }

    pub(crate) fn is_of(&self, owner: &Ownership) -> bool {
        self.installation_id == owner.installation_id && self.instance_id == owner.instance_id
    }

    /// The same lease of a host that is about to be wiped.
    pub(crate) fn returning(&self) -> Self {
        Self {
            returning: true,
            ..self.clone()
        }
    }

    /// The line in the file.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What the lease file of a host contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leased {
    /// It is missing or empty.
    Free,
    /// A lease, with the line that it was read from.
    By(Box<Lease>, String),
    /// Something that this version cannot read: the host is in use.
    Unreadable,
}

impl Leased {
    pub(crate) fn read(line: &str) -> Self {
        match serde_json::from_str::<Lease>(line) {
            _ if line.is_empty() => Self::Free,
            Ok(lease) => Self::By(Box::new(lease), line.to_owned()),
            Err(_) => Self::Unreadable,
        }
    }
}
