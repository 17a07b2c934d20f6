//! The templates of a package as an instance uses them.

use crate::blueprint::Blueprint;
use crate::get_param::{entries_read, is_path, reads};
use crate::hot_text::{nfv_parameters, yaml};
use crate::vnfc_resources;
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::PortError;
use vnfm_descriptor::BaseHot;

/// The package's templates as an instance uses them.
pub(crate) struct Templates {
    pub(crate) top: Value,
    nested: Vec<Value>,
    /// Whether the top-level template has a resource for each VNFC.
    pub(crate) per_vnfc: bool,
}

impl Templates {
    /// Reads the templates, with a resource for each VNFC if the instance is so.
    pub(crate) fn read(blueprint: &Blueprint<'_>, hot: &BaseHot) -> Result<Self, PortError> {
        let mut top = yaml(blueprint, &hot.template)?;
        let per_vnfc = vnfc_resources::is_per_vnfc(blueprint, hot, &top)?;
        if per_vnfc {
            vnfc_resources::expand(blueprint, hot, &mut top)?;
        }
        let paths: BTreeSet<&String> = hot.files.values().collect();
        let nested = paths.into_iter().map(|path| yaml(blueprint, path));
        Ok(Self {
            top,
            nested: nested.filter_map(Result::ok).collect(),
            per_vnfc,
        })
    }

    /// Whether the templates read this member of the layout `nfv`.
    pub(crate) fn read_member(&self, hot: &BaseHot, [section, entry, member]: [&str; 3]) -> bool {
        let layouts = nfv_parameters(hot);
        let is_match = |path: &[Value]| {
            let mut layouts = layouts.iter();
            layouts.any(|layout| is_path(path, &[layout, section, entry, member]))
        };
        self.all().any(|template| reads(template, &is_match))
    }

    /// The entries of the layout `nfv` that the templates read: section and name.
    pub(crate) fn entries(&self, hot: &BaseHot) -> BTreeSet<(String, String)> {
        let (layouts, mut found) = (nfv_parameters(hot), BTreeSet::new());
        self.all()
            .for_each(|template| entries_read(template, &layouts, &mut found));
        found
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.top).chain(&self.nested)
    }
}
