//! Whether what is published can be: each crate says what it is, names versions of what it needs, packs, and builds from
//! what it packs, with the oldest Rust that it promises.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{cargo, is_published, packages, published};
use crate::{interrupt, places, process, terminal};

/// Packs all, and compares them with the revision `since`.
///
/// # Errors
/// Where a crate does not say what it is, does not pack, or breaks those who build on the release.
pub(super) fn package(since: Option<&str>) -> Result<()> {
    let missing = missing(&packages()?);
    ensure!(
        missing.is_empty(),
        "what is published is not described:\n  {}",
        missing.join("\n  ")
    );
    let names = published()?;
    let each: Vec<_> = names.iter().flat_map(|name| ["--package", name]).collect();
    pack(&names, &each)?;
    println!("{} crates pack, and build from what they pack", names.len());
    let Some(since) = since else {
        terminal::note("nothing to compare with: `--since REVISION` names a release");
        return Ok(());
    };
    ensure!(
        has("semver-checks"),
        "cargo-semver-checks is not installed; hint: `cargo install cargo-semver-checks --locked`"
    );
    cargo(&[&["semver-checks", "--baseline-rev", since], &each[..]].concat())
}

/// Packs them into a folder of its own, and builds each from what it packed.
fn pack(names: &[String], each: &[&str]) -> Result<()> {
    interrupt::check()?;
    let target = places::target()?.join("published");
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    forget(
        names,
        &target,
        &home.context("neither CARGO_HOME nor HOME says where cargo lives")?,
    )?;
    let mut command = places::cargo();
    command
        .args(["package", "--allow-dirty"])
        .args(each)
        .env("CARGO_TARGET_DIR", &target);
    ensure!(
        process::foreground(&mut command)?,
        "`cargo package` does not pass"
    );
    Ok(())
}

/// To cargo a version that is packed never changes. Ours does until it is published: what an earlier run unpacked
/// of it, and built from that, goes.
fn forget(names: &[String], target: &Path, home: &Path) -> Result<()> {
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
        let gone = if path.is_file() {
            fs::remove_file(&path)
        } else {
            fs::remove_dir_all(&path)
        };
        match gone {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            gone => gone.with_context(|| format!("cannot remove `{}`", path.display()))?,
        }
    }
    Ok(())
}

/// Whether a file of cargo's is of this crate: `name-0.1.0`, `name-0.1.0.crate` or `name-` and sixteen digits.
fn is_of(found: &str, name: &str) -> bool {
    let rest = found
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit())
            || rest.len() == 16 && rest.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// What a folder holds, if it is there.
fn inside(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let told = || format!("cannot read `{}`", folder.display());
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.with_context(told)?,
    };
    let found = found.collect::<Result<Vec<_>, _>>().with_context(told)?;
    let found = found
        .into_iter()
        .filter(|entry| entry.file_name().to_str().is_some_and(&fits));
    Ok(found.map(|entry| entry.path()).collect())
}

/// Whether cargo has a command that does not come with it.
fn has(command: &str) -> bool {
    let mut asked = places::cargo();
    asked
        .args([command, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

/// Checks each with the Rust that it names as its oldest.
///
/// # Errors
/// Where that Rust is not there, or does not build them.
pub(super) fn msrv() -> Result<()> {
    let mut by_rust: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages()?.iter().filter(|package| is_published(package)) {
        let name = package["name"].as_str().context("a crate has no name")?;
        let oldest = package["rust_version"].as_str();
        let oldest = oldest.with_context(|| format!("`{name}` names no oldest Rust"))?;
        by_rust
            .entry(oldest.to_owned())
            .or_default()
            .push(name.to_owned());
    }
    for (oldest, names) in &by_rust {
        let mut command = cargo_of(oldest)?;
        command
            .args(["check", "--all-features"])
            .current_dir(places::root());
        command.args(names.iter().flat_map(|name| ["--package", name]));
        ensure!(
            process::foreground(&mut command)?,
            "{} do not build with Rust {oldest}; hint: use less new things, or raise `rust-version`",
            names.join(", ")
        );
        println!("{} crates build with Rust {oldest}", names.len());
    }
    Ok(())
}

/// The cargo of another Rust: rustup's, or what distributions call `cargo-1.85`, beside a `rustc-1.85`.
fn cargo_of(rust: &str) -> Result<Command> {
    let toolchain = format!("{rust}.0")
        .split('.')
        .take(3)
        .collect::<Vec<_>>()
        .join(".");
    let (cargo, rustc) = (format!("cargo-{rust}"), format!("rustc-{rust}"));
    let mut command = if process::ask("rustup", &["run", &toolchain, "rustc", "-V"]).is_some() {
        let mut command = Command::new("rustup");
        command.args(["run", &toolchain, "cargo"]);
        command
    } else {
        ensure!(
            process::ask(&cargo, &["-V"]).is_some() && process::ask(&rustc, &["-V"]).is_some(),
            "Rust {rust} is not installed; hint: `rustup toolchain install {toolchain}`, or `{cargo}` and `{rustc}` in PATH"
        );
        Command::new(cargo)
    };
    // What cargo tells the programs that it runs would lead back to the Rust that built us.
    for name in ["CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    if command.get_program() != "rustup" {
        command.env("RUSTC", rustc);
    }
    Ok(command)
}

/// What the crates that are published do not say of themselves.
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

/// What one of them does not say; `published` are all that one may depend on.
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
        lacks.push(format!("names a `{readme}` that is not there"));
    }
    let has_features = package["features"]
        .as_object()
        .is_some_and(|all| !all.is_empty());
    if has_features && package["metadata"]["docs"]["rs"]["all-features"] != true {
        lacks.push("has features, and `package.metadata.docs.rs` does not show them".to_owned());
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
            lacks.push(format!("names no version of `{name}`"));
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::{forget, lacks, missing, packages};
    use serde_json::json;
    use std::fs;

    #[test]
    fn what_is_published_says_what_it_is_and_depends_on_nothing_else() {
        let all = packages().unwrap();
        assert!(
            all.iter().any(|package| package["publish"].is_null()),
            "nothing is published"
        );
        assert_eq!(missing(&all), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_named() {
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
            "names a `none.md` that is not there",
            "has features, and `package.metadata.docs.rs` does not show them",
            "names no version of `known`",
            "depends on `unknown`, which is not published",
        ];
        assert_eq!(lacks(&package, &["x", "known"]), expected);
    }

    #[test]
    fn what_cargo_holds_of_an_earlier_run_goes_and_nothing_else() {
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
        forget(&["one".to_owned()], &target, &home).unwrap();
        assert!(of_ours.iter().all(|path| !path.exists()));
        assert!(of_others.iter().all(|path| path.exists()));
        forget(&["one".to_owned()], &target, &home).unwrap();
    }
}
