//! Licences, bans and sources of what we depend on, by cargo-deny; without it the licences alone.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{places, process, terminal};

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

/// Checks with what is installed.
///
/// # Errors
/// When a dependency is not allowed by `deny.toml`.
pub(crate) fn check() -> Result<()> {
    if process::ask("cargo", &["deny", "--version"]).is_none() {
        terminal::note(
            "cargo-deny is absent (`cargo install cargo-deny --locked`): licences are checked by ourselves, bans and advisories not at all",
        );
        return by_ourselves();
    }
    let mut deny = places::cargo();
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
        "cargo-deny objects; its words are above"
    );
    advisories()
}

fn advisories() -> Result<()> {
    let mut deny = places::cargo();
    deny.args(["deny", "check", "advisories"]);
    let mut reachable = true;
    let status = process::follow(&mut deny, |_, line| {
        reachable &=
            !line.contains("failed to fetch") && !line.contains("failed to load advisory database");
        terminal::note(line);
    })?;
    ensure!(
        status.success() || !reachable,
        "an advisory concerns us; it is named above"
    );
    if !reachable {
        terminal::note("the advisories could not be reached: not checked");
    }
    Ok(())
}

fn by_ourselves() -> Result<()> {
    let file = places::root().join("deny.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read `{}`", file.display()))?;
    let deny: Deny = toml::from_str(&text).context("`deny.toml` has no `licenses.allow`")?;
    let output = places::cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .output();
    let output = output.context("cannot ask `cargo metadata` for the dependencies")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "`cargo metadata` says: {}",
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
        return Some(format!("{name}: none named"));
    };
    let parsed = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
    let Ok(expression) = parsed else {
        return Some(format!("{name}: `{licence}` is no SPDX expression"));
    };
    let holds = expression.evaluate(|wanted| allowed.contains(&wanted.to_string()));
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
