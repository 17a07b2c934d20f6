//! `vnfmctl plugin …`: `list` asks the server; all others work on files of this machine.

use super::plugin_run;
use crate::args::{Format, Plugin};
use crate::client::{Client, Failure, Outcome, local};
use crate::output::{Column, Output, tell};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vnfm_descriptor::{Artifact, Flavour, Package};
use vnfm_plugin_host::{Lock, PackagePin, Pin, Scripts, file_sha256, inspect};

const COLUMNS: &[Column] = &[
    ("name", "/name"),
    ("version", "/version"),
    ("usable", "/usable"),
    ("hooks", "/hooks"),
    ("used by", "/usedBy"),
    ("instances", "/instances"),
    ("file", "/file"),
    ("why not", "/problem"),
];
const SHARED_LIBRARY: &str = "tosca.artifacts.Implementation.SharedLibrary";
const DETAILS: &[Column] = &[
    ("name", "/name"),
    ("version", "/version"),
    ("hooks", "/hooks"),
    ("sdk", "/sdkVersion"),
    ("abi", "/abi"),
    ("glibc", "/glibc"),
    ("sha-256", "/sha256"),
];

pub(super) async fn run(client: &Client, output: Output, command: Plugin) -> Outcome<()> {
    match command {
        Plugin::List => {
            let plugins: Vec<Value> = client.get("/vnfm/v1/plugins").await?;
            output.list(&for_people(output, plugins), COLUMNS)
        }
        Plugin::Inspect { file } => {
            let seen = serde_json::to_value(inspect(&file)?).map_err(local)?;
            let shown = for_people(output, vec![seen.clone()]);
            output.one(&shown[0], DETAILS)?;
            if output.0 == Format::Table {
                super::described::plugin(output, &seen)
            } else {
                Ok(())
            }
        }
        Plugin::Run(wanted) => plugin_run::run(output, &wanted).await,
        Plugin::New(wanted) => super::new::plugin(output, &wanted),
        Plugin::Allow { file, package, dir } => {
            let dir = dir.map_or_else(default_dir, Ok)?;
            if let Some(file) = file {
                return allow(client, output, &file, &dir).await;
            }
            allow_package(client, output, &package.unwrap_or_default(), &dir).await
        }
    }
}

/// A package that names a plugin, and whether somebody lives by it.
fn user(package: &Value) -> Value {
    let names = ["vnfProductName", "vnfdId", "vnfPkgId"];
    let name = names
        .iter()
        .find_map(|name| package[name].as_str())
        .unwrap_or_default();
    let lives = if package["usageState"] == "IN_USE" {
        " (in use)"
    } else {
        ""
    };
    format!("{name}{lives}").into()
}

/// Allows one library, and says so.
async fn allow(client: &Client, output: Output, file: &Path, dir: &Path) -> Outcome<()> {
    let pin = pinned(file, dir)?;
    let copy = dir.join(&pin.file);
    let sentence = format!(
        "allowed {pin} as `{}` with SHA-256 {}",
        copy.display(),
        pin.sha256
    );
    output.done(&sentence, &serde_json::to_value(&pin).map_err(local)?)?;
    if is_unknown_to(client, &pin).await {
        tell(
            "warning: the server that runs looks for plugins in another folder; give that one with --dir",
        );
    }
    Ok(())
}

/// Allows what a package brings for its hooks: each library by itself, all of its scripts by the package.
async fn allow_package(client: &Client, output: Output, named: &str, dir: &Path) -> Outcome<()> {
    let (opened, _file) = super::package::here_or_onboarded(client, named).await?;
    let package = &opened.package;
    let hooks = || package.vnfd().flavours.values().flat_map(Flavour::hooks);
    let artifacts = || hooks().filter_map(|hook| hook.artifact.as_ref());
    let libraries: BTreeSet<_> = artifacts()
        .filter(|artifact| artifact.kind == SHARED_LIBRARY)
        .filter_map(|artifact| artifact.file.as_deref())
        .collect();
    let scripts: BTreeSet<_> = artifacts().filter_map(Artifact::script).collect();
    if libraries.is_empty() && scripts.is_empty() {
        return Err(Failure::Hinted {
            what: format!("no hook of `{named}` names a library or a script that lies in it"),
            hint: format!("an artifact of type {SHARED_LIBRARY} needs the library as its `file`"),
        });
    }
    let unpacked = unpacked(package, &libraries, named)?;
    for file in libraries_of(unpacked.path())? {
        allow(client, output, &file, dir).await?;
    }
    if scripts.is_empty() {
        Ok(())
    } else {
        allow_scripts(output, package, &scripts, dir)
    }
}

/// Pins a package for its scripts, and says which they are.
fn allow_scripts(
    output: Output,
    package: &Package,
    scripts: &BTreeSet<&str>,
    dir: &Path,
) -> Outcome<()> {
    let (vnfd_id, sha256) = (
        package.vnfd().descriptor_id.clone(),
        package.sha256().to_owned(),
    );
    let scripts = scripts.iter().map(|script| (*script).to_owned()).collect();
    let pin = PackagePin {
        vnfd_id,
        sha256,
        scripts,
    };
    let failed = |error: std::io::Error| local(format!("cannot make `{}`: {error}", dir.display()));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let mut lock = Lock::read(dir)?;
    lock.add_package(pin.clone());
    lock.write(dir)?;
    let sentence = format!(
        "allowed {} of the package `{}` with SHA-256 {}",
        pin.scripts.join(", "),
        pin.vnfd_id,
        pin.sha256
    );
    output.done(&sentence, &serde_json::to_value(&pin).map_err(local)?)?;
    if !lock
        .plugins
        .iter()
        .any(|plugin| plugin.name == Scripts::default().plugin)
    {
        tell(&format!(
            "warning: scripts are run by the plugin `{}`, which is not allowed in `{}` yet",
            Scripts::default().plugin,
            dir.display()
        ));
    }
    Ok(())
}

/// Libraries of a package, as files of a folder of ours.
fn unpacked(package: &Package, libraries: &BTreeSet<&str>, named: &str) -> Outcome<TempDir> {
    let folder = tempfile::tempdir().map_err(local)?;
    for (number, file) in libraries.iter().enumerate() {
        let wrong = |error: String| local(format!("cannot read `{file}` of `{named}`: {error}"));
        let bytes = package
            .read(file)
            .map_err(|error| wrong(error.to_string()))?;
        let copy = folder.path().join(format!("{number}.so"));
        std::fs::write(copy, bytes).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(folder)
}

/// The files of a folder, in order.
fn libraries_of(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .map_err(local)?
        .collect::<Result<Vec<_>, _>>();
    let mut files: Vec<_> = entries
        .map_err(local)?
        .iter()
        .map(std::fs::DirEntry::path)
        .collect();
    files.sort();
    Ok(files)
}

/// Whether a server answers that does not know what was allowed; one that does not run yet may still find it.
async fn is_unknown_to(client: &Client, pin: &Pin) -> bool {
    let plugins: Outcome<Vec<Value>> = client.get("/vnfm/v1/plugins").await;
    let is_it = |shown: &Value| shown["name"] == *pin.name && shown["version"] == *pin.version;
    plugins.is_ok_and(|plugins| !plugins.iter().any(is_it))
}

/// In a table, hooks and packages are shown by their names and a problem by its sentence.
fn for_people(output: Output, mut plugins: Vec<Value>) -> Vec<Value> {
    if output.0 == Format::Table {
        for plugin in &mut plugins {
            let hooks = plugin["hooks"].as_object();
            let names: Vec<_> = hooks.into_iter().flat_map(serde_json::Map::keys).collect();
            plugin["hooks"] = json!(names);
            plugin["problem"] = plugin["problem"]["detail"].take();
            let users = plugin["usedBy"].as_array().cloned().unwrap_or_default();
            plugin["usedBy"] = users.iter().map(user).collect();
            let instances = plugin["instances"].as_array().cloned().unwrap_or_default();
            let name = |instance: &Value| {
                let names = ["vnfInstanceName", "id"];
                names
                    .iter()
                    .find_map(|name| instance[name].as_str())
                    .map(str::to_owned)
            };
            plugin["instances"] = instances.iter().filter_map(name).collect();
        }
    }
    plugins
}

/// Copies `file` into `dir` beside all other versions, and pins the copy's hash.
fn pinned(file: &Path, dir: &Path) -> Outcome<Pin> {
    let doing = format!("cannot copy `{}` into `{}`", file.display(), dir.display());
    let failed = |error: std::io::Error| local(format!("{doing}: {error}"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let mut source = std::fs::File::open(file).map_err(failed)?;
    let mut copy = tempfile::Builder::new()
        .suffix(".so")
        .tempfile_in(dir)
        .map_err(failed)?;
    std::io::copy(&mut source, &mut copy).map_err(failed)?;
    let mode = std::fs::Permissions::from_mode(0o644);
    copy.as_file().set_permissions(mode).map_err(failed)?;
    copy.as_file().sync_all().map_err(failed)?;
    let seen = inspect(copy.path())?;
    let says = seen.declaration;
    let pin = Pin {
        file: free_name(dir, &says.name, &says.version, &seen.sha256)?,
        name: says.name,
        version: says.version,
        sha256: seen.sha256,
        superseded: false,
    };
    copy.persist(dir.join(&pin.file))
        .map_err(|error| failed(error.error))?;
    let mut lock = Lock::read(dir)?;
    lock.add(pin.clone());
    lock.write(dir)?;
    Ok(pin)
}

/// The file of a plugin, beside one of the same name and version that operations may have begun with.
fn free_name(dir: &Path, name: &str, version: &str, sha256: &str) -> Outcome<String> {
    let file = file_name(name, version)?;
    if file_sha256(&dir.join(&file)).is_ok_and(|there| there != sha256) {
        let begin = sha256.get(..12).unwrap_or(sha256);
        return Ok(file.replace(".so", &format!("-{begin}.so")));
    }
    Ok(file)
}

/// The file of a plugin; its name and version come out of the library, so they are looked at first.
fn file_name(name: &str, version: &str) -> Outcome<String> {
    let plain = |text: &str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        !text.is_empty() && text.chars().all(fits)
    };
    if plain(name) && plain(version) {
        return Ok(format!("{name}-{version}.so"));
    }
    Err(local(format!(
        "the library calls itself `{name}@{version}`, which is no name for a file: letters, digits and `-_.+` are"
    )))
}

/// Where vnfm-server looks for plugins, unless it is told otherwise.
fn default_dir() -> Outcome<PathBuf> {
    if std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0) {
        return Ok("/var/lib/vnfm/plugins".into());
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = state.or_else(home);
    base.map(|base| base.join("vnfm/plugins"))
        .ok_or_else(|| local("neither XDG_STATE_HOME nor HOME is set; give --dir"))
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn another_library_of_the_same_version_lies_beside_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
        let name = |sha256: &str| super::free_name(dir.path(), "a", "1.0.0", sha256).unwrap();
        assert_eq!(name(sha256), "a-1.0.0.so");
        std::fs::write(dir.path().join("a-1.0.0.so"), "foo").unwrap();
        assert_eq!(name(sha256), "a-1.0.0.so");
        assert_eq!(name("0123456789abcdef"), "a-1.0.0-0123456789ab.so");
    }

    #[test]
    fn a_library_cannot_choose_where_it_is_copied_to() {
        assert_eq!(file_name("a-b", "1.2.0+x").unwrap(), "a-b-1.2.0+x.so");
        for (name, version) in [("../a", "1"), ("a", "1/2"), ("", "1")] {
            let error = file_name(name, version).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}@{version}`")), "{error}");
        }
    }
}
