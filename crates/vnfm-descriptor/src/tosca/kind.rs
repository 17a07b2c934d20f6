//! The kinds of types: each has a section of a file.

/// The kind of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A type of the section `artifact_types`.
    Artifact,
    /// A type of the section `data_types`.
    Data,
    /// A type of the section `capability_types`.
    Capability,
    /// A type of the section `interface_types`.
    Interface,
    /// A type of the section `relationship_types`.
    Relationship,
    /// A type of the section `node_types`.
    Node,
    /// A type of the section `group_types`.
    Group,
    /// A type of the section `policy_types`.
    Policy,
}

/// Each kind, the section with its types, and what messages call such a type.
pub(super) const SECTIONS: [(Kind, &str, &str); 8] = [
    (Kind::Artifact, "artifact_types", "artifact type"),
    (Kind::Data, "data_types", "data type"),
    (Kind::Capability, "capability_types", "capability type"),
    (Kind::Interface, "interface_types", "interface type"),
    (
        Kind::Relationship,
        "relationship_types",
        "relationship type",
    ),
    (Kind::Node, "node_types", "node type"),
    (Kind::Group, "group_types", "group type"),
    (Kind::Policy, "policy_types", "policy type"),
];
