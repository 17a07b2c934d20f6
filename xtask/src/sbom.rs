//! The bill of materials of the Debian package: every crate that is linked into its programs, as `CycloneDX` 1.5 in JSON.
//!
//! Built only from `cargo metadata`, `cargo tree` and `Cargo.lock`, so the same source gives the same file.

use crate::paths;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The packages whose programs and libraries are in the Debian package.
pub(crate) const SHIPPED: [&str; 5] = [
    "vnfm-server",
    "vnfm-cli",
    "kubernetes-cluster",
    "cluster-api",
    "mgmt-script",
];

/// The bill of materials as a JSON document.
///
/// # Errors
/// If cargo fails or prints no JSON.
pub(crate) fn document() -> anyhow::Result<String> {
    let metadata: Value =
        serde_json::from_str(&cargo_output(&["metadata", "--format-version", "1"])?)?;
    let lock = std::fs::read_to_string(paths::root().join("Cargo.lock"))?;
    let materials = materials(&metadata, &linked()?, &checksums(&lock));
    Ok(serde_json::to_string_pretty(&materials)? + "\n")
}

/// Name and version of the crates that are linked into the shipped packages. `cargo metadata` alone would
/// include the dependencies of tests.
fn linked() -> anyhow::Result<BTreeSet<(String, String)>> {
    let mut arguments = vec!["tree", "--edges", "normal,build", "--prefix", "none"];
    arguments.extend(SHIPPED.iter().flat_map(|name| ["--package", name]));
    let tree = cargo_output(&arguments)?;
    let crates = tree.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    Ok(crates.collect())
}

/// Standard output of a cargo command.
fn cargo_output(arguments: &[&str]) -> anyhow::Result<String> {
    let output = paths::cargo().args(arguments).arg("--locked").output();
    let output = output.with_context(|| format!("cannot run `cargo {}`", arguments[0]))?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`cargo {}` failed: {}",
        arguments[0],
        why.trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn materials(
    metadata: &Value,
    linked: &BTreeSet<(String, String)>,
    checksums: &BTreeMap<(String, String), String>,
) -> Value {
    let is_linked = |package: &&Value| {
        let text = |member: &str| package[member].as_str().unwrap_or_default().to_owned();
        linked.contains(&(text("name"), text("version")))
    };
    let mut components: Vec<_> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_linked)
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

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut one = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
    });
    if let Some(licence) = package["license"].as_str() {
        // `MIT/Apache-2.0` is the notation from before SPDX expressions.
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
    fn the_document_lists_all_linked_crates_with_checksum_and_licence() {
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
        assert!(named("proptest").is_none(), "only tests use it");
        assert!(named("xtask").is_none(), "it is not in the package");
        assert_eq!(document().unwrap(), document().unwrap());
    }

    #[test]
    fn a_checksum_is_found_by_name_and_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"c0ffee\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let found = checksums(lock);
        assert_eq!(
            found.get(&("a".into(), "1.0.0".into())),
            Some(&"c0ffee".to_owned())
        );
        assert_eq!(found.len(), 1);
    }
}
