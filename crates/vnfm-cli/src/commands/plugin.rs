//! `vnfmctl plugin …`: `list` queries the server; all others work on local files.

use super::plugin_run;
use crate::args::{Format, Plugin, Protocol};
use crate::client::{Client, Failure, Outcome, local};
use crate::output::{Column, Output, tell};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vnfm::ports::ScriptProtocol;
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
    ("problem", "/problem"),
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
            output.list(&table_rows(output, plugins), COLUMNS)
        }
        Plugin::Inspect { file } => {
            let inspected = serde_json::to_value(inspect(&file)?).map_err(local)?;
            let rows = table_rows(output, vec![inspected.clone()]);
            output.one(&rows[0], DETAILS)?;
            if output.0 == Format::Table {
                super::described::plugin(output, &inspected)
            } else {
                Ok(())
            }
        }
        Plugin::Run(args) => plugin_run::run(output, &args).await,
        Plugin::New(args) => super::new::plugin(output, &args),
        Plugin::Allow {
            file,
            package,
            protocol,
            dir,
        } => {
            let dir = dir.map_or_else(default_dir, Ok)?;
            if let Some(file) = file {
                return allow(client, output, &file, &dir).await;
            }
            let package = (package.unwrap_or_default(), protocol);
            allow_package(client, output, package, &dir).await
        }
    }
}

/// The name of a package that uses a plugin, and whether it has instances.
fn package_name(package: &Value) -> Value {
    let names = ["vnfProductName", "vnfdId", "vnfPkgId"];
    let name = names
        .iter()
        .find_map(|name| package[name].as_str())
        .unwrap_or_default();
    let in_use = if package["usageState"] == "IN_USE" {
        " (in use)"
    } else {
        ""
    };
    format!("{name}{in_use}").into()
}

/// Allows one library, and warns if a running server does not see it.
async fn allow(client: &Client, output: Output, file: &Path, dir: &Path) -> Outcome<()> {
    let pin = copy_and_pin(file, dir)?;
    let copy = dir.join(&pin.file);
    let sentence = format!(
        "allowed {pin} as `{}` with SHA-256 {}",
        copy.display(),
        pin.sha256
    );
    output.done(&sentence, &serde_json::to_value(&pin).map_err(local)?)?;
    if is_missing_on_server(client, &pin).await {
        tell(
            "warning: the running server looks for plugins in another folder; pass that folder with --dir",
        );
    }
    Ok(())
}

/// Allows what a package contains for its hooks: each library individually, all scripts through the package.
async fn allow_package(
    client: &Client,
    output: Output,
    (named, protocol): (String, Option<Protocol>),
    dir: &Path,
) -> Outcome<()> {
    let (opened, _file) = super::package::local_or_onboarded(client, &named).await?;
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
            message: format!("no hook of `{named}` names a library or script in the package"),
            hint: format!("set `file` of the {SHARED_LIBRARY} artifact to the library"),
        });
    }
    let unpacked = unpack(package, &libraries, &named)?;
    for file in sorted_files(unpacked.path())? {
        allow(client, output, &file, dir).await?;
    }
    if scripts.is_empty() {
        Ok(())
    } else {
        allow_scripts(output, package, (&scripts, protocol), dir)
    }
}

/// Pins a package for its scripts.
fn allow_scripts(
    output: Output,
    package: &Package,
    (scripts, protocol): (&BTreeSet<&str>, Option<Protocol>),
    dir: &Path,
) -> Outcome<()> {
    if protocol.is_none() {
        warn_of_pickles(package, scripts);
    }
    let (vnfd_id, sha256) = (
        package.vnfd().descriptor_id.clone(),
        package.sha256().to_owned(),
    );
    let scripts = scripts.iter().map(|script| (*script).to_owned()).collect();
    let protocol = protocol.map(|Protocol::Tacker| ScriptProtocol::Tacker);
    let pin = PackagePin {
        vnfd_id,
        sha256,
        scripts,
        protocol,
    };
    let failed =
        |error: std::io::Error| local(format!("cannot create `{}`: {error}", dir.display()));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let mut lock = Lock::read(dir)?;
    lock.add_package(pin.clone());
    lock.write(dir)?;
    let sentence = format!(
        "allowed {} of package `{}` with SHA-256 {}",
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
            "warning: scripts need the plugin `{}`, which is not allowed in `{}` yet",
            Scripts::default().plugin,
            dir.display()
        ));
    }
    Ok(())
}

/// Warns of scripts that unpickle their standard input: with JSON on it, they fail.
fn warn_of_pickles(package: &Package, scripts: &BTreeSet<&str>) {
    for script in scripts {
        let text = package.read(script).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if ["pickle.load(sys.stdin", "pickle.loads(sys.stdin"]
            .iter()
            .any(|call| text.contains(call))
        {
            tell(&format!(
                "warning: `{script}` reads a pickled request, as scripts for OpenStack Tacker do: add `--protocol tacker`, or \
                 port it (docs/how-to/scripts-for-tacker.md)"
            ));
        }
    }
}

/// Unpacks libraries of a package into a temporary folder.
fn unpack(package: &Package, libraries: &BTreeSet<&str>, named: &str) -> Outcome<TempDir> {
    let folder = tempfile::tempdir().map_err(local)?;
    for (number, file) in libraries.iter().enumerate() {
        let failed = |error: String| local(format!("cannot read `{file}` of `{named}`: {error}"));
        let bytes = package
            .read(file)
            .map_err(|error| failed(error.to_string()))?;
        let copy = folder.path().join(format!("{number}.so"));
        std::fs::write(copy, bytes).map_err(|error| failed(error.to_string()))?;
    }
    Ok(folder)
}

/// The files of a folder, sorted by name.
fn sorted_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
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

/// Whether a running server does not list the plugin. False if no server responds: it may still find it at start.
async fn is_missing_on_server(client: &Client, pin: &Pin) -> bool {
    let plugins: Outcome<Vec<Value>> = client.get("/vnfm/v1/plugins").await;
    let is_pinned =
        |plugin: &Value| plugin["name"] == *pin.name && plugin["version"] == *pin.version;
    plugins.is_ok_and(|plugins| !plugins.iter().any(is_pinned))
}

/// For a table, reduces hooks, packages and instances to their names and a problem to its detail.
fn table_rows(output: Output, mut plugins: Vec<Value>) -> Vec<Value> {
    if output.0 == Format::Table {
        for plugin in &mut plugins {
            let hooks = plugin["hooks"].as_object();
            let names: Vec<_> = hooks.into_iter().flat_map(serde_json::Map::keys).collect();
            plugin["hooks"] = json!(names);
            plugin["problem"] = plugin["problem"]["detail"].take();
            let users = plugin["usedBy"].as_array().cloned().unwrap_or_default();
            plugin["usedBy"] = users.iter().map(package_name).collect();
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

/// Copies `file` into `dir`, keeping other versions, and pins the copy's hash.
pub(super) fn copy_and_pin(file: &Path, dir: &Path) -> Outcome<Pin> {
    let action = format!("cannot copy `{}` into `{}`", file.display(), dir.display());
    let failed = |error: std::io::Error| local(format!("{action}: {error}"));
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
    let inspected = inspect(copy.path())?;
    let declaration = inspected.declaration;
    let (name, version) = (declaration.name, declaration.version);
    let pin = Pin {
        file: free_name(dir, &name, &version, &inspected.sha256)?,
        name,
        version,
        sha256: inspected.sha256,
        superseded: false,
    };
    copy.persist(dir.join(&pin.file))
        .map_err(|error| failed(error.error))?;
    let mut lock = Lock::read(dir)?;
    lock.add_plugin(pin.clone());
    lock.write(dir)?;
    Ok(pin)
}

/// The file name of a plugin. A different library of the same name and version is kept, as running operations may use
/// it; the new one then gets a part of its hash as a suffix.
fn free_name(dir: &Path, name: &str, version: &str, sha256: &str) -> Outcome<String> {
    let file = file_name(name, version)?;
    if file_sha256(&dir.join(&file)).is_ok_and(|existing| existing != sha256) {
        let prefix = sha256.get(..12).unwrap_or(sha256);
        return Ok(file.replace(".so", &format!("-{prefix}.so")));
    }
    Ok(file)
}

/// The default file name of a plugin. Name and version come from the library, so they are validated.
fn file_name(name: &str, version: &str) -> Outcome<String> {
    let is_safe = |text: &str| {
        let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        !text.is_empty() && text.chars().all(is_valid)
    };
    if is_safe(name) && is_safe(version) {
        return Ok(format!("{name}-{version}.so"));
    }
    Err(local(format!(
        "the library declares `{name}@{version}`, which is not a valid file name: use only letters, digits and `-_.+`"
    )))
}

/// The default plugin folder of vnfm-server.
pub(super) fn default_dir() -> Outcome<PathBuf> {
    if std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0) {
        return Ok("/var/lib/vnfm/plugins".into());
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = state.or_else(home);
    base.map(|base| base.join("vnfm/plugins"))
        .ok_or_else(|| local("neither XDG_STATE_HOME nor HOME is set; pass --dir"))
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn another_library_of_the_same_version_does_not_replace_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
        let name = |sha256: &str| super::free_name(dir.path(), "a", "1.0.0", sha256).unwrap();
        assert_eq!(name(sha256), "a-1.0.0.so");
        std::fs::write(dir.path().join("a-1.0.0.so"), "foo").unwrap();
        assert_eq!(name(sha256), "a-1.0.0.so");
        assert_eq!(name("0123456789abcdef"), "a-1.0.0-0123456789ab.so");
    }

    #[test]
    fn a_library_name_cannot_escape_the_plugin_folder() {
        assert_eq!(file_name("a-b", "1.2.0+x").unwrap(), "a-b-1.2.0+x.so");
        for (name, version) in [("../a", "1"), ("a", "1/2"), ("", "1")] {
            let error = file_name(name, version).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}@{version}`")), "{error}");
        }
    }
}
