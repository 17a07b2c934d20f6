//! `vnfmctl plugin new NAME`: scaffolds a crate with a driver that installs a service on every host.

use super::{File, check_name, hooks, new_folder, package, write};
use crate::args::{Kind, NewPlugin};
use crate::client::{Failure, Outcome, local};
use crate::input;
use crate::output::Output;
use serde_json::{Value, json};
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

pub(crate) fn plugin(output: Output, args: &NewPlugin) -> Outcome<()> {
    let name = &args.name;
    check_name(name, "plugin")?;
    hooks::check(&args.hook)?;
    let sdk = sdk(&args.sdk)?;
    let folder = new_folder(args.dir.as_deref(), name)?;
    let (library, kind) = (name.replace('-', "_"), camel(name));
    for (path, text) in FILES {
        let text = text
            .replace("@NAME@", name)
            .replace("@LIBRARY@", &library)
            .replace("@TYPE@", &kind)
            .replace("@HOOK@", &args.hook)
            .replace("@SDK@", &sdk.display().to_string());
        write(&folder.join(path), &text)?;
    }
    let vnfd = format!("{name}-vnf");
    package(
        &folder.join(&vnfd),
        &vnfd,
        Kind::Vm,
        &[(args.hook.clone(), name.clone())],
    )?;
    add_parameters(&folder.join(&vnfd).join("requests/instantiate.json"))?;
    let path = folder.display().to_string();
    let sentence = format!("created plugin `{path}`; see its README.md for the next steps");
    output.done(&sentence, &json!({"path": path, "sdk": sdk}))
}

/// Adds the hook's parameters to a request; the login has the placeholders of the samples.
fn add_parameters(request: &Path) -> Outcome<()> {
    let failed = |error: String| local(format!("cannot change `{}`: {error}", request.display()));
    let text = input::text(request).map_err(|error| failed(error.to_string()))?;
    let mut body: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    body["additionalParams"] = json!({"sshCp": "port", "sshPort": 22, "username": "@SSH_USER@",
        "password": "@SSH_PASSWORD@", "text": "hello\n"});
    let text = serde_json::to_string_pretty(&body).map_err(|error| failed(error.to_string()))?;
    write(request, &format!("{text}\n"))
}

/// The absolute path of the SDK, so that the crate builds from any folder.
fn sdk(path: &Path) -> Outcome<PathBuf> {
    let manifest = path.join("Cargo.toml");
    let is_sdk = input::text(&manifest).is_ok_and(|text| {
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

/// Converts a crate name such as `web-server` to `WebServer`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('-').map(capital).collect()
}
