//! `cargo xtask deb`: the Debian package, from the built programs and `crates/vnfm-server/packaging`.
//!
//! ```text
//! cargo build --profile dist ─ folder with the installed files ─ dpkg-deb ─ target/deb/vnfm_VERSION_ARCH.deb
//! ```
//! A test unpacks one into a scratch root and checks its files, modes, unit (`systemd-analyze verify`) and maintainer
//! scripts, and that the Containerfile starts a program of the package.

use crate::paths;
use crate::sbom;
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
    /// Use the programs in this folder instead of building them
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
}

/// Installed files: source (`built:` is the folder of programs), destination, mode.
const FILES: &[(&str, &str, u32)] = &[
    ("built:vnfm-server", "usr/bin/vnfm-server", 0o755),
    ("built:vnfmctl", "usr/bin/vnfmctl", 0o755),
    (
        "built:libkubernetes_cluster.so",
        "usr/lib/vnfm/libkubernetes_cluster.so",
        0o644,
    ),
    (
        "built:libcluster_api.so",
        "usr/lib/vnfm/libcluster_api.so",
        0o644,
    ),
    (
        "built:libmgmt_script.so",
        "usr/lib/vnfm/libmgmt_script.so",
        0o644,
    ),
    (
        "crates/vnfm-server/packaging/systemd/vnfm.service",
        "lib/systemd/system/vnfm.service",
        0o644,
    ),
    (
        "crates/vnfm-server/packaging/debian/vnfm.yaml",
        "etc/vnfm/vnfm.yaml",
        0o640,
    ),
    (
        "crates/vnfm-server/packaging/prometheus/alerts.yaml",
        "usr/share/vnfm/alerts.yaml",
        0o644,
    ),
    (
        "crates/vnfm-server/packaging/grafana/vnfm.json",
        "usr/share/vnfm/grafana.json",
        0o644,
    ),
    (
        "schemas/config.schema.json",
        "usr/share/vnfm/config.schema.json",
        0o644,
    ),
    ("LICENSE", "usr/share/doc/vnfm/copyright", 0o644),
    ("CHANGELOG.md", "usr/share/doc/vnfm/CHANGELOG.md", 0o644),
    (
        "crates/vnfm-server/packaging/debian/conffiles",
        "DEBIAN/conffiles",
        0o644,
    ),
    (
        "crates/vnfm-server/packaging/debian/postinst",
        "DEBIAN/postinst",
        0o755,
    ),
    (
        "crates/vnfm-server/packaging/debian/prerm",
        "DEBIAN/prerm",
        0o755,
    ),
    (
        "crates/vnfm-server/packaging/debian/postrm",
        "DEBIAN/postrm",
        0o755,
    ),
];

/// Shells with completion of `vnfmctl`, and the paths of the completion scripts.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/vnfmctl"),
    ("zsh", "usr/share/zsh/vendor-completions/_vnfmctl"),
    ("fish", "usr/share/fish/vendor_completions.d/vnfmctl.fish"),
];

/// Programs that write their own manual pages (`PROGRAM man DIR`), and the folder of the pages.
const MANUALS: (&[&str], &str) = (&["vnfmctl", "vnfm-server"], "usr/share/man/man1");

/// Bill of materials: every crate that is linked into the programs.
const SBOM: &str = "usr/share/doc/vnfm/sbom.cdx.json";

/// Builds the package and prints its path.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let built = match &arguments.built {
        Some(folder) => folder.clone(),
        None => build()?,
    };
    let package = package(&built, &paths::target()?.join("deb"))?;
    println!("{}", package.display());
    Ok(())
}

/// Creates the package in the folder `out`, from the programs in `built`.
fn package(built: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let root = paths::root();
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))
        .context("cannot run dpkg; the package can only be built on Debian")?;
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
    for (shell, to) in COMPLETIONS {
        size += complete(&built.join("vnfmctl"), shell, &folder.join(to))?;
    }
    size += manuals(built, &folder)?;
    size += materials(&folder.join(SBOM))?;
    let control = fs::read_to_string(root.join("crates/vnfm-server/packaging/debian/control"))?
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@SIZE@", &(size / 1024).to_string());
    fs::write(folder.join("DEBIAN/control"), control)?;
    let package = out.join(format!(
        "vnfm_{}_{architecture}.deb",
        env!("CARGO_PKG_VERSION")
    ));
    let output = output_of(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(&folder)
            .arg(&package),
    )?;
    note(&output);
    Ok(package)
}

/// Writes the bill of materials; returns its size in bytes.
fn materials(to: &Path) -> anyhow::Result<u64> {
    let text = sbom::document()?;
    let parent = to.parent().context("the path has no parent folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    fs::write(to, &text).with_context(|| format!("cannot write `{}`", to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    Ok(text.len() as u64)
}

/// Writes the completion script of the client for a shell; returns its size in bytes.
fn complete(client: &Path, shell: &str, to: &Path) -> anyhow::Result<u64> {
    let script = output_of(Command::new(client).args(["completion", shell]))?;
    ensure!(
        !script.is_empty(),
        "`{} completion {shell}` printed nothing",
        client.display()
    );
    let parent = to.parent().context("the path has no parent folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    fs::write(to, script + "\n").with_context(|| format!("cannot write `{}`", to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    Ok(fs::metadata(to)?.len())
}

/// Writes the manual pages, compressed; returns their size in bytes.
fn manuals(built: &Path, folder: &Path) -> anyhow::Result<u64> {
    let (programs, to) = MANUALS;
    let to = folder.join(to);
    fs::create_dir_all(&to).with_context(|| format!("cannot create `{}`", to.display()))?;
    for program in programs {
        output_of(Command::new(built.join(program)).arg("man").arg(&to))?;
    }
    output_of(Command::new("gzip").args(["-9", "-n", "-r"]).arg(&to))?;
    let mut size = 0;
    for page in fs::read_dir(&to)? {
        let page = page?.path();
        fs::set_permissions(&page, fs::Permissions::from_mode(0o644))?;
        size += fs::metadata(&page)?.len();
    }
    Ok(size)
}

fn build() -> anyhow::Result<PathBuf> {
    note("building the programs");
    let packages = [
        "-p",
        "vnfm-server",
        "-p",
        "vnfm-cli",
        "-p",
        "kubernetes-cluster",
        "-p",
        "cluster-api",
        "-p",
        "mgmt-script",
    ];
    let mut cargo = paths::cargo();
    cargo.args(["build", "--profile", "dist"]).args(packages);
    ensure!(cargo.status()?.success(), "the programs do not build");
    Ok(paths::target()?.join("dist"))
}

/// Copies a file and creates its folders; returns its size in bytes.
fn install(from: &Path, to: &Path, mode: u32) -> anyhow::Result<u64> {
    let parent = to.parent().context("the path has no parent folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    let bytes = fs::copy(from, to)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(bytes)
}

/// Standard output of a command, which must succeed.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{COMPLETIONS, FILES, MANUALS, SBOM, package};
    use crate::paths;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;

    /// Stand-ins for the programs, whose behaviour other tests check.
    fn programs(folder: &Path) {
        for name in FILES
            .iter()
            .filter_map(|(from, ..)| from.strip_prefix("built:"))
        {
            let path = folder.join(name);
            let man = "[ \"$1\" != man ] || echo page > \"$2/$(basename \"$0\").1\"";
            fs::write(&path, format!("#!/bin/sh\n{man}\necho complete vnfmctl\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// False, with a message, if a program is not installed.
    fn has(program: &str) -> bool {
        let found = Command::new(program).arg("--version").output().is_ok();
        let why = format!("no `{program}`: the package cannot be checked");
        assert!(
            found || std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        if !found {
            eprintln!("skipped: {why}");
        }
        found
    }

    fn output_of(command: &mut Command) -> String {
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{command:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Checks the unit with `systemd-analyze`, with the path of the unpacked program.
    fn assert_unit_is_valid(scratch: &Path) {
        if !has("systemd-analyze") {
            return;
        }
        let program = scratch.join("usr/bin/vnfm-server");
        let unit = fs::read_to_string(scratch.join("lib/systemd/system/vnfm.service")).unwrap();
        let verify = |unit: &str| {
            let path = scratch.join("vnfm.service");
            fs::write(
                &path,
                unit.replace("/usr/bin/vnfm-server", &program.to_string_lossy()),
            )
            .unwrap();
            output_of(
                Command::new("systemd-analyze")
                    .args(["verify", "--man=no"])
                    .arg(path),
            )
        };
        assert_eq!(verify(&unit), "", "systemd reports a problem in the unit");
        assert_hooks_can_be_sandboxed(&unit);
        let odd = verify(&unit.replace("ProtectProc=", "ProtectPrco="));
        assert!(
            odd.contains("ProtectPrco"),
            "a misspelt setting is reported: {odd}"
        );
    }

    /// The unit allows what the sandbox of hooks needs, and gives the server itself no capability.
    fn assert_hooks_can_be_sandboxed(unit: &str) {
        let values = |name: &str| -> Vec<&str> {
            let lines = unit
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            lines.flat_map(str::split_whitespace).collect()
        };
        assert_eq!(
            values("RestrictNamespaces"),
            ["user", "mnt", "pid", "ipc", "net"]
        );
        let calls = values("SystemCallFilter");
        for call in [
            "capset",
            "mount",
            "umount2",
            "pivot_root",
            "mount_setattr",
            "seccomp",
        ] {
            assert!(calls.contains(&call), "no `{call}` in {calls:?}");
        }
        for call in ["create_ruleset", "add_rule", "restrict_self"] {
            assert!(calls.contains(&&*format!("landlock_{call}")), "{calls:?}");
        }
        assert!(calls.contains(&"~@privileged"), "{calls:?}");
        assert!(
            values("CapabilityBoundingSet").is_empty() && values("NoNewPrivileges") == ["true"]
        );
    }

    #[test]
    fn the_package_has_all_files_and_a_valid_unit() {
        if !has("dpkg-deb") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        programs(folder.path());
        let made = package(folder.path(), &folder.path().join("out")).unwrap();
        let scratch = folder.path().join("scratch");
        output_of(Command::new("dpkg-deb").arg("-x").arg(&made).arg(&scratch));
        output_of(
            Command::new("dpkg-deb")
                .arg("-e")
                .arg(&made)
                .arg(scratch.join("DEBIAN")),
        );
        for (_, to, mode) in FILES {
            let found = fs::metadata(scratch.join(to)).unwrap_or_else(|e| panic!("{to}: {e}"));
            assert_eq!(found.permissions().mode() & 0o777, *mode, "{to}");
        }
        for (shell, to) in COMPLETIONS {
            let script = fs::read_to_string(scratch.join(to)).unwrap();
            assert!(script.contains("vnfmctl"), "{shell}: {script}");
        }
        let (programs, folder) = MANUALS;
        for program in programs {
            let page = scratch.join(folder).join(format!("{program}.1.gz"));
            assert!(page.is_file(), "no {}", page.display());
        }
        let materials = fs::read_to_string(scratch.join(SBOM)).unwrap();
        let materials: serde_json::Value = serde_json::from_str(&materials).unwrap();
        let crates = materials["components"].as_array().unwrap();
        assert!(
            crates.iter().any(|one| one["name"] == "vnfm-server"),
            "{materials}"
        );
        let licence = fs::read_to_string(scratch.join("usr/share/doc/vnfm/copyright")).unwrap();
        assert_eq!(
            licence,
            fs::read_to_string(paths::root().join("LICENSE")).unwrap()
        );
        let conffiles = fs::read_to_string(scratch.join("DEBIAN/conffiles")).unwrap();
        for kept in conffiles.lines() {
            assert!(
                scratch.join(kept.trim_start_matches('/')).is_file(),
                "{kept}"
            );
        }
        let listed = output_of(Command::new("dpkg-deb").arg("-c").arg(&made));
        assert!(
            listed.lines().all(|line| line.contains(" root/root ")),
            "{listed}"
        );
        for script in ["postinst", "prerm", "postrm"] {
            output_of(
                Command::new("sh")
                    .arg("-n")
                    .arg(scratch.join("DEBIAN").join(script)),
            );
        }
        assert_unit_is_valid(&scratch);
    }

    #[test]
    fn the_container_starts_a_program_of_the_package() {
        let file = paths::root().join("crates/vnfm-server/packaging/container/Containerfile");
        let text = fs::read_to_string(file).unwrap();
        let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
        let entry = line("ENTRYPOINT");
        for word in entry
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|word| word.starts_with('/'))
        {
            let is_installed = FILES
                .iter()
                .any(|(_, to, _)| *to == word.trim_start_matches('/'));
            assert!(is_installed, "the package has no `{word}`");
        }
        assert!(
            line("COPY").starts_with("COPY vnfm_*.deb "),
            "{}",
            line("COPY")
        );
        let postinst = paths::root().join("crates/vnfm-server/packaging/debian/postinst");
        let postinst = fs::read_to_string(postinst).unwrap();
        let user = line("USER ").trim_start_matches("USER ");
        assert!(
            postinst.contains(&format!("--no-create-home --quiet {user}")),
            "`{user}` is created"
        );
        assert!(postinst.contains(line("VOLUME ").trim_start_matches("VOLUME ")));
    }
}
