//! The bill of materials of the Debian package: every crate that is linked into its programs, as `CycloneDX` 1.5 in JSON.
//!
//! It is made of what cargo says of the build (`cargo metadata`) and of `Cargo.lock`, and of nothing that changes from one
//! build to the next: the same source gives the same file.

use crate::places;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The packages whose programs and libraries are in the Debian package.
pub(crate) const SHIPPED: [&str; 4] =
    ["vnfm-server", "vnfm-cli", "kubernetes-cluster", "mgmt-script"];

/// The whole document.
///
/// # Errors
/// When cargo does not say what is built.
pub(crate) fn document() -> anyhow::Result<String> {
    let mut cargo = places::cargo();
    // What other platforms link is not in the package.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform]);
    let output = cargo.output().context("cannot run `cargo metadata`")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo metadata` failed: {}", words.trim());
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let lock = std::fs::read_to_string(places::root().join("Cargo.lock"))?;
    Ok(serde_json::to_string_pretty(&materials(&told, &checksums(&lock)))? + "\n")
}

fn materials(told: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&told["packages"]);
    let by_id: BTreeMap<_, _> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let uses: BTreeMap<String, BTreeSet<String>> = list(&told["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?.to_owned(), linked(node))))
        .collect();
    let shipped = |package: &&Value| SHIPPED.iter().any(|name| package["name"] == *name);
    let mut open: Vec<String> = packages
        .iter()
        .filter(shipped)
        .filter_map(|package| package["id"].as_str().map(ToOwned::to_owned))
        .collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(uses.get(&id).into_iter().flatten().cloned());
        }
    }
    let mut components: Vec<_> = found
        .iter()
        .filter_map(|id| by_id.get(id.as_str()))
        .map(|package| component(package, checksums))
        .collect();
    components.sort_by_key(|one| one["bom-ref"].as_str().unwrap_or_default().to_owned());
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": "vnfm", "name": "vnfm", "version": env!("CARGO_PKG_VERSION"),
        }},
        "components": components,
    })
}

/// What a package uses other than for its tests.
fn linked(node: &Value) -> BTreeSet<String> {
    let uses = node["deps"].as_array().into_iter().flatten();
    let beside_tests = |one: &&Value| {
        let kinds = one["dep_kinds"].as_array().cloned().unwrap_or_default();
        kinds.iter().any(|kind| kind["kind"] != "dev")
    };
    uses.filter(beside_tests).filter_map(|one| one["pkg"].as_str().map(ToOwned::to_owned)).collect()
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut one = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
    });
    if let Some(licence) = package["license"].as_str() {
        // `MIT/Apache-2.0` is how it was written before SPDX had expressions.
        one["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(sha256) = checksums.get(&(name, version)) {
        one["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    one
}

/// The checksums of `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let block = |block: &str| {
        let member = |name: &str| {
            let begin = format!("{name} = \"");
            let line = block.lines().find_map(|line| line.strip_prefix(&begin))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((member("name")?, member("version")?), member("checksum")?))
    };
    lock.split("[[package]]").filter_map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::{SHIPPED, checksums, document};
    use serde_json::Value;

    #[test]
    fn it_names_each_crate_that_is_linked_with_version_checksum_and_licence() {
        let made: Value = serde_json::from_str(&document().unwrap()).unwrap();
        assert_eq!(
            (&made["bomFormat"], &made["specVersion"]),
            (&"CycloneDX".into(), &"1.5".into())
        );
        let all = made["components"].as_array().unwrap();
        let named = |name: &str| all.iter().find(|one| one["name"] == name);
        for ours in SHIPPED {
            assert!(named(ours).is_some(), "no `{ours}`");
        }
        let tokio = named("tokio").unwrap();
        assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert_eq!(tokio["licenses"][0]["expression"], "MIT");
        assert!(named("proptest").is_none(), "tests alone use it");
        assert!(named("xtask").is_none(), "it is not in the package");
        assert_eq!(document().unwrap(), document().unwrap());
    }

    #[test]
    fn a_checksum_is_found_by_name_and_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"c0ffee\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.get(&("a".into(), "1.0.0".into())), Some(&"c0ffee".to_owned()));
        assert_eq!(found.len(), 1);
    }
}
