//! Deployable units: name and kind of their workloads, configuration, volumes.

use super::super::builder::Builder;
use super::super::topology::{Template, Topology};
use super::names::{LABEL, is_label, is_variable};
use crate::model::{Flavour, Storage, StorageKind, Vdu, Volume, Workload, WorkloadKind};
use crate::yaml::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a `StatefulSet`, in bytes: a label of its pods has 11 more.
const MAX_STATEFUL_SET: usize = 52;

impl Builder<'_, '_> {
    /// The workloads of a flavour. Errors are reported; a workload with one is left out.
    pub(super) fn units(&mut self, topology: &Topology<'_>, flavour: &Flavour) -> Vec<Workload> {
        let mut units: Vec<Workload> = Vec::new();
        for vdu in flavour.vdus.values() {
            let Some(template) = topology.template(&vdu.name) else {
                continue;
            };
            let Some(unit) = self.unit(topology, template, (flavour, vdu)) else {
                continue;
            };
            if let Some(other) = units.iter().find(|other| other.name == unit.name) {
                let message = format!(
                    "the workloads of `{}` and `{}` are both named `{}`",
                    other.vdu, unit.vdu, unit.name
                );
                self.untranslatable(&template.span, message, "give them different names");
                continue;
            }
            units.push(unit);
        }
        units
    }

    fn unit(
        &mut self,
        topology: &Topology<'_>,
        template: &Template<'_>,
        (flavour, vdu): (&Flavour, &Vdu),
    ) -> Option<Workload> {
        let volumes = self.volumes(topology, (flavour, vdu));
        let name = self.workload_name(template, vdu);
        let kind = self.kind(template, vdu, &volumes);
        let longest = if kind == Some(WorkloadKind::StatefulSet) {
            MAX_STATEFUL_SET
        } else {
            usize::MAX
        };
        if name.as_ref().is_some_and(|name| name.len() > longest) {
            let message = format!("the name of the StatefulSet of `{}` is too long", vdu.name);
            let hint = "use at most 52 characters: its pods have it, with a hash, as a label";
            self.untranslatable(&template.span, message, hint);
        }
        let containers = self.run_containers(topology, template, flavour);
        let configuration = self.configuration(template);
        Some(Workload {
            vdu: vdu.name.clone(),
            name: name?,
            kind: kind?,
            containers,
            configuration,
            volumes,
            autoscaling: None,
            placement: Vec::new(),
            span: template.span.clone(),
        })
    }

    /// `mcio_identification_data.name`; else `properties.name` or the node template's name, whichever can name a workload.
    fn workload_name(&mut self, template: &Template<'_>, vdu: &Vdu) -> Option<String> {
        let stated = template
            .property("mcio_identification_data")
            .and_then(|data| data.get("name"));
        let (name, at) = match stated {
            Some(node) => (node.as_str().unwrap_or_default(), &node.span),
            None if is_label(&vdu.display_name) => (vdu.display_name.as_str(), &template.span),
            None => (vdu.name.as_str(), &template.span),
        };
        if is_label(name) {
            return Some(name.to_owned());
        }
        let message = format!(
            "`{name}` cannot be the name of the workload of `{}`",
            vdu.name
        );
        let hint = format!("name it by `mcio_identification_data.name`; {LABEL}");
        self.untranslatable(at, message, &hint);
        None
    }

    /// `mcio_identification_data.type`; else a `StatefulSet` if each pod has its own storage.
    fn kind(
        &mut self,
        template: &Template<'_>,
        vdu: &Vdu,
        volumes: &[Volume],
    ) -> Option<WorkloadKind> {
        let own = volumes.iter().find(|volume| volume.per_vnfc_instance);
        let stated = template
            .property("mcio_identification_data")
            .and_then(|data| data.get("type"));
        let Some(stated) = stated else {
            return Some(if own.is_some() {
                WorkloadKind::StatefulSet
            } else {
                WorkloadKind::Deployment
            });
        };
        match (stated.as_str()?, own) {
            ("StatefulSet", _) => Some(WorkloadKind::StatefulSet),
            ("Deployment", None) => Some(WorkloadKind::Deployment),
            ("Deployment", Some(own)) => {
                let message = format!(
                    "a Deployment cannot give each pod of `{}` its own storage `{}`",
                    vdu.name, own.storage
                );
                self.untranslatable(
                    &stated.span,
                    message,
                    "use `type: StatefulSet`, or `per_vnfc_instance: false`",
                );
                None
            }
            (other, _) => {
                let message = format!("a `{other}` cannot be derived from `{}`", vdu.name);
                self.untranslatable(&stated.span, message, "use `Deployment` or `StatefulSet`");
                None
            }
        }
    }

    /// The environment of the containers: scalars by name.
    fn configuration(&mut self, template: &Template<'_>) -> BTreeMap<String, String> {
        let path = [
            "properties",
            "configurable_properties",
            "additional_vnfc_configurable_properties",
        ];
        let mut all = BTreeMap::new();
        for (key, value) in template
            .node
            .at(&path)
            .map(Node::entries)
            .unwrap_or_default()
        {
            let name = key.as_str().unwrap_or_default();
            if !is_variable(name) {
                let message = format!(
                    "`{name}` of `{}` cannot be an environment variable",
                    template.name
                );
                self.untranslatable(
                    &key.span,
                    message,
                    "use letters, digits and `_`, and no digit first",
                );
            } else if let Some(text) = value.as_str() {
                all.insert(name.to_owned(), text.to_owned());
            } else if !value.is_null() {
                let message = format!(
                    "`{name}` of `{}` is {}, and an environment variable is one text",
                    template.name,
                    value.kind()
                );
                self.untranslatable(&value.span, message, "use a text, number or boolean");
            }
        }
        all
    }

    /// The storages that a unit attaches.
    fn volumes(
        &mut self,
        topology: &Topology<'_>,
        (flavour, vdu): (&Flavour, &Vdu),
    ) -> Vec<Volume> {
        let mut volumes = Vec::new();
        let mut paths = BTreeSet::new();
        for name in &vdu.storages {
            let (Some(storage), Some(template)) =
                (flavour.storages.get(name), topology.template(name))
            else {
                continue;
            };
            let Some(volume) = self.volume(template, storage) else {
                continue;
            };
            if !paths.insert(volume.mount_path.clone()) {
                let message = format!(
                    "two storages of `{}` are mounted at `{}`",
                    vdu.name, volume.mount_path
                );
                self.untranslatable(&template.span, message, "choose another `mount_path`");
            }
            volumes.push(volume);
        }
        volumes
    }

    fn volume(&mut self, template: &Template<'_>, storage: &Storage) -> Option<Volume> {
        let name = &storage.name;
        let at = &template.span;
        if storage.kind == StorageKind::Object {
            return None; // refused by its type
        }
        if !is_label(name) {
            self.untranslatable(at, format!("`{name}` cannot be the name of a claim"), LABEL);
            return None;
        }
        if storage.image.is_some() {
            let message = format!("storage `{name}` has an image, and claims start empty");
            self.untranslatable(at, message, "remove the image");
        }
        if storage.kind == StorageKind::Block && !storage.per_vnfc_instance {
            let message =
                format!("the pods of several nodes cannot share the block storage `{name}`");
            self.untranslatable(
                at,
                message,
                "use a `Vdu.VirtualFileStorage`, or `per_vnfc_instance: true`",
            );
        }
        let path = template
            .node
            .at(&["metadata", "mount_path"])
            .and_then(Node::as_str);
        let size = storage.size_gib.filter(|size| *size > 0);
        let (Some(path), Some(size_gib)) = (path.filter(|path| is_mount_path(path)), size) else {
            let message =
                format!("storage `{name}` lacks a size, or where its containers mount it");
            let hint = "set its size, and an absolute path as `metadata: {mount_path: /var/lib/data}` of the node template";
            self.untranslatable(at, message, hint);
            return None;
        };
        Some(Volume {
            storage: name.clone(),
            size_gib,
            mount_path: path.to_owned(),
            per_vnfc_instance: storage.per_vnfc_instance,
        })
    }
}

/// Whether containers can mount a volume there: an absolute path below the root, without `..` and `:`.
fn is_mount_path(path: &str) -> bool {
    path.len() > 1
        && path.starts_with('/')
        && !path.contains([':', '\0', '\n'])
        && !path.split('/').any(|part| part == "..")
}
