//! Images, their checksums and formats, and whether virtual machines have the resources that they need.

use super::rules::{FileCache, Rules};
use crate::explain::codes;
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Algorithm, Archive, Kind, Node, Template, folder, resolve, units};

const SW_IMAGE: &str = "tosca.artifacts.nfv.SwImage";

/// Hexadecimal digits of each algorithm's hash.
const LENGTHS: &[(&str, usize)] = &[
    ("sha-224", 56),
    ("sha-256", 64),
    ("sha-384", 96),
    ("sha-512", 128),
];

impl<'a> Rules<'a, '_> {
    pub(super) fn images(&mut self) {
        let base_hot = self.has_base_hot();
        for vdu in self.templates_of("Vdu.Compute") {
            if !base_hot {
                self.check_image_and_compute(vdu);
            }
            self.format(
                vdu,
                |format| format == "docker",
                "a virtual machine cannot boot a container image",
            );
        }
        for container in self.templates_of("Vdu.OsContainer") {
            let not_docker = |format: &str| format != "docker";
            self.format(container, not_docker, "a container needs a `docker` image");
        }
        for template in &self.topology.templates {
            self.checksum(template);
        }
        self.fits();
    }

    /// Machines and storages are large enough for their images.
    fn fits(&mut self) {
        for vdu in self.templates_of("Vdu.Compute") {
            let compute = vdu
                .node
                .at(&["capabilities", "virtual_compute", "properties"]);
            let memory = compute.and_then(|node| node.at(&["virtual_memory", "virtual_mem_size"]));
            let disks = compute
                .and_then(|node| node.get("virtual_local_storage"))
                .map(Node::items);
            let disk = disks.and_then(|disks| disks.first()?.get("size_of_storage"));
            self.fit(vdu, ("min_ram", memory));
            self.fit(vdu, ("min_disk", disk));
        }
        for storage in self.templates_of("Vdu.VirtualBlockStorage") {
            let data = storage.property("virtual_block_storage_data");
            self.fit(
                storage,
                (
                    "min_disk",
                    data.and_then(|data| data.get("size_of_storage")),
                ),
            );
        }
    }

    fn fit(&mut self, template: &'a Template<'a>, (key, has): (&str, Option<&'a Node>)) {
        let Some(has) = has else { return };
        let needs: Vec<&Node> = self
            .data(template)
            .filter_map(|data| data.get(key))
            .collect();
        for need in needs {
            let (Some(needed), Some(available)) = (size(need), size(has)) else {
                continue;
            };
            if needed > available {
                let text = |node: &'a Node| node.as_str().unwrap_or("~");
                let message = format!(
                    "the image of `{}` needs {} (`{key}`), but only {} is available",
                    template.name,
                    text(need),
                    text(has)
                );
                self.report(codes::IMAGE_FIT, need, message);
            }
        }
    }

    /// Without a Base HOT, only the descriptor can give image, CPUs and memory.
    fn check_image_and_compute(&mut self, vdu: &'a Template<'a>) {
        let storages = vdu.targets("virtual_storage").filter_map(Node::as_str);
        let booted = storages
            .filter_map(|name| self.topology.template(name))
            .any(|storage| self.data(storage).next().is_some());
        if self.data(vdu).next().is_none() && !booted {
            let message = format!("`{}` has no image", vdu.name);
            let finding = Finding::new(codes::VDU_IMAGE, vdu.span.clone(), message);
            self.sink
                .add(finding.hint("add an artifact of type `tosca.artifacts.nfv.SwImage`"));
        }
        let compute = vdu
            .node
            .at(&["capabilities", "virtual_compute", "properties"]);
        let flavor = vdu.node.at(&["metadata", "flavor"]);
        if compute.is_none() && flavor.is_none() {
            let message = format!("`{}` states neither CPUs and memory nor a flavor", vdu.name);
            let finding = Finding::new(codes::VDU_COMPUTE, vdu.span.clone(), message);
            self.sink
                .add(finding.hint("set the capability `virtual_compute`"));
        }
    }

    /// The artifacts that are images, with their keys.
    fn artifacts(&self, template: &'a Template<'a>) -> impl Iterator<Item = (&'a Node, &'a Node)> {
        let artifacts = template
            .node
            .get("artifacts")
            .map(Node::entries)
            .unwrap_or_default();
        let types = self.types;
        artifacts.iter().filter_map(move |(key, node)| {
            let kind = node.get("type")?.as_str()?;
            types
                .is_a(Kind::Artifact, kind, SW_IMAGE)
                .then_some((key, node))
        })
    }

    /// The descriptions of a template's images: `sw_image_data` and the properties of artifacts.
    fn data(&self, template: &'a Template<'a>) -> impl Iterator<Item = &'a Node> {
        let own = template.property("sw_image_data").into_iter();
        own.chain(
            self.artifacts(template)
                .map(|(_, node)| node.get("properties").unwrap_or(node)),
        )
    }

    fn format(
        &mut self,
        template: &'a Template<'a>,
        is_wrong: impl Fn(&str) -> bool,
        reason: &str,
    ) {
        let formats: Vec<&Node> = self
            .data(template)
            .filter_map(|data| data.get("container_format"))
            .collect();
        for format in formats {
            let text = format.as_str().unwrap_or_default();
            if is_wrong(text) {
                let message = format!(
                    "the image of `{}` has the format `{text}`: {reason}",
                    template.name
                );
                self.report(codes::IMAGE_FORMAT, format, message);
            }
        }
    }

    fn checksum(&mut self, template: &'a Template<'a>) {
        let data: Vec<&Node> = self.data(template).collect();
        for checksum in data.iter().filter_map(|data| data.get("checksum")) {
            let algorithm = checksum
                .get("algorithm")
                .and_then(Node::as_str)
                .unwrap_or_default();
            let expected = LENGTHS.iter().find(|(known, _)| *known == algorithm);
            let (Some(hash), Some((_, length))) = (checksum.get("hash"), expected) else {
                continue;
            };
            let text = hash.as_str().unwrap_or_default();
            if text.len() != *length || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let message = format!(
                    "the hash of `{}` does not have the {length} hexadecimal digits of {algorithm}",
                    template.name
                );
                self.report(codes::IMAGE_HASH, hash, message);
            }
        }
        let stated: Vec<&Node> = data
            .iter()
            .filter_map(|data| data.get("checksum"))
            .collect();
        let files = self
            .artifacts(template)
            .filter_map(|(_, node)| node.get("file"));
        let packaged: Vec<(&Node, String)> = files
            .filter_map(|file| Some((file, self.path_of(file)?)))
            .collect();
        if let ([checksum], [(_, path)]) = (&stated[..], &packaged[..]) {
            self.compare_checksum(template, checksum, path);
        }
        for (file, _) in packaged.into_iter().filter(|_| stated.is_empty()) {
            let name = file.as_str().unwrap_or("~");
            let message = format!("the image `{name}` is in the package but has no checksum");
            let finding = Finding::new(codes::IMAGE_CHECKSUM, file.span.clone(), message);
            self.sink
                .add(finding.hint("add `checksum: {algorithm: sha-256, hash: …}`"));
        }
    }

    /// Compares an image's file with its stated checksum.
    fn compare_checksum(&mut self, template: &Template<'_>, checksum: &Node, path: &str) {
        let text = |key: &str| checksum.get(key).and_then(Node::as_str);
        let algorithm = text("algorithm").and_then(Algorithm::from_name);
        let (Some(algorithm), Some(hash)) = (algorithm, checksum.get("hash")) else {
            return;
        };
        // An unreadable file is reported when the package is read.
        let Some(real) = self.files.hash(self.archive, path, algorithm) else {
            return;
        };
        let stated = hash.as_str().unwrap_or_default();
        if stated.len() == real.len() && !stated.eq_ignore_ascii_case(real) {
            let message = format!(
                "`{path}`, the image of `{}`, does not have this {} but {real}",
                template.name,
                algorithm.name()
            );
            self.report(codes::IMAGE_DIFFERS, hash, message);
        }
    }

    /// The file in the package that an artifact names.
    pub(super) fn path_of(&self, file: &Node) -> Option<String> {
        let text = file.as_str()?;
        let candidates = [resolve(folder(self.topology.path), text), resolve("", text)];
        candidates
            .into_iter()
            .flatten()
            .find(|path| self.archive.has(path))
    }
}

/// The bytes of a size such as `4 GiB`.
fn size(node: &Node) -> Option<u64> {
    units::bytes(node.as_str()?)
}

impl FileCache {
    /// The hash of a file; `None` if it cannot be read.
    pub(super) fn hash(
        &mut self,
        archive: &Archive,
        path: &str,
        algorithm: Algorithm,
    ) -> Option<&str> {
        let read = || archive.hash(path, algorithm).ok();
        let key = (path.to_owned(), algorithm.name());
        self.hashes.entry(key).or_insert_with(read).as_deref()
    }
}
