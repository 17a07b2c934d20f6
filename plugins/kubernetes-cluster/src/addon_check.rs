//! The add-ons to install, and what is refused of them before anything is installed.

use crate::catalogue;
use crate::params::AddOn;
use std::collections::BTreeSet;
use vnfm_plugin_sdk::prelude::*;

/// The add-ons to install, in the order of their installation.
///
/// # Errors
///
/// `bad-parameters`, naming the add-on: its name is no name or occurs twice, the package lacks its manifest, or the catalogue
/// lacks its name, version or value.
pub(crate) fn planned(addons: &[AddOn], artifacts: &[String]) -> Result<Vec<AddOn>, DriverError> {
    let mut names = BTreeSet::new();
    let problem = addons.iter().find_map(|addon| {
        let name = &addon.name;
        let missing = addon.manifest.as_ref();
        let missing = missing.filter(|path| !artifacts.contains(path));
        if !is_dns_label(name) {
            Some(format!(
                "the name of add-on `{name}` is not a DNS label (RFC 1123)"
            ))
        } else if !names.insert(name) {
            Some(format!("two add-ons have the name `{name}`"))
        } else {
            missing.map(|path| format!("the package has no `{path}` for add-on `{name}`"))
        }
    });
    let planned = problem.map_or_else(|| catalogue::planned(addons), Err);
    planned.map_err(|problem| DriverError::new("bad-parameters", problem).phase("preflight"))
}

fn is_dns_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::planned;
    use crate::params::AddOn;
    use serde_json::json;

    #[test]
    fn add_ons_are_checked_before_anything_is_installed() {
        let artifacts = ["m.yaml".to_owned()];
        let mut all: Vec<AddOn> = vec![
            serde_json::from_value(json!({ "name": "metrics", "manifest": "m.yaml" })).unwrap(),
        ];
        planned(&all, &artifacts).unwrap();
        let refused =
            |all: &[AddOn], artifacts: &[String]| planned(all, artifacts).unwrap_err().to_string();
        assert!(refused(&all, &[]).contains("`m.yaml`"));
        all.push(all[0].clone());
        assert!(refused(&all, &artifacts).contains("two add-ons"));
        all[1].name = "a; reboot".to_owned();
        assert!(refused(&all, &artifacts).contains("DNS label"));
    }
}
