//! `vnfmctl plugin new NAME`: scaffolds a crate with a driver that installs a service on every host.

use super::{File, check_name, new_folder, write};
use crate::args::NewPlugin;
use crate::client::{Failure, Outcome};
use crate::output::Output;
use serde_json::json;
use std::path::{Path, PathBuf};

const FILES: &[File] = &[
    ("Cargo.toml", include_str!("plugin/cargo.toml.txt")),
    ("src/lib.rs", include_str!("plugin/lib.rs.txt")),
    ("README.md", include_str!("plugin/README.md")),
    ("request.json", include_str!("plugin/request.json")),
    ("hosts.yaml", include_str!("plugin/hosts.yaml")),
    (".gitignore", "/target\n"),
    (
        ".github/workflows/ci.yml",
        include_str!("plugin/workflows/ci.yml"),
    ),
];

pub(in crate::commands) fn plugin(output: Output, wanted: &NewPlugin) -> Outcome<()> {
    let name = &wanted.name;
    check_name(name, "plugin")?;
    let sdk = sdk(&wanted.sdk)?;
    let folder = new_folder(wanted.dir.as_deref(), name)?;
    let (library, kind) = (name.replace('-', "_"), camel(name));
    for (path, text) in FILES {
        let text = text
            .replace("@NAME@", name)
            .replace("@LIBRARY@", &library)
            .replace("@TYPE@", &kind)
            .replace("@SDK@", &sdk.display().to_string());
        write(&folder.join(path), &text)?;
    }
    let path = folder.display().to_string();
    let sentence = format!("created plugin `{path}`; see its README.md for the next steps");
    output.done(&sentence, &json!({"path": path, "sdk": sdk}))
}

/// The absolute path of the SDK, so that the crate builds from any folder.
fn sdk(path: &Path) -> Outcome<PathBuf> {
    let manifest = path.join("Cargo.toml");
    let is_sdk = std::fs::read_to_string(&manifest).is_ok_and(|text| {
        text.lines()
            .any(|line| line.trim() == "name = \"vnfm-plugin-sdk\"")
    });
    match path.canonicalize() {
        Ok(path) if is_sdk => Ok(path),
        _ => Err(Failure::Hinted {
            message: format!("`{}` is not vnfm-plugin-sdk", path.display()),
            hint: "pass the path of `crates/vnfm-plugin-sdk` in a checkout of vnfm; the SDK is not on a registry"
                .into(),
        }),
    }
}

/// Converts `web-server` to `WebServer`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('-').map(capital).collect()
}
