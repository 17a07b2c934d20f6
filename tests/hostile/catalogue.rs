//! Samples, routes, operations and request schemas, read from the project itself, so that additions are
//! covered without a change here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use vnfm_tests::{package_image, sources};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A package of the samples.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Its requests, by operation, with placeholders.
    requests: BTreeMap<String, String>,
}

/// The end of the names of files that are requests.
const REQUEST: &str = ".json";

impl Sample {
    /// Whether it is for Kubernetes.
    pub(crate) fn is_kubernetes(&self) -> bool {
        self.requests["instantiate"].contains("KUBERNETES")
    }

    /// A request for an operation, with the placeholders filled: the sample's own, else an empty one.
    pub(crate) fn request(&self, operation: &str, vim: &str) -> Value {
        let Some(text) = self.requests.get(operation) else {
            return match operation {
                "terminate" => json!({"terminationType": "FORCEFUL"}),
                _ => json!({}),
            };
        };
        let filled = text
            .replace("@VIM_ID@", vim)
            .replace("@NETWORK_ID@", "provider");
        serde_json::from_str(&filled).unwrap_or(Value::Null)
    }

    /// The names of the values that a request may give it.
    pub(crate) fn variables(&self) -> Vec<String> {
        let order = self.files.get("Files/kubernetes/order.yaml");
        let order: Value = order
            .and_then(|text| serde_yaml::from_slice(text).ok())
            .unwrap_or_default();
        let names = order["variables"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .cloned();
        names.chain(["namespace".to_owned()]).collect()
    }

    /// Bytes of the archive to onboard. A manifest with hashes is rewritten: a changed file must be judged by its content,
    /// not be refused for its hash.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub(crate) fn archive(&self) -> Result<Vec<u8>> {
        let mut files = self.files.clone();
        update_hashes(&mut files)?;
        archive(
            files
                .iter()
                .map(|(name, bytes)| (name.as_str(), bytes.as_slice())),
        )
    }
}

fn is_manifest(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "mf")
}

/// Rewrites the sources of the manifest if it states hashes.
fn update_hashes(files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut manifests = files.iter().filter(|(name, _)| is_manifest(name));
    let manifest = manifests.find_map(|(name, bytes)| {
        let text = std::str::from_utf8(bytes).ok()?;
        let (metadata, sources) = text.split_once("Source:")?;
        let has_hashes = sources.contains("Hash:");
        has_hashes.then(|| (name.clone(), metadata.to_owned()))
    });
    let Some((manifest, mut text)) = manifest else {
        return Ok(());
    };
    for (name, bytes) in files.iter().filter(|(name, _)| **name != manifest) {
        let hash = Sha256::digest(bytes);
        write!(text, "Source: {name}\nAlgorithm: SHA-256\nHash: {hash:x}\n")?;
    }
    files.insert(manifest, text.into_bytes());
    Ok(())
}

/// An archive of these files.
///
/// # Errors
/// If one of the names cannot be in an archive.
pub(crate) fn archive<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(name, SimpleFileOptions::default())?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Samples whose networks an operator creates first.
const ON_NETWORKS: &[&str] = &["cnf-networks", "vnf-shared-link"];

/// Every sample that can be instantiated without a plugin, without helm, without a login to its hosts, and without networks of
/// an operator. One of them brings the image of its containers.
///
/// # Errors
/// If the samples cannot be read.
pub(crate) fn samples() -> Result<Vec<Sample>> {
    let mut all = Vec::new();
    for folder in sorted(&sources::root().join("vnfd-samples"))? {
        let requests = folder.join("requests");
        if !requests.join("instantiate.json").is_file() {
            continue;
        }
        let mut files = BTreeMap::new();
        read(&folder, &folder, &mut files)?;
        let is_request = |name: &String| name.starts_with("requests/") && name.ends_with(REQUEST);
        let requested = files
            .iter()
            .filter(|(name, _)| is_request(name))
            .map(|(name, bytes)| {
                let operation = name
                    .trim_start_matches("requests/")
                    .trim_end_matches(REQUEST);
                (
                    operation.to_owned(),
                    String::from_utf8_lossy(bytes).into_owned(),
                )
            });
        let requests: BTreeMap<_, _> = requested.collect();
        files.retain(|name, _| !name.starts_with("requests/"));
        let needs_login = requests["instantiate"].contains("@SSH_");
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let order = files.get("Files/kubernetes/order.yaml");
        let lists_charts =
            order.is_some_and(|order| String::from_utf8_lossy(order).contains("charts:"));
        let needs_helm = lists_charts
            || files
                .keys()
                .any(|name| Path::new(name).extension().is_some_and(|end| end == "tgz"));
        let name = name.unwrap_or_default();
        if name == package_image::SAMPLE {
            files = package_image::files("hostile")?;
        }
        let needs_networks = ON_NETWORKS.contains(&name.as_str());
        if !needs_login && !needs_helm && !needs_networks && !has_scripts(&files) {
            all.push(Sample {
                name,
                files,
                requests,
            });
        }
    }
    Ok(all)
}

/// The sample whose hooks are scripts.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn scripted() -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = sources::root().join("vnfd-samples/vnf-script-hooks");
    let mut files = BTreeMap::new();
    read(&folder, &folder, &mut files)?;
    files.retain(|name, _| !name.starts_with("requests/"));
    Ok(files)
}

fn has_scripts(files: &BTreeMap<String, Vec<u8>>) -> bool {
    files.keys().any(|name| name.starts_with("Scripts/"))
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read(top: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            read(top, &path, into)?;
        } else {
            let name = path.strip_prefix(top)?.to_string_lossy().into_owned();
            into.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// The OpenAPI document of the server.
#[derive(Debug)]
pub(crate) struct Document(Value);

/// A request that the document describes.
#[derive(Debug, Clone)]
pub(crate) struct DocumentedRequest {
    /// Method of the request: GET, POST and so on.
    pub(crate) method: String,
    /// Path of the request, with `{…}` for ids.
    pub(crate) path: String,
    /// A body that matches its schema; null if there is no JSON body.
    pub(crate) body: Value,
}

impl Document {
    /// Reads it from the checkout.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read() -> Result<Self> {
        let file = sources::root().join("schemas/openapi/vnfm.yaml");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        Ok(Self(
            serde_yaml::from_str(&text).context("the OpenAPI document")?,
        ))
    }

    pub(crate) fn requests(&self) -> Vec<DocumentedRequest> {
        let mut all = Vec::new();
        for (path, methods) in self.0["paths"].as_object().into_iter().flatten() {
            for (method, what) in methods.as_object().into_iter().flatten() {
                if !matches!(method.as_str(), "get" | "post" | "put" | "patch" | "delete") {
                    continue;
                }
                let kinds = what["requestBody"]["content"].as_object();
                let kind = kinds
                    .into_iter()
                    .flatten()
                    .find(|(kind, _)| kind.contains("json"));
                let body = kind.map_or(Value::Null, |(_, kind)| self.example(&kind["schema"], 0));
                all.push(DocumentedRequest {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    body,
                });
            }
        }
        all
    }

    /// The names of the operations on an instance.
    pub(crate) fn operations(&self) -> Vec<String> {
        let of_instance = "/vnflcm/v2/vnf_instances/{vnfInstanceId}/";
        let requests = self
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST");
        requests
            .filter_map(|one| one.path.strip_prefix(of_instance).map(str::to_owned))
            .collect()
    }

    /// A value that matches a schema, with every member.
    fn example(&self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let pointer = name.trim_start_matches('#');
            return self
                .0
                .pointer(pointer)
                .map_or(Value::Null, |one| self.example(one, depth + 1));
        }
        if depth > 8 {
            return Value::Null;
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        match schema["type"].as_str() {
            Some("array") => json!([self.example(&schema["items"], depth + 1)]),
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(false),
            Some("string") => json!("text"),
            _ => {
                let members = schema["properties"].as_object().into_iter().flatten();
                let mut all: Map<_, _> = members
                    .map(|(name, member)| (name.clone(), self.example(member, depth + 1)))
                    .collect();
                if schema["additionalProperties"].is_object() {
                    let one = self.example(&schema["additionalProperties"], depth + 1);
                    all.insert("any".into(), one);
                } else if all.is_empty() {
                    all.insert("any".into(), json!("text"));
                }
                Value::Object(all)
            }
        }
    }
}

/// The JSON pointers of all strings (with `all`: of all values) in a value.
pub(crate) fn leaves(value: &Value, all: bool) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, "", all, &mut found);
    found
}

fn collect(value: &Value, at: &str, all: bool, found: &mut Vec<String>) {
    if value.is_string() || (all && !at.is_empty()) {
        found.push(at.to_owned());
    }
    let name = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                collect(item, &name(&number.to_string()), all, found);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                collect(member, &name(key), all, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, samples};
    use std::collections::BTreeSet;

    #[test]
    fn operations_match_the_server_routes() {
        let operations: BTreeSet<_> = Document::read().unwrap().operations().into_iter().collect();
        let routes = vnfm_server::reference::routes(vnfm_core::lcm::OPERATIONS);
        let routes = routes.iter().filter_map(|route| {
            let instance = "/vnflcm/v2/vnf_instances/{vnfInstanceId}/";
            let name = route.path.strip_prefix(instance)?;
            (route.method == "POST").then(|| name.to_owned())
        });
        assert_eq!(operations, routes.collect());
    }

    #[test]
    fn samples_cover_both_openstack_and_kubernetes() {
        let all = samples().unwrap();
        let clusters = all.iter().filter(|sample| sample.is_kubernetes()).count();
        assert!(
            clusters > 0 && clusters < all.len(),
            "{clusters} of {}",
            all.len()
        );
    }
}
