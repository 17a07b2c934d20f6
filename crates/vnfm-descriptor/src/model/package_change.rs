//! Which change from one VNFD to another the policies of both allow, and what corresponds between the two.
//!
//! ```text
//! a policy for exactly this change ──► allowed, with its flavour and component mappings
//! policies for others alone ─────────► excluded
//! no policy ─────────────────────────► allowed between VNFDs of the same product; components correspond by name
//! ```
//! A policy that describes the way back alone still tells what corresponds.

use super::lifecycle::{ChangeSelector, PackageChange};
use super::{Flavour, Vnfd};
use std::collections::BTreeMap;

/// Kinds of components that a policy maps (`component_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// A VDU: its VNFCs stay if both VNFDs describe them alike.
    Vdu,
    /// A connection point, internal or external (CPD).
    Cp,
    /// An internal virtual link.
    VirtualLink,
    /// A volume or another storage of VNFCs.
    VirtualStorage,
    /// A named size of a flavour.
    InstantiationLevel,
    /// What a scale request names.
    ScalingAspect,
}

impl Component {
    /// As SOL001 spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vdu => "vdu",
            Self::Cp => "cp",
            Self::VirtualLink => "virtual_link",
            Self::VirtualStorage => "virtual_storage",
            Self::InstantiationLevel => "instantiation_level",
            Self::ScalingAspect => "scaling_aspect",
        }
    }
}

/// An allowed change from one VNFD to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackagePath {
    /// Flavour of the VNF after the change.
    pub flavour_id: String,
    /// `up` to a newer version or `down` to an older one, if a policy states it.
    pub modification_qualifier: Option<String>,
    /// Other identifiers in the destination, by kind and identifier in the source.
    renamed: BTreeMap<(String, String), String>,
}

/// Why a change from one VNFD to another is not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPackagePath<'v> {
    /// The policies of the two VNFDs allow only these changes.
    Excluded(Vec<&'v ChangeSelector>),
    /// No policy describes the change, and the VNFDs are of different products.
    OtherProduct,
}

impl PackagePath {
    /// The change of a VNF in this flavour of `source` to `destination`.
    ///
    /// # Errors
    ///
    /// The policies of both exclude it, or there are none and the products differ.
    pub fn between<'v>(
        (source, flavour_id): (&'v Vnfd, &str),
        destination: &'v Vnfd,
    ) -> Result<Self, NoPackagePath<'v>> {
        let (from, to) = (&source.descriptor_id, &destination.descriptor_id);
        let policies = || changes(source).chain(changes(destination));
        let leads = |change: &&PackageChange, from: &str, to: &str| {
            let mut selectors = change.selectors.iter();
            selectors
                .any(|one| one.source_descriptor_id == from && one.destination_descriptor_id == to)
        };
        let is_ours = |change: &&PackageChange| {
            let mut selectors = change.selectors.iter();
            selectors.any(|one| {
                one.source_descriptor_id == *from
                    && one.destination_descriptor_id == *to
                    && one.source_flavour_id == flavour_id
            })
        };
        if let Some(change) = policies().find(is_ours) {
            return Ok(Self::described(change));
        }
        let others: Vec<_> = policies()
            .flat_map(|change| &change.selectors)
            .filter(|one| one.source_descriptor_id == *from || one.destination_descriptor_id == *to)
            .collect();
        if !others.is_empty() {
            return Err(NoPackagePath::Excluded(others));
        }
        if (&source.provider, &source.product_name)
            != (&destination.provider, &destination.product_name)
        {
            return Err(NoPackagePath::OtherProduct);
        }
        let back = policies().find(|change| leads(change, to, from));
        let renamed = back.map(|back| Self::described(back).reversed().renamed);
        Ok(Self {
            flavour_id: flavour_id.to_owned(),
            modification_qualifier: None,
            renamed: renamed.unwrap_or_default(),
        })
    }

    fn described(change: &PackageChange) -> Self {
        let renamed = change.component_mappings.iter().map(|one| {
            let source = (one.component_type.clone(), one.source_id.clone());
            (source, one.destination_id.clone())
        });
        Self {
            flavour_id: change.destination_flavour_id.clone(),
            modification_qualifier: Some(change.modification_qualifier.clone()),
            renamed: renamed.collect(),
        }
    }

    /// The same correspondence, from the destination to the source.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let renamed = self.renamed.iter().map(|((kind, source), destination)| {
            ((kind.clone(), destination.clone()), source.clone())
        });
        Self {
            renamed: renamed.collect(),
            ..self.clone()
        }
    }

    /// The identifier in the destination of a component of the source.
    pub fn destination<'a>(&'a self, kind: Component, source: &'a str) -> &'a str {
        let key = (kind.as_str().to_owned(), source.to_owned());
        self.renamed.get(&key).map_or(source, String::as_str)
    }

    /// The identifier in the source of a component of the destination.
    pub fn source<'a>(&'a self, kind: Component, destination: &'a str) -> &'a str {
        let mut all = self.renamed.iter();
        let found = all.find(|((of, _), to)| of == kind.as_str() && *to == destination);
        found.map_or(destination, |((_, source), _)| source)
    }

    /// VDUs that have another name in the destination: that name by the one in the source.
    pub fn renamed_vdus(&self) -> BTreeMap<String, String> {
        let vdus = self.renamed.iter();
        vdus.filter(|((kind, source), to)| kind == Component::Vdu.as_str() && source != *to)
            .map(|((_, source), to)| (source.clone(), to.clone()))
            .collect()
    }
}

/// The policies of all flavours: each flavour's file may state them.
fn changes(vnfd: &Vnfd) -> impl Iterator<Item = &PackageChange> {
    vnfd.flavours
        .values()
        .flat_map(|flavour: &Flavour| &flavour.package_changes)
}
