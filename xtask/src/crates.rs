//! `cargo xtask crates`: what those need who build on our crates, and not on our programs.
//!
//! | command | what |
//! |---|---|
//! | `features` | the umbrella builds with each set of features: with `cargo-hack` every set, else none, each alone, all |
//! | `package` | each crate that is published packs and builds from what it packs; with `cargo-semver-checks` against a release |
//! | `msrv` | the crates that are published build with the oldest Rust that the workspace names |
//! | `weight` | crates, cold build and size of a program, for each feature; slow: it builds everything again and again |

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{interrupt, places, process, terminal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Check that the umbrella builds with each set of its features.
    Features,
    /// Pack every crate that is published; compare what it offers with a released version.
    Package {
        /// The released version to compare with, as git names it; needs cargo-semver-checks.
        #[arg(long, value_name = "REVISION")]
        since: Option<String>,
    },
    /// Check that what is published builds with the oldest Rust that we promise.
    Msrv,
    /// Measure, for each feature, the crates, the cold build and the size that it adds to a program.
    Weight {
        /// Only these features.
        features: Vec<String>,
    },
}

/// Runs it.
///
/// # Errors
/// When something does not build, or what is needed is not there.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.task {
        Task::Features => features(),
        Task::Package { since } => package(since.as_deref()),
        Task::Msrv => msrv(),
        Task::Weight { features } => weight(features),
    }
}

fn cargo(words: &[&str]) -> Result<()> {
    interrupt::check()?;
    let mut command = places::cargo();
    command.args(words);
    ensure!(process::foreground(&mut command)?, "`cargo {}` does not pass", words.join(" "));
    Ok(())
}

/// Whether cargo has a command that does not come with it.
fn has(command: &str) -> bool {
    let mut asked = places::cargo();
    asked.args([command, "--version"]).stdout(std::process::Stdio::null());
    asked.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
}

/// All packages of the workspace, as cargo describes them.
fn packages() -> Result<Vec<Value>> {
    let output = places::cargo().args(["metadata", "--format-version=1", "--no-deps"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    metadata["packages"].as_array().cloned().context("`cargo metadata` names no packages")
}

fn published() -> Result<Vec<String>> {
    let names = packages()?.into_iter().filter(|package| package["publish"].is_null());
    Ok(names.filter_map(|package| Some(package["name"].as_str()?.to_owned())).collect())
}

/// The umbrella's features.
fn all_features() -> Result<Vec<String>> {
    let all = packages()?;
    let umbrella =
        all.iter().find(|package| package["name"] == "vnfm").context("no crate `vnfm`")?;
    let features = umbrella["features"].as_object().context("`vnfm` has no features")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

fn features() -> Result<()> {
    if has("hack") {
        return cargo(&[
            "hack",
            "check",
            "--package",
            "vnfm",
            "--feature-powerset",
            "--no-dev-deps",
        ]);
    }
    terminal::note("without cargo-hack: no feature, each alone, and all of them");
    let names = all_features()?;
    let mut sets = vec![String::new()];
    sets.extend(names.iter().cloned());
    sets.push(names.join(","));
    for set in &sets {
        terminal::note(&format!("── vnfm with `{set}` ──"));
        cargo(&["check", "--package", "vnfm", "--lib", "--features", set])?;
    }
    println!("vnfm builds with {} sets of features", sets.len());
    Ok(())
}

fn package(since: Option<&str>) -> Result<()> {
    let names = published()?;
    let each: Vec<_> = names.iter().flat_map(|name| ["--package", name]).collect();
    cargo(&[&["package", "--allow-dirty"], &each[..]].concat())?;
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

fn msrv() -> Result<()> {
    let all = packages()?;
    let umbrella =
        all.iter().find(|package| package["name"] == "vnfm").context("no crate `vnfm`")?;
    let oldest = umbrella["rust_version"].as_str().context("`vnfm` names no oldest Rust")?;
    let toolchain = format!("{oldest}.0").split('.').take(3).collect::<Vec<_>>().join(".");
    let names = published()?;
    let mut command = Command::new("rustup");
    command
        .args(["run", &toolchain, "cargo", "check", "--all-features"])
        .current_dir(places::root());
    for name in &names {
        command.args(["--package", name]);
    }
    ensure!(
        process::foreground(&mut command)?,
        "what is published does not build with Rust {toolchain}; hint: `rustup toolchain install {toolchain}`, or raise \
         `rust-version`"
    );
    println!("{} crates build with Rust {toolchain}", names.len());
    Ok(())
}

/// One row of the table of weights.
struct Row {
    feature: String,
    crates: usize,
    seconds: f64,
    kib: u64,
}

fn weight(only: &[String]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut rows = vec![weighed(folder.path(), None)?, weighed(folder.path(), Some(""))?];
    let names = all_features()?;
    for name in names.iter().filter(|name| only.is_empty() || only.contains(name)) {
        rows.push(weighed(folder.path(), Some(name))?);
    }
    let core = crates_of(&["--package", "vnfm-core"])?;
    println!("vnfm-core alone: {core} crates (aim ≤ 60)");
    println!("{:<32} {:>7} {:>12} {:>14}", "hello world with", "crates", "cold build", "size");
    for row in &rows {
        println!(
            "{:<32} {:>7} {:>10.1} s {:>10} KiB",
            row.feature, row.crates, row.seconds, row.kib
        );
    }
    Ok(())
}

/// The crates that a package needs, itself included.
fn crates_of(words: &[&str]) -> Result<usize> {
    let mut tree = places::cargo();
    tree.args(["tree", "--edges", "normal", "--prefix", "none"]).args(words);
    let output = tree.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ids =
        text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    Ok(ids.collect::<std::collections::BTreeSet<_>>().len())
}

/// A program that makes an engine, built from nothing, with one feature; without the umbrella where that is `None`.
fn weighed(folder: &Path, feature: Option<&str>) -> Result<Row> {
    interrupt::check()?;
    let name = match feature {
        None => "nothing".to_owned(),
        Some("") => "vnfm".to_owned(),
        Some(feature) => format!("vnfm, feature `{feature}`"),
    };
    terminal::note(&format!("── {name} ──"));
    let place = folder.join("hello");
    std::fs::create_dir_all(place.join("src"))?;
    let vnfm = places::root().join("crates/vnfm");
    let dependency = feature.map_or_else(String::new, |feature| {
        let features = if feature.is_empty() { String::new() } else { format!("\"{feature}\"") };
        format!("vnfm = {{ path = \"{}\", features = [{features}] }}\n", vnfm.display())
    });
    let manifest = format!(
        "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{dependency}[workspace]\n\
         [profile.release]\nstrip = true\n"
    );
    std::fs::write(place.join("Cargo.toml"), manifest)?;
    std::fs::write(place.join("src/main.rs"), hello(feature))?;
    std::fs::copy(places::root().join("Cargo.lock"), place.join("Cargo.lock"))?;
    let target = place.join("target");
    let manifest = place.join("Cargo.toml");
    let build = |profile: &[&str]| -> Result<()> {
        let mut command = places::cargo();
        command.args(["build", "--manifest-path"]).arg(&manifest).arg("--target-dir").arg(&target);
        ensure!(process::foreground(command.args(profile))?, "{name} does not build");
        Ok(())
    };
    let began = Instant::now();
    build(&[])?;
    let seconds = began.elapsed().as_secs_f64();
    build(&["--release"])?;
    let kib = target.join("release/hello").metadata()?.len() / 1024;
    let path = manifest.to_string_lossy().into_owned();
    let crates = crates_of(&["--manifest-path", &path])? - 1;
    std::fs::remove_dir_all(&target)?;
    Ok(Row { feature: name, crates, seconds, kib })
}

/// A program that could use all of a feature: what is behind a trait object or a future is linked, though nothing of it is
/// ever run.
fn hello(feature: Option<&str>) -> String {
    let Some(feature) = feature else {
        return "fn main() { println!(\"hello\"); }\n".to_owned();
    };
    let own = match feature {
        "schema" => "keep(Arc::new(vnfm::misfits) as Arc<dyn Schemas>);",
        "memory" => "keep(Arc::new(vnfm::memory::MemoryStore::new(clock)) as Arc<dyn Store>);",
        "sqlite" => {
            "later(async { keep(vnfm::store::SqliteStore::in_memory().await.map(|s| Arc::new(s) as Arc<dyn Store>)) });"
        }
        "openstack" => "keep(Drivers::default().with(vnfm::openstack::OpenStack::new(clock)));",
        "kubernetes" => "keep(Drivers::default().with(vnfm::kubernetes::KubernetesDriver::new()));",
        "plugins" => {
            "keep(Arc::new(vnfm::plugins::PluginHost::new(Default::default(), clock)) as Arc<dyn MgmtDrivers>);"
        }
        "clock" => "keep(Arc::new(vnfm::SystemClock) as Arc<dyn Clock>);",
        "hosts" => {
            "keep(Arc::new(vnfm::Hosts::new(parts.store.clone())) as Arc<dyn HostServices>);"
        }
        "conformance" => {
            "let store = parts.store.clone();\n    use vnfm::conformance::{check, store::RULES};\n    \
             later(async move { keep(check(RULES, || async { store.clone() }).await) });"
        }
        "sim" => {
            "later(async { keep(vnfm::sim::World::start(Default::default()).await.is_ok()) });"
        }
        _ => "",
    };
    format!(
        "#![allow(unused_imports, unused_variables)]
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use vnfm::ports::{{Clock, HostServices, MgmtDrivers, Schemas, Store}};
use vnfm::{{Drivers, Engine, EngineParts}};
fn keep<T>(it: T) {{
    black_box(it);
}}
fn later(it: impl Future<Output = ()> + 'static) {{
    black_box(Box::pin(it) as Pin<Box<dyn Future<Output = ()>>>);
}}
fn embedded(parts: EngineParts) {{
    let clock = parts.clock.clone();
    {own}
    let engine = Engine::new(parts);
    later(async move {{ keep(engine.resume_all().await) }});
}}
fn main() {{
    if let Some(parts) = black_box(None) {{
        embedded(parts);
    }}
    println!(\"hello\");
}}
"
    )
}
