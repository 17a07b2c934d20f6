//! Builds the published crates as an embedder does: with chosen features, and without the rest of the workspace, which
//! would enable features of shared dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::workspace::{cargo, published, umbrella};
use crate::terminal;

/// A set of features, including those that they imply.
type Set = BTreeSet<String>;

/// Checks each crate alone, then `vnfm` with every set of up to `depth` features, and with all.
///
/// # Errors
/// If one does not build.
pub(super) fn check(depth: usize) -> Result<()> {
    let began = Instant::now();
    let names = published()?;
    for name in &names {
        terminal::note(&format!("── {name} alone ──"));
        cargo(&["check", "--quiet", "--package", name])?;
    }
    let sets = sets(&features(&umbrella()?)?, depth);
    for (number, set) in sets.iter().enumerate() {
        let listed = set.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        terminal::note(&format!(
            "── vnfm with `{listed}` ({} of {}) ──",
            number + 1,
            sets.len()
        ));
        cargo(&[
            "check",
            "--quiet",
            "--package",
            "vnfm",
            "--lib",
            "--features",
            &listed,
        ])?;
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "{} crates build alone, vnfm with {} sets of features, in {seconds} s",
        names.len(),
        sets.len()
    );
    Ok(())
}

/// The features of a package, each with the features that it enables.
///
/// # Errors
/// If the package has none.
pub(super) fn features(package: &Value) -> Result<BTreeMap<String, Vec<String>>> {
    let features = package["features"]
        .as_object()
        .context("`vnfm` has no features")?;
    let named = |(name, implied): (&String, &Value)| {
        let implied = implied.as_array().into_iter().flatten();
        let implied = implied.filter_map(|other| Some(other.as_str()?.to_owned()));
        (name.clone(), implied.collect())
    };
    Ok(features
        .iter()
        .filter(|(name, _)| *name != "default")
        .map(named)
        .collect())
}

/// Every set of up to `depth` features, and the full set; sets that imply the same features are listed once.
fn sets(features: &BTreeMap<String, Vec<String>>, depth: usize) -> BTreeSet<Set> {
    let mut all = BTreeSet::from([Set::new()]);
    for _ in 0..depth.min(features.len()) {
        let before: Vec<_> = all.iter().cloned().collect();
        let more = before
            .iter()
            .flat_map(|set| features.keys().map(move |name| with(set, name)));
        all.extend(more.map(|set| closed(set, features)));
    }
    all.insert(features.keys().cloned().collect());
    all
}

fn with(set: &Set, name: &str) -> Set {
    set.iter()
        .map(String::as_str)
        .chain([name])
        .map(ToOwned::to_owned)
        .collect()
}

/// The set, extended by the features that its members imply.
fn closed(mut set: Set, features: &BTreeMap<String, Vec<String>>) -> Set {
    loop {
        let implied = set.iter().filter_map(|name| features.get(name)).flatten();
        let more: Vec<_> = implied
            .filter(|name| features.contains_key(*name) && !set.contains(*name))
            .cloned()
            .collect();
        if more.is_empty() {
            return set;
        }
        set.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::sets;
    use std::collections::BTreeMap;

    #[test]
    fn sets_are_closed_and_unique() {
        let implied = [
            ("a", vec![]),
            ("b", vec!["dep:x", "a"]),
            ("c", vec![]),
            ("d", vec!["b"]),
        ];
        let owned = |names: Vec<&str>| names.into_iter().map(ToOwned::to_owned).collect();
        let features: BTreeMap<String, Vec<String>> = implied
            .into_iter()
            .map(|(name, names)| (name.to_owned(), owned(names)))
            .collect();
        let listed = |depth| -> Vec<String> {
            let sets = sets(&features, depth);
            sets.iter()
                .map(|set| set.iter().map(String::as_str).collect())
                .collect()
        };
        assert_eq!(listed(0), ["", "abcd"]);
        assert_eq!(listed(1), ["", "a", "ab", "abcd", "abd", "c"]);
        assert_eq!(listed(2), ["", "a", "ab", "abc", "abcd", "abd", "ac", "c"]);
        assert_eq!(listed(2), listed(9), "there are no others");
    }
}
