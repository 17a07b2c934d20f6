//! A package before it becomes a [`Package`](crate::Package): its archive, YAML with positions, TOSCA types and topologies.
//!
//! For `vnfm-lint`, which examines what onboarding accepts; changes more often than the rest of this crate.

pub use crate::archive::Archive;
pub use crate::consequences::{Relation, Rule};
pub use crate::finding::sort;
pub use crate::hashes::Algorithm;
pub use crate::package::{Parts, examine};
pub use crate::package_kind::of_text;
pub use crate::path::{base, folder, has_extension, resolve};
pub use crate::sink::Sink;
pub use crate::tosca::{
    Document, Group, Kind, Origin, Policy, Sources, Template, Topology, Types, VNF, listed,
    operations_in, units,
};
pub use crate::tosca_meta::Meta;
pub use crate::variables::is_name;
pub use crate::workload_files::has_workload_files;
pub use crate::yaml::{Node, Value, float, integer, parse, parse_all};
