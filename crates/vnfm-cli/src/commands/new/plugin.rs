//! `vnfmctl plugin new NAME`: a crate that builds anywhere, with a driver that installs a service on every host.

use super::{File, free, named, write};
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
    named(name, "plugin")?;
    let sdk = sdk(&wanted.sdk)?;
    let folder = free(wanted.dir.as_deref(), name)?;
    let (library, kind) = (name.replace('-', "_"), camel(name));
    for (path, text) in FILES {
        let text = text
            .replace("@NAME@", name)
            .replace("@LIBRARY@", &library)
            .replace("@TYPE@", &kind)
            .replace("@SDK@", &sdk.display().to_string());
        write(&folder.join(path), &text)?;
    }
    let shown = folder.display().to_string();
    let sentence = format!("made the plugin `{shown}`; its README.md says what to do with it");
    output.done(&sentence, &json!({"path": shown, "sdk": sdk}))
}

/// The folder of the SDK, from wherever the crate will be built.
fn sdk(path: &Path) -> Outcome<PathBuf> {
    let manifest = path.join("Cargo.toml");
    let is_it = std::fs::read_to_string(&manifest).is_ok_and(|text| {
        text.lines()
            .any(|line| line.trim() == "name = \"vnfm-plugin-sdk\"")
    });
    match path.canonicalize() {
        Ok(path) if is_it => Ok(path),
        _ => Err(Failure::Hinted {
            what: format!("`{}` is not the SDK", path.display()),
            hint: "give `crates/vnfm-plugin-sdk` of a checkout of vnfm; the SDK is in no registry"
                .into(),
        }),
    }
}

/// `web-server` as `WebServer`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('-').map(capital).collect()
}
