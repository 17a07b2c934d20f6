//! Checks licences, bans, sources and advisories of our dependencies with cargo-deny, by `deny.toml`.

use anyhow::{Result, ensure};

use crate::{paths, process, terminal};

/// Runs cargo-deny on the licences of all dependencies.
///
/// # Errors
/// If cargo-deny is not installed, or `deny.toml` does not allow a dependency.
pub(crate) fn check() -> Result<()> {
    ensure!(
        process::query("cargo", &["deny", "--version"]).is_some(),
        "cargo-deny is not installed; hint: `cargo install cargo-deny --locked`"
    );
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
