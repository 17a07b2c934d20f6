//! The story as `cargo xtask demo` tells it: built programs, real processes, read by its report.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::programs::{program, until};
use crate::sources;

/// The longest that a story takes that does not go to its end.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Plays the story in a world with one of VNF-A's packages; its report, if it went well to the end.
///
/// # Errors
/// When it broke off or left something behind; what it said is in the error.
pub fn demo_report(world: &[&str], package: &str) -> Result<Value> {
    let file =
        std::env::temp_dir().join(format!("vnfm-story.{}.{package}.json", std::process::id()));
    let output = demo(&["--package", package, "--json"])
        .arg(&file)
        .args(world)
        .output()
        .context("cannot start `cargo xtask demo`")?;
    let report = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file); // it may never have been written
    ensure!(
        output.status.success(),
        "the story broke off:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&report.context("the story wrote no report")?)
        .context("the report is no JSON")
}

fn demo(words: &[&str]) -> Command {
    // Built with the tests: building in the middle of them would replace what others run.
    let mut command = Command::new(program("xtask"));
    command.args(["demo", "--built"]).args(words);
    command.current_dir(sources::root());
    command
}

/// A story that did not go its usual way.
#[derive(Debug)]
pub struct DemoRun {
    /// Whether it ended well.
    pub success: bool,
    /// All that it said.
    pub output: String,
}

/// Plays the simulated story with its temporary files below `folder`; once it says `cue`, Ctrl-C is pressed.
///
/// # Errors
/// When it cannot be started.
pub fn run_demo(words: &[&str], folder: &Path, cue: Option<&str>) -> Result<DemoRun> {
    let log = folder.with_extension("log");
    let file = File::create(&log)?;
    let mut command = demo(words);
    command
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command
        .process_group(0)
        .spawn()
        .context("cannot start `cargo xtask demo`")?;
    let log_text = || std::fs::read_to_string(&log).unwrap_or_default();
    if let Some(cue) = cue {
        until(&format!("the story says `{cue}`"), TIMEOUT, || {
            log_text().contains(cue).then_some(())
        });
        let group = format!("-{}", child.id());
        let pressed = Command::new("kill").args(["-INT", "--", &group]).status()?;
        ensure!(pressed.success(), "Ctrl-C reached nobody");
    }
    let ended = child.wait()?;
    Ok(DemoRun {
        success: ended.success(),
        output: log_text(),
    })
}

/// The processes whose command line names something below `folder`.
#[must_use]
pub fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.to_string_lossy();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&*name))
        .collect()
}

/// The steps of a report, in order.
#[must_use]
pub fn steps(report: &Value) -> Vec<&str> {
    report["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["step"].as_str())
        .collect()
}
