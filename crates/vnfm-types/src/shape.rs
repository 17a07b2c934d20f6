//! The attributes of each resource: what filters, selectors and modifications may name (SOL013 5.2, 5.3).
//!
//! ```text
//! Resource ─ Type ─ Attribute ─ multiplicity (one, a list, a map) ─ Shape: a value, a structure with a Type, free JSON
//! ```

mod tables;

use Shape::{Free, Structure};

/// A resource type that can be listed.
#[derive(Debug)]
pub struct Resource {
    shape: Shape,
    /// Attributes that lists omit by default, as paths such as `vnfSnapshot/vnfInstance`.
    pub omitted_by_default: &'static [&'static str],
}

/// `VnfInstance` in lists (SOL003 5.4.2.3.2).
pub static VNF_INSTANCES: Resource = Resource {
    shape: tables::VNF_INSTANCE,
    omitted_by_default: &[
        "vnfConfigurableProperties",
        "vimConnectionInfo",
        "instantiatedVnfInfo",
        "metadata",
        "extensions",
    ],
};

/// `VnfInstance` in lists of `vnflcm/v1`.
pub static VNF_INSTANCES_V1: Resource = Resource {
    shape: tables::VNF_INSTANCE_V1,
    omitted_by_default: VNF_INSTANCES.omitted_by_default,
};

/// `VnfLcmOpOcc` in lists (SOL003 5.4.12.3.2).
pub static VNF_LCM_OP_OCCS: Resource = Resource {
    shape: tables::VNF_LCM_OP_OCC,
    omitted_by_default: &[
        "operationParams",
        "error",
        "resourceChanges",
        "changedInfo",
        "changedExtConnectivity",
        "lcmCoordinations",
        "modificationsTriggeredByVnfPkgChange",
        "warnings",
    ],
};

/// `VnfLcmOpOcc` in lists of `vnflcm/v1`.
pub static VNF_LCM_OP_OCCS_V1: Resource = Resource {
    shape: tables::VNF_LCM_OP_OCC_V1,
    omitted_by_default: VNF_LCM_OP_OCCS.omitted_by_default,
};

/// `VnfSnapshotInfo` in lists (SOL003 5.4.23.3.2).
pub static VNF_SNAPSHOTS: Resource = Resource {
    shape: tables::VNF_SNAPSHOT_INFO,
    // Not `vnfcSnapshots`, which is mandatory.
    omitted_by_default: &["vnfSnapshot/vnfInstance"],
};

/// Shared virtual links, in lists of our own API.
pub static SHARED_LINKS: Resource = Resource {
    shape: tables::SHARED_LINK,
    omitted_by_default: &[],
};

/// Retained volumes, in lists of our own API.
pub static RETAINED_VOLUMES: Resource = Resource {
    shape: tables::RETAINED_VOLUME,
    omitted_by_default: &[],
};

/// `VnfPkgInfo` in lists (SOL005 9.4.2.3.2).
pub static VNF_PACKAGES: Resource = Resource {
    shape: tables::VNF_PKG_INFO,
    omitted_by_default: &[
        "softwareImages",
        "additionalArtifacts",
        "userDefinedData",
        "checksum",
        "onboardingFailureDetails",
    ],
};

/// `LccnSubscription` in lists (SOL003 5.4.18.3.2).
pub static LCCN_SUBSCRIPTIONS: Resource = Resource {
    shape: tables::LCCN_SUBSCRIPTION,
    omitted_by_default: &[],
};

impl Resource {
    /// The type that defines its attributes.
    pub fn type_description(&self) -> &'static Type {
        match self.shape {
            Structure(of) => of,
            _ => &NOTHING,
        }
    }
}

static NOTHING: Type = Type {
    name: "",
    attributes: &[],
};

/// A structured data type of the standard.
#[derive(Debug)]
pub struct Type {
    /// Name in the standard; for an anonymous structure, that of the attribute.
    pub name: &'static str,
    /// In the order of the standard.
    pub attributes: &'static [Attribute],
}

impl Type {
    /// Looks up an attribute by name.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }

    /// Link names defined by the standard for its `_links`.
    pub fn links(&self) -> &'static [&'static str] {
        match self.name {
            "VnfInstance" => &[
                "self",
                "indicators",
                "instantiate",
                "terminate",
                "scale",
                "scaleToLevel",
                "changeFlavour",
                "heal",
                "operate",
                "changeExtConn",
                "createSnapshot",
                "revertToSnapshot",
                "changeCurrentVnfPkg",
            ],
            "VnfLcmOpOcc" => &[
                "self",
                "vnfInstance",
                "grant",
                "cancel",
                "retry",
                "rollback",
                "fail",
                "vnfSnapshot",
            ],
            "VnfPkgInfo" => &["self", "vnfd", "packageContent"],
            "VnfSnapshotInfo" => &["self", "takenFrom"],
            "VnfSnapshot" => &["self", "vnfStateSnapshot"],
            _ => &["self"],
        }
    }

    /// All attribute names, comma-separated, for error messages.
    pub fn names(&self) -> String {
        let names: Vec<_> = self
            .attributes
            .iter()
            .map(|attribute| attribute.name)
            .collect();
        names.join(", ")
    }
}

/// One attribute of a type.
#[derive(Debug)]
pub struct Attribute {
    /// Name as in the standard.
    pub name: &'static str,
    /// True if the standard makes it mandatory.
    pub needed: bool,
    /// Single value, list or map.
    pub many: Many,
    /// Shape of each single value.
    pub shape: Shape,
}

impl Attribute {
    /// True for lists, maps and structures, which selectors may name.
    pub fn is_complex(&self) -> bool {
        self.many != Many::One
            || matches!(
                self.shape,
                Structure(_) | Free | Shape::Links | Shape::Hidden
            )
    }

    /// The nested type of a structure.
    pub fn inside(&self) -> Option<&'static Type> {
        match self.shape {
            Structure(of) => Some(of),
            _ => None,
        }
    }

    /// True if it may have any members.
    pub fn is_free(&self) -> bool {
        matches!(self.shape, Free)
    }
}

/// Multiplicity of an attribute, as its JSON form shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    /// A single value, not in an array.
    One,
    /// A JSON array of values, in order.
    List,
    /// A map of values by key.
    Map,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Strings, including identifiers and enumeration members.
    Text,
    /// A JSON number; compared by value, not as text.
    Number,
    /// A boolean: `true` or `false` in JSON.
    Truth,
    /// A timestamp as text, RFC 3339.
    Time,
    /// The key of an entry, if a stored map is shown as a list.
    Key,
    /// A nested structure with attributes of its own.
    Structure(&'static Type),
    /// Any JSON (`KeyValuePairs`), whose members no type describes.
    Free,
    /// `_links`: added when the resource is served.
    Links,
    /// A secret, which is never part of a response.
    Hidden,
}

#[cfg(test)]
mod tests {
    use super::{
        LCCN_SUBSCRIPTIONS, Resource, VNF_INSTANCES, VNF_LCM_OP_OCCS, VNF_PACKAGES, VNF_SNAPSHOTS,
    };

    #[test]
    fn only_optional_attributes_are_omitted_by_default() {
        let all: [&Resource; 5] = [
            &VNF_INSTANCES,
            &VNF_LCM_OP_OCCS,
            &VNF_SNAPSHOTS,
            &VNF_PACKAGES,
            &LCCN_SUBSCRIPTIONS,
        ];
        for resource in all {
            for path in resource.omitted_by_default {
                let mut names = path.split('/');
                let first = names.next().unwrap();
                let first = resource.type_description().attribute(first).unwrap();
                let attribute = names.fold(first, |outer, name| {
                    outer.inside().unwrap().attribute(name).unwrap()
                });
                assert!(!attribute.needed && attribute.is_complex(), "{path}");
            }
        }
    }
}
