//! Checks that the published crates can be published: their metadata is complete, their dependencies have versions, they
//! pack, and they build from the package.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::workspace::{cargo, is_published, packages, published};
use crate::{interrupt, paths, process, terminal};

/// Packs all published crates, and compares them with the revision `since`.
///
/// # Errors
/// If the metadata of a crate is incomplete, it does not pack, or its API breaks users of the release.
pub(super) fn package(since: Option<&str>) -> Result<()> {
    let missing = missing(&packages()?);
    ensure!(
        missing.is_empty(),
        "incomplete metadata of published crates:\n  {}",
        missing.join("\n  ")
    );
    let names = published()?;
    let each: Vec<_> = names.iter().flat_map(|name| ["--package", name]).collect();
    pack(&names, &each)?;
    println!("{} crates pack, and build from their packages", names.len());
    let Some(since) = since else {
        terminal::note("not compared with a release: no `--since REVISION`");
        return Ok(());
    };
    ensure!(
        has("semver-checks"),
        "cargo-semver-checks is not installed; hint: `cargo install cargo-semver-checks --locked`"
    );
    cargo(&[&["semver-checks", "--baseline-rev", since], &each[..]].concat())
}

/// Packs the crates into a separate target folder, and builds each from its package.
fn pack(names: &[String], each: &[&str]) -> Result<()> {
    interrupt::check()?;
    let target = paths::target()?.join("published");
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    remove_cached(
        names,
        &target,
        &home.context("neither CARGO_HOME nor HOME is set, so the folder of cargo is unknown")?,
    )?;
    let mut command = paths::cargo();
    command
        .args(["package", "--allow-dirty"])
        .args(each)
        .env("CARGO_TARGET_DIR", &target);
    ensure!(process::foreground(&mut command)?, "`cargo package` failed");
    Ok(())
}

/// Deletes what cargo cached from earlier runs: it assumes that a packed version never changes, but ours
/// does until it is published.
fn remove_cached(names: &[String], target: &Path, home: &Path) -> Result<()> {
    let ours = |found: &str| names.iter().any(|name| is_of(found, name));
    let mut old = vec![target.join("package")];
    old.extend(inside(&target.join("debug/.fingerprint"), ours)?);
    for kind in ["cache", "src"] {
        // A registry that is a folder has no host before its dash.
        for registry in inside(&home.join("registry").join(kind), |name| {
            name.starts_with('-')
        })? {
            old.extend(inside(&registry, ours)?);
        }
    }
    for path in old {
        let removed = if path.is_file() {
            fs::remove_file(&path)
        } else {
            fs::remove_dir_all(&path)
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("cannot remove `{}`", path.display()))?,
        }
    }
    Ok(())
}

/// Whether a file of cargo belongs to this crate: `name-0.1.0`, `name-0.1.0.crate` or `name-` and sixteen digits.
fn is_of(found: &str, name: &str) -> bool {
    let rest = found
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit())
            || rest.len() == 16 && rest.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The matching entries of a folder; empty if it does not exist.
fn inside(folder: &Path, matches_name: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let action = || format!("cannot read `{}`", folder.display());
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.with_context(action)?,
    };
    let found = found.collect::<Result<Vec<_>, _>>().with_context(action)?;
    let found = found
        .into_iter()
        .filter(|entry| entry.file_name().to_str().is_some_and(&matches_name));
    Ok(found.map(|entry| entry.path()).collect())
}

/// Whether an additional cargo command is installed.
fn has(command: &str) -> bool {
    let mut version = paths::cargo();
    version
        .args([command, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// Missing metadata of the published crates.
fn missing(packages: &[Value]) -> Vec<String> {
    let ours = packages.iter().filter(|package| is_published(package));
    let names: Vec<_> = ours
        .clone()
        .filter_map(|package| package["name"].as_str())
        .collect();
    ours.flat_map(|package| {
        let name = package["name"].as_str().unwrap_or_default();
        lacks(package, &names)
            .into_iter()
            .map(move |what| format!("`{name}` {what}"))
    })
    .collect()
}

/// Missing metadata of a crate; it may depend only on `published` crates.
fn lacks(package: &Value, published: &[&str]) -> Vec<String> {
    let texts = [
        "description",
        "license",
        "readme",
        "documentation",
        "rust_version",
    ];
    let lists = ["keywords", "categories"];
    let is_empty = |name: &&&str| package[**name].as_str().is_none_or(str::is_empty);
    let is_short = |name: &&&str| package[**name].as_array().is_none_or(Vec::is_empty);
    let absent = texts
        .iter()
        .filter(is_empty)
        .chain(lists.iter().filter(is_short));
    let mut lacks: Vec<_> = absent.map(|name| format!("has no `{name}`")).collect();
    let root = package["manifest_path"].as_str().unwrap_or_default();
    if let (Some(readme), Some(root)) =
        (package["readme"].as_str(), root.strip_suffix("Cargo.toml"))
        && !std::path::Path::new(root).join(readme).is_file()
    {
        lacks.push(format!("names a missing `{readme}`"));
    }
    let has_features = package["features"]
        .as_object()
        .is_some_and(|all| !all.is_empty());
    if has_features && package["metadata"]["docs"]["rs"]["all-features"] != true {
        lacks.push("has features, but `package.metadata.docs.rs` does not enable them".to_owned());
    }
    for needed in package["dependencies"].as_array().into_iter().flatten() {
        let name = needed["name"].as_str().unwrap_or_default();
        if needed["path"].is_null() || needed["kind"] == "dev" {
            continue;
        }
        if !published.contains(&name) {
            lacks.push(format!("depends on `{name}`, which is not published"));
        }
        if needed["req"] == "*" {
            lacks.push(format!("has no version for the dependency `{name}`"));
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::{lacks, missing, packages, remove_cached};
    use serde_json::json;
    use std::fs;

    #[test]
    fn published_crates_have_complete_metadata() {
        let all = packages().unwrap();
        assert!(
            all.iter().any(|package| package["publish"].is_null()),
            "nothing is published"
        );
        assert_eq!(missing(&all), Vec::<String>::new());
    }

    #[test]
    fn missing_metadata_is_reported() {
        let package = json!({
            "name": "x", "description": "d", "license": "", "readme": "none.md", "rust_version": "1.95",
            "documentation": "https://docs.rs/x", "keywords": [], "categories": ["os"], "manifest_path": "/nowhere/Cargo.toml",
            "features": {"a": []}, "metadata": null,
            "dependencies": [
                {"name": "known", "path": "/p", "req": "*", "kind": null},
                {"name": "unknown", "path": "/p", "req": "^0.1", "kind": "build"},
                {"name": "tests", "path": "/p", "req": "*", "kind": "dev"},
                {"name": "serde", "req": "^1", "kind": null},
            ],
        });
        let expected = [
            "has no `license`",
            "has no `keywords`",
            "names a missing `none.md`",
            "has features, but `package.metadata.docs.rs` does not enable them",
            "has no version for the dependency `known`",
            "depends on `unknown`, which is not published",
        ];
        assert_eq!(lacks(&package, &["x", "known"]), expected);
    }

    #[test]
    fn only_cached_packages_of_our_crates_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, home) = (folder.path().join("target"), folder.path().join("home"));
        let of_ours = [
            target.join("package/tmp-registry"),
            target.join("debug/.fingerprint/one-0123456789abcdef"),
            home.join("registry/src/-abc/one-0.1.0"),
            home.join("registry/cache/-abc/one-0.1.0.crate"),
        ];
        let of_others = [
            target.join("debug/.fingerprint/one-more-0123456789abcdef"),
            target.join("debug/.fingerprint/other-0123456789abcdef"),
            home.join("registry/src/-abc/other-0.1.0"),
            home.join("registry/src/index.crates.io-abc/one-0.1.0"),
        ];
        for path in of_ours.iter().chain(&of_others) {
            fs::create_dir_all(path).unwrap();
        }
        remove_cached(&["one".to_owned()], &target, &home).unwrap();
        assert!(of_ours.iter().all(|path| !path.exists()));
        assert!(of_others.iter().all(|path| path.exists()));
        remove_cached(&["one".to_owned()], &target, &home).unwrap();
    }
}
