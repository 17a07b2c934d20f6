//! Which images of the package an object uses, and their names in the VIM's registry.
//!
//! An image is used by the name that the index of its layout gives it: `acme/web:1.0` in a pod becomes
//! `REGISTRY/acme/web@sha256:…`. Docker's short forms count as equal; a digest takes precedence over a tag.

use crate::image_registry::ImageRegistry;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_descriptor::OciImage;
use vnfm_registry::Reference;

/// Members whose lists contain containers.
const CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];
/// How deep an object is searched.
const MAX_DEPTH: usize = 32;

/// The images of a package by name; empty for a package without images.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ImageReferences(Arc<Vec<Known>>);

#[derive(Debug, PartialEq)]
struct Known {
    name: Reference,
    digest: String,
    /// The name in the registry; `None` if the VIM has no registry.
    pushed: Option<String>,
}

/// The repository of an image in a registry.
pub(crate) fn repository(registry: &ImageRegistry, image: &OciImage) -> String {
    registry.repository(&Reference::parse(&image.name).path)
}

impl ImageReferences {
    pub(crate) fn new(images: &[OciImage], registry: Option<&ImageRegistry>) -> Self {
        let known = images.iter().map(|image| Known {
            name: Reference::parse(&image.name),
            digest: image.digest.clone(),
            pushed: registry.map(|registry| {
                let (host, repository) = (registry.access.host(), repository(registry, image));
                format!("{host}/{repository}@{}", image.digest)
            }),
        });
        Self(Arc::new(known.collect()))
    }

    /// Replaces the names of images by those in the registry, if there is one. Returns the digests of the images that the
    /// object uses.
    pub(crate) fn resolve(&self, object: &mut Value) -> BTreeSet<String> {
        let mut used = BTreeSet::new();
        if !self.0.is_empty() {
            self.walk(object, 0, &mut used);
        }
        used
    }

    fn walk(&self, value: &mut Value, depth: usize, used: &mut BTreeSet<String>) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if CONTAINERS.contains(&name.as_str()) {
                        self.containers(member, used);
                    } else {
                        self.walk(member, depth + 1, used);
                    }
                }
            }
            Value::Array(all) => {
                for one in all {
                    self.walk(one, depth + 1, used);
                }
            }
            _ => {}
        }
    }

    fn containers(&self, containers: &mut Value, used: &mut BTreeSet<String>) {
        let all = containers.as_array_mut().into_iter().flatten();
        for image in all.filter_map(|container| container.get_mut("image")) {
            let Some(reference) = image.as_str().map(Reference::parse) else {
                continue;
            };
            let means = |known: &&Known| reference.means(&known.name, &known.digest);
            let Some(known) = self.0.iter().find(means) else {
                continue;
            };
            used.insert(known.digest.clone());
            if let Some(pushed) = &known.pushed {
                *image = pushed.as_str().into();
            }
        }
    }
}

#[cfg(test)]
impl ImageReferences {
    /// One image that is in a registry under this name.
    pub(crate) fn one(name: &str, digest: &str, pushed: Option<&str>) -> Self {
        Self(Arc::new(vec![Known {
            name: Reference::parse(name),
            digest: digest.to_owned(),
            pushed: pushed.map(str::to_owned),
        }]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_at_any_depth_get_the_name_in_the_registry() {
        let images = ImageReferences::one("acme/web:1", "sha256:d", Some("r:5/acme/web@sha256:d"));
        let mut object = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {
            "initContainers": [{"image": "docker.io/acme/web:1"}],
            "containers": [{"image": "acme/web:1"}, {"image": "acme/web:2"}, {"name": "none"}]}}}}},
            "data": {"image": "acme/web:1"}});
        let used = images.resolve(&mut object);
        let pod = &object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        assert_eq!(pod["initContainers"][0]["image"], "r:5/acme/web@sha256:d");
        assert_eq!(pod["containers"][0]["image"], "r:5/acme/web@sha256:d");
        assert_eq!(pod["containers"][1]["image"], "acme/web:2");
        assert_eq!(object["data"]["image"], "acme/web:1");
        assert_eq!(used, ["sha256:d".to_owned()].into());
        let before = object.clone();
        images.resolve(&mut object);
        assert_eq!(object, before);
    }

    #[test]
    fn without_a_registry_names_stay_and_uses_are_known() {
        let images = ImageReferences::one("acme/web:1", "sha256:d", None);
        let mut object = json!({"spec": {"containers": [{"image": "acme/web:1"}]}});
        assert_eq!(images.resolve(&mut object).len(), 1);
        assert_eq!(object["spec"]["containers"][0]["image"], "acme/web:1");
    }
}
