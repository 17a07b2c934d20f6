//! Runs `cargo xtask demo` with the built programs and reads its report.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::programs::{program, until};
use crate::real::Real;
use crate::sources;

/// Limit until the demo prints a cue.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Runs the demo with these options and one of VNF-A's packages; its report, if it succeeds.
///
/// # Errors
/// If it fails or leaves something behind; the error contains its output.
pub fn demo_report(options: &[&str], package: &str) -> Result<Value> {
    let name = [options, &[package]].concat().join(".");
    let file = std::env::temp_dir().join(format!("vnfm-story.{}.{name}.json", std::process::id()));
    let output = demo(&["--package", package, "--json"])
        .arg(&file)
        .args(options)
        .output()
        .context("cannot start `cargo xtask demo`")?;
    let report = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file); // it may never have been written
    ensure!(
        output.status.success(),
        "the demo failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&report.context("the demo wrote no report")?)
        .context("the report is no JSON")
}

/// Runs the demo on the real systems, if they are there; it passes and leaves nothing.
///
/// # Panics
/// If it fails or leaves something behind.
pub fn assert_demo_passes(package: &str) {
    let Some(real) = Real::find() else { return };
    let report = demo_report(&["--real"], package).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(report["world"], "real");
    assert_eq!(report["ok"], true);
    assert_eq!(report["left_behind"], serde_json::json!([]));
    assert!(
        steps(&report).iter().any(|step| step.contains("refused")),
        "{report}"
    );
    println!("{report:#}");
    real.wait_until_clean();
}

fn demo(words: &[&str]) -> Command {
    // Built with the tests: building in the middle of them would replace what others run.
    let mut command = Command::new(program("xtask"));
    command.args(["demo", "--built"]).args(words);
    command.current_dir(sources::root());
    command
}

/// The outcome of an interrupted or modified demo.
#[derive(Debug)]
pub struct DemoRun {
    /// Whether it exited with 0.
    pub success: bool,
    /// Everything written to standard output and standard error.
    pub output: String,
}

/// Runs the simulated demo with temporary files below `folder`; presses Ctrl-C once it prints `cue`.
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
        ensure!(pressed.success(), "no process received Ctrl-C");
    }
    let ended = child.wait()?;
    Ok(DemoRun {
        success: ended.success(),
        output: log_text(),
    })
}

/// Command lines of processes that contain `folder`.
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
