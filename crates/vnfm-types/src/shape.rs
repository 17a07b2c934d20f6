//! Which attributes a resource has: what a filter, a selector or a modification may name (SOL013 5.2, 5.3).
//!
//! ```text
//! Resource ─ Type ─ Attribute ─ how many (one, a list, a map) ─ Shape: a value, a structure with a Type, free JSON
//! ```

mod tables;

use Shape::{Free, Structure};

/// A kind of resource that a list holds.
#[derive(Debug)]
pub struct Resource {
    shape: Shape,
    /// The attributes that a list leaves out unless it is asked for them.
    pub left_out: &'static [&'static str],
}

/// `VnfInstance`, as a list shows it (SOL003 5.4.2.3.2).
pub static VNF_INSTANCES: Resource = Resource {
    shape: tables::VNF_INSTANCE,
    left_out: &[
        "vnfConfigurableProperties",
        "vimConnectionInfo",
        "instantiatedVnfInfo",
        "metadata",
        "extensions",
    ],
};

/// `VnfInstance` as a list of `vnflcm/v1` shows it.
pub static VNF_INSTANCES_V1: Resource = Resource {
    shape: tables::VNF_INSTANCE_V1,
    left_out: VNF_INSTANCES.left_out,
};

/// `VnfLcmOpOcc`, as a list shows it (SOL003 5.4.12.3.2).
pub static VNF_LCM_OP_OCCS: Resource = Resource {
    shape: tables::VNF_LCM_OP_OCC,
    left_out: &[
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

/// `VnfLcmOpOcc` as a list of `vnflcm/v1` shows it.
pub static VNF_LCM_OP_OCCS_V1: Resource = Resource {
    shape: tables::VNF_LCM_OP_OCC_V1,
    left_out: VNF_LCM_OP_OCCS.left_out,
};

/// `VnfPkgInfo`, as a list shows it (SOL005 9.4.2.3.2).
pub static VNF_PACKAGES: Resource = Resource {
    shape: tables::VNF_PKG_INFO,
    left_out: &[
        "softwareImages",
        "additionalArtifacts",
        "userDefinedData",
        "checksum",
        "onboardingFailureDetails",
    ],
};

/// `LccnSubscription`, as a list shows it (SOL003 5.4.18.3.2).
pub static LCCN_SUBSCRIPTIONS: Resource = Resource {
    shape: tables::LCCN_SUBSCRIPTION,
    left_out: &[],
};

impl Resource {
    /// Its attributes.
    pub fn of(&self) -> &'static Type {
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

/// A structured data type.
#[derive(Debug)]
pub struct Type {
    /// Its name in the standard; of a structure within another one, the attribute's.
    pub name: &'static str,
    /// Its attributes, in the standard's order.
    pub attributes: &'static [Attribute],
}

impl Type {
    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }

    /// The names of the links that its `_links` may have, as the standard has them.
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
            _ => &["self"],
        }
    }

    /// The names of all attributes, for people.
    pub fn names(&self) -> String {
        let names: Vec<_> = self
            .attributes
            .iter()
            .map(|attribute| attribute.name)
            .collect();
        names.join(", ")
    }
}

/// An attribute of a type.
#[derive(Debug)]
pub struct Attribute {
    /// As the standard spells it.
    pub name: &'static str,
    /// True where the standard says that it is always there.
    pub needed: bool,
    /// How many values it has.
    pub many: Many,
    /// What each of them is.
    pub shape: Shape,
}

impl Attribute {
    /// True where it is more than one value: what a selector may name.
    pub fn is_complex(&self) -> bool {
        self.many != Many::One
            || matches!(
                self.shape,
                Structure(_) | Free | Shape::Links | Shape::Hidden
            )
    }

    /// The type of what is inside, where it has one.
    pub fn inside(&self) -> Option<&'static Type> {
        match self.shape {
            Structure(of) => Some(of),
            _ => None,
        }
    }

    /// True where any member may lie inside.
    pub fn is_free(&self) -> bool {
        matches!(self.shape, Free)
    }
}

/// How many values an attribute has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    /// At most one.
    One,
    /// A list of them.
    List,
    /// A map of them, by key.
    Map,
}

/// What a value is.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Text; identifiers, names, members of an enumeration.
    Text,
    /// A number.
    Number,
    /// True or false.
    Truth,
    /// A point in time.
    Time,
    /// The key of the entry, where a list is shown of what is kept as a map.
    Key,
    /// A structure.
    Structure(&'static Type),
    /// Any JSON (`KeyValuePairs`).
    Free,
    /// `_links`: made when it is served.
    Links,
    /// Never shown.
    Hidden,
}

#[cfg(test)]
mod tests {
    use super::{LCCN_SUBSCRIPTIONS, Resource, VNF_INSTANCES, VNF_LCM_OP_OCCS, VNF_PACKAGES};

    #[test]
    fn only_what_may_be_absent_is_left_out() {
        let all: [&Resource; 4] = [
            &VNF_INSTANCES,
            &VNF_LCM_OP_OCCS,
            &VNF_PACKAGES,
            &LCCN_SUBSCRIPTIONS,
        ];
        for resource in all {
            for name in resource.left_out {
                let attribute = resource.of().attribute(name).unwrap();
                assert!(!attribute.needed && attribute.is_complex(), "{name}");
            }
        }
    }
}
