//! Checks licences, bans and sources of our dependencies with cargo-deny; without it, only the licences.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{paths, process, terminal};

#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// Checks with cargo-deny if it is installed.
///
/// # Errors
/// If `deny.toml` does not allow a dependency.
pub(crate) fn check() -> Result<()> {
    if process::query("cargo", &["deny", "--version"]).is_none() {
        terminal::note(
            "cargo-deny is not installed (`cargo install cargo-deny --locked`): only licences are checked, not bans and advisories",
        );
        return check_licences();
    }
    let mut deny = paths::cargo();
    deny.args([
        "deny",
        "--all-features",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    ensure!(
        process::foreground(&mut deny)?,
        "cargo-deny failed; its output is above"
    );
    advisories()
}

fn advisories() -> Result<()> {
    let mut deny = paths::cargo();
    deny.args(["deny", "check", "advisories"]);
    let mut reachable = true;
    let status = process::follow(&mut deny, |_, line| {
        reachable &=
            !line.contains("failed to fetch") && !line.contains("failed to load advisory database");
        terminal::note(line);
    })?;
    ensure!(
        status.success() || !reachable,
        "an advisory applies to a dependency; it is named above"
    );
    if !reachable {
        terminal::note("advisories not checked: the database is unreachable");
    }
    Ok(())
}

fn check_licences() -> Result<()> {
    let file = paths::root().join("deny.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read `{}`", file.display()))?;
    let deny: Deny = toml::from_str(&text).context("`deny.toml` has no `licenses.allow`")?;
    let output = paths::cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .output();
    let output = output.context("cannot run `cargo metadata`")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    let refused: Vec<String> = metadata
        .packages
        .iter()
        .filter_map(|package| objection(package, &deny.licenses.allow))
        .collect();
    if !refused.is_empty() {
        bail!(
            "licences that deny.toml does not allow:\n  {}",
            refused.join("\n  ")
        );
    }
    println!(
        "{} packages have licences that deny.toml allows",
        metadata.packages.len()
    );
    Ok(())
}

fn objection(package: &Package, allowed: &[String]) -> Option<String> {
    package.source.as_ref()?; // ours
    let name = format!("{} {}", package.name, package.version);
    let Some(licence) = &package.license else {
        return Some(format!("{name}: has no licence"));
    };
    let parsed = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
    let Ok(expression) = parsed else {
        return Some(format!("{name}: `{licence}` is not an SPDX expression"));
    };
    let holds = expression.evaluate(|licence| allowed.contains(&licence.to_string()));
    (!holds).then(|| format!("{name}: {licence}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(licence: Option<&str>) -> Package {
        Package {
            name: "a".into(),
            version: "1.0.0".into(),
            license: licence.map(Into::into),
            source: Some("registry".into()),
        }
    }

    #[test]
    fn one_allowed_alternative_is_enough() {
        let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned()];
        for (licence, holds) in [
            (Some("MIT OR GPL-3.0-only"), true),
            (Some("MIT/Apache-2.0"), true),
            (Some("(MIT OR Apache-2.0) AND Unicode-3.0"), true),
            (Some("GPL-3.0-only"), false),
            (Some("MIT AND GPL-3.0-only"), false),
            (None, false),
        ] {
            assert_eq!(
                objection(&package(licence), &allowed).is_none(),
                holds,
                "{licence:?}"
            );
        }
    }
}
