//! `cargo xtask judge`: tests the HTTP interface with third-party tools: schemathesis, with our own OpenAPI document and
//! the official ones, and Tacker's client.
//!
//! schemathesis is installed once, into the cache. `cargo xtask test` also runs Tacker's client.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{paths, process};

/// Pinned version of schemathesis, since other versions may check differently.
const VERSION: &str = "4.32.5";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Cases for each operation of a document; 2000 take hours and some hundred thousand requests.
    #[arg(long, default_value_t = 12)]
    cases: u32,
    /// Run only tests with this in their name, such as `official` or `tacker`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Runs the judges: programs of others that test our API.
///
/// # Errors
/// If something does not build or cannot be installed, or a test fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let judge = provide(&paths::cache())?;
    let mut build = paths::cargo();
    build.args(["build", "--workspace", "--all-targets"]);
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; see its output above"
    );
    let mut test = paths::cargo();
    test.args(["test", "--workspace", "--test", "live", "--"]);
    test.arg(if arguments.only.is_empty() {
        "judges::"
    } else {
        &arguments.only
    });
    test.args(["--nocapture", "--test-threads", "1"]);
    test.env("VNFM_LIVE_SCHEMATHESIS", judge)
        .env("VNFM_JUDGE_CASES", arguments.cases.to_string());
    ensure!(
        process::foreground(&mut test)?,
        "a test failed; see its output above"
    );
    Ok(())
}

/// Path of the installed schemathesis.
fn program(cache: &Path) -> PathBuf {
    cache
        .join("tools")
        .join(format!("schemathesis-{VERSION}/bin/schemathesis"))
}

/// Installs schemathesis unless it is installed.
///
/// # Errors
/// If Python or pip fails; with the last lines of its output.
fn provide(cache: &Path) -> Result<PathBuf> {
    let program = program(cache);
    if program.is_file() {
        return Ok(program);
    }
    let tools = cache.join("tools");
    std::fs::create_dir_all(&tools)
        .with_context(|| format!("cannot create `{}`", tools.display()))?;
    let folder = tools.join(format!("schemathesis-{VERSION}"));
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    process::run("a virtual environment for schemathesis", &mut make)
        .context("next: apt-get install python3-venv")?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]);
    install.arg(format!("schemathesis=={VERSION}"));
    if let Err(error) = process::run("schemathesis, once", &mut install) {
        let _ = std::fs::remove_dir_all(&folder); // a partial installation would be used next time
        return Err(error);
    }
    Ok(program)
}
