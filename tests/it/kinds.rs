//! `crates/vnfm-lint/src/kinds.txt` is generated from the sources of k8s-openapi: what lint knows of Kubernetes. Its types
//! cannot be listed by a program, and a dependency on them would cost `vnfmctl` minutes of compilation. With
//! `VNFM_UPDATE_GENERATED=1` this test regenerates it; otherwise it fails if the file is not current.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use vnfm_tests::sources::{assert_page_current, root};

type Fields = BTreeSet<String>;

/// Structures within objects whose fields lint checks: folder, name.
const STRUCTURES: &[(&str, &str)] = &[
    ("api/core/v1", "Container"),
    ("api/core/v1", "PodSpec"),
    ("apimachinery/pkg/apis/meta/v1", "ObjectMeta"),
];

/// The fields of kinds and structures in every version of Kubernetes.
#[derive(Default)]
struct Known {
    structures: BTreeMap<&'static str, Fields>,
    /// By `apiVersion` and kind: fields of the object, and of its `spec`.
    kinds: BTreeMap<(String, String), (Fields, Fields)>,
}

/// The source folder of k8s-openapi.
fn openapi() -> PathBuf {
    // Packages of other platforms need not have been downloaded.
    let platform = "--filter-platform=host-tuple";
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", platform])
        .current_dir(root())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {words}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = metadata["packages"].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == "k8s-openapi").unwrap();
    Path::new(found["manifest_path"].as_str().unwrap()).with_file_name("src")
}

/// The files below a folder by their folder and the structure that each declares.
fn structures(top: &Path, folder: &Path, all: &mut BTreeMap<(String, String), String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            structures(top, &path, all);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        if let Some(name) = between(&text, "pub struct ", |c| !c.is_alphanumeric()) {
            let folder = folder.strip_prefix(top).unwrap().to_str().unwrap();
            all.insert((folder.to_owned(), name.to_owned()), text);
        }
    }
}

fn between<'a>(text: &'a str, before: &str, is_end: impl Fn(char) -> bool) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split(is_end).next()
}

/// The fields that a structure reads from JSON.
fn fields(text: &str) -> Fields {
    let lines = text
        .lines()
        .filter_map(|line| line.split_once("\" => Field::"));
    let names = lines.map(|(name, _)| name.trim_start().trim_start_matches('"'));
    names.map(ToOwned::to_owned).collect()
}

/// The fields of the type of the field `spec`.
fn spec_of(text: &str, all: &BTreeMap<(String, String), String>) -> Option<Fields> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("    pub spec: "))?;
    let path = between(line, "crate::", |c| {
        c != ':' && c != '_' && !c.is_alphanumeric()
    })?;
    let (folder, name) = path.rsplit_once("::")?;
    all.get(&(folder.replace("::", "/"), name.to_owned()))
        .map(|text| fields(text))
}

impl Known {
    fn add(&mut self, version: &Path) {
        let mut all = BTreeMap::new();
        structures(version, version, &mut all);
        for (folder, name) in STRUCTURES {
            let text = &all[&((*folder).to_owned(), (*name).to_owned())];
            self.structures
                .entry(name)
                .or_default()
                .extend(fields(text));
        }
        for text in all.values() {
            let constant = |name: &str| {
                between(text, &format!("const {name}: &'static str = \""), |c| {
                    c == '"'
                })
            };
            let (Some(api), Some(kind)) = (constant("API_VERSION"), constant("KIND")) else {
                continue;
            };
            if !text.contains("impl crate::Metadata for") {
                continue;
            }
            let (top, spec) = self
                .kinds
                .entry((api.to_owned(), kind.to_owned()))
                .or_default();
            top.extend(fields(text));
            spec.extend(spec_of(text, &all).into_iter().flatten());
        }
    }

    fn text(&self) -> String {
        let listed = |fields: &Fields| {
            let mut list = String::new();
            for name in fields {
                write!(list, " {name}").unwrap();
            }
            list
        };
        let mut text = String::new();
        for (name, fields) in &self.structures {
            writeln!(text, "{name}:{}", listed(fields)).unwrap();
        }
        for ((api, kind), (top, spec)) in &self.kinds {
            let mut top = top.clone();
            top.retain(|name| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            // Objects are often copied from a cluster, with a status even if there is nothing in it.
            if top.contains("spec") {
                top.insert("status".to_owned());
            }
            write!(text, "{api} {kind}:{}", listed(&top)).unwrap();
            if !spec.is_empty() {
                write!(text, ";{}", listed(spec)).unwrap();
            }
            text.push('\n');
        }
        text
    }
}

#[test]
fn kinds_of_kubernetes_are_current() {
    let mut known = Known::default();
    for entry in std::fs::read_dir(openapi()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            known.add(&path);
        }
    }
    assert!(known.kinds.len() > 80, "only {} kinds", known.kinds.len());
    assert_page_current("crates/vnfm-lint/src/kinds.txt", &known.text());
}
