//! `vnfmctl new vnfd NAME`: a package that lints clean and can be onboarded as it is. `vnfmctl plugin new NAME` makes a
//! crate: `plugin.rs`.

mod plugin;

pub(super) use plugin::plugin;

use crate::args::{Kind, New};
use crate::client::{Failure, Outcome, local};
use crate::output::Output;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A file of a template: its path, and its text with `@NAME@` and `@ID@` in it.
type File = (&'static str, &'static str);

const BOTH: &[File] = &[("TOSCA-Metadata/TOSCA.meta", include_str!("TOSCA.meta"))];
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

pub(super) fn run(output: Output, wanted: &New) -> Outcome<()> {
    let New::Vnfd { name, kind, dir } = wanted;
    named(name, "VNF")?;
    let folder = free(dir.as_deref(), name)?;
    let id = Uuid::new_v4().to_string();
    let own = if *kind == Kind::Vm { VM } else { CNF };
    for (path, text) in BOTH.iter().chain(own) {
        let fill = |text: &str| text.replace("@NAME@", name).replace("@ID@", &id);
        write(&folder.join(fill(path)), &fill(text))?;
    }
    let shown = folder.display().to_string();
    let sentence = format!("made the package `{shown}`; its README.md says what to do with it");
    output.done(&sentence, &json!({"path": shown, "vnfdId": id}))
}

/// The folder to make, which must not be there.
fn free(dir: Option<&Path>, name: &str) -> Outcome<PathBuf> {
    let folder = dir.map_or_else(|| PathBuf::from(name), Path::to_owned);
    if folder.exists() {
        return Err(Failure::Hinted {
            what: format!("`{}` is already there", folder.display()),
            hint: "name another folder with --dir".to_owned(),
        });
    }
    Ok(folder)
}

/// The name goes into file names, node templates, Kubernetes' objects and crates.
fn named(name: &str, what: &str) -> Outcome<()> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    if begins && !name.ends_with('-') && name.len() <= 40 && name.bytes().all(fits) {
        return Ok(());
    }
    Err(Failure::Hinted {
        what: format!("`{name}` cannot be the name of a new {what}"),
        hint: "lower case letters, digits and `-`, a letter first, 40 at most".to_owned(),
    })
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    let wrong = |error| local(format!("cannot write `{}`: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    fs::write(path, text).map_err(wrong)
}
