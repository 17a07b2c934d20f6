//! `vnfmctl new vnfd NAME`: scaffolds a package that lints clean and can be onboarded as it is.
//! `vnfmctl plugin new NAME` scaffolds a crate: `plugin.rs`.

mod hooks;
mod plugin;

pub(super) use plugin::plugin;

use crate::args::{Kind, New};
use crate::client::{Failure, Outcome, local};
use crate::output::Output;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A template file: its path and its text, both with placeholders such as `@NAME@`.
type File = (&'static str, &'static str);

const COMMON: &[File] = &[("TOSCA-Metadata/TOSCA.meta", include_str!("TOSCA.meta"))];
const VM: &[File] = &[
    ("Definitions/@NAME@.yaml", include_str!("vm/vnfd.yaml")),
    ("@NAME@.mf", include_str!("vm/manifest.mf")),
    ("README.md", include_str!("vm/README.md")),
    (
        "requests/instantiate.json",
        include_str!("vm/instantiate.json"),
    ),
];
const CNF: &[File] = &[
    ("Definitions/@NAME@.yaml", include_str!("cnf/vnfd.yaml")),
    (
        "Files/kubernetes/order.yaml",
        include_str!("cnf/order.yaml"),
    ),
    (
        "Files/kubernetes/workload.yaml",
        include_str!("cnf/workload.yaml"),
    ),
    (
        "Files/kubernetes/service.yaml",
        include_str!("cnf/service.yaml"),
    ),
    ("@NAME@.mf", include_str!("cnf/manifest.mf")),
    ("README.md", include_str!("cnf/README.md")),
    (
        "requests/instantiate.json",
        include_str!("cnf/instantiate.json"),
    ),
];

pub(super) fn run(output: Output, args: &New) -> Outcome<()> {
    let New::Vnfd {
        name,
        kind,
        hooks,
        dir,
    } = args;
    check_name(name, "VNF")?;
    let hooks: Vec<_> = hooks
        .iter()
        .map(|hook| hooks::parse(hook))
        .collect::<Outcome<_>>()?;
    let folder = new_folder(dir.as_deref(), name)?;
    let id = package(&folder, name, *kind, &hooks)?;
    let path = folder.display().to_string();
    let sentence = format!("created package `{path}`; see its README.md for the next steps");
    output.done(&sentence, &json!({"path": path, "vnfdId": id}))
}

/// Writes a package; returns the id of its VNFD.
fn package(folder: &Path, name: &str, kind: Kind, hooks: &[hooks::Hook]) -> Outcome<String> {
    let id = Uuid::new_v4().to_string();
    let files = if kind == Kind::Vm { VM } else { CNF };
    let yaml = hooks::to_yaml(hooks);
    for (path, text) in COMMON.iter().chain(files) {
        let fill = |text: &str| {
            let text = text.replace("@HOOKS@\n", &format!("{yaml}\n"));
            text.replace("@NAME@", name).replace("@ID@", &id)
        };
        write(&folder.join(fill(path)), &fill(text))?;
    }
    Ok(id)
}

/// The folder to create; fails if it exists.
fn new_folder(dir: Option<&Path>, name: &str) -> Outcome<PathBuf> {
    let folder = dir.map_or_else(|| PathBuf::from(name), Path::to_owned);
    if folder.exists() {
        return Err(Failure::Hinted {
            message: format!("`{}` already exists", folder.display()),
            hint: "choose another folder with --dir".to_owned(),
        });
    }
    Ok(folder)
}

/// Checks a name that becomes part of file names, node templates, Kubernetes objects and crates.
fn check_name(name: &str, noun: &str) -> Outcome<()> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    if starts_with_letter && !name.ends_with('-') && name.len() <= 40 && name.bytes().all(is_valid)
    {
        return Ok(());
    }
    Err(Failure::Hinted {
        message: format!("`{name}` is not a valid {noun} name"),
        hint: "use at most 40 lowercase letters, digits and `-`, starting with a letter".to_owned(),
    })
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    let failed = |error| local(format!("cannot write `{}`: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}
