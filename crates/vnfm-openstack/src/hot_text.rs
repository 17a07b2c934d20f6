//! The templates of a package as texts and YAML, and which of their parameters have Tacker's layout.

use crate::blueprint::{Blueprint, package};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{BaseHot, HotExpression};

/// The parameters of the template with the layout of Tacker's user data.
pub(crate) fn nfv_parameters(hot: &BaseHot) -> BTreeSet<&str> {
    let all = hot.parameters.0.iter();
    let all = all.filter(|(_, binding)| binding.from == HotExpression::Nfv);
    all.map(|(name, _)| name.as_str()).collect()
}

/// A template of the package.
pub(crate) fn yaml(blueprint: &Blueprint<'_>, path: &str) -> Result<Value, PortError> {
    let text = text(blueprint, path)?;
    serde_yaml::from_str(&text).map_err(|error| package(format!("`{path}` is not YAML: {error}")))
}

/// A file of the package.
pub(crate) fn text(blueprint: &Blueprint<'_>, path: &str) -> Result<String, PortError> {
    let bytes = blueprint
        .package
        .read(path)
        .map_err(|error| package(format!("`{path}`: {error}")))?;
    String::from_utf8(bytes).map_err(|_| package(format!("`{path}` is not UTF-8 text")))
}
