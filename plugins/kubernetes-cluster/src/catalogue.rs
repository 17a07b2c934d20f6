//! The catalogue: add-ons whose manifests the plugin brings, in the order in which they are installed.
//!
//! ```text
//! {name, version?, values?} of the request ─► entry with this name ─► version and values, the request's over the entry's ─► objects
//! ```
//! Manifests are in `../addons`, one file for each entry. The network plugin (CNI) is not here: it is the package's
//! `cni_manifest`, see `built_in.rs`.

use crate::params::{AddOn, Scalar};
use std::collections::BTreeMap;

/// The name of the network plugin among the add-ons.
pub(crate) const CNI: &str = "cni";
/// The value with the image of an entry.
const IMAGE: &str = "IMAGE";

/// An add-on that the plugin knows.
#[derive(Debug)]
pub struct Entry {
    /// Its name in `addons[].name`.
    pub name: &'static str,
    /// The versions that the manifest fits, the default first; none: it has no version of its own. One that was here stays: the
    /// parameters of an instance may name it.
    pub versions: &'static [&'static str],
    /// The values that its manifest takes.
    pub values: &'static [(&'static str, Preset)],
    manifest: &'static str,
}

/// What a value is unless the request has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The image of the version: this repository, with `v` and the version as its tag.
    Image(&'static str),
    /// A text.
    Text(&'static str),
    /// An integer.
    Integer(i64),
    /// Nothing: the request must have it, as a text.
    Required,
}
use Preset::{Image, Integer, Required, Text};

const PULL_POLICY: (&str, Preset) = ("PULL_POLICY", Text("IfNotPresent"));
const BIN_PATH: (&str, Preset) = ("BIN_PATH", Text("/opt/cni/bin"));

/// All entries, in the order of their installation: what others need comes first.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        name: "coredns",
        versions: &[],
        values: &[("REPLICAS", Integer(2))],
        manifest: include_str!("../addons/coredns.yaml"),
    },
    Entry {
        name: "cni-plugins",
        versions: &[],
        values: &[
            (IMAGE, Required),
            ("IMAGE_PATH", Text("/opt/cni/bin")),
            BIN_PATH,
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/cni-plugins.yaml"),
    },
    Entry {
        name: "multus",
        versions: &["4.2.2"],
        values: &[
            (IMAGE, Image("ghcr.io/k8snetworkplumbingwg/multus-cni")),
            BIN_PATH,
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/multus.yaml"),
    },
    Entry {
        name: "node-feature-discovery",
        versions: &["0.20.0", "0.19.0"],
        values: &[
            (IMAGE, Image("registry.k8s.io/nfd/node-feature-discovery")),
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/node-feature-discovery.yaml"),
    },
    Entry {
        name: "local-path",
        versions: &["0.0.30"],
        values: &[
            (IMAGE, Image("docker.io/rancher/local-path-provisioner")),
            ("HELPER_IMAGE", Text("docker.io/library/busybox:1.37")),
            ("CLASS", Text("local-path")),
            ("PATH", Text("/opt/local-path-provisioner")),
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/local-path.yaml"),
    },
    Entry {
        name: "metrics-server",
        versions: &["0.9.0", "0.8.0"],
        values: &[
            (
                IMAGE,
                Image("registry.k8s.io/metrics-server/metrics-server"),
            ),
            ("REPLICAS", Integer(1)),
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/metrics-server.yaml"),
    },
    Entry {
        name: "ingress",
        versions: &["3.7.13"],
        values: &[
            (IMAGE, Image("docker.io/library/traefik")),
            ("CLASS", Text("traefik")),
            ("REPLICAS", Integer(2)),
            ("SERVICE_TYPE", Text("LoadBalancer")),
            PULL_POLICY,
        ],
        manifest: include_str!("../addons/ingress.yaml"),
    },
];

/// The add-ons with what the catalogue knows of them: its entries first, in its order, then those with manifests of the package.
///
/// # Errors
///
/// If an add-on without a manifest is not in the catalogue, or has a version or a value that its entry does not have.
pub fn planned(addons: &[AddOn]) -> Result<Vec<AddOn>, String> {
    let mut planned = Vec::new();
    for addon in addons {
        let is_own = addon.manifest.is_some();
        let (position, addon) = match find(&addon.name) {
            _ if is_own => (CATALOGUE.len(), addon.clone()),
            Some((position, entry)) => (position, entry.complete(addon)?),
            None => {
                return Err(format!(
                    "add-on `{}` has no `manifest`, and the catalogue does not have it: name a manifest of the package, or one \
                     of {}{}",
                    addon.name,
                    listed(CATALOGUE.iter().map(|entry| entry.name)),
                    hint(&addon.name)
                ));
            }
        };
        planned.push((position, addon));
    }
    planned.sort_by_key(|(position, _)| *position);
    Ok(planned.into_iter().map(|(_, addon)| addon).collect())
}

/// The objects of an add-on's manifest in the catalogue, without its values.
///
/// # Errors
///
/// If the catalogue does not have it.
pub(crate) fn manifest(name: &str) -> Result<&'static str, String> {
    let found = find(name).map(|(_, entry)| entry.manifest);
    found.ok_or_else(|| "the catalogue does not have it".to_owned())
}

fn find(name: &str) -> Option<(usize, &'static Entry)> {
    let mut all = CATALOGUE.iter().enumerate();
    all.find(|(_, entry)| entry.name == name)
}

/// What to do for a network plugin.
fn hint(name: &str) -> &'static str {
    if name == CNI {
        "; the network plugin is the package's `cni_manifest`"
    } else {
        ""
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl Entry {
    /// The add-on with the entry's version and values, unless it has its own.
    fn complete(&self, addon: &AddOn) -> Result<AddOn, String> {
        let name = self.name;
        if addon.cloud.is_some() {
            return Err(format!(
                "add-on `{name}` of the catalogue does not use the cloud: remove `cloud`"
            ));
        }
        let version = self.version(addon)?;
        let mut values = BTreeMap::new();
        for (key, preset) in self.values {
            let value = match (addon.values.get(*key), preset.value(version.as_deref())) {
                (Some(given), _) if preset.fits(given) => given.clone(),
                (Some(_), _) => {
                    let wanted = preset.kind();
                    return Err(format!("value `{key}` of add-on `{name}` is not {wanted}"));
                }
                (None, Some(value)) => value,
                (None, None) => {
                    return Err(format!("add-on `{name}` needs the value `{key}`"));
                }
            };
            values.insert((*key).to_owned(), value);
        }
        if let Some(unknown) = addon.values.keys().find(|key| !values.contains_key(*key)) {
            let known = listed(self.values.iter().map(|(key, _)| *key));
            return Err(format!(
                "add-on `{name}` has no value `{unknown}`; its values are {known}"
            ));
        }
        Ok(AddOn {
            version,
            values,
            ..addon.clone()
        })
    }

    /// The version: the request's, that of its own image, or the entry's.
    fn version(&self, addon: &AddOn) -> Result<Option<String>, String> {
        let (name, own_image) = (self.name, addon.values.get(IMAGE));
        let tag = match own_image {
            Some(Scalar::Text(image)) => tag(image),
            _ => self.versions.first().copied(),
        };
        let Some(version) = &addon.version else {
            return Ok(tag.map(str::to_owned));
        };
        if own_image.is_some() || self.versions.contains(&version.as_str()) {
            return Ok(Some(version.clone()));
        }
        Err(match self.versions {
            [] => format!("add-on `{name}` has no version of its own: remove `version`"),
            known => format!(
                "add-on `{name}` {version} is not in the catalogue, which has {}: name one of them, or an image with the value \
                 `{IMAGE}`",
                listed(known.iter().copied())
            ),
        })
    }
}

impl Preset {
    fn value(self, version: Option<&str>) -> Option<Scalar> {
        match self {
            Image(repository) => {
                version.map(|version| Scalar::Text(format!("{repository}:v{version}")))
            }
            Text(text) => Some(Scalar::Text(text.to_owned())),
            Integer(number) => Some(Scalar::Integer(number)),
            Required => None,
        }
    }

    fn fits(self, value: &Scalar) -> bool {
        matches!(
            (self, value),
            (Integer(_), Scalar::Integer(_)) | (Image(_) | Text(_) | Required, Scalar::Text(_))
        )
    }

    fn kind(self) -> &'static str {
        match self {
            Integer(_) => "an integer",
            Image(_) | Text(_) | Required => "a text",
        }
    }
}

/// The tag of an image, if it has one.
pub(crate) fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit_once(':')?;
    (!tag.contains('/')).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, Preset, planned, tag};
    use crate::params::AddOn;
    use serde_json::{Value, json};
    use std::path::Path;

    fn plan(addons: Value) -> Result<Vec<AddOn>, String> {
        planned(&serde_json::from_value::<Vec<AddOn>>(addons).unwrap())
    }

    fn refusal(addon: &Value) -> String {
        plan(json!([addon])).unwrap_err()
    }

    #[test]
    fn entries_come_first_in_the_order_of_the_catalogue() {
        let addons = json!([
            {"name": "own-2", "manifest": "b.yaml"}, {"name": "ingress"}, {"name": "metrics-server"}, {"name": "own-1", "manifest": "a.yaml"},
            {"name": "multus", "manifest": "multus.yaml"}, {"name": "coredns"},
        ]);
        let names: Vec<_> = plan(addons)
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(
            names,
            [
                "coredns",
                "metrics-server",
                "ingress",
                "own-2",
                "own-1",
                "multus"
            ]
        );
    }

    #[test]
    fn versions_and_values_of_the_request_take_the_place_of_the_defaults() {
        let image = |addon: Value| {
            let one = plan(json!([addon])).unwrap().remove(0);
            let image = serde_json::to_value(&one.values["IMAGE"]).unwrap();
            (
                one.version.unwrap_or_default(),
                image.as_str().unwrap().to_owned(),
            )
        };
        let pair = |version: &str, image: &str| (version.to_owned(), image.to_owned());
        let repository = "registry.k8s.io/metrics-server/metrics-server";
        let name = "metrics-server";
        let own = json!({"IMAGE": "site:5000/metrics:v0.9.1"});
        let table = [
            (
                json!({"name": name}),
                pair("0.9.0", &format!("{repository}:v0.9.0")),
            ),
            (
                json!({"name": name, "version": "0.8.0"}),
                pair("0.8.0", &format!("{repository}:v0.8.0")),
            ),
            (
                json!({"name": name, "values": own}),
                pair("v0.9.1", "site:5000/metrics:v0.9.1"),
            ),
            (
                json!({"name": name, "version": "ours", "values": own}),
                pair("ours", "site:5000/metrics:v0.9.1"),
            ),
        ];
        for (addon, expected) in table {
            assert_eq!(image(addon.clone()), expected, "{addon}");
        }
    }

    #[test]
    fn what_the_catalogue_lacks_is_refused_with_what_it_has() {
        let table = [
            (
                json!({"name": "prometheus"}),
                ["`metrics-server`", "`manifest`"],
            ),
            (json!({"name": "cni"}), ["`cni_manifest`", "`multus`"]),
            (
                json!({"name": "metrics-server", "version": "1.0"}),
                ["`0.9.0`, `0.8.0`", "`IMAGE`"],
            ),
            (
                json!({"name": "coredns", "version": "1.12"}),
                ["`coredns`", "no version of its own"],
            ),
            (
                json!({"name": "cni-plugins"}),
                ["`cni-plugins`", "needs the value `IMAGE`"],
            ),
            (
                json!({"name": "ingress", "values": {"CLAS": "a"}}),
                ["`CLAS`", "`CLASS`, `REPLICAS`"],
            ),
            (
                json!({"name": "ingress", "values": {"REPLICAS": "2"}}),
                ["`REPLICAS`", "an integer"],
            ),
            (
                json!({"name": "ingress", "cloud": {"format": "cloud-provider-openstack"}}),
                ["`ingress`", "`cloud`"],
            ),
        ];
        for (addon, words) in table {
            let error = refusal(&addon);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn the_readme_has_every_entry_with_versions_and_values() {
        let readme =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
                .unwrap();
        let (_, table) = readme.split_once("## Catalogue of add-ons").unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<_> = rows.take(1 + CATALOGUE.len()).collect();
        assert!(rows[0].starts_with("| `cni` "), "{}", rows[0]);
        for (entry, row) in CATALOGUE.iter().zip(&rows[1..]) {
            assert!(row.starts_with(&format!("| `{}` |", entry.name)), "{row}");
            for version in entry.versions {
                assert!(row.contains(version), "{row} lacks {version}");
            }
            for (key, preset) in entry.values {
                let default = match preset {
                    Preset::Integer(number) => number.to_string(),
                    Preset::Image(text) | Preset::Text(text) => (*text).to_owned(),
                    Preset::Required => "required".to_owned(),
                };
                assert!(row.contains(&format!("`{key}`")), "{row} lacks {key}");
                assert!(row.contains(&default), "{row} lacks {default}");
            }
        }
    }

    #[test]
    fn the_tag_of_an_image_is_its_version() {
        for (image, expected) in [
            ("localhost/cni:1", Some("1")),
            ("site:5000/cni", None),
            ("site:5000/a/cni:v2@sha256:00", Some("v2")),
            ("cni", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
