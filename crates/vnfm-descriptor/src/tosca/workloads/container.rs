//! The containers of a deployable unit: name, image, command, and resources that fit together.

use super::super::builder::Builder;
use super::super::topology::{Template, Topology};
use super::names::{LABEL, is_extended_resource, is_image_reference, is_label};
use crate::finding::Span;
use crate::model::{Container, Flavour, HugePages, RunContainer, SwImage};
use crate::yaml::Node;

/// Requests and limits of a container, by the properties that state them.
type Amounts = [(&'static str, Option<u64>, Option<u64>); 3];

impl Builder<'_, '_> {
    /// The containers of a unit, in the order of its requirements.
    pub(super) fn run_containers(
        &mut self,
        topology: &Topology<'_>,
        unit: &Template<'_>,
        flavour: &Flavour,
    ) -> Vec<RunContainer> {
        let mut all: Vec<RunContainer> = Vec::new();
        for name in unit.targets("container").filter_map(Node::as_str) {
            let (Some(template), Some(container)) =
                (topology.template(name), flavour.containers.get(name))
            else {
                continue;
            };
            self.resources_fit(template, container);
            let (name, image) = (
                self.container_name(template, container),
                self.reference(template, container),
            );
            let (Some(name), Some(image)) = (name, image) else {
                continue;
            };
            if all.iter().any(|other| other.name == name) {
                let message = format!("two containers of `{}` are named `{name}`", unit.name);
                self.untranslatable(&template.span, message, "give them different names");
            }
            let list = |key: &str| template.property(key).map(Node::texts).unwrap_or_default();
            let (command, args) = (list("command"), list("args"));
            all.push(RunContainer {
                template: template.name.clone(),
                name,
                image,
                command,
                args,
            });
        }
        if unit.targets("container").next().is_none() {
            let message = format!("`{}` has no container", unit.name);
            self.untranslatable(
                &unit.span,
                message,
                "add `container: NAME` to its `requirements`",
            );
        }
        all
    }

    /// `properties.name` or the node template's name, whichever can name a container.
    fn container_name(&mut self, template: &Template<'_>, container: &Container) -> Option<String> {
        let mut names = [&container.display_name, &container.name].into_iter();
        let name = names.find(|name| is_label(name));
        if name.is_none() {
            let message = format!(
                "`{}` cannot be the name of a container",
                container.display_name
            );
            self.untranslatable(&template.span, message, LABEL);
        }
        name.cloned()
    }

    /// The image as nodes pull it: the artifact's file, or name and version of the image.
    fn reference(&mut self, template: &Template<'_>, container: &Container) -> Option<String> {
        let Some(image) = &container.image else {
            let message = format!("container `{}` has no image", template.name);
            let hint = "add an artifact of type `tosca.artifacts.nfv.SwImage` whose `file` is a reference, such as `registry.example.com/web:1`";
            self.untranslatable(&template.span, message, hint);
            return None;
        };
        let at = image_position(template);
        if let Some(path) = &image.artifact {
            let message = format!(
                "the image `{path}` of `{}` is a file of the package, which nodes cannot pull",
                template.name
            );
            self.untranslatable(
                &at,
                message,
                "push it to a registry, and make the artifact's `file` a reference to it",
            );
            return None;
        }
        let reference = image_reference(image);
        if is_image_reference(&reference) {
            return Some(reference);
        }
        let message = format!(
            "`{reference}` of `{}` does not refer to an image in a registry",
            template.name
        );
        self.untranslatable(
            &at,
            message,
            "use `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`, without a scheme",
        );
        None
    }

    /// The API server accepts no request above its limit, and only names of extended resources in a domain.
    fn resources_fit(&mut self, template: &Template<'_>, container: &Container) {
        let number = |amount: Option<u32>| amount.map(u64::from);
        let amounts: Amounts = [
            (
                "cpu_resource_limit",
                number(container.requested_cpu_resources),
                number(container.cpu_resource_limit),
            ),
            (
                "memory_resource_limit",
                container.requested_memory_bytes,
                container.memory_limit_bytes,
            ),
            (
                "ephemeral_storage_resource_limit",
                container.requested_ephemeral_storage_bytes,
                container.ephemeral_storage_limit_bytes,
            ),
        ];
        for (limit, requested, most) in amounts {
            if requested
                .zip(most)
                .is_some_and(|(requested, most)| requested > most)
            {
                let message = format!(
                    "`{limit}` of `{}` is less than what it requests",
                    template.name
                );
                self.untranslatable(
                    position(template, limit),
                    message,
                    "raise the limit, or request less",
                );
            }
        }
        let mut extended = container.extended_resources.keys();
        if let Some(name) = extended.find(|name| !is_extended_resource(name)) {
            let message = format!(
                "`{name}` of `{}` is not the name of an extended resource",
                template.name
            );
            let at = position(template, "extended_resource_requests");
            self.untranslatable(at, message, "use `DOMAIN/NAME`, such as `example.com/gpu`");
        }
        self.huge_pages_fit(template, container);
    }

    /// The API server accepts full huge pages only, and none without CPU or memory.
    fn huge_pages_fit(&mut self, template: &Template<'_>, container: &Container) {
        let cpu = container
            .requested_cpu_resources
            .or(container.cpu_resource_limit);
        let memory = container
            .requested_memory_bytes
            .or(container.memory_limit_bytes);
        let is_alone = cpu.is_none() && memory.is_none();
        let is_full = |pages: &HugePages| {
            pages.page_bytes >= 1 << 20
                && pages.page_bytes.is_power_of_two()
                && pages.requested_bytes.is_multiple_of(pages.page_bytes)
        };
        let mut pages = container.huge_pages.iter();
        if pages.any(|pages| is_alone || !is_full(pages)) {
            let message = format!(
                "the huge pages of `{}` are not full ones, or it requests neither CPU nor memory",
                template.name
            );
            let hint = "request a multiple of the page's size, in MiB or GiB, and CPU or memory";
            self.untranslatable(position(template, "huge_pages_resources"), message, hint);
        }
    }
}

/// The artifact's file; else the image's name, with its version unless the name has a tag or digest.
fn image_reference(image: &SwImage) -> String {
    if let Some(file) = &image.file {
        return file.clone();
    }
    let last = image.name.rsplit('/').next().unwrap_or_default();
    match &image.version {
        Some(version) if !last.contains([':', '@']) => format!("{}:{version}", image.name),
        _ => image.name.clone(),
    }
}

/// The position of a property, or of the node template.
fn position<'t>(template: &'t Template<'_>, property: &str) -> &'t Span {
    template
        .property(property)
        .map_or(&template.span, |node| &node.span)
}

fn image_position(template: &Template<'_>) -> Span {
    let artifact = template
        .node
        .get("artifacts")
        .and_then(|all| Some(&all.entries().first()?.1));
    let file = artifact.map(|artifact| artifact.get("file").unwrap_or(artifact));
    file.map_or(&template.span, |file| &file.span).clone()
}
