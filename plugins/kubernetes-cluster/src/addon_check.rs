//! What is refused of add-ons before anything is installed.

use crate::params::AddOn;
use std::collections::BTreeSet;
use vnfm_plugin_sdk::prelude::*;

/// Refuses add-ons that cannot be installed, before anything is.
///
/// # Errors
///
/// `bad-parameters`, naming the add-on.
pub(crate) fn check(addons: &[AddOn], artifacts: &[String]) -> Result<(), DriverError> {
    let mut names = BTreeSet::new();
    for addon in addons {
        let name = &addon.name;
        let problem = if !is_dns_label(name) {
            format!("the name of add-on `{name}` is not a DNS label (RFC 1123)")
        } else if !names.insert(name) {
            format!("two add-ons have the name `{name}`")
        } else if !artifacts.contains(&addon.manifest) {
            format!(
                "the package has no `{}` for add-on `{name}`",
                addon.manifest
            )
        } else {
            continue;
        };
        return Err(DriverError::new("bad-parameters", problem).phase("preflight"));
    }
    Ok(())
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
    use super::check;
    use crate::params::AddOn;
    use serde_json::json;

    #[test]
    fn add_ons_are_checked_before_anything_is_installed() {
        let artifacts = ["m.yaml".to_owned()];
        let mut all: Vec<AddOn> = vec![
            serde_json::from_value(json!({ "name": "metrics", "manifest": "m.yaml" })).unwrap(),
        ];
        check(&all, &artifacts).unwrap();
        let refused =
            |all: &[AddOn], artifacts: &[String]| check(all, artifacts).unwrap_err().to_string();
        assert!(refused(&all, &[]).contains("`m.yaml`"));
        all.push(all[0].clone());
        assert!(refused(&all, &artifacts).contains("two add-ons"));
        all[1].name = "a; reboot".to_owned();
        assert!(refused(&all, &artifacts).contains("DNS label"));
    }
}
