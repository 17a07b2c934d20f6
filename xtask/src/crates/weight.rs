//! The cost of each feature for a program: number of crates, cold build time, size.
//!
//! The program is a hello-world that links the entire feature through trait objects and futures but never runs it. The
//! build time is that of a debug build from scratch; the size is that of a release build without symbols. Other load on
//! the machine increases the wall-clock seconds, not the CPU seconds.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::workspace::umbrella;
use crate::{interrupt, paths, process, terminal};

/// Maximum number of dependencies of the engine alone.
const MAX_CRATES: usize = 60;

/// One row of the table.
struct Row {
    what: String,
    crates: usize,
    seconds: f64,
    /// CPU seconds, all cores together.
    cpu: f64,
    kib: u64,
}

/// Measures `only` these features, or all, and prints the table.
///
/// # Errors
/// If a feature is unknown, or a program does not build.
pub(super) fn measure(only: &[String]) -> Result<()> {
    let all = features()?;
    if let Some(unknown) = only.iter().find(|name| !all.contains(name)) {
        bail!(
            "`vnfm` has no feature `{unknown}`; known: {}",
            all.join(", ")
        );
    }
    let folder = tempfile::tempdir()?;
    let mut rows = vec![
        measure_feature(folder.path(), None)?,
        measure_feature(folder.path(), Some(""))?,
    ];
    for name in all
        .iter()
        .filter(|name| only.is_empty() || only.contains(name))
    {
        rows.push(measure_feature(folder.path(), Some(name))?);
    }
    let core = crates_of(&["--package", "vnfm-core"])?;
    println!("vnfm-core alone: {core} other crates (limit {MAX_CRATES})");
    println!(
        "{:<32} {:>7} {:>12} {:>12} {:>12}",
        "hello world with", "crates", "cold build", "CPU", "size"
    );
    for Row {
        what,
        crates,
        seconds,
        cpu,
        kib,
    } in &rows
    {
        println!("{what:<32} {crates:>7} {seconds:>10.1} s {cpu:>10.1} s {kib:>8} KiB");
    }
    ensure!(
        core <= MAX_CRATES,
        "the engine alone needs more than {MAX_CRATES} crates"
    );
    Ok(())
}

/// Names of the features of `vnfm`.
fn features() -> Result<Vec<String>> {
    let vnfm = umbrella()?;
    let features = vnfm["features"].as_object();
    let names = features.context("`vnfm` has no features")?.keys().cloned();
    Ok(names.filter(|name| name != "default").collect())
}

/// Number of crates that a package depends on.
fn crates_of(arguments: &[&str]) -> Result<usize> {
    let mut tree = paths::cargo();
    tree.args(["tree", "--edges", "normal", "--prefix", "none"])
        .args(arguments);
    let output = tree.output().context("cannot run `cargo tree`")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name_and_version = |line: &str| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    Ok(text
        .lines()
        .map(name_and_version)
        .collect::<BTreeSet<_>>()
        .len()
        - 1)
}

/// Measures a program that creates an engine, with one feature; `None`: a program without `vnfm`.
fn measure_feature(folder: &Path, feature: Option<&str>) -> Result<Row> {
    interrupt::check()?;
    let what = match feature {
        None => "nothing".to_owned(),
        Some("") => "vnfm".to_owned(),
        Some(feature) => format!("vnfm, feature `{feature}`"),
    };
    terminal::note(&format!("── {what} ──"));
    let manifest = write_program(folder, feature)?;
    let path = manifest.to_string_lossy().into_owned();
    let crates = crates_of(&["--manifest-path", &path])?;
    let (cold, kept) = (folder.join("cold"), folder.join("release"));
    let (began, spent) = (Instant::now(), cpu_seconds()?);
    build(&manifest, &cold, &[])?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), self::cpu_seconds()? - spent);
    std::fs::remove_dir_all(&cold)?;
    // Only its size matters, so the build cache of the previous row is used.
    build(&manifest, &kept, &["--release"])?;
    let kib = kept.join("release/hello").metadata()?.len() / 1024;
    Ok(Row {
        what,
        crates,
        seconds,
        cpu,
        kib,
    })
}

fn build(manifest: &Path, target: &Path, profile: &[&str]) -> Result<()> {
    let mut command = paths::cargo();
    command
        .args(["build", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(profile);
    command.arg("--target-dir").arg(target);
    ensure!(
        process::foreground(&mut command)?,
        "the program does not build"
    );
    Ok(())
}

/// CPU seconds of all child processes so far.
fn cpu_seconds() -> Result<f64> {
    let stat =
        std::fs::read_to_string("/proc/self/stat").context("cannot read `/proc/self/stat`")?;
    // After the name in parentheses: the 14th and 15th of the rest are `cutime` and `cstime`.
    let after = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let fields = after.split_whitespace().skip(13).take(2);
    let ticks: u32 = fields.filter_map(|field| field.parse::<u32>().ok()).sum();
    Ok(f64::from(ticks) / TICKS)
}

/// Clock ticks per second on Linux.
const TICKS: f64 = 100.0;

/// Writes the program; returns the path of its manifest.
fn write_program(folder: &Path, feature: Option<&str>) -> Result<std::path::PathBuf> {
    let package = folder.join("hello");
    std::fs::create_dir_all(package.join("src"))?;
    let vnfm = paths::root().join("crates/vnfm");
    let dependency = feature.map_or_else(String::new, |feature| {
        let features = if feature.is_empty() {
            String::new()
        } else {
            format!("\"{feature}\"")
        };
        format!(
            "vnfm = {{ path = \"{}\", features = [{features}] }}\n",
            vnfm.display()
        )
    });
    let manifest = format!(
        "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependency}\n[workspace]\n\n\
         [profile.release]\nstrip = true\n"
    );
    let path = package.join("Cargo.toml");
    std::fs::write(&path, manifest)?;
    std::fs::write(package.join("src/main.rs"), hello(feature)?)?;
    std::fs::copy(paths::root().join("Cargo.lock"), package.join("Cargo.lock"))?;
    Ok(path)
}

/// For each feature a statement that uses it.
const USES: &[(&str, &str)] = &[
    ("", ""),
    (
        "schema",
        "keep(Arc::new(vnfm::schema_violations) as Arc<dyn Schemas>);",
    ),
    (
        "memory",
        "keep(Arc::new(vnfm::memory::MemoryStore::new(clock)) as Arc<dyn Store>);",
    ),
    (
        "sqlite",
        "later(async { keep(vnfm::store::SqliteStore::in_memory().await.map(|s| Arc::new(s) as Arc<dyn Store>)) });",
    ),
    (
        "openstack",
        "keep(Drivers::default().with(vnfm::openstack::OpenStack::new(clock, vnfm::outbound::Destinations::anywhere())));",
    ),
    (
        "kubernetes",
        "keep(Drivers::default().with(vnfm::kubernetes::KubernetesDriver::new(vnfm::outbound::Destinations::anywhere())));",
    ),
    (
        "bare-hosts",
        "keep(Drivers::default().with(vnfm::bare_hosts::BareHosts::new(vnfm::outbound::Destinations::anywhere())));",
    ),
    (
        "plugins",
        "keep(Arc::new(vnfm::plugins::PluginHost::new(Default::default(), clock)) as Arc<dyn MgmtDrivers>);",
    ),
    (
        "clock",
        "keep(Arc::new(vnfm::SystemClock) as Arc<dyn Clock>);",
    ),
    (
        "hosts",
        "keep(Arc::new(vnfm::Hosts::new(parts.store.clone(), vnfm::outbound::Destinations::anywhere())) as Arc<dyn HostServices>);",
    ),
    (
        "conformance",
        "let store = parts.store.clone();
    use vnfm::conformance::{check, store::RULES};
    later(async move { keep(check(RULES, || async { store.clone() }).await) });",
    ),
    (
        "sim",
        "later(async { keep(vnfm::sim::World::start(Default::default()).await.is_ok()) });",
    ),
];

/// Source of a program that uses the feature.
fn hello(feature: Option<&str>) -> Result<String> {
    let Some(feature) = feature else {
        return Ok("fn main() {\n    println!(\"hello\");\n}\n".to_owned());
    };
    let own = USES.iter().find(|(name, _)| *name == feature);
    let (_, own) = own.with_context(|| format!("no statement that uses feature `{feature}`"))?;
    Ok(HELLO.replace("OWN", own))
}

const HELLO: &str = "#![allow(unused_imports, unused_variables)]
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use vnfm::ports::{Clock, HostServices, MgmtDrivers, Schemas, Store};
use vnfm::{Drivers, Engine, EngineParts};

fn keep<T>(it: T) {
    black_box(it);
}

fn later(it: impl Future<Output = ()> + 'static) {
    drop(black_box(Box::pin(it) as Pin<Box<dyn Future<Output = ()>>>));
}

fn embedded(parts: EngineParts) {
    let clock = parts.clock.clone();
    OWN
    let engine = Engine::new(parts);
    later(async move { keep(engine.resume_all().await) });
}

fn main() {
    if let Some(parts) = black_box(None) {
        embedded(parts);
    }
    println!(\"hello\");
}
";

#[cfg(test)]
mod tests {
    use super::{USES, cpu_seconds, crates_of, features, hello};
    use std::collections::BTreeSet;

    #[test]
    fn every_feature_has_a_statement() {
        let all = features().unwrap();
        let known: BTreeSet<_> = all.iter().map(String::as_str).collect();
        let used: BTreeSet<_> = USES.iter().map(|(name, _)| *name).skip(1).collect();
        assert_eq!(used, known);
        assert!(hello(Some("no-such-feature")).is_err());
        assert!(hello(Some("clock")).unwrap().contains("vnfm::SystemClock"));
    }

    #[test]
    fn dependencies_are_counted_once() {
        assert_eq!(
            crates_of(&["--package", "vnfm-plugin-abi", "--offline"]).unwrap(),
            0
        );
        assert!(crates_of(&["--package", "vnfm-core", "--offline"]).unwrap() > 20);
    }

    #[test]
    fn cpu_time_of_children_is_measured() {
        let before = cpu_seconds().unwrap();
        crates_of(&["--package", "vnfm-core", "--offline"]).unwrap();
        assert!(cpu_seconds().unwrap() >= before);
    }
}
