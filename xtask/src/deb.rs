//! `cargo xtask deb`: the Debian package, out of the built programs and what lies in `crates/vnfm-server/packaging`.
//!
//! ```text
//! cargo build --release ─ a folder as it is installed ─ dpkg-deb ─ target/deb/vnfm_VERSION_ARCH.deb
//! ```

use crate::places;
use crate::terminal::note;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of `cargo xtask deb`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Take the programs out of this folder instead of building them
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
}

/// What is installed: from where (`built:` is the folder of programs), to where, with which rights.
const FILES: &[(&str, &str, u32)] = &[
    ("built:vnfm-server", "usr/bin/vnfm-server", 0o755),
    ("built:vnfmctl", "usr/bin/vnfmctl", 0o755),
    ("built:libkubernetes_cluster.so", "usr/lib/vnfm/libkubernetes_cluster.so", 0o644),
    ("built:libmgmt_script.so", "usr/lib/vnfm/libmgmt_script.so", 0o644),
    ("crates/vnfm-server/packaging/systemd/vnfm.service", "lib/systemd/system/vnfm.service", 0o644),
    ("crates/vnfm-server/packaging/debian/vnfm.yaml", "etc/vnfm/vnfm.yaml", 0o640),
    ("crates/vnfm-server/packaging/prometheus/alerts.yaml", "usr/share/vnfm/alerts.yaml", 0o644),
    ("crates/vnfm-server/packaging/grafana/vnfm.json", "usr/share/vnfm/grafana.json", 0o644),
    ("schemas/config.schema.json", "usr/share/vnfm/config.schema.json", 0o644),
    ("LICENSE", "usr/share/doc/vnfm/copyright", 0o644),
    ("CHANGELOG.md", "usr/share/doc/vnfm/CHANGELOG.md", 0o644),
    ("crates/vnfm-server/packaging/debian/conffiles", "DEBIAN/conffiles", 0o644),
    ("crates/vnfm-server/packaging/debian/postinst", "DEBIAN/postinst", 0o755),
    ("crates/vnfm-server/packaging/debian/prerm", "DEBIAN/prerm", 0o755),
    ("crates/vnfm-server/packaging/debian/postrm", "DEBIAN/postrm", 0o755),
];

/// Builds the package and prints where it is.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = places::root();
    let built = match &arguments.built {
        Some(folder) => folder.clone(),
        None => build()?,
    };
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))
        .context("cannot ask dpkg: this needs a Debian machine")?;
    let out = places::target()?.join("deb");
    let folder = out.join("root");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut size = 0;
    for (from, to, mode) in FILES {
        let from = match from.strip_prefix("built:") {
            Some(name) => built.join(name),
            None => root.join(from),
        };
        size += install(&from, &folder.join(to), *mode)?;
    }
    let control = fs::read_to_string(root.join("crates/vnfm-server/packaging/debian/control"))?
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@SIZE@", &(size / 1024).to_string());
    fs::write(folder.join("DEBIAN/control"), control)?;
    let package = out.join(format!("vnfm_{}_{architecture}.deb", env!("CARGO_PKG_VERSION")));
    let told = said(
        Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&folder).arg(&package),
    )?;
    note(&told);
    println!("{}", package.display());
    Ok(())
}

fn build() -> anyhow::Result<PathBuf> {
    note("building the programs");
    let packages =
        ["-p", "vnfm-server", "-p", "vnfm-cli", "-p", "kubernetes-cluster", "-p", "mgmt-script"];
    let mut cargo = places::cargo();
    cargo.args(["build", "--release"]).args(packages);
    ensure!(cargo.status()?.success(), "the programs cannot be built");
    Ok(places::target()?.join("release"))
}

/// Copies a file, making its folders; how many bytes it has.
fn install(from: &Path, to: &Path, mode: u32) -> anyhow::Result<u64> {
    let above = to.parent().context("a file has no folder")?;
    fs::create_dir_all(above).with_context(|| format!("cannot make `{}`", above.display()))?;
    let bytes = fs::copy(from, to)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(bytes)
}

/// What a command says, where it ends well.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
