//! `cargo xtask judge`: judges that are not ours look at the HTTP interface: schemathesis, by our own OpenAPI document
//! and by the official ones, and Tacker's client.
//!
//! What schemathesis needs is installed once, into the cache. `cargo xtask test` has Tacker's client judge, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{places, process};

/// The version of schemathesis: another one may check otherwise.
const VERSION: &str = "4.32.5";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Cases for each operation of a document. 2000 are some hundred thousand requests, and hours.
    #[arg(long, default_value_t = 12)]
    cases: u32,
    /// Only what has this in its name, such as `official` or `tacker`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Lets them judge.
///
/// # Errors
/// When something does not build or cannot be installed, or a judge found something.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let judge = provide(&places::cache())?;
    let mut build = places::cargo();
    build.args(["build", "--workspace", "--all-targets"]);
    ensure!(
        process::foreground(&mut build)?,
        "the build failed; its words are above"
    );
    let mut test = places::cargo();
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
        "a judge found something; it is told above"
    );
    Ok(())
}

/// schemathesis' program, where it was installed.
fn program(cache: &Path) -> PathBuf {
    cache
        .join("tools")
        .join(format!("schemathesis-{VERSION}/bin/schemathesis"))
}

/// Installs schemathesis where it is not.
///
/// # Errors
/// When Python or the registry of its packages does not do it; with the last words.
fn provide(cache: &Path) -> Result<PathBuf> {
    let program = program(cache);
    if program.is_file() {
        return Ok(program);
    }
    let tools = cache.join("tools");
    std::fs::create_dir_all(&tools)
        .with_context(|| format!("cannot make `{}`", tools.display()))?;
    let folder = tools.join(format!("schemathesis-{VERSION}"));
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    process::run("a virtual environment for schemathesis", &mut make)
        .context("next: apt-get install python3-venv")?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]);
    install.arg(format!("schemathesis=={VERSION}"));
    if let Err(error) = process::run("schemathesis, once", &mut install) {
        let _ = std::fs::remove_dir_all(&folder); // a half one would be taken for whole
        return Err(error);
    }
    Ok(program)
}
