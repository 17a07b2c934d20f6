//! What a change would do to the resources of an instance: what [`InfraDriver::plan`](super::InfraDriver::plan) answers.
//!
//! A plan names properties by their path and never contains their values: these may be secret.

use super::{Allocation, Convergence, Recorded, Release};
use serde::Serialize;

/// A change that a driver could make.
#[derive(Clone, Copy)]
pub enum ResourceChange<'a> {
    /// [`InfraDriver::converge`](super::InfraDriver::converge).
    Converge(&'a Convergence<'a>),
    /// [`InfraDriver::release`](super::InfraDriver::release).
    Release {
        /// What the instance was made of.
        what: &'a Allocation,
        /// Its resources as recorded.
        current: &'a Recorded,
        /// How they are released.
        how: &'a Release,
    },
}

/// What a change would do to the resources of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcePlan {
    /// The resources that exist, and those that would be created.
    pub resources: Vec<PlannedResource>,
    /// What only the change itself can tell, as sentences; empty: nothing.
    pub unknown: Vec<String>,
}

impl ResourcePlan {
    /// A plan of these resources that leaves nothing open.
    pub fn from_resources(resources: Vec<PlannedResource>) -> Self {
        let unknown = Vec::new();
        Self { resources, unknown }
    }

    /// A plan that tells nothing but this.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            resources: Vec::new(),
            unknown: vec![why.into()],
        }
    }

    /// False if every resource stays as it is.
    pub fn changes(&self) -> bool {
        let stays = |one: &PlannedResource| one.action == ResourceAction::Keep;
        !self.unknown.is_empty() || !self.resources.iter().all(stays)
    }
}

/// What would happen to one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedResource {
    /// Such as `OS::Nova::Server` or `Deployment`.
    pub kind: String,
    /// Its name on the VIM, or in the template that creates it.
    pub name: String,
    /// The VDU of a VNFC; `None`: the resource is no VNFC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vdu: Option<String>,
    /// `id` of the VNFC in the inventory; `None`: it is none, or does not exist yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnfc: Option<String>,
    /// Of a server to be created or replaced, the availability zone that it is requested in; `None`: any, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What would happen.
    pub action: ResourceAction,
    /// Paths of the properties that cause it, such as `spec.replicas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

impl PlannedResource {
    /// What would happen to a resource that is no VNFC.
    pub fn new(kind: impl Into<String>, name: impl Into<String>, action: ResourceAction) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
            vdu: None,
            vnfc: None,
            zone: None,
            action,
            because: Vec::new(),
        }
    }

    /// Makes it a VNFC of this VDU; `id` is that of an existing one.
    #[must_use]
    pub fn of_vdu(self, vdu: impl Into<String>, id: Option<String>) -> Self {
        Self {
            vdu: Some(vdu.into()),
            vnfc: id,
            ..self
        }
    }

    /// Names the availability zone that it is requested in.
    #[must_use]
    pub fn in_zone(self, zone: Option<String>) -> Self {
        Self { zone, ..self }
    }

    /// Names the properties that cause it.
    #[must_use]
    pub fn because(self, because: Vec<String>) -> Self {
        Self { because, ..self }
    }
}

/// What would happen to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ResourceAction {
    /// It does not exist yet.
    Create,
    /// It stays, with other properties.
    Update,
    /// It is deleted, and another one takes its place.
    Replace,
    /// It is deleted.
    Delete,
    /// It stays as it is.
    Keep,
}
